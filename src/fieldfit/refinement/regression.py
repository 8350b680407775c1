"""Optimal weights as a regression: the score of the full likelihood on the moment conditions.

The estimate that solves A ḡ(θ) = 0 has the asymptotic covariance (AK)⁻¹ A V Aᵀ (AK)⁻ᵀ, which is least for A = KᵀV⁻¹: the
coefficients of the best linear prediction of the score f − E f from g. V and K from the same draws make this an ordinary
least squares regression, whose error is small where the prediction is good. The regression starts from the first stage's
own score ψ = Λg and adds what g explains beyond it, shrunken by a ridge ρ:

    A = A₀ + (Kᵀ − A₀V)(V + ρ diag V)⁻¹,    A₀ = E[f ψᵀ] E[ψψᵀ]⁻¹ Λ

With ρ → ∞ the estimate is the first stage's own. ρ is chosen by how well the weights from one half of the draws predict the
score in the other half, and the graph distance by the predicted variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.asymptotics.mixture_moments import whitening
from fieldfit.refinement.model_moments import ScoreMoments, together
from fieldfit.refinement.pseudo_inverse import (
    bread_inverse,
    inverse_root,
    inverse_root_times,
    pseudo_inverse,
)
from fieldfit.types import FloatArray, ModelError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Ridges that are compared where the moments come from draws. The smallest is that of fits with exact moments: without it
#: nearly redundant conditions get large weights that cancel under the model but not over a few thousand samples.
RIDGES = (1e-5, 1e-3, 1e-2, 1e-1)
#: The ridge that only removes redundant conditions.
_ROUNDING_RIDGE = 1e-11
#: A larger distance must reduce the predicted variance by this part to be chosen.
WORTH = 0.01
#: Predicted variance relative to maximum likelihood below which a prediction cannot be right, beyond the noise of draws.
_LEAST_PREDICTED_VARIANCE = 0.95
#: Ridges are compared in all directions of the score if there are at most this many; otherwise in this many random ones.
_MOST_DIRECTIONS, _RANDOM_DIRECTIONS = 64, 32


@dataclass(frozen=True)
class Weights:
    """A (r, p): the estimate solves A ḡ(θ) = 0.

    ``predicted`` and ``first`` are the predicted variance of the refined and of the first estimate relative to maximum
    likelihood, tr(I · Cov)/r (1 is best); from draws, what weights from one half gain over the first stage in the other
    half is subtracted from the first stage's. ``noise`` is what the noise of the draws adds, 0 for exact moments, and
    ``roots`` are both variances as det^(1/r), which needs exact moments.
    """

    matrix: FloatArray
    predicted: float
    first: float
    noise: float
    ridge: float
    roots: tuple[float, float] | None = None


def own_weights(weights: Weights) -> str:
    """Why the weights are the first stage's own, where their ridge is infinite."""
    reason = "with this many draws of the model no other weights predict the score better"
    if weights.first <= 1 + WORTH:
        reason = (
            f"its variance is predicted to be at most {WORTH:.0%} above that of maximum likelihood, so there is next to "
            f"nothing to gain"
        )
    return f"the weights are the first stage's own: {reason}"


class Ridge:
    """Ridge regressions with the covariance V of the predictors; ridges are relative to the variance of each of them."""

    def __init__(self, V: FloatArray) -> None:
        diagonal = np.diag(V)
        self._scale = (1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)))[:, None]
        self._V = V * self._scale
        self._V *= self._scale.T
        self._factors: dict[float, tuple[FloatArray, bool]] = {}

    def solve(self, right: FloatArray, ridge: float) -> FloatArray:
        """(V + ρ diag V)⁻¹ · right (p, k)."""
        from scipy.linalg import cho_factor, cho_solve

        if ridge <= _ROUNDING_RIDGE:
            return pseudo_inverse(self._V, tolerance=_ROUNDING_RIDGE)[0] @ (right * self._scale) * self._scale
        if ridge not in self._factors:
            regular = self._V.copy()
            regular[np.diag_indices_from(regular)] += ridge
            self._factors[ridge] = cho_factor(regular, lower=True, overwrite_a=True, check_finite=False)
        solved: FloatArray = cho_solve(self._factors[ridge], right * self._scale, check_finite=False)
        return solved * self._scale


