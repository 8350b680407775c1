"""Minimise a function of few weights x ≥ 0 that does not change with their scale.

Each weight has a size, and the search runs over the shares α_g ∝ x_g·size_g, α ≥ 0, Σα = 1: with the right sizes the
optimum is seldom near a corner. The function may have several minima. So it is evaluated in many places, descents start
from the best of them, every corner is a candidate, and the best of all is returned: the result is never worse than a
corner or equal weights.

`descend` is a projected quasi-Newton method. The function does not change with the scale of α, so its gradient g has
gᵀα = 0 and a minimum has g = 0 where α > 0 and g ≥ 0 where α = 0. Each step minimises a quadratic model over the free
variables (α > 0, or g < 0), as far as the first bound; the model's matrix is updated by BFGS, damped as in Powell (1978)
because the function is not convex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray

ValueGrad = Callable[[FloatArray], tuple[float, FloatArray]]

#: Steps of a search at most.
_MOST_SIMPLEX_STEPS = 300
_HALVINGS = 40
#: A predicted decrease below this is none, relative to the function where that is large: a sum of many logarithms is not
#: known better.
_NEGLIGIBLE_DECREASE = 1e-12
#: Steps that move no share by more than this are none: where the function falls to −∞ in a hole (a parameter that a single
#: sample has scores on), thousands of them would follow the rounding.
_NEGLIGIBLE_MOVE = 1e-12
#: Shares below this are tried as 0.
_NEGLIGIBLE_SHARE = 1e-9
#: Descents from the best of the places that were evaluated.
_MOST_STARTS = 3
#: Shares at which each pair of weights is evaluated, and weights up to which all pairs are.
_ALONG_A_PAIR = (0.03, 0.15, 0.35, 0.65, 0.85, 0.97)
_MOST_PAIRED_GROUPS = 3


def minimise_on_simplex(
    value: Callable[[FloatArray], float],
    value_grad: ValueGrad,
    sizes: FloatArray,
    *,
    starts: Sequence[FloatArray] = (),
    near: FloatArray | None = None,
) -> tuple[FloatArray, float]:
    """The best x (G,), with Σ x_g·size_g = 1, and its value, which is infinite where that of every x is.

    Weights of size 0 stay 0. ``starts`` are further x to compare with; ``near`` is an x from which the only descent
    starts, where the best is known to be close.
    """
    use = sizes > 0
    scale = np.where(use, sizes, 1.0)

    def weights(alpha: FloatArray) -> FloatArray:
        return np.where(use, alpha, 0.0) / scale

    def shares(x: FloatArray) -> FloatArray:
        alpha = np.where(use, x * scale, 0.0)
        return np.asarray(alpha / max(float(alpha.sum()), 1e-300))

    def value_at(alpha: FloatArray) -> float:
        x = weights(alpha)
        return value(x) if np.any(x > 0) else np.inf

    def slope_at(alpha: FloatArray) -> tuple[float, FloatArray]:
        x = weights(alpha)
        if not np.any(x > 0):
            return np.inf, np.zeros(len(x))
        lowest, slope = value_grad(x)
        return lowest, np.where(use, slope / scale, 0.0)

    # Hundreds of small factorisations: a pool of BLAS threads would cost more than it saves.
    with one_blas_thread():
        corners = [row for row, good in zip(np.eye(len(use)), use, strict=True) if good]
        centre = use / max(int(use.sum()), 1)
        places = [shares(np.ones(len(use))), *corners]
        for start in starts:
            if np.any(start[use] > 0) and not np.allclose(shares(start), places[0]):
                places.append(shares(start))
        close = near is not None and bool(np.any(near[use] > 0))
        if near is not None and close:
            places.append(shares(near))
        elif len(corners) > 1:
            places += [centre, *_places(corners, centre)]
        values = [value_at(alpha) for alpha in places]
        if len(corners) > 1:
            for place in [len(places) - 1] if close else _best_places(places, values):
                if np.isfinite(values[place]):
                    alpha, lowest = descend(slope_at, places[place], use)
                    places.append(alpha)
                    values.append(lowest)
                    if np.any((alpha > 0) & (alpha < _NEGLIGIBLE_SHARE)):
                        kept = np.where(alpha < _NEGLIGIBLE_SHARE, 0.0, alpha)
                        places.append(kept / kept.sum())
                        values.append(value_at(places[-1]))
    best = int(np.argmin(values))
    return weights(places[best]), float(values[best])


def _places(corners: list[FloatArray], centre: FloatArray) -> list[FloatArray]:
    """Where to evaluate before a descent: along the edges of the simplex, or near its corners where it has many."""
    near = [0.9 * corner + 0.1 * centre for corner in corners]
    if len(corners) > _MOST_PAIRED_GROUPS:
        return near
    pairs = [(a, b) for place, a in enumerate(corners) for b in corners[:place]]
    edges = [share * a + (1 - share) * b for a, b in pairs for share in _ALONG_A_PAIR]
    return edges if len(corners) == 2 else near + edges


def _best_places(places: list[FloatArray], values: list[float]) -> list[int]:
    """Where to start: of two weights every place that is lower than its neighbours, of more the lowest few."""
    line = np.array(values)
    finite = np.flatnonzero(np.isfinite(line))
    used = np.flatnonzero(np.max(places, axis=0) > 0)
    if len(used) != 2:
        return list(finite[np.argsort(line[finite], kind="stable")][:_MOST_STARTS])
    order = finite[np.argsort(np.array(places)[finite, used[0]], kind="stable")]
    padded = np.concatenate(([np.inf], line[order], [np.inf]))
    return list(order[(padded[1:-1] <= padded[:-2]) & (padded[1:-1] < padded[2:])])


def descend(value_grad: ValueGrad, start: FloatArray, use: BoolArray) -> tuple[FloatArray, float]:
    """A local minimum from ``start`` (G,), and its value; groups that are not in ``use`` stay at 0.

    The value at the start must be finite.
    """
    alpha = np.where(use, start, 0.0)
    value, slope = value_grad(alpha)
    matrix = np.eye(len(alpha)) * max(float(np.abs(slope).max()), 1e-8) * 4.0
    fresh = True
    for _ in range(_MOST_SIMPLEX_STEPS):
        step = _step(matrix, slope, alpha, use)
        predicted = -float(slope @ step)
        if predicted <= _NEGLIGIBLE_DECREASE * max(1.0, abs(value)):
            break
        shrinking = step < 0
        longest = float(np.min(alpha[shrinking] / -step[shrinking], initial=np.inf))
        length, largest = min(1.0, longest), float(np.abs(step).max())
        for _ in range(_HALVINGS):
            if length * largest < _NEGLIGIBLE_MOVE:
                return np.asarray(alpha), value
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
