"""What a policy can be made of: families drawn one by one or whole, and random partitions, each compiled once.

An ingredient with λ and β becomes a term of a policy. Compiled with everything selected on the pilot's samples (for a
partition: with the weights E[Z]) it answers all that the variance needs of it, and says what an evaluation costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fieldfit.asymptotics.moments import weighted_selection
from fieldfit.models.base import Model, Problem
from fieldfit.models.cost import expected_flops
from fieldfit.models.field import FieldModel
from fieldfit.models.work import FamilyWork, Work, combine
from fieldfit.planner.convergence import Steps
from fieldfit.policies import Policy
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.text import format_number
from fieldfit.types import FieldfitError, PolicyError

#: Components × states of a block that a family may have to be thought of without being asked for.
MOST_STATES = 60_000


#: The work of each family of an ingredient with everything selected, and its own λ.
Works = tuple[tuple[FamilyWork, float], ...]


@dataclass(frozen=True)
class Ingredient:
    """``name`` as in a policy's text; ``law`` is "single", "whole" or "partition"; ``flops`` of a sample at λ = 1.

    ``steps`` are the evaluations of a fit. ``together`` are works and steps of a fit in which all is selected, where it
    differs: samples with counts are not copied then.
    """

    name: str
    law: str
    bound: BoundPolicy
    problem: Problem
    flops: float
    works: Works
    steps: Steps
    together: tuple[Works, Steps] | None = None

    def work(self, lam: float, everything: bool = False) -> Work:
        """Operations of a fit on all samples, by kind; λ is relative to the law's own."""
        works = self.together[0] if everything and self.together is not None else self.works
        return combine([own.work(lam * base, self.law) for own, base in works])

    def steps_for(self, everything: bool) -> Steps:
        """Evaluations of a fit in which all or something is selected."""
        return self.together[1] if everything and self.together is not None else self.steps

    def text(self, lam: float, beta: float) -> str:
        """``[λ*]NAME[@β]``."""
        front = "" if lam == 1.0 else format_number(lam) + "*"
        return front + self.name + ("" if beta == 1.0 else "@" + format_number(beta))


def possible_names(model: Model, structure: Any) -> list[str]:
    """The families and partitions that are worth a thought: none whose components are out of reach."""
    if not isinstance(model, FieldModel):
        return ["PL1", "PL1/sentence", "FL", "PL2", "PL3"]
    free = len(structure.free)
    cards = model.graph.cardinalities
    pairs = sum(map(len, model.graph.neighbours)) // 2
    complete = pairs == model.m * (model.m - 1) // 2
    names = ["PL1"]
    partitions = []
    for k in (2, 3):
        if free <= k:
            break
        states = math.comb(free, k) * max(cards) ** k
        if states <= MOST_STATES:
            names.append(f"PL{k}")
            partitions.append(f"Partition({k})")
    if not complete and free > 2 and "PL2" not in names and pairs * max(cards) ** 2 <= MOST_STATES:
        names.append("PL2(connected)")
    # The most useful first: what comes late is left out where time is short.
    order = ["PL1", "PL1/row", "FL", *partitions[:1], *names[1:2], *partitions[1:], *names[2:]]
    return [*order, *(f"{name}/row" for name in names[1:])]


def family_listed(bound: BoundPolicy) -> bool:
    """Whether the components are the same in every sample."""
    return all(family.size is not None for family in bound.families)


def everything(bound: BoundPolicy, n: int) -> Selection:
    """All components with the weights β E[Z]."""
    if family_listed(bound):
        return weighted_selection(bound, bound.mean() * bound.beta(), n)
    return Selection(n, tuple(FamilySelection(f, b) for f, b in zip(bound.families, bound.betas, strict=True)))


def sample_flops(model: Model, bound: BoundPolicy, rows: Any) -> float:
    """The paper's FLOPs of one sample; for sequences the multiply–adds of the textbook recursions.

    A window of k tokens with L labels: 6 k L² (forward, backward, expectations) + 4 k L for each feature of a token.
    """
    if isinstance(model, FieldModel):
        return expected_flops(model, bound)
    labels = int(getattr(model, "n_labels", 1))
    tokens = max(1, int(rows.n_tokens))
    features = len(rows.indices) / tokens if getattr(rows, "indices", None) is not None else 1.0
    total = 0.0
    for family in bound.families:
        sizes = family.sizes(0, len(rows)).astype(float)
        width = float(getattr(family, "width", 1))
        covered = float(tokens) if width == 0 else float(sizes.sum()) * width
        total += covered * (6 * labels**2 + 4 * features * labels)
    return total / max(1, len(rows))


def parse_mixture(policy: Policy | str) -> list[tuple[str, float, float]]:
    """(name, λ, β) of each term of a policy that is a sum of independent terms and partitions."""
    parsed = Policy.parse(policy) if isinstance(policy, str) else policy
    terms = []
    for law in parsed.laws:
        if type(law).__name__ not in ("Independent", "Partition"):
            raise PolicyError(
                f"'{law}' is neither a family nor a partition: the planner compares sums of terms such as "
                "0.3*PL2@0.5, 0.2*PL1/row and Partition(2). Use asymptotics for the others."
            )
        lam, beta = law.lams[0], law.betas[0]
        if isinstance(lam, tuple) or isinstance(beta, tuple):
            raise PolicyError(f"'{law}' has a list of numbers; the planner has one λ and one β for each family.")
        name = law.term_names[0]
        terms.append((name.split("@")[0], 1.0 if lam is None else float(lam), float(beta)))
    if len({name for name, _, _ in terms}) < len(terms):
        raise FieldfitError(f"'{parsed}' has a family twice; write it once.")
    return terms
