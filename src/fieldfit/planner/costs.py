"""What a whole fit with a mixture of ingredients costs: seconds here, the paper's FLOPs, and counted operations.

    cost = setting up (reading, drawing Z, compiling) + evaluations × cost of one evaluation

In seconds the number of evaluations (with Hessian products and preconditioners) is that of the ingredient that takes most,
fitted alone to the pilot's samples. FLOPs compare policies by what one evaluation takes: there it is that of PL1.

The work of a family of a field is counted from a problem compiled with everything selected; that of sequences is timed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table
from fieldfit.models.base import Model, Problem
from fieldfit.models.field import FieldModel
from fieldfit.models.work import TASKS, FamilyWork, Line, TimedWork, Work, clock, combine, typical_seconds
from fieldfit.planner.calibration import Calibration
from fieldfit.policies import Policy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import BoundFamily
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    from fieldfit.planner.convergence import Steps
    from fieldfit.planner.ingredients import Ingredient

#: λ at which a family of sequences is timed beside λ = 1, and at which drawing and compiling is timed besides.
_PART, _MORE = 0.3, 0.7
#: Largest and smallest number of sequences that are timed, and by which factor fewer are timed beside them.
_MOST_TIMED, _FEWEST_TIMED, _FEWER = 1500, 600, 3
#: Evaluations of all timed sequences that the timing takes in a hurry, and how often one is timed then.
TIMED_PASSES, _HURRIED_REPEATS = 7, 2


@dataclass(frozen=True)
class FitCosts:
    """Costs as functions of λ (ingredients,)."""

    ingredients: Sequence[Ingredient]
    n: int  # rows that a fit of everything sees
    copies: int  # samples that they stand for: a fit with a random Z sees all of them
    evaluations: int  # of PL1, for FLOPs
    rates: Calibration
    reading: float = 0.0  # seconds to read the data, which every fit does

    def _used(self, lam: FloatArray) -> tuple[list[tuple[Ingredient, float]], bool]:
        """The ingredients that are used, each with its λ, and whether everything is selected."""
        used = [(part, float(share)) for part, share in zip(self.ingredients, lam, strict=True) if share > 0]
        return used, all(share == 1.0 and part.certain for part, share in used)

    def work(self, lam: FloatArray) -> Work:
        """Operations of setting up once and of one evaluation, by kind."""
        used, everything = self._used(lam)
        works = []
        for part, share in used:
            families = part.fit_work(everything).families
            works += [family.work(drawn) for family, drawn in zip(families, part.bound.shares(share), strict=True)]
        return combine(works)

    def _steps(self, lam: FloatArray) -> list[Steps]:
        used, everything = self._used(lam)
        return [part.fit_work(everything).steps for part, _ in used]

    def steps(self, lam: FloatArray) -> float:
        """Evaluations of a fit, everything that it does counted in them."""
        return max((steps.equivalents for steps in self._steps(lam)), default=0)

    def seconds(self, lam: FloatArray, steps: Steps | None = None) -> float:
        """Seconds of a fit on this machine; ``steps`` are other steps than those from 0."""
        work = self.work(lam)
        taken = self._steps(lam) if steps is None else [steps]
        setup = self.reading + self.rates.setup_seconds(work) + max((s.overhead for s in taken), default=0.0)
        return setup + max((s.equivalents for s in taken), default=0.0) * self.rates.evaluation_seconds(work)

    def flops(self, lam: FloatArray) -> float:
        """The paper's FLOPs of a fit."""
        each = np.array([part.flops for part in self.ingredients])
        n = self.n if self._used(lam)[1] else self.copies
        return float(self.evaluations * n * (each @ lam))

    def operations(self, lam: FloatArray) -> float:
        """The operations that the kernels do in the evaluations of a fit, of all kinds together."""
        skipped = ("call", "field_call", "seconds", *TASKS)
        work = self.work(lam).items()
        counted = math.fsum(amount for kind, amount in work if not kind.startswith("setup") and kind not in skipped)
        return float(max((steps.count for steps in self._steps(lam)), default=0) * counted)


def family_work(
    model: Model,
    problem: Problem,
    family: BoundFamily,
    dataset: Dataset,
    theta: FloatArray,
    most_rows: int | None = None,
) -> FamilyWork:
    """The work of a family on all of ``dataset``, from ``problem``: the family compiled whole on some of it.

    Problems that do not count their work are timed, on at most ``most_rows`` samples.
    """
    counted = problem.family_work(family, dataset)
    if counted is not None:
        return counted
    return timed_work(model, dataset, family.name, theta, most_rows)


def timed_work(
    model: Model, dataset: Dataset, name: str, theta: FloatArray, most_rows: int | None = None
) -> TimedWork:
    """A family of sequences timed on most of a small dataset, on a third of that, and with a part of its windows."""
    n = dataset.n
    most = min(_MOST_TIMED, max(_FEWEST_TIMED, _MOST_TIMED if most_rows is None else most_rows))
    order = np.random.default_rng(0).permutation(n)[:most]
    rows = dataset if n <= most else dataset.subset(np.sort(order))
    fewer = dataset.subset(np.sort(order[: max(1, len(order) // _FEWER)]))
    few, whole, part, more = (
        _Timed(model, *run)
        for run in ((fewer, name), (rows, name), (rows, f"{_PART}*{name}"), (rows, f"{_MORE}*{name}"))
    )
    for run in (few, whole, part, more):
        run.set_up()
    repeats = 7 if most_rows is None else _HURRIED_REPEATS
    seconds = [typical_seconds(run.problem, theta, repeats) for run in (whole, few, part)]
    for run in (whole, few, part, more):
        run.set_up()
    evaluation = Line.through(rows.n, seconds[0], fewer.n, seconds[1])
    setup = Line.through(rows.n, whole.least, fewer.n, few.least)
    base = (seconds[2] / seconds[0] - _PART) / (1 - _PART)
    # With a random Z drawing comes on top, in proportion to what is drawn.
    slope = max(more.least - part.least, 0.0) / (_MORE - _PART)
    drawing = Line(max(part.least - _PART * slope, 0.0) / rows.n, slope / rows.n)
    return TimedWork(n, evaluation, setup, min(max(base, 0.0), 1.0), drawing)


class _Timed:
    """A policy on some sequences; ``least`` are the fewest seconds that drawing and compiling took."""

    problem: Problem

    def __init__(self, model: Model, rows: Dataset, text: str) -> None:
        # A family of sequences knows their lengths: it is bound to each part anew.
        self._model, self._rows, self._text = model, rows, text
        self.least = math.inf

    def set_up(self) -> None:
        """Draw and compile, timed."""
        bound = Policy.parse(self._text).bind(self._model.structure(self._rows))
        began = clock()
        self.problem = self._model.compile(self._rows, bound.draw(0, 0, self._rows.n))
        self.least = min(self.least, clock() - began)


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
        parts.append(family_work(model, alone, family, table, theta).work(share))
    return combine(parts)