class Regression:
    """The regression for one set of moments; ``coefficients`` are Λ (r, p)."""

    def __init__(self, moments: ScoreMoments, coefficients: csr_array) -> None:
        self._K, self._coefficients = moments.K, coefficients
        self._product = coefficients @ moments.V
        self._inverse = pseudo_inverse(self._product @ coefficients.T, tolerance=1e-12)[0]  # of E[ψψᵀ]
        self._ridge = Ridge(moments.V)

    def weights(self, ridge: float, directions: FloatArray | None = None) -> FloatArray:
        """A (r, p) for a ridge, or Bᵀ A (k, p) for the columns of ``directions`` B (r, k); A₀ for an infinite ridge."""
        K = self._K if directions is None else self._K @ directions
        first = self._inverse @ (self._coefficients @ K)
        start: FloatArray = first.T @ self._coefficients
        if math.isinf(ridge):
            return start
        return start + self._ridge.solve(K - self._product.T @ first, ridge).T


def covariance_of(matrix: FloatArray, moments: ScoreMoments) -> FloatArray:
    """The covariance (AK)⁻¹ A V Aᵀ (AK)⁻ᵀ of √n(θ̂ − θ₀) for the weights A."""
    bread = matrix @ moments.K
    inverse = bread_inverse(bread)
    covariance: FloatArray = inverse @ (matrix @ moments.V @ matrix.T) @ inverse.T
    return (covariance + covariance.T) / 2


def root_variance(matrix: FloatArray, moments: ScoreMoments) -> float:
    """det(Cov)^(1/d) relative to maximum likelihood for the weights A, on the d directions with information."""
    basis, _ = whitening(moments.information[None])
    turned = moments.information @ basis
    size = (
        np.linalg.slogdet(turned.T @ covariance_of(matrix, moments) @ turned)[1]
        - np.linalg.slogdet(basis.T @ turned)[1]
    )
    return float(np.exp(size / max(basis.shape[1], 1)))


def relative_variance(covariance: FloatArray, information: FloatArray) -> float:
    """tr(I · Cov)/rank I: 1 for maximum likelihood."""
    rank = pseudo_inverse(information)[1]
    return float(np.sum(information * covariance) / max(rank, 1))


def choose_weights(
    halves: Sequence[ScoreMoments], coefficients: FloatArray, exact_ridge: float = 0.0, least_excess: float = 0.0
) -> Weights:
    """The weights of least predicted variance over ridges.

    ``halves`` are the moments of two halves of the draws, or the exact moments alone; ``coefficients`` are Λ (r, p).
    ``exact_ridge`` is the ridge of exact moments. The weights are the first stage's own, an infinite ridge, where the draws
    predict that it has at most ``least_excess`` more variance than maximum likelihood, and where weights from one half
    predict the score no better in the other half.
    """
    from scipy.sparse import csr_array

    everything, Lambda = together(halves), csr_array(coefficients)
    if not all(np.isfinite(part).all() for part in (everything.V, everything.K, everything.information)):
        raise ModelError(
            "The moment conditions of the second stage have no finite covariance: some features or covariates are so large "
            "that their squares overflow. Divide them by their size, or fit the first stage alone."
        )
    directions, all_directions = inverse_directions(everything.information)
    first = _relative(Lambda, everything, directions)
    if len(halves) == 1:
        matrix = Regression(everything, Lambda).weights(exact_ridge)
        predicted = _relative(matrix, everything, directions)
        roots = root_variance(matrix, everything), root_variance(Lambda.toarray(), everything)
        return Weights(matrix, predicted, first, 0.0, exact_ridge, roots)
    if first <= 1 + least_excess:
        return Weights(np.asarray(coefficients), first, first, 0.0, math.inf)
    half, other = Regression(halves[0], Lambda), halves[1]
    ridge, rows, error = _best_ridge(half, other, directions)
    # What weights gain over the first stage's in the draws that made them is as much too large as their gain in other draws
    # is too small. A half's weights have twice the noise of both halves' weights.
    start = half.weights(math.inf, directions)
    inside = _error(start, halves[0], directions) - _error(rows, halves[0], directions)
    outside = _error(start, other, directions) - error
    noise = (inside - outside) / (4 * _size(everything, directions))
    if outside <= 0.0:  # the other half does not show a gain
        return Weights(np.asarray(coefficients), first, first, noise, math.inf)
    if all_directions:
        alone = _relative(half.weights(ridge), other, directions)
        predicted = first - _relative(Lambda, other, directions) + alone
    else:  # 1/R² of the prediction, which is the relative variance of one parameter, and near it for many
        alone = _size(other, directions) / max(-error, 1e-300)
        predicted = 1.0 / (1.0 / first + outside / _size(other, directions))
    if predicted < _LEAST_PREDICTED_VARIANCE:
        # No estimator is that accurate. A statistic that occurs in one half only makes the first stage's prediction fail in
        # the other half, so what is gained over it says nothing: what counts is the prediction alone.
        predicted = alone
    if not _LEAST_PREDICTED_VARIANCE <= predicted < first:
        return Weights(np.asarray(coefficients), first, first, noise, math.inf)
    return Weights(Regression(everything, Lambda).weights(ridge), predicted, first, noise, ridge)


