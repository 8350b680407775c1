"""V, K and I at θ for the weights: exact, or from as many draws of the model as their noise asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.refinement.points import MOST_SUMMED_STATES, Points, all_points, drawn_points, is_exact
from fieldfit.refinement.regression import noise_of_weights
from fieldfit.refinement.score_moments import ScoreMoments, pooled, score_moments
from fieldfit.refinement.stacking import Stack
from fieldfit.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from fieldfit.data.table import Table

#: Draws of the model behind the weights: at least, for each condition, and at most.
FEWEST_DRAWS, DRAWS_PER_CONDITION, MOST_DRAWS = 4_000, 8, 30_000
#: Products (draws × conditions) at most, if there are 8 draws for each condition: 9 million.
_MOST_PRODUCTS = 9_000_000
#: More draws are made while the weights' own noise adds more than this to the predicted relative variance.
NOISE = 0.01


def free_rows(matrix: FloatArray, free: BoolArray | None) -> FloatArray:
    """The rows of the free parameters; None: all are free."""
    return matrix if free is None or free.all() else matrix[free]


def moments_at(
    model: FieldModel,
    theta: FloatArray,
    conditions: Stack,
    dataset: Table | None,
    random_state: int,
    draws: int | None,
    free: BoolArray | None,
    most_states: int = MOST_SUMMED_STATES,
    *,
    fixed: int | None = None,
) -> tuple[list[ScoreMoments], str]:
    """Exact moments, or those of two halves of as many draws as needed; or of ``fixed`` draws where they are not exact."""

    def of(points: Points) -> ScoreMoments:
        moments = score_moments(conditions.conditions, points, theta)
        if free is not None and not free.all():
            keep = np.flatnonzero(free)
            moments = ScoreMoments(
                moments.V, moments.K[:, keep], moments.information[np.ix_(keep, keep)], moments.draws
            )
        if conditions.mean is not None and conditions.second is not None:
            moments = moments.selected(conditions.mean, conditions.second, conditions.conditions.component)
        return moments

    if is_exact(model, most_states) and draws is None:
        points = all_points(model, theta)
        return [of(points)], points.method
    draws = fixed if draws is None else draws
    p = conditions.conditions.size
    size = min(MOST_DRAWS, max(FEWEST_DRAWS, DRAWS_PER_CONDITION * p)) if draws is None else max(2, draws)
    most = min(MOST_DRAWS, max(size, _MOST_PRODUCTS // max(p, 1)))
    batch, total = 0, 0
    halves: list[ScoreMoments] = []
    while True:
        drawn = [drawn_points(model, theta, dataset, -(-size // 2), random_state, batch + k) for k in range(2)]
        batch += 2
        total += sum(len(half.codes) for half in drawn)
        fresh = [of(half) for half in drawn]
        halves = fresh if not halves else [pooled(old, new) for old, new in zip(halves, fresh, strict=True)]
        if draws is not None or total * 2 > most:
            break
        if noise_of_weights(halves, free_rows(conditions.first, free)) <= NOISE:
            break
        size = total
    return halves, drawn[0].method.replace(f"{len(drawn[0].codes):,}", f"{total:,}", 1)
