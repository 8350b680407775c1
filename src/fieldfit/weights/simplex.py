"""Minimise J(β) + γ‖β − β₀‖² over β ≥ 0, Σ_g c_g β_g = 1.

J does not change with the scale of β, and its natural coordinates are the groups' shares of the information,
α_g ∝ β_g tr B_g: in them the optimum is seldom near a corner, however many components a family has. J is a difference of
concave functions and may have several minima, so the search starts in many places, every corner (a pure policy)
is looked at, and the best of all is taken: the result is never worse than a pure policy or equal weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldfit.types import BoolArray, FloatArray, IdentifiabilityError
from fieldfit.weights.criterion import Criterion

_SMALL = 1e-9

ValueGradient = Callable[[FloatArray], tuple[float, FloatArray]]


@dataclass(frozen=True)
class Ridge:
    """γ‖β − β₀‖² for normalised β, with ``normaliser`` c."""

    gamma: float
    beta0: FloatArray
    normaliser: FloatArray

    def value_grad(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The ridge at β = x/(cᵀx), and its gradient in x."""
        scale = float(self.normaliser @ x)
        beta = x / scale
        away = beta - self.beta0
        slope = (2 * self.gamma / scale) * (away - self.normaliser * float(beta @ away))
        return self.gamma * float(away @ away), slope


def minimise_on_simplex(criterion: Criterion, ridge: Ridge) -> FloatArray:
    """The best normalised β (G,). IdentifiabilityError where no β determines the parameters."""
    from threadpoolctl import threadpool_limits

    # Hundreds of small factorisations: a pool of BLAS threads would cost more than it brings.
    with threadpool_limits(1, user_api="blas"):
        return _search(criterion, ridge)


def _search(criterion: Criterion, ridge: Ridge) -> FloatArray:
    information = criterion.information
    use = information > 0
    groups = len(information)
    scale = np.where(use, information, 1.0)

    def value_grad(alpha: FloatArray) -> tuple[float, FloatArray]:
        x = np.where(use, alpha, 0.0) / scale
        if not np.any(x > 0):
            return np.inf, np.zeros(groups)
        J, slope = criterion.value_grad(x)
        more, extra = ridge.value_grad(x)
        return J + more, np.where(use, (slope + extra) / scale, 0.0)

    def shares(beta: FloatArray) -> FloatArray:
        alpha = np.where(use, beta * scale, 0.0)
        return np.asarray(alpha / max(float(alpha.sum()), 1e-300))

    corners = [row for row, good in zip(np.eye(groups), use, strict=True) if good]
    centre = use / max(int(use.sum()), 1)
    inside = [centre, shares(np.ones(groups)), *([shares(ridge.beta0)] if np.any(ridge.beta0[use] > 0) else [])]
    candidates = [*inside, *corners]
    if len(corners) > 1:
        starts = [*inside, *(0.9 * corner + 0.1 * centre for corner in corners)]
        for start in starts:
            found = _descend(value_grad, start, use)
            candidates += [found, _without_small(found)]
    values = [value_grad(alpha)[0] for alpha in candidates]
    best = int(np.argmin(values))
    if not np.isfinite(values[best]):
        raise IdentifiabilityError(
            "No weights of these families determine the parameters: the bread is singular for all of them. "
            "Add components (PL1 covers all variables), fix parameters, or take more samples."
        )
    x = np.where(use, candidates[best], 0.0) / scale
    return np.asarray(x / float(ridge.normaliser @ x))


def _descend(value_grad: ValueGradient, start: FloatArray, use: BoolArray) -> FloatArray:
    """Sequential quadratic programming on the simplex from one start; the start itself where that fails."""
    from scipy.optimize import Bounds, LinearConstraint, minimize

    first = value_grad(start)[0]
    if not np.isfinite(first):
        return start

    def finite(alpha: FloatArray) -> tuple[float, FloatArray]:
        value, slope = value_grad(np.maximum(alpha, 0.0))
        # A wall, not infinity: the line search must be able to step back from it.
        return (value - first, slope) if np.isfinite(value) else (1e6, np.zeros_like(slope))

    solution = minimize(
        finite,
        start,
        jac=True,
        method="SLSQP",
        bounds=Bounds(np.zeros(len(start)), use.astype(np.float64)),
        constraints=LinearConstraint(np.ones((1, len(start))), 1.0, 1.0),
        options={"ftol": 1e-14, "maxiter": 300},
    )
    alpha = np.clip(np.asarray(solution.x, dtype=np.float64), 0.0, 1.0)
    if not np.all(np.isfinite(alpha)) or alpha.sum() <= 0:
        return start
    return np.asarray(alpha / alpha.sum())


def _without_small(alpha: FloatArray) -> FloatArray:
    kept = np.where(alpha < _SMALL, 0.0, alpha)
    return np.asarray(kept / kept.sum())
