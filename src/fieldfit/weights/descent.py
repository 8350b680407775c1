"""Descent on the simplex α ≥ 0, Σα = 1 by a projected quasi-Newton method, for few variables.

The function must not change with the scale of α, so its gradient g has gᵀα = 0 and a minimum has g = 0 where α > 0 and
g ≥ 0 where α = 0. Each step minimises a quadratic model over the free variables (α > 0, or g < 0), as far as the first
bound; the model's matrix is updated by BFGS, damped as in Powell (1978) because the function is not convex.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fieldfit.types import BoolArray, FloatArray

_STEPS = 300
_HALVINGS = 40
#: A predicted decrease below this is none, relative to the function where that is large: a sum of many logarithms is not
#: known better.
_NOTHING = 1e-12


def descend(
    value_grad: Callable[[FloatArray], tuple[float, FloatArray]], start: FloatArray, use: BoolArray
) -> tuple[FloatArray, float]:
    """A local minimum from ``start`` (G,), and its value; groups that are not in ``use`` stay at 0.

    The value at the start must be finite.
    """
    alpha = np.where(use, start, 0.0)
    value, slope = value_grad(alpha)
    matrix = np.eye(len(alpha)) * max(float(np.abs(slope).max()), 1e-8) * 4.0
    fresh = True
    for _ in range(_STEPS):
        step = _step(matrix, slope, alpha, use)
        predicted = -float(slope @ step)
        if predicted <= _NOTHING * max(1.0, abs(value)):
            break
        shrinking = step < 0
        longest = float(np.min(alpha[shrinking] / -step[shrinking], initial=np.inf))
        length = min(1.0, longest)
        for _ in range(_HALVINGS):
            trial = np.maximum(alpha + length * step, 0.0)
            if length == longest:
                trial[shrinking & (alpha + length * step <= 1e-15)] = 0.0
            trial /= trial.sum()
            new_value, new_slope = value_grad(trial)
            if new_value <= value - 1e-4 * length * predicted:
                break
            length /= 2
        else:
            break
        moved, change = trial - alpha, new_slope - slope
        alpha, value, slope = trial, new_value, new_slope
        matrix, fresh = _updated(matrix, moved, change, fresh), False
    return np.asarray(alpha), value


def _step(matrix: FloatArray, slope: FloatArray, alpha: FloatArray, use: BoolArray) -> FloatArray:
    """The minimum of gᵀd + ½dᵀAd over Σd = 0, where variables at 0 may only grow."""
    free = use & ((alpha > 0) | (slope < 0))
    while True:
        places = np.flatnonzero(free)
        step = np.zeros(len(alpha))
        if len(places) < 2:
            return step
        size = len(places)
        system = np.ones((size + 1, size + 1))
        system[:size, :size] = matrix[np.ix_(places, places)]
        system[size, size] = 0.0
        step[places] = np.linalg.solve(system, np.append(-slope[places], 0.0))[:size]
        outward = free & (alpha <= 0) & (step < 0)
        if not outward.any():
            return step
        free = free & ~outward


def _updated(matrix: FloatArray, moved: FloatArray, change: FloatArray, fresh: bool) -> FloatArray:
    along = float(moved @ change)
    if fresh and along > 0:
        matrix = np.eye(len(moved)) * float(change @ change) / along
    image = matrix @ moved
    bent = float(moved @ image)
    if not bent > 0:
        return matrix
    if along < 0.2 * bent:
        mix = 0.8 * bent / (bent - along)
        change = mix * change + (1 - mix) * image
        along = float(moved @ change)
    return np.asarray(matrix - np.outer(image, image) / bent + np.outer(change, change) / along)
