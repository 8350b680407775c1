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

import numpy as np

from fieldfit.refinement.pseudo_inverse import bread_inverse, pseudo_inverse
from fieldfit.refinement.score_moments import ScoreMoments, pooled
from fieldfit.types import FloatArray, IntArray

#: Ridges that are compared where the moments come from draws. The smallest is that of fits with exact moments: without it
#: nearly redundant conditions get large weights that cancel under the model but not over a few thousand samples.
RIDGES = (1e-5, 1e-3, 1e-2, 1e-1)
#: The ridge that only removes redundant conditions.
_LEAST = 1e-11
#: A larger distance must reduce the predicted variance by this part to be chosen.
WORTH = 0.01


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


def regression_weights(moments: ScoreMoments, coefficients: FloatArray, ridge: float) -> FloatArray:
    """A for the moments; ``coefficients`` are Λ (r, p)."""
    from scipy.linalg import cho_factor, cho_solve

    V, K = moments.V, moments.K
    score = coefficients @ V @ coefficients.T
    start: FloatArray = (K.T @ coefficients.T) @ pseudo_inverse(score, tolerance=1e-12)[0] @ coefficients
    diagonal = np.diag(V)
    scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)
    scaled = V * scale[:, None] * scale
    remainder = (K - V @ start.T) * scale[:, None]
    if ridge > _LEAST:
        scaled[np.diag_indices_from(scaled)] += ridge
        solved = cho_solve(cho_factor(scaled, lower=True, check_finite=False), remainder, check_finite=False)
    else:
        inverse, _ = pseudo_inverse(scaled, tolerance=_LEAST)
        solved = inverse @ remainder
    return start + (solved * scale[:, None]).T


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
    information = everything.information
    best: Weights | None = None
    for limit in distances:
        used = np.flatnonzero(distance <= limit)
        if best is not None and len(used) == len(best.conditions):
            continue
        parts = [half.restricted(used) for half in halves]
        Lambda = coefficients[:, used]
        ridge = exact_ridge
        if len(parts) == 2:
            metric = pseudo_inverse(information)[0]
            ridge = min(RIDGES, key=lambda rho: _prediction_error(parts, Lambda, rho, metric))
        predicted, first = _predicted(parts, Lambda, ridge, information)
        if best is None or predicted < best.predicted * (1 - WORTH):
            whole = everything.restricted(used)
            matrix = np.zeros(coefficients.shape)
            matrix[:, used] = regression_weights(whole, Lambda, ridge)
            best = Weights(matrix, used, predicted, first, ridge, limit)
    assert best is not None
    return best


def _prediction_error(
    parts: Sequence[ScoreMoments], coefficients: FloatArray, ridge: float, metric: FloatArray
) -> float:
    """E ‖f − Ag‖² in the metric of I⁻¹, up to a constant, each half's weights used in the other half."""
    total = 0.0
    for part, other in zip(parts, reversed(parts), strict=True):
        matrix = regression_weights(part, coefficients, ridge)
        total += float(np.sum(metric * ((matrix @ other.V) @ matrix.T - 2 * matrix @ other.K)))
    return total


def _predicted(
    parts: Sequence[ScoreMoments], coefficients: FloatArray, ridge: float, information: FloatArray
) -> tuple[float, float]:
    """Predicted relative variance of refined and first estimate, each half's weights used in the other half."""
    refined, first = [], []
    for place, part in enumerate(parts):
        other = parts[1 - place] if len(parts) == 2 else part
        refined.append(
            relative_variance(covariance_of(regression_weights(part, coefficients, ridge), other), information)
        )
        first.append(relative_variance(covariance_of(coefficients, other), information))
    return float(np.mean(refined)), float(np.mean(first))
