"""Optimal weights as a regression: the score of the full likelihood on the moment conditions.

The estimate that solves A ḡ(θ) = 0 has the asymptotic covariance (AK)⁻¹ A V Aᵀ (AK)⁻ᵀ, which is least for A = KᵀV⁻¹: the
coefficients of the best linear prediction of the score f − E f from g. V and K from the same draws make this an ordinary
least squares regression, whose error is small where the prediction is good. The regression starts from the first stage's
own score ψ = Λg and adds what g explains beyond it, shrunken by a ridge ρ:

    A = A₀ + (Kᵀ − A₀V)(V + ρ diag V)⁻¹,    A₀ = E[f ψᵀ] E[ψψᵀ]⁻¹ Λ

With ρ → ∞ the estimate is the first stage's own. ρ and the graph distance are chosen by the covariance that weights
from one half of the draws have in the other half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldfit.refinement.pseudo_inverse import bread_inverse, inverse_root, pseudo_inverse
from fieldfit.refinement.score_moments import ScoreMoments, pooled
from fieldfit.types import FloatArray, IntArray

#: Ridges that are compared where the moments come from draws. The smallest is that of fits with exact moments: without it
#: nearly redundant conditions get large weights that cancel under the model but not over a few thousand samples.
RIDGES = (1e-5, 1e-3, 1e-2, 1e-1)
#: The ridge that only removes redundant conditions.
_ROUNDING_RIDGE = 1e-11
#: A larger distance must reduce the predicted variance by this part to be chosen.
WORTH = 0.01
#: Ridges are compared in all directions of the score if there are at most this many; otherwise in this many random ones.
_MOST_DIRECTIONS, _RANDOM_DIRECTIONS = 64, 32


@dataclass(frozen=True)
class Weights:
    """A (r, p): the estimate solves A ḡ(θ) = 0.

    ``predicted`` and ``first`` are the predicted variance of the refined and of the first estimate relative to maximum
    likelihood, tr(I · Cov)/r (1 is best); from draws, that of weights from one half in the other half. ``conditions`` are
    those with a weight, ``ridge`` is ρ and ``distance`` the graph distance of the instruments.
    """

    matrix: FloatArray
    conditions: IntArray
    predicted: float
    first: float
    ridge: float
    distance: int


class Regression:
    """The regression for one set of moments; ``coefficients`` are Λ (r, p), and ``start`` is A₀."""

    def __init__(self, moments: ScoreMoments, coefficients: FloatArray) -> None:
        V, K = moments.V, moments.K
        product = coefficients @ V
        inverse = pseudo_inverse(product @ coefficients.T, tolerance=1e-12)[0]
        self.start: FloatArray = ((K.T @ coefficients.T) @ inverse) @ coefficients
        diagonal = np.diag(V)
        self._scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)
        self._V = V * self._scale[:, None] * self._scale
        remainder = K - ((K.T @ coefficients.T) @ inverse @ product).T
        self._remainder = remainder * self._scale[:, None]
        self._factors: dict[float, Any] = {}

    def weights(self, ridge: float, directions: FloatArray | None = None) -> FloatArray:
        """A (r, p) for a ridge, or its combinations Bᵀ A (k, p) for the columns of ``directions`` B (r, k)."""
        start = self.start if directions is None else directions.T @ self.start
        remainder = self._remainder if directions is None else self._remainder @ directions
        return start + (self._solve(remainder, ridge) * self._scale[:, None]).T

    def _solve(self, remainder: FloatArray, ridge: float) -> FloatArray:
        from scipy.linalg import cho_factor, cho_solve

        if ridge <= _ROUNDING_RIDGE:
            return pseudo_inverse(self._V, tolerance=_ROUNDING_RIDGE)[0] @ remainder
        if ridge not in self._factors:
            regular = self._V.copy()
            regular[np.diag_indices_from(regular)] += ridge
            self._factors[ridge] = cho_factor(regular, lower=True, overwrite_a=True, check_finite=False)
        solved: FloatArray = cho_solve(self._factors[ridge], remainder, check_finite=False)
        return solved


def regression_weights(moments: ScoreMoments, coefficients: FloatArray, ridge: float) -> FloatArray:
    """A for the moments; ``coefficients`` are Λ (r, p)."""
    return Regression(moments, coefficients).weights(ridge)


def covariance_of(matrix: FloatArray, moments: ScoreMoments) -> FloatArray:
    """The covariance (AK)⁻¹ A V Aᵀ (AK)⁻ᵀ of √n(θ̂ − θ₀) for the weights A."""
    bread = matrix @ moments.K
    inverse = bread_inverse(bread)
    covariance: FloatArray = inverse @ (matrix @ moments.V @ matrix.T) @ inverse.T
    return (covariance + covariance.T) / 2


def relative_variance(covariance: FloatArray, information: FloatArray) -> float:
    """tr(I · Cov)/rank I: 1 for maximum likelihood."""
    rank = pseudo_inverse(information)[1]
    return float(np.sum(information * covariance) / max(rank, 1))


def choose_weights(
    halves: Sequence[ScoreMoments],
    coefficients: FloatArray,
    distance: IntArray,
    distances: Sequence[int],
    exact_ridge: float = 0.0,
) -> Weights:
    """The weights of least predicted variance over ridges and distances.

    ``halves`` are the moments of two halves of the draws, or the exact moments alone; ``coefficients`` are Λ (r, p),
    ``distance`` (p,) that of each condition. Of two distances the smaller is chosen unless the larger is better by `WORTH`.
    ``exact_ridge`` is the ridge of exact moments.
    """
    everything = halves[0] if len(halves) == 1 else pooled(halves[0], halves[1])
    root = inverse_root(everything.information)
    best: Weights | None = None
    for limit in distances:
        used = np.flatnonzero(distance <= limit)
        if best is not None and len(used) == len(best.conditions):
            continue
        all_used = len(used) == len(distance)
        parts = halves if all_used else [half.restricted(used) for half in halves]
        Lambda = coefficients if all_used else coefficients[:, used]
        regressions = [Regression(part, Lambda) for part in parts]
        ridge = exact_ridge
        if len(parts) == 2:
            directions = random_directions(root)
            ridge = min(RIDGES, key=lambda rho: _errors(regressions, parts, rho, directions)[1])
        predicted, first = _predicted(regressions, parts, Lambda, ridge, everything.information, root.shape[1])
        if best is None or predicted < best.predicted * (1 - WORTH):
            matrix = np.zeros(coefficients.shape)
            whole = everything if all_used else everything.restricted(used)
            both = regressions[0] if len(parts) == 1 else Regression(whole, Lambda)
            matrix[:, used] = both.weights(ridge)
            best = Weights(matrix, used, predicted, first, ridge, limit)
    assert best is not None
    return best


def noise_of_weights(halves: Sequence[ScoreMoments], coefficients: FloatArray) -> float:
    """How much the weights' own noise adds to the relative variance.

    The weights of one half predict the other half worse than their own. A half's weights have twice the noise of both
    halves' weights, and their own half is as much too good as the other is too bad.
    """
    regressions = [Regression(half, coefficients) for half in halves]
    root = inverse_root(pooled(halves[0], halves[1]).information)
    directions = random_directions(root)
    errors = [_errors(regressions, halves, rho, directions) for rho in RIDGES]
    inside, outside = errors[int(np.argmin([other for _, other in errors]))]
    return float((outside - inside) / (4 * max(root.shape[1], 1)))


def random_directions(root: FloatArray) -> FloatArray:
    """B (r, k) with BBᵀ = I⁺, or on average where there are many: random combinations."""
    rank = root.shape[1]
    if rank <= _MOST_DIRECTIONS:
        return root
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (rank, _RANDOM_DIRECTIONS))
    combined: FloatArray = root @ signs / np.sqrt(_RANDOM_DIRECTIONS)
    return combined


def _errors(
    regressions: Sequence[Regression], parts: Sequence[ScoreMoments], ridge: float, directions: FloatArray
) -> tuple[float, float]:
    """E ‖f − Ag‖² in the metric of I⁻¹, up to a constant: each half's weights in their own half, and in the other."""
    totals = [0.0, 0.0]
    for place, regression in enumerate(regressions):
        rows = regression.weights(ridge, directions)
        for line, part in enumerate((parts[place], parts[1 - place])):
            totals[line] += float(np.sum((rows @ part.V) * rows) - 2 * np.sum(rows.T * (part.K @ directions))) / 2
    return totals[0], totals[1]


def _predicted(
    regressions: Sequence[Regression],
    parts: Sequence[ScoreMoments],
    coefficients: FloatArray,
    ridge: float,
    information: FloatArray,
    rank: int,
) -> tuple[float, float]:
    """Predicted relative variance of refined and first estimate, each half's weights used in the other half."""
    refined: list[float] = []
    first: list[float] = []
    for place, regression in enumerate(regressions):
        other = parts[1 - place] if len(parts) == 2 else parts[place]
        for found, matrix in ((refined, regression.weights(ridge)), (first, coefficients)):
            found.append(float(np.sum(information * covariance_of(matrix, other))) / max(rank, 1))
    return float(np.mean(refined)), float(np.mean(first))
