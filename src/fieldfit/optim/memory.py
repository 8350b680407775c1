"""The limited memory of L-BFGS: an approximate inverse Hessian from the last pairs of steps and gradient changes.

With pairs (s_i, y_i) and the metric M of the preconditioner, the two-loop recursion (Nocedal, "Updating quasi-Newton
matrices with limited storage", 1980) needs the vectors s_i and u_i = M⁻¹y_i only to form the direction

    d = −(γ M⁻¹q + Σ_i a_i s_i + b_i u_i),   γ = s·y / y·M⁻¹y of the newest pair,

and its coefficients a, b follow from the scalars s_i·y_j, u_i·y_j, s_i·q, u_i·q. So an iteration reads the history
twice and writes nothing but the new pair and the result; the y_i are not stored.
"""

from __future__ import annotations

import numpy as np

from fieldfit import _kernels
from fieldfit.optim.keeping import State, check_finite
from fieldfit.threads import get_threads
from fieldfit.types import FloatArray, IntArray

#: From this many parameters on the pairs are stored in single precision: half the memory and traffic, and the
#: rounding only perturbs a matrix that is an approximation anyway. All sums stay double.
SINGLE_PRECISION_FROM = 10_000


def moved_vector(vector: FloatArray, places: IntArray) -> FloatArray:
    """The vector on other coordinates: ``places`` has the present place of each, −1 where it becomes 0."""
    result = np.take(vector, places, mode="wrap")
    result[places < 0] = 0.0
    return result


