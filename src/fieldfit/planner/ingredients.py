"""What a policy can be made of: laws with one free λ, or with none, each compiled once.

An ingredient with λ and β becomes a group of a policy. Compiled in the mean over Z on the pilot's samples it answers all
that the variance needs of it, and says what an evaluation costs. The law says the rest: whether λ is free, what noise its
selection adds, how it draws its families, and how it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fieldfit.models.base import Model, Problem
from fieldfit.models.work import FamilyWork
from fieldfit.planner.convergence import Steps
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law, Noise
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.policies.structure import Structure
from fieldfit.types import FieldfitError, FloatArray


@dataclass(frozen=True)
class FitWork:
    """The work of the families of one ingredient in a fit, and the evaluations of that fit."""

    families: tuple[FamilyWork, ...]
    steps: Steps


@dataclass(frozen=True)
class Ingredient:
    """``law`` has λ = β = 1 where these are free; ``flops`` are those of a sample at λ = 1.

    ``bound`` and ``problem`` (the law in the mean over Z) are on the samples that moments are taken over, and
    ``compile_problem`` compiles other selections of them. ``together`` is the work of a fit in which all is selected,
    where it differs: samples with counts are not copied then.
    """

    law: Law
    structure: Structure
    bound: BoundPolicy
    problem: Problem
    compile_problem: Callable[[Selection], Problem]
    flops: float
    selected: FitWork
    together: FitWork | None = None

    @property
    def name(self) -> str:
        """The law's text, without λ and β."""
        return str(self.law)

    @property
    def noise(self) -> Noise:
        """What selection adds to the variance."""
        return self.law.noise

    @property
    def free(self) -> bool:
        """Whether λ can be chosen."""
        return self.law.noise is not Noise.FIXED

    @cached_property
    def certain(self) -> bool:
        """Whether Z is 1 with certainty at λ = 1."""
        return self.bound.everything

    def fit_work(self, everything: bool) -> FitWork:
        """Of a fit in which all or something is selected."""
        return self.together if everything and self.together is not None else self.selected

    def drawn(self, seed: int) -> Problem:
        """The law with a drawn Z; of a free λ with λ = 1/2."""
        bound = Policy((self.law.at(0.5, 1.0),)).bind(self.structure) if self.free else self.bound
        return self.compile_problem(bound.draw(seed, 0, self.problem.n_samples))


def mixture_text(ingredients: Sequence[Ingredient], lam: FloatArray, beta: FloatArray) -> str:
    """The policy with these λ and β; empty where nothing is selected."""
    laws = [
        part.law.at(float(share), float(weight))
        for part, share, weight in zip(ingredients, lam, beta, strict=True)
        if share > 0 and weight > 0
    ]
    return " + ".join(map(str, laws))


class Term(NamedTuple):
    """A group of a policy: its law with λ = β = 1 where these are free, and their values."""

    law: Law
    lam: float
    beta: float


def split_policy(policy: Policy) -> tuple[Term, ...]:
    """The terms of a policy, each of them different."""
    terms = tuple(Term(*law.unit()) for law in policy.laws)
    if len({term.law for term in terms}) < len(terms):
        raise FieldfitError(f"'{policy}' has a family twice; write it once.")
    return terms


def candidate_laws(model: Model, structure: Structure) -> list[Law]:
    """The laws that are compared by default, the most useful first: what comes late is skipped where time is short."""
    return [Policy.parse(text).laws[0] for text in model.candidate_policies(structure)]
