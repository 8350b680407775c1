"""Minimise J(β) + γ‖β − β₀‖² over β ≥ 0, Σ_g c_g β_g = 1.

J does not change with the scale of β, and its natural coordinates are the groups' shares of the information,
α_g ∝ β_g tr B_g: in them the optimum is seldom near a corner, however many components a family has. J is a difference of
concave functions and may have several minima, so J is looked at in many places, the descent starts from the best of
them, every corner (a pure policy) is a candidate, and the best of all is taken: the result is never worse than a pure
policy or equal weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.threads import one_blas_thread
from fieldfit.types import FloatArray, IdentifiabilityError
from fieldfit.weights.criterion import Criterion
from fieldfit.weights.descent import descend

_SMALL = 1e-9
#: Descents from the best of the points that were looked at.
_STARTS = 3
#: Shares at which each pair of groups is looked at, and groups up to which all pairs are.
_ALONG_A_PAIR = (0.03, 0.15, 0.35, 0.65, 0.85, 0.97)
_MOST_PAIRED = 3


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


def minimise_on_simplex(criterion: Criterion, ridge: Ridge, near: FloatArray | None = None) -> FloatArray:
    """The best normalised β (G,). IdentifiabilityError where no β determines the parameters.

    ``near`` is a β from which the only descent starts, where the best is known to be close.
    """
    # Hundreds of small factorisations: a pool of BLAS threads would cost more than it brings.
    with one_blas_thread():
        return _search(criterion, ridge, near)


def _search(criterion: Criterion, ridge: Ridge, near: FloatArray | None) -> FloatArray:
    information = criterion.information
    use = information > 0
    groups = len(information)
    scale = np.where(use, information, 1.0)

    def value_grad(alpha: FloatArray) -> tuple[float, FloatArray]:
        x = np.where(use, alpha, 0.0) / scale
        if not np.any(x > 0):
            return np.inf, np.zeros(groups)
        J, slope = criterion.value_grad(x)
        if ridge.gamma > 0:
            more, extra = ridge.value_grad(x)
            J, slope = J + more, slope + extra
        return J, np.where(use, slope / scale, 0.0)

    def value(alpha: FloatArray) -> float:
        x = np.where(use, alpha, 0.0) / scale
        if not np.any(x > 0):
            return np.inf
        return criterion.value(x) + (ridge.value_grad(x)[0] if ridge.gamma > 0 else 0.0)

    def shares(beta: FloatArray) -> FloatArray:
        alpha = np.where(use, beta * scale, 0.0)
        return np.asarray(alpha / max(float(alpha.sum()), 1e-300))

    corners = [row for row, good in zip(np.eye(groups), use, strict=True) if good]
    centre = use / max(int(use.sum()), 1)
    candidates = [shares(np.ones(groups)), *corners]
    if np.any(ridge.beta0[use] > 0) and not np.allclose(shares(ridge.beta0), candidates[0]):
        candidates.append(shares(ridge.beta0))
    close = near is not None and bool(np.any(near[use] > 0))
    if near is not None and close:
        candidates.append(shares(near))
    elif len(corners) > 1:
        candidates += [centre, *_places(corners, centre)]
    found = [value(alpha) for alpha in candidates]
    if len(corners) > 1:
        for place in [len(candidates) - 1] if close else _best_places(candidates, found):
            if np.isfinite(found[place]):
                alpha, lowest = descend(value_grad, candidates[place], use)
                candidates.append(alpha)
                found.append(lowest)
                if np.any((alpha > 0) & (alpha < _SMALL)):
                    candidates.append(_without_small(alpha))
                    found.append(value(candidates[-1]))
    best = int(np.argmin(found))
    if not np.isfinite(found[best]):
        raise IdentifiabilityError(
            "No weights of these families determine the parameters: the bread is singular for all of them. "
            "Add components (PL1 covers all variables), fix parameters, or take more samples."
        )
    x = np.where(use, candidates[best], 0.0) / scale
    return np.asarray(x / float(ridge.normaliser @ x))


def _places(corners: list[FloatArray], centre: FloatArray) -> list[FloatArray]:
    """Where J is looked at before a descent: along the edges of the simplex, or near its corners where it has many."""
    near = [0.9 * corner + 0.1 * centre for corner in corners]
    if len(corners) > _MOST_PAIRED:
        return near
    pairs = [(a, b) for place, a in enumerate(corners) for b in corners[:place]]
    edges = [share * a + (1 - share) * b for a, b in pairs for share in _ALONG_A_PAIR]
    return edges if len(corners) == 2 else near + edges


def _best_places(candidates: list[FloatArray], found: list[float]) -> list[int]:
    """Where to start: of two groups every point that is lower than its neighbours, of more the lowest few."""
    values = np.array(found)
    finite = np.flatnonzero(np.isfinite(values))
    used = np.flatnonzero(np.max(candidates, axis=0) > 0)
    if len(used) != 2:
        return list(finite[np.argsort(values[finite], kind="stable")][:_STARTS])
    order = finite[np.argsort(np.array(candidates)[finite, used[0]], kind="stable")]
    line = np.concatenate(([np.inf], values[order], [np.inf]))
    return list(order[(line[1:-1] <= line[:-2]) & (line[1:-1] < line[2:])])


def _without_small(alpha: FloatArray) -> FloatArray:
    kept = np.where(alpha < _SMALL, 0.0, alpha)
    return np.asarray(kept / kept.sum())