class Memory:
    """At most ``capacity`` pairs of vectors of length ``size``, in a ring of rows."""

    def __init__(self, size: int, capacity: int, diagonal: FloatArray | None) -> None:
        dtype = np.float32 if size >= SINGLE_PRECISION_FROM else np.float64
        self.steps = np.empty((capacity, size), dtype=dtype)
        self.changes = np.empty((capacity, size), dtype=dtype)
        self.diagonal = diagonal
        self._order: list[int] = []  # rows from the oldest pair to the newest
        self._step_change = np.zeros((capacity, capacity))  # s_i·y_j for j not older than i
        self._change_change = np.zeros((capacity, capacity))  # y_i·M⁻¹y_j
        self._search = np.zeros((capacity, 2))  # s_i·q, u_i·q

    def __len__(self) -> int:
        return len(self._order)

    @property
    def pairs(self) -> list[tuple[FloatArray, FloatArray]]:
        """The rows s_i and u_i, the oldest first."""
        return [(self.steps[row], self.changes[row]) for row in self._order]

    def clear(self) -> None:
        """Forget all pairs."""
        self._order.clear()

    def state(self) -> State:
        """The pairs as plain arrays."""
        used = max(self._order) + 1 if self._order else 0
        return {
            "steps": self.steps[:used].copy(),
            "changes": self.changes[:used].copy(),
            "order": np.array(self._order, dtype=np.int64),
            "step_change": self._step_change.copy(),
            "change_change": self._change_change.copy(),
            "search": self._search.copy(),
        }

    def restore(self, state: State) -> None:
        """Take over what `state` gave."""
        order = [int(row) for row in state["order"]]
        used = max(order) + 1 if order else 0
        if len(set(order)) < len(order) or min(order, default=0) < 0:
            raise ValueError("order of the pairs")
        self.steps[:used], self.changes[:used] = state["steps"], state["changes"]
        self._step_change[:], self._change_change[:] = state["step_change"], state["change_change"]
        self._search[:] = state["search"]
        check_finite(self.steps[order], self.changes[order], self._step_change, self._change_change, self._search)
        self._order = order

    def moved(self, places: IntArray, search_gradient: FloatArray) -> Memory:
        """The same pairs on other coordinates: ``places`` has the present place of each, −1 where the pairs are 0.

        Pairs without positive curvature there are left out. ``search_gradient`` is the q of the next direction.
        """
        other = Memory(len(places), len(self.steps), None)
        for row in self._order:
            slot = len(other._order)
            other.steps[slot] = moved_vector(self.steps[row], places)
            other.changes[slot] = moved_vector(self.changes[row], places)
            step, change = other.steps[slot], other.changes[slot]
            curvature, size = np.vdot(step, change), np.vdot(change, change)
            if curvature > 0 and size > 0:
                other._order.append(slot)
        used = len(other)
        steps, changes = (block[:used].astype(np.float64, copy=False) for block in (other.steps, other.changes))
        other._step_change[:used, :used] = steps @ changes.T
        other._change_change[:used, :used] = changes @ changes.T
        other._search[:used] = np.stack((steps @ search_gradient, changes @ search_gradient), axis=1)
        return other

    def append(
        self,
        points: tuple[FloatArray, FloatArray],
        change: FloatArray,
        search_gradient: FloatArray,
        image: FloatArray | None,
    ) -> bool:
        """Take in the pair between the (new, old) points; false if its curvature s·y is not positive.

        ``change`` is y, the new gradient minus the old one, and ``image`` is M⁻¹y where M is an operator.
        ``search_gradient`` is the q of the direction that comes next.
        """
        capacity = len(self.steps)
        slot = self._order.pop(0) if len(self._order) == capacity else self._free_row()
        used = max([slot, *self._order]) + 1
        sums = np.empty((used, 4))
        new_point, old_point = points
        _kernels.append_pair(
            new_point=new_point,
            old_point=old_point,
            change=change,
            search_gradient=search_gradient,
            diagonal=self.diagonal,
            image=image,
            steps=self.steps,
            changes=self.changes,
            used=used,
            slot=slot,
            sums=sums,
            n_threads=get_threads(),
        )
        self._search[:used] = sums[:, 2:]
        if not (np.isfinite(sums[slot]).all() and sums[slot, 0] > 0 and sums[slot, 1] > 0):
            return False
        self._step_change[:used, slot] = sums[:, 0]
        self._change_change[:used, slot] = self._change_change[slot, :used] = sums[:, 1]
        self._order.append(slot)
        return True

    def direction(
        self,
        point: FloatArray,
        search_gradient: FloatArray,
        image: FloatArray | None,
        direction: FloatArray,
        trial: FloatArray,
    ) -> float:
        """Fill ``direction`` with d and ``trial`` with point + d; returns q·d.

        ``image`` is M⁻¹q of an operator M; it may be ``direction`` itself.
        """
        used = max(self._order) + 1 if self._order else 0
        scale, step_weight, change_weight = self._coefficients(used)
        return _kernels.combine_rows(
            point=point,
            search_gradient=search_gradient,
            diagonal=self.diagonal,
            image=image,
            steps=self.steps,
            changes=self.changes,
            step_weight=step_weight,
            change_weight=change_weight,
            scale=scale,
            step=1.0,
            direction=direction,
            trial=trial,
            n_threads=get_threads(),
        )

    def _free_row(self) -> int:
        return min(set(range(len(self._order) + 1)) - set(self._order))

    def _coefficients(self, used: int) -> tuple[float, FloatArray, FloatArray]:
        """γ and the weights a, b of the rows: the two-loop recursion on scalars."""
        step_weight, change_weight = np.zeros(used), np.zeros(used)
        if not self._order:
            return 1.0, step_weight, change_weight
        rows = np.array(self._order)
        step_change = np.triu(self._step_change[np.ix_(rows, rows)])
        change_change = self._change_change[np.ix_(rows, rows)]
        curvature = np.diag(step_change)
        step_search, change_search = self._search[rows].T
        count = len(rows)
        alpha = np.zeros(count)
        for i in range(count - 1, -1, -1):
            alpha[i] = (step_search[i] - step_change[i] @ alpha) / curvature[i]
        gamma = float(curvature[-1] / change_change[-1, -1])
        changes = gamma * (change_search - change_change @ alpha)
        correction = np.zeros(count)
        for i in range(count):
            correction[i] = alpha[i] - (changes[i] + step_change[:i, i] @ correction[:i]) / curvature[i]
        step_weight[rows] = correction
        change_weight[rows] = -gamma * alpha
        return gamma, step_weight, change_weight
