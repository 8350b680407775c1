"""What a whole fit costs: seconds here, the paper's FLOPs, and counted operations.

    cost = setting up (reading, drawing Z, compiling) + evaluations × cost of one evaluation

In seconds the number of evaluations (with Hessian products and preconditioners) is that of the ingredient that takes most,
fitted alone to the pilot's samples. FLOPs compare policies by what one evaluation takes: there it is that of PL1.

The work of a family of a field is counted from a problem compiled with everything selected; that of sequences is timed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table
from fieldfit.models.base import Model
from fieldfit.models.field import FieldModel
from fieldfit.models.problem import Problem
from fieldfit.models.work import ONCE, TASKS, Line, TimedWork, Work, clock, combine, is_setup, typical_seconds
from fieldfit.planner.convergence import Steps
from fieldfit.planner.request import Shards
from fieldfit.policies import Policy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.refinement.planned import StageWork
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    from fieldfit.planner.calibration import Calibration
    from fieldfit.planner.ingredients import Ingredient

#: λ at which a family of sequences is timed beside λ = 1, and at which drawing and compiling is timed besides.
_TIMED_LAM, _LARGER_TIMED_LAM = 0.3, 0.7
#: Largest and smallest number of sequences that are timed, and by which factor fewer are timed beside them.
MOST_TIMED, _FEWEST_TIMED, _FEWER = 1500, 600, 3
#: Evaluations of all timed sequences that the timing takes in a hurry, and how often one is timed then.
TIMED_PASSES, _HURRIED_REPEATS = 7, 2


@dataclass(frozen=True)
class FitCost:
    """What a fit, or one stage of it, costs."""

    seconds: float
    flops: float
    evaluations: float  # everything that the optimiser does counted in them
    operations: float = 0.0  # that the kernels do in the evaluations, of all kinds together


@dataclass(frozen=True)
class FitCosts:
    """Costs as functions of λ (ingredients,)."""

    ingredients: Sequence[Ingredient]
    n: int  # rows that a fit of everything sees
    copies: int  # samples that they stand for: a fit with a random Z sees all of them
    evaluations: int  # of PL1, for FLOPs
    rates: Calibration
    reading: float = 0.0  # seconds to read the data, which every fit does
    shards: Shards | None = None  # of samples that are evaluated in pieces; work is then counted for one of them
    _known: dict[tuple[int, float, bool], list[Work]] = field(default_factory=dict, init=False, compare=False)

    def _everything(self, lam: FloatArray) -> bool:
        return all(share in (0.0, 1.0) and (share == 0 or self.ingredients[k].certain) for k, share in enumerate(lam))

    def _work(self, lam: FloatArray) -> tuple[Work, list[Steps]]:
        """Operations of setting up once and of one evaluation, by kind, and the steps of each ingredient alone."""
        works, steps, everything = [], [], self._everything(lam)
        for place in np.flatnonzero(lam).tolist():
            part = self.ingredients[place]
            works += self._alone(place, float(lam[place]), everything)
            steps.append(part.steps)
        return combine(works), steps

    def _alone(self, place: int, lam: float, everything: bool) -> list[Work]:
        """The operations of one ingredient, by family; a search varies one λ at a time."""
        key = place, lam, everything
        if key not in self._known:
            part = self.ingredients[place]
            families = part.together if everything else part.selected
            shares = part.bound.shares(lam)
            self._known[key] = [family.work(share) for family, share in zip(families, shares, strict=True)]
        return self._known[key]

    def seconds(self, lam: FloatArray, steps: Steps | None = None) -> float:
        """Seconds of a fit on this machine; ``steps`` are other steps than those from 0."""
        work, taken = self._work(lam)
        taken = taken if steps is None else [steps]
        compiled, evaluation = self.rates.setup_seconds(work), self.rates.evaluation_seconds(work)
        if self.shards is not None:
            times = self.shards.times(self.n if self._everything(lam) else self.copies)
            shared = self.rates.evaluation_seconds({kind: work.get(once, 0.0) for kind, once in ONCE.items()})
            again = (times - 1.0) * max(evaluation - shared, 0.0)
            compiled, evaluation = times * compiled, evaluation + again
            questions = 1 + max((s.questions for s in taken), default=0.0)  # the first one compiles
            compiled += self.shards.placing + self.shards.sharing + questions * self.shards.overhead
        setup = self.reading + self.rates.fit_seconds + compiled + max((s.overhead for s in taken), default=0.0)
        return setup + max((s.equivalents for s in taken), default=0.0) * evaluation

    def flops(self, lam: FloatArray) -> float:
        """The paper's FLOPs of a fit."""
        n = self.n if self._everything(lam) else self.copies
        each = sum(part.flops * float(share) for part, share in zip(self.ingredients, lam, strict=True))
        return self.evaluations * n * each

    def of(self, lam: FloatArray, second: FitCost | None = None, *, as_start: bool = False) -> FitCost:
        """All costs of a fit; ``second`` is what a second stage takes besides.

        ``as_start``: the first stage is fitted only as far as the start of the second needs.
        """
        more = second or FitCost(0.0, 0.0, 0.0)
        work, whole = self._work(lam)
        steps = [alone.as_start() for alone in whole] if as_start else whole
        slowest = max(steps, key=lambda alone: alone.equivalents, default=None)
        share = slowest.start if as_start and slowest is not None else 1.0
        skipped = ("call", "field_call", "seconds", *TASKS, *ONCE.values())
        counted = math.fsum(n for kind, n in work.items() if not is_setup(kind) and kind not in skipped)
        return FitCost(
            self.seconds(lam, slowest) + more.seconds,
            self.flops(lam) * share + more.flops,
            max((s.equivalents for s in steps), default=0.0) + more.evaluations,
            max((s.count for s in whole), default=0) * share * counted,
        )

    def second_stage(self, work: StageWork) -> FitCost:
        """What a second stage takes beside the first."""
        seconds, flops, evaluations = work.seconds, work.flops, float(work.evaluations)
        if work.term is not None:
            unit = np.eye(len(self.ingredients))[work.term]
            alone = self.ingredients[work.term].steps
            evaluations += alone.product * work.products
            count = work.evaluations + work.products
            steps = Steps(
                count, evaluations, 0.0, True, questions=count if work.questions is None else work.questions
            )
            placing = 0.0 if self.shards is None else self.shards.placing
            seconds += self.seconds(unit, steps) - self.reading - self.rates.fit_seconds - placing
            # FLOPs charge every policy with the evaluations of PL1, so a second stage is charged with its share of the
            # whole fit.
            flops += self.flops(unit) * count / max(alone.count, 1)
        return FitCost(seconds, flops, evaluations)


