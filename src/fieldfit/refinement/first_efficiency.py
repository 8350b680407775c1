"""The predicted variance of the first stage alone, before any matrix over all conditions is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.refinement.points import drawn_points, statistics
from fieldfit.refinement.pseudo_inverse import bread_inverse
from fieldfit.refinement.stacking import Stack
from fieldfit.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from fieldfit.data.table import Table

#: Draws of the model.
DRAWS = 4_000


def first_efficiency(
    model: FieldModel, theta: FloatArray, conditions: Stack, dataset: Table | None, free: BoolArray, seed: int
) -> float:
    """The predicted variance of the first stage relative to maximum likelihood, from 4,000 draws.

    tr(I H⁻¹ K H⁻¹)/r with the information I from one half of the draws, the covariance K of the score from the other, and H
    from conditional covariances; without products of all pairs of conditions.
    """
    keep = np.flatnonzero(free)
    coefficients = conditions.first[keep]
    information, covariances, derivatives = [], [], []
    for batch in range(2):
        points = drawn_points(model, theta, dataset, DRAWS // 2, seed, 10_000 + batch)
        f = statistics(model, points)[:, keep]
        f -= f.mean(axis=0)
        information.append((f.T @ f) / len(f))
        score = np.concatenate(
            [block @ coefficients.T for _, block in conditions.conditions.value_blocks(points.codes, theta)]
        )
        covariances.append((score.T @ score) / len(score))
        derivatives.append(conditions.conditions.derivative(points.codes, theta, points.weight, None)[:, keep])
    inverse = bread_inverse(coefficients @ (derivatives[0] + derivatives[1]) / 2)
    middle = [inverse @ K @ inverse.T for K in reversed(covariances)]
    traces = [np.sum(half * covariance) for half, covariance in zip(information, middle, strict=True)]
    return float(np.mean(traces) / len(keep))
