"""Short fits, timed as a whole: reading the policy, checks and the result take as long as a dozen evaluations.

The counted work of a fit has none of that, and it differs between families: PL3 of eight variables has 56 components, and a
random part of the data is drawn and joined again. Where a fit is predicted to take less than `SHORT` seconds, it is run,
and the difference to the prediction is a part of the cost of its family.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fieldfit.models.work import clock
from fieldfit.planner.convergence import SHORT
from fieldfit.planner.costs import FitCost, FitCosts
from fieldfit.planner.ingredients import FitWork
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law, Noise
from fieldfit.refinement.staged import Staged
from fieldfit.types import FieldfitError

#: The share of the samples, or of the components, that is selected where not all of them are.
_SELECTED_SHARE = 0.3
#: Runs of a fit, of which the least time counts; one that is not short after all is run once.
_TIMED_RUNS = 3

#: Fits an estimator to the samples of a plan.
Run = Callable[[Policy | Staged], object]


class ShortFits:
    """Times the fits of a plan while there are ``seconds_left``, families first and parts of them afterwards."""

    def __init__(self, run: Run, seconds_left: Callable[[], float]) -> None:
        self._run, self._seconds_left = run, seconds_left
        self._warm = False
        self._fixed: float | None = None  # of the first fit that was timed

    def timed(self, costs: FitCosts) -> FitCosts:
        """The costs with the fixed seconds of each ingredient whose fit is short."""
        parts = list(costs.ingredients)
        for place, part in enumerate(parts):
            if part.noise is not Noise.TOGETHER:  # plans take parts of the data only
                parts[place] = replace(part, together=self._with_fixed(part.together, part.law, costs, place, 1.0))
        for place, part in enumerate(parts):
            selected = part.together
            if part.free:
                selected = self._with_fixed(
                    part.selected, part.law.at(_SELECTED_SHARE, 1.0), costs, place, _SELECTED_SHARE
                )
            parts[place] = replace(part, selected=selected)
        return replace(costs, ingredients=parts)

    def second_stage(self, staged: Staged, first: FitCost, second: FitCost, reading: float) -> FitCost:
        """The cost of a second stage after its first one, timed if both are short."""
        predicted = first.seconds - reading + second.seconds
        taken = self._seconds(staged, predicted)
        return second if taken is None else replace(second, seconds=max(taken - first.seconds + reading, 0.0))

    def _with_fixed(self, work: FitWork, law: Law, costs: FitCosts, place: int, share: float) -> FitWork:
        """The work with the seconds of a fit; those of the first that was timed where there is no time left."""
        predicted = costs.seconds(share * np.eye(len(costs.ingredients))[place]) - costs.reading
        if predicted >= SHORT:
            return work
        steps, taken = work.steps, self._seconds(Policy((law,)), predicted)
        more = self._fixed if taken is None else taken - predicted
        if more is None:
            return work
        if self._fixed is None:
            self._fixed = max(more, 0.0)
        overhead = max(steps.overhead + min(more, 0.0), 0.0)
        return work._replace(steps=replace(steps, overhead=overhead, fixed=max(more, 0.0)))

    def _seconds(self, estimator: Policy | Staged, predicted: float) -> float | None:
        """The seconds of a fit; None where it is long, is refused, or there is no time left."""
        times: list[float] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while predicted < SHORT and len(times) < _TIMED_RUNS and self._seconds_left() > 2 * SHORT:
                began = clock()
                try:
                    self._run(estimator)
                except FieldfitError:
                    return None
                taken = clock() - began
                if self._warm or taken >= 2 * SHORT:  # the first of all loads what fits need
                    times.append(taken)
                self._warm = True
                if taken >= SHORT and times:
                    break
        return min(times, default=None)
