"""Ingredients made: each family compiled on the pilot's samples, fitted for its evaluations, its work counted or timed."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fieldfit.models.base import Model, Problem
from fieldfit.models.field import FieldModel
from fieldfit.models.work import clock, least_seconds
from fieldfit.planner.convergence import Steps, steps_of
from fieldfit.planner.counting import TIMED_PASSES, family_work
from fieldfit.planner.ingredients import Ingredient, Works, everything, family_listed, sample_flops
from fieldfit.planner.pilot import Pilot
from fieldfit.planner.weighting import copies, has_counts, n_samples, total_weight
from fieldfit.policies import Policy
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.types import DataError, FloatArray, PolicyError, WidthError

#: Evaluations that a fit of a field is expected to take before it has been tried, in those of the pilot at least so many.
_USUAL_STEPS = 40
#: Share of the time that is left for the timing of a family of sequences.
_TIMING_SHARE = 0.2


@dataclass
class Builder:
    """Makes ingredients of a model on some samples, within a time.

    ``rows`` are the samples that moments are taken over, ``dataset`` are all. The moments of a family take about ``passes``
    evaluations; families whose moments and fit would not be done at ``deadline`` are left out, but never the first.
    """

    model: Model
    dataset: Any
    rows: Any
    pilot: Pilot
    precision: FloatArray | None
    passes: float
    deadline: float
    asked: bool  # for by name: nothing is left out
    hurried: bool  # the deadline is on the wall's clock (`time.perf_counter`), else on `fieldfit.models.work.clock`
    tol: float
    refused: dict[str, str] = field(default_factory=dict)
    _reserved: float = 0.0  # seconds of moments to come
    _made: dict[str, tuple[Problem, Steps, Steps | None]] = field(default_factory=dict)
    _works: dict[str, tuple[Works, Works | None]] = field(default_factory=dict)
    _copies: Any = None

    def build(self, names: Sequence[str]) -> list[Ingredient]:
        """The ingredients that can be had, in order; ``refused`` says why the others cannot."""
        return [one for one in map(self._one, names) if one is not None]

    def _one(self, name: str) -> Ingredient | None:
        plain = name.split("/")[0]
        if plain in self.refused:
            return None
        try:
            bound = Policy.parse(name).bind(self.model.structure(self.rows))
            if plain not in self._made and not self._make(plain, bound):
                return None
            problem, steps, together = self._made[plain]
            # Drawn whole or one by one, the work is counted from the same family.
            if plain not in self._works:
                self._works[plain] = self._count(bound, problem)
        except (WidthError, PolicyError, MemoryError, DataError) as error:
            self.refused[name] = str(error)
            return None
        works, whole = self._works[plain]
        law = "whole" if "/" in name else "partition" if not bound.everything else "single"
        other = None if whole is None or together is None else (whole, together)
        flops = sample_flops(self.model, bound, self.rows)
        return Ingredient(name, law, bound, problem, flops, works, steps, other)

    def _left(self) -> float:
        """Seconds until the deadline that nothing has been promised of."""
        return self.deadline - (time.perf_counter() if self.hurried else clock()) - self._reserved

    def _make(self, plain: str, bound: BoundPolicy) -> bool:
        """Compile and fit a family, if there is time for it."""
        count = n_samples(self.rows)
        if self._made and not self.asked and self._left() <= 0:
            self.refused[plain] = f"{plain} is left out: the time for looking was over."
            return False
        began = clock()
        problem = self.model.compile(self.rows, everything(bound, count))
        one = least_seconds(problem, self.pilot.theta)
        moments = self.passes * one
        fit = max(_USUAL_STEPS, self.pilot.steps.count) * one * n_samples(self.pilot.fewer) / count
        needed = clock() - began + moments + fit
        left = self._left()
        if self._made and not self.asked and needed > left:
            self.refused[plain] = (
                f"{plain} is left out: its moments alone would take about {needed:.2g} s, too much of the budget."
            )
            return False
        self._reserved += moments
        limit = math.inf
        if self.hurried:
            limit = time.perf_counter() + max(2 * fit, 0.3 * (left - moments))
        self._made[plain] = problem, *self._steps(plain, problem, limit)
        return True

    def _steps(self, plain: str, problem: Problem, limit: float) -> tuple[Steps, Steps | None]:
        """Evaluations of a fit with a random Z, and of one with everything selected where samples have counts."""
        rows, pilot = self.rows, self.pilot
        if pilot.fewer is not pilot.rows:
            if plain == "PL1":
                steps = pilot.steps.times(pilot.scaling)
                return steps, steps if has_counts(self.dataset) else None
            rows = pilot.fewer
            bound = Policy.parse(plain).bind(self.model.structure(rows))
            problem = self.model.compile(rows, everything(bound, n_samples(rows)))
        weights = [rows.sample_weight]
        if has_counts(self.dataset):
            weights.append(np.ones(n_samples(rows)))
        found = []
        for weight in weights:
            own = steps_of(
                problem, total_weight(rows), self.precision, row_weight=weight, tol=self.tol, deadline=limit
            )
            # What was cut short at once says less than PL1 does.
            if not own.converged and rows is pilot.fewer and own.count > 3 * pilot.steps.count:
                own = pilot.steps
            found.append(own.times(pilot.scaling))
        return found[0], found[1] if len(found) > 1 else None

    def _count(self, bound: BoundPolicy, problem: Problem) -> tuple[Works, Works | None]:
        """The work on all samples with a random Z, and with everything selected where samples have counts."""
        if not has_counts(self.dataset):
            return self._works_on(self.dataset, bound, problem), None
        if self._copies is None:
            self._copies = copies(self.dataset)
        return self._works_on(self._copies, bound, problem), self._works_on(self.dataset, bound, problem)

    def _works_on(self, dataset: Any, bound: BoundPolicy, problem: Problem) -> Works:
        count, theta = n_samples(self.rows), self.pilot.theta
        found = []
        listed = family_listed(bound)
        for family, lam in zip(bound.families, bound.lams(None if listed else 0), strict=True):
            alone, rows = problem, None
            if len(bound.families) > 1:
                alone = self.model.compile(self.rows, Selection(count, (FamilySelection(family, 1.0),)))
            if self.hurried and not isinstance(self.model, FieldModel):
                each = least_seconds(alone, theta, repeats=1) / count
                rows = int(_TIMING_SHARE * max(self._left(), 0.0) / (TIMED_PASSES * max(each, 1e-9)))
            found.append((family_work(self.model, alone, family, dataset, theta, rows), float(np.mean(lam))))
        return tuple(found)
