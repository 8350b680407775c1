"""A quasi-Newton model of a smooth function on some of its coordinates.

The last steps s_i and changes of the gradient y_i, restricted to the coordinates F, give the matrix

    B = σD − [σDS  Y] M⁻¹ [σDS  Y]ᵀ,     M = [σSᵀDS  L; Lᵀ  −C],   σ = y·D⁻¹y / s·y of the newest pair,

with C the diagonal and L the part below it of SᵀY (Byrd, Nocedal and Schnabel, "Representations of quasi-Newton matrices
and their use in limited memory methods", 1994). Restricting the pairs, rather than the inverse of a B of all coordinates,
is what makes B a model of the Hessian on F: (B_FF)⁻¹ and (B⁻¹)_FF differ by all that the coordinates at 0 would do
if they could move.
"""

from __future__ import annotations

import numpy as np

from fieldfit.optim.keeping import State, check_finite
from fieldfit.optim.memory import SINGLE_PRECISION_FROM, moved_vector
from fieldfit.types import FloatArray, IntArray

#: A pair whose steps and changes are closer to orthogonal than this has no information on the curvature.
_LEAST_CURVATURE = 1e-8
#: The least entry on the diagonal of a Hessian, as a share of the largest.
_LEAST_DIAGONAL = 1e-14


class QuadraticModel:
    """At most ``capacity`` pairs of vectors of length ``size``; ``diagonal`` (size,) is D, None for ones."""

    def __init__(self, size: int, capacity: int, diagonal: FloatArray | None) -> None:
        dtype = np.float32 if size >= SINGLE_PRECISION_FROM else np.float64
        self._steps = np.empty((capacity, size), dtype=dtype)
        self._changes = np.empty((capacity, size), dtype=dtype)
        self._diagonal = diagonal
        self._order: list[int] = []  # rows from the oldest pair to the newest

    def __len__(self) -> int:
        return len(self._order)

    def clear(self) -> None:
        """Forget all pairs."""
        self._order.clear()

    def state(self) -> State:
        """The pairs as plain arrays."""
        used = max(self._order) + 1 if self._order else 0
        return {
            "steps": self._steps[:used].copy(),
            "changes": self._changes[:used].copy(),
            "order": np.array(self._order, dtype=np.int64),
        }

    def restore(self, state: State) -> None:
        """Take over what `state` gave."""
        order = [int(row) for row in state["order"]]
        used = max(order) + 1 if order else 0
        if len(set(order)) < len(order) or min(order, default=0) < 0:
            raise ValueError("order of the pairs")
        self._steps[:used], self._changes[:used] = state["steps"], state["changes"]
        check_finite(self._steps[order], self._changes[order])
        self._order = order

    def moved(self, places: IntArray) -> QuadraticModel:
        """The same pairs on other coordinates, as in `Memory.moved`; the diagonal must be one of ones."""
        other = QuadraticModel(len(places), len(self._steps), None)
        for row in self._order:
            other._steps[row] = moved_vector(self._steps[row], places)
            other._changes[row] = moved_vector(self._changes[row], places)
        other._order = list(self._order)
        return other

    def append(self, step: FloatArray, change: FloatArray) -> None:
        """Take in a pair, unless its curvature is not positive; the oldest one makes room."""
        if not step @ change > _LEAST_CURVATURE * float(np.sqrt((step @ step) * (change @ change))):
            return
        full = len(self._order) == len(self._steps)
        row = self._order.pop(0) if full else min(set(range(len(self._order) + 1)) - set(self._order))
        self._steps[row], self._changes[row] = step, change
        self._order.append(row)

    def _is_useful(self, row: int, free: IntArray) -> bool:
        """Whether a pair has information on the curvature of the coordinates ``free``."""
        step, change = (block[row, free].astype(np.float64, copy=False) for block in (self._steps, self._changes))
        return float(step @ change) > _LEAST_CURVATURE * float(np.sqrt((step @ step) * (change @ change)))

    def matrix(self, free: IntArray, first_scale: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """σD and the thin matrices of B = σD − left · rightᵀ on ``free``; without pairs B = first_scale · D."""
        scale, rows, inverse = self.factors(free, first_scale)
        right = np.ascontiguousarray(rows.T)
        return scale, right @ inverse.T, right

    def factors(self, free: IntArray, first_scale: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """σD (k,), the rows V (p, k) and the inverse M⁻¹ (p, p) of B = σD − VᵀM⁻¹V on ``free``."""
        metric = np.ones(len(free)) if self._diagonal is None else self._diagonal[free]
        # One array of all rows, filled in place: the pairs on many coordinates take most of the memory of a fit.
        useful = [row for row in self._order if self._is_useful(row, free)]
        if not useful:
            return first_scale * metric, np.zeros((0, len(free))), np.zeros((0, 0))
        count = len(useful)
        rows = np.empty((2 * count, len(free)))
        S, Y = rows[:count], rows[count:]
        for place, row in enumerate(useful):
            S[place], Y[place] = self._steps[row, free], self._changes[row, free]
        sigma = float((Y[-1] / metric) @ Y[-1]) / float(S[-1] @ Y[-1])
        products = S @ Y.T
        below = np.tril(products, -1)
        squares = S @ S.T if self._diagonal is None else (metric * S) @ S.T
        middle = np.block([[sigma * squares, below], [below.T, -np.diag(np.diag(products))]])
        S *= sigma
        if self._diagonal is not None:
            S *= metric
        # One product with the small inverse; solving for every column took longer than the evaluations. The blocks of
        # the matrix differ by many orders of magnitude, which its own diagonal takes out.
        size = 1.0 / np.sqrt(np.abs(np.diag(middle)))
        try:
            inverse = size[:, None] * np.linalg.inv(size[:, None] * middle * size) * size
        except np.linalg.LinAlgError:
            inverse = np.full_like(middle, np.nan)
        return sigma * metric, rows, inverse


class HessianModel:
    """The Hessian H (k, k) of all coordinates that a step may change, as such a model."""

    def __init__(self, hessian: FloatArray) -> None:
        self._hessian = 0.5 * (hessian + hessian.T)

    def matrix(self, free: IntArray, first_scale: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """As `QuadraticModel.matrix`: with the diagonal of H, so that none of its digits are lost in the difference."""
        diagonal = np.diag(self._hessian)
        scale = np.maximum(diagonal, _LEAST_DIAGONAL * diagonal.max(initial=0.0))
        return scale, np.diag(diagonal) - self._hessian, np.eye(len(scale))