def timed_work(
    model: Model, dataset: Dataset, name: str, theta: FloatArray, most_rows: int | None = None
) -> TimedWork:
    """A family of sequences timed on most of a small dataset, on a third of that, and with a part of its windows."""
    n = dataset.n
    most = min(MOST_TIMED, max(_FEWEST_TIMED, MOST_TIMED if most_rows is None else most_rows))
    order = np.random.default_rng(0).permutation(n)[:most]
    rows = dataset if n <= most else dataset.subset(np.sort(order))
    fewer = dataset.subset(np.sort(order[: max(1, len(order) // _FEWER)]))
    runs = ((rows, name), (fewer, name), (rows, f"{_TIMED_LAM}*{name}"), (rows, f"{_LARGER_TIMED_LAM}*{name}"))
    problems: list[Problem] = []
    setups = [math.inf] * len(runs)

    def set_up() -> None:
        """Draw and compile, timed. A family of sequences knows their lengths: it is bound to each part anew."""
        problems.clear()
        for place, (samples, text) in enumerate(runs):
            bound = Policy.parse(text).bind(model.structure(samples))
            began = clock()
            problems.append(model.compile(samples, bound.draw(0, 0, samples.n)))
            setups[place] = min(setups[place], clock() - began)

    set_up()
    repeats = 7 if most_rows is None else _HURRIED_REPEATS
    whole, few, part = (typical_seconds(problem, theta, repeats) for problem in problems[:3])
    set_up()
    base = (part / whole - _TIMED_LAM) / (1 - _TIMED_LAM)
    # With a random Z drawing comes on top, in proportion to what is drawn.
    slope = max(setups[3] - setups[2], 0.0) / (_LARGER_TIMED_LAM - _TIMED_LAM)
    return TimedWork(
        n,
        Line.through(rows.n, whole, fewer.n, few),
        Line.through(rows.n, setups[0], fewer.n, setups[1]),
        min(max(base, 0.0), 1.0),
        Line(max(setups[2] - _TIMED_LAM * slope, 0.0) / rows.n, slope / rows.n),
    )


def policy_work(
    model: FieldModel, table: Table, text: str, theta: FloatArray, problem: Problem | None = None
) -> Work:
    """The work of a fit of one term ``[λ*]NAME`` to a table; ``problem`` is the compiled term, if it is available."""
    bound = Policy.parse(text).bind(model.structure(table))
    parts = []
    for family, share in zip(bound.families, bound.shares(), strict=True):
        alone = problem
        if alone is None or not bound.everything or len(bound.families) > 1:
            alone = model.compile(table, Selection(table.n, (FamilySelection(family, 1.0),)))
        work = alone.family_work(family, table) or timed_work(model, table, family.name, theta)
        parts.append(work.work(share))
    return combine(parts)
