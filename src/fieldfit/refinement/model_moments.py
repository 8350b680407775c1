"""V, K and I at θ for the weights: exact, or from as many draws of the model as their noise asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.refinement.points import Points, all_points, drawn_points
from fieldfit.refinement.regression import Weights
from fieldfit.refinement.score_moments import ScoreMoments, pooled, score_moments
from fieldfit.refinement.stacking import Stack
from fieldfit.steps import stepped
from fieldfit.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from fieldfit.data.table import Table

#: Draws of the model behind the weights: at least, for each condition, and at most.
FEWEST_DRAWS, DRAWS_PER_CONDITION, MOST_DRAWS = 4_000, 4, 30_000
#: Products (draws × conditions) at most, but at least this many draws for each condition where noise matters.
_MOST_DRAWN_PRODUCTS, _DRAWS_OF_NOISY = 9_000_000, 8
#: More draws are made while the weights' own noise adds more than this to the predicted relative variance.
NOISE = 0.01


@dataclass(frozen=True)
class ModelMoments:
    """Moments of conditions at θ: exact, or of draws, for which the samples of ``dataset`` are starts where it is given.

    ``free`` are the parameters whose scores are predicted, None is all.
    """

    model: FieldModel
    theta: FloatArray
    conditions: Stack
    dataset: Table | None
    random_state: int
    free: BoolArray | None = None

    def exact(self) -> tuple[list[ScoreMoments], str]:
        """Sums over all states, and how they were made."""
        points = all_points(self.model, self.theta)
        return [self._of(points)], points.method

    def drawn(self, size: int, batch: int = 0) -> tuple[list[ScoreMoments], str]:
        """Two halves of about ``size`` draws, and how they were made; other numbers of ``batch`` give other draws."""
        halves, method = [], ""
        with stepped("second stage: moments of draws of the model", range(2)) as counted:
            for k in counted:
                points = drawn_points(
                    self.model, self.theta, self.dataset, -(-size // 2), self.random_state, 2 * batch + k
                )
                halves.append(self._of(points))
                method = points.method
        return halves, method

    def weighed(
        self, weigh: Callable[[Sequence[ScoreMoments]], Weights], draws: int | None, exact: bool
    ) -> tuple[Weights, list[ScoreMoments], str]:
        """The weights of exact moments, or of ``draws`` draws; None: of as many as their noise asks for."""
        if exact:
            halves, source = self.exact()
            return weigh(halves), halves, source
        p = self.conditions.conditions.size
        size = min(MOST_DRAWS, max(FEWEST_DRAWS, DRAWS_PER_CONDITION * p)) if draws is None else max(2, draws)
        most = min(MOST_DRAWS, max(_DRAWS_OF_NOISY * p, _MOST_DRAWN_PRODUCTS // max(p, 1)))
        halves, method = self.drawn(size)
        weights, batch, total = weigh(halves), 1, _count(halves)
        while draws is None and weights.noise > NOISE and 2 * total <= most:
            fresh = self.drawn(total, batch)[0]
            halves = [pooled(old, new) for old, new in zip(halves, fresh, strict=True)]
            weights, batch, total = weigh(halves), batch + 1, _count(halves)
        return weights, halves, method.format(draws=total)

    @np.errstate(over="ignore", invalid="ignore")  # moments that are not finite are refused with their weights
    def _of(self, points: Points) -> ScoreMoments:
        conditions = self.conditions
        moments = score_moments(conditions.conditions, points, self.theta)
        if self.free is not None and not self.free.all():
            keep = np.flatnonzero(self.free)
            moments = ScoreMoments(
                moments.V, moments.K[:, keep], moments.information[np.ix_(keep, keep)], moments.draws
            )
        if conditions.mean is not None and conditions.second is not None:
            moments = moments.selected(conditions.mean, conditions.second, conditions.conditions.component)
        return moments


def _count(halves: Sequence[ScoreMoments]) -> int:
    return sum(half.draws or 0 for half in halves)
