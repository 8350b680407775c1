"""The first stage judged alone: how inefficient it is, and how much of that its own scores could remove.

What is decided is only whether a second stage is worth its cost, so samples of the data serve in the place of draws of
the model where there are many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.refinement.points import drawn_points
from fieldfit.refinement.pseudo_inverse import bread_inverse, inverse_root
from fieldfit.refinement.regression import RIDGES, Regression, random_directions
from fieldfit.refinement.score_moments import ScoreMoments
from fieldfit.refinement.stacking import Stack
from fieldfit.types import BoolArray, FloatArray, Int32Array

if TYPE_CHECKING:
    from fieldfit.data.table import Table

#: Samples or draws at least; and for each condition where what can be removed is measured too.
FEWEST, _PER_CONDITION = 4_000, 6
#: Samples of the data are used where there are this many times as many.
_SAMPLES_PER_USED = 4


@dataclass(frozen=True)
class Judgement:
    """The first stage's predicted variance relative to maximum likelihood.

    ``removable`` is the part of its excess that the best weights of the same conditions remove, None where that was not
    measured; ``source`` says from how many samples or draws (``points``).
    """

    relative: float
    removable: float | None
    points: int
    source: str


def judge_first(
    model: FieldModel,
    theta: FloatArray,
    conditions: Stack,
    dataset: Table | None,
    free: BoolArray,
    seed: int,
    *,
    measured_from: float = float("inf"),
) -> Judgement:
    """tr(I H⁻¹ K H⁻¹)/r with the information I from one half of the points, the covariance K of the score from the other.

    H comes from conditional covariances. Where the result is above ``measured_from``, weights from one half of more points
    predict random directions of the full likelihood's score in the other half.
    """
    keep = np.flatnonzero(free)
    coefficients = conditions.first[keep]
    codes, source = _points(model, theta, dataset, FEWEST, seed)
    information, covariances, derivatives = [], [], []
    for half in codes:
        f = _centred_statistics(model, half, free)
        score = np.concatenate(
            [_products(block, coefficients) for _, block in conditions.conditions.value_blocks(half, theta)]
        )
        information.append((f.T @ f) / len(f))
        covariances.append((score.T @ score) / len(score))
        derivatives.append(conditions.conditions.derivative(half, theta, None, None)[:, keep] / len(half))
    inverse = bread_inverse(coefficients @ (derivatives[0] + derivatives[1]) / 2)
    middle = [inverse @ K @ inverse.T for K in reversed(covariances)]
    traces = [np.sum(half * covariance) for half, covariance in zip(information, middle, strict=True)]
    relative = float(np.mean(traces) / len(keep))
    removable = None
    if relative > measured_from:
        directions = random_directions(inverse_root((information[0] + information[1]) / 2))
        size = max(FEWEST, _PER_CONDITION * conditions.conditions.size)
        codes, source = _points(model, theta, dataset, size, seed)
        values = [
            np.concatenate([block for _, block in conditions.conditions.value_blocks(half, theta)]) for half in codes
        ]
        targets = [_centred_statistics(model, half, free) @ directions for half in codes]
        removable = _removable(values, targets, coefficients)
    return Judgement(relative, removable, sum(map(len, codes)), source)


def _centred_statistics(model: FieldModel, codes: Int32Array, free: BoolArray) -> FloatArray:
    f = model.statistics(codes)
    if not free.all():
        f = f[:, free]
    f -= f.mean(axis=0)
    return f


def _products(block: FloatArray, coefficients: FloatArray) -> FloatArray:
    """The scores Λg; most entries of Λ are 0."""
    from scipy.sparse import csr_array

    return np.asarray((csr_array(coefficients) @ block.T).T)


def _points(
    model: FieldModel, theta: FloatArray, dataset: Table | None, size: int, seed: int
) -> tuple[list[Int32Array], str]:
    """Two halves of some of the samples, or of draws where samples are few or weighted."""
    if dataset is not None and dataset.sample_weight is None and dataset.n >= _SAMPLES_PER_USED * size:
        rows = np.linspace(0, dataset.n - 1, size).astype(np.int64)
        halves = [np.ascontiguousarray(dataset.codes[rows[k::2]]) for k in range(2)]
        return halves, f"{size:,} of the samples"
    drawn = [drawn_points(model, theta, dataset, size // 2, seed, 10_000 + batch).codes for batch in range(2)]
    return drawn, f"{size:,} draws"


def _removable(values: list[FloatArray], targets: list[FloatArray], coefficients: FloatArray) -> float:
    """The part of the error of predicting ``targets`` by the first stage's score that the best weights remove."""
    g, f = values[0], targets[0]
    moments = ScoreMoments(g.T @ g / len(g), g.T @ f / len(g), np.eye(f.shape[1]), len(g))
    regression = Regression(moments, coefficients)

    def error(weights: FloatArray) -> float:
        return float(np.sum((targets[1] - values[1] @ weights.T) ** 2))

    return 1.0 - min(error(regression.weights(ridge)) for ridge in RIDGES) / error(regression.start)