def _best_ridge(
    regression: Regression, tested: ScoreMoments, directions: FloatArray
) -> tuple[float, FloatArray, float]:
    """The ridge that predicts the other half best, the largest first while smaller ones do better; its Bᵀ A and error."""
    best: tuple[float, FloatArray, float] | None = None
    for ridge in reversed(RIDGES):
        rows = regression.weights(ridge, directions)
        error = _error(rows, tested, directions)
        if best is not None and error >= best[2]:
            break
        best = ridge, rows, error
    assert best is not None
    return best


def root_directions(root: FloatArray) -> FloatArray:
    """B (r, k) with BBᵀ = RRᵀ for the columns of ``root`` R, or on average where there are many: random combinations."""
    rank = root.shape[1]
    return root if rank <= _MOST_DIRECTIONS else np.asarray(root @ _signs(rank))


def inverse_directions(information: FloatArray) -> tuple[FloatArray, bool]:
    """The same for BBᵀ = I⁺, and whether these are all directions."""
    r = len(information)
    few = inverse_root_times(information, _signs(r)) if r > _MOST_DIRECTIONS else None
    if few is not None:
        return few, False
    root = inverse_root(information)
    return root_directions(root), root.shape[1] <= _MOST_DIRECTIONS


def _signs(rank: int) -> FloatArray:
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (rank, _RANDOM_DIRECTIONS))
    return np.asarray(signs / np.sqrt(_RANDOM_DIRECTIONS))


def _error(rows: FloatArray, moments: ScoreMoments, directions: FloatArray) -> float:
    """E ‖f − Ag‖² in the metric of I⁻¹, up to a constant of the moments; ``rows`` are Bᵀ A."""
    return float(np.sum((rows @ moments.V) * rows) - 2 * np.sum(rows.T * (moments.K @ directions)))


def _relative(matrix: FloatArray | csr_array, moments: ScoreMoments, directions: FloatArray) -> float:
    """tr(I · Cov)/rank I for the weights A, in random directions. All moments come from the same draws: the errors of I and
    of the bread A K cancel where A g is near f.
    """
    turned = bread_inverse(np.asarray(matrix @ moments.K)).T @ (moments.information @ directions)
    rows = (matrix.T @ turned).T
    return float(np.sum((rows @ moments.V) * rows)) / _size(moments, directions)


def _size(moments: ScoreMoments, directions: FloatArray) -> float:
    """tr(I · I⁺) in the same directions: the rank of I."""
    return max(float(np.sum(directions * (moments.information @ directions))), 1.0)
