"""Ingredients made: each law compiled on the pilot's samples, fitted for its evaluations, its work counted or timed."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.models.base import Problem
from fieldfit.models.work import FamilyWork, clock, least_seconds
from fieldfit.planner.convergence import Steps, steps_of
from fieldfit.planner.costs import TIMED_PASSES, family_work
from fieldfit.planner.ingredients import FitWork, Ingredient
from fieldfit.planner.pilot import PILOT_POLICY, Pilot
from fieldfit.planner.request import Request
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law, Noise
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import Structure
from fieldfit.types import DataError, PolicyError, WidthError
from fieldfit.variance.expected_problem import expected_problem

#: Evaluations that a fit of a field is expected to take at least, before it has been tried.
_USUAL_STEPS = 40
#: Share of the remaining time for the timing of a family of sequences.
_TIMING_SHARE = 0.2
#: Seconds that compiling one sum over all states of a complete graph takes, for each state: about a second for 2^19.
_COMPILING = 2e-6


@dataclass(frozen=True)
class Skipped:
    """Why a law is not compared; ``for_time``: there was no time (or no FLOPs) left for it."""

    reason: str
    for_time: bool = False


@dataclass(frozen=True)
class _Compiled:
    """What laws with the same mean over Z share: "PL1" and "PL1/row" are one problem."""

    problem: Problem
    steps: Steps
    together: Steps | None
    works: tuple[FamilyWork, ...]
    works_together: tuple[FamilyWork, ...] | None


@dataclass
class Builder:
    """Makes ingredients on the samples ``rows`` that moments are taken over, within a time and a number of FLOPs.

    The moments of a law take about ``passes`` evaluations. Laws whose moments and fit would not be done at ``deadline``, or
    whose moments take more than the ``flops`` that are left, are skipped, but never the first.
    """

    request: Request
    rows: Dataset
    pilot: Pilot
    passes: float
    deadline: float
    flops: float = math.inf
    skipped: dict[str, Skipped] = field(default_factory=dict)
    _reserved: float = 0.0  # seconds of moments to come
    _compiled: dict[Hashable, _Compiled | Skipped] = field(default_factory=dict)
    _copies: Dataset | None = None

    def build(self, laws: Sequence[Law]) -> list[Ingredient]:
        """The ingredients that can be made, in order; ``skipped`` says why the others cannot."""
        made = []
        for law in laws:
            ingredient = self._ingredient(law)
            if isinstance(ingredient, Skipped):
                self.skipped[str(law)] = ingredient
            else:
                made.append(ingredient)
        return made

    @property
    def _hurried(self) -> bool:
        """The deadline is on the wall's clock (`time.perf_counter`), else on `fieldfit.models.work.clock`."""
        return self.request.target.seconds is not None

    @property
    def _named(self) -> bool:
        """The policies were named by the user: nothing is skipped for time."""
        return self.request.policies is not None

    def _ingredient(self, law: Law) -> Ingredient | Skipped:
        model = self.request.model
        structure = model.structure(self.rows)
        try:
            bound = Policy((law,)).bind(structure)
            key = _mean_key(law, bound)
            if key not in self._compiled:
                self._compiled[key] = self._compile(law, bound, _is_pilot(key, structure))
        except (WidthError, PolicyError, MemoryError, DataError) as error:
            return Skipped(str(error))
        compiled = self._compiled[key]
        if isinstance(compiled, Skipped):
            return compiled
        together = None
        if compiled.works_together is not None and compiled.together is not None:
            together = FitWork(compiled.works_together, compiled.together)
        return Ingredient(
            law=law,
            structure=structure,
            bound=bound,
            problem=compiled.problem,
            compile_problem=partial(model.compile, self.rows),
            flops=model.sample_flops(bound, self.rows),
            selected=FitWork(compiled.works, compiled.steps),
            together=together,
        )

    def _left(self) -> float:
        """Seconds until the deadline that are not reserved."""
        return self.deadline - (time.perf_counter() if self._hurried else clock()) - self._reserved

    def _compile(self, law: Law, bound: BoundPolicy, is_pilot: bool) -> _Compiled | Skipped:
        """Compile and fit a law, if there is time for it."""
        request, pilot, count = self.request, self.pilot, self.rows.n
        optional = bool(self._compiled) and not self._named
        if optional and self._left() <= 0:
            return Skipped(f"{law}: skipped, no time left in the pilot's share of the budget.", for_time=True)
        flops = self.passes * count * request.model.sample_flops(bound, self.rows)
        if optional and flops > self.flops:
            return Skipped(
                f"{law}: skipped, estimating its variance alone would take about {flops:.2g} FLOPs, more than is left of "
                "the pilot's share of the budget.",
                for_time=True,
            )
        compiling = _COMPILING * request.model.states_at_once(bound)
        if optional and compiling > self._left():
            return Skipped(f"{law}: skipped, compiling it alone would take about {compiling:.2g} s.", for_time=True)
        began = clock()
        problem = expected_problem(bound, count, partial(request.model.compile, self.rows))
        evaluation = least_seconds(problem, pilot.theta)
        moments = self.passes * evaluation
        fit = max(_USUAL_STEPS, pilot.steps.count) * evaluation * pilot.fewer.n / count
        needed = clock() - began + moments + fit
        left = self._left()
        if optional and needed > left:
            return Skipped(
                f"{law}: skipped, estimating its variance alone would take about {needed:.2g} s.", for_time=True
            )
        self._reserved += moments
        self.flops -= flops
        limit = math.inf
        if self._hurried:
            limit = time.perf_counter() + max(2 * fit, 0.3 * (left - moments))
        steps = self._steps(law, problem, limit, is_pilot)
        return _Compiled(problem, *steps, *self._count(bound, problem))

    def _steps(self, law: Law, problem: Problem, limit: float, is_pilot: bool) -> tuple[Steps, Steps | None]:
        """Evaluations of a fit with a random Z, and of one with everything selected where samples have counts."""
        request, rows, pilot = self.request, self.rows, self.pilot
        counts = request.dataset.has_counts
        if pilot.fewer is not pilot.rows:
            if is_pilot:
                steps = pilot.steps.times(pilot.scaling)
                return steps, steps if counts else None
            rows = pilot.fewer
            bound = Policy((law,)).bind(request.model.structure(rows))
            problem = expected_problem(bound, rows.n, partial(request.model.compile, rows))
        weights = [rows.sample_weight]
        if counts:
            weights.append(np.ones(rows.n))
        fits = []
        for weight in weights:
            steps = steps_of(
                problem,
                rows.total_weight,
                request.precision,
                row_weight=weight,
                units=request.model.feature_units,
                tol=request.tol,
                deadline=limit,
            )
            # A fit that was stopped early says less than PL1 does, which no family of sequences undercuts by much.
            if not steps.converged and rows is pilot.fewer:
                least, most = pilot.steps.count, 3 * pilot.steps.count
                steps = steps.times(min(max(steps.count, least), most) / max(steps.count, 1))
            fits.append(steps.times(pilot.scaling))
        return fits[0], fits[1] if len(fits) > 1 else None

    def _count(
        self, bound: BoundPolicy, problem: Problem
    ) -> tuple[tuple[FamilyWork, ...], tuple[FamilyWork, ...] | None]:
        """The work on all samples with a random Z, and with everything selected where samples have counts."""
        dataset = self.request.dataset
        if not dataset.has_counts:
            return self._works_on(dataset, bound, problem), None
        if self._copies is None:
            self._copies = dataset.copies()
        return self._works_on(self._copies, bound, problem), self._works_on(dataset, bound, problem)

    def _works_on(self, dataset: Dataset, bound: BoundPolicy, problem: Problem) -> tuple[FamilyWork, ...]:
        model, count, theta = self.request.model, self.rows.n, self.pilot.theta
        works = []
        for family in bound.families:
            alone, rows = problem, None
            if len(bound.families) > 1:
                alone = model.compile(self.rows, Selection(count, (FamilySelection(family, 1.0),)))
            if self._hurried and alone.family_work(family, dataset) is None:
                each = least_seconds(alone, theta, repeats=1) / count
                rows = int(_TIMING_SHARE * max(self._left(), 0.0) / (TIMED_PASSES * max(each, 1e-9)))
            works.append(family_work(model, alone, family, dataset, theta, rows))
        return tuple(works)


def _mean_key(law: Law, bound: BoundPolicy) -> Hashable:
    """The same for laws that are the same in the mean over Z: families with their λβ."""
    if any(family.size is None for family in bound.families) and law.noise is Noise.FIXED:
        return law  # λ may differ between samples
    lams = bound.lams(0 if any(family.size is None for family in bound.families) else None)
    weights = (np.asarray(lam * beta).tobytes() for lam, beta in zip(lams, bound.betas, strict=True))
    return tuple(zip((family.name for family in bound.families), weights, strict=True))


def _is_pilot(key: Hashable, structure: Structure) -> bool:
    """Whether a law is the pilot's plain PL1 in the mean over Z."""
    law = PILOT_POLICY.laws[0]
    return key == _mean_key(law, PILOT_POLICY.bind(structure))
