"""Evaluations without the coordinates that stay at 0 under an L1 penalty.

At an optimum of f(x) + Σ l1 |x| a coordinate is 0 where |∂f| < l1. Where ∂f is well below l1 it stays 0 for many steps,
and neither the value nor the other derivatives need it. So it is left out: a smaller function of the remaining
coordinates is evaluated, and the derivatives of the others count as 0, which keeps them at 0. From time to time all
derivatives are computed, and coordinates that are to leave 0 come back. A descent ends only after such a check, so that
the optimality conditions hold for all coordinates: the optimum is the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fieldfit.optim.descent import ValueGradient
from fieldfit.optim.keeping import State
from fieldfit.types import BoolArray, FloatArray, IntArray

#: zeros (n,) ↦ the function without some of these coordinates, which are 0, and the places of those that remain; None
#: where nothing can be left out.
Smaller = Callable[[BoolArray], tuple[ValueGradient, IntArray] | None]

#: A coordinate at 0 is left out where the derivative is below this share of its l1.
_SAFE = 0.8
#: A smaller function is made where it has at most this share of all coordinates (it takes memory, and more of the time than
#: its share: weights that are not 0 belong to frequent features), and made again where this share of its own is left.
_WORTH, _AGAIN = 0.35, 0.7
#: Steps until all derivatives are computed again: at first, and at most after checks that found nothing.
_FIRST, _MOST = 4, 32
#: Fewer coordinates than this are all evaluated.
_MANY = 4_096


class StillZeros:
    """Evaluates ``fun`` of n coordinates with the penalty weights ``l1`` (n,), or the smaller function in its place."""

    def __init__(self, fun: ValueGradient, smaller: Smaller, l1: FloatArray) -> None:
        self._fun, self._make, self._l1 = fun, smaller, l1
        self._part: tuple[ValueGradient, IntArray] | None = None
        self._steps = self._interval = 0
        self._off = len(l1) < _MANY
        self._stopped = False
        self._all = True  # whether the last evaluation was one of all coordinates
        self.complete = True  # whether that of the current point was

    def evaluate(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The value and the gradient, which is 0 at the coordinates left out."""
        self._all = self._part is None or self._steps >= self._interval
        if self._all or self._part is None:
            return self._fun(x)
        fun, places = self._part
        value, part = fun(x[places])
        gradient = np.zeros(x.size)
        gradient[places] = part
        return value, gradient

    @property
    def fresh(self) -> bool:
        """Whether the last gradient is an array of its own, which no evaluation overwrites."""
        return not self._all

    @property
    def left_out(self) -> bool:
        """Whether the gradient of the current point or of the last evaluation lacks coordinates."""
        return not (self.complete and self._all)

    def check(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The value and the gradient of all coordinates at the current point x."""
        self.complete = True
        return self._fun(x)

    def stop(self) -> None:
        """Leave nothing out from now on; the gradient of the current point is complete."""
        self._part, self._off, self._stopped = None, True, True

    def before(self, old: FloatArray, new: FloatArray) -> FloatArray:
        """The gradient of the current point for differences with that of the next: equal where one was not computed."""
        if self._part is None or self._all == self.complete:
            return old
        aligned = new.copy()
        places = self._part[1]
        aligned[places] = old[places]
        return aligned

    def arrive(self) -> None:
        """The point of the last evaluation is the current one now."""
        self.complete = self._all

    def choose(self, x: FloatArray, gradient: FloatArray) -> None:
        """Choose what the next evaluations leave out, from the current point x with its gradient."""
        if self._off:
            return
        if not self.complete:
            self._steps += 1
            return
        self._steps = 0
        inside = np.abs(gradient) > _SAFE * self._l1
        inside |= x != 0
        if self._part is not None:
            places = self._part[1]
            outside = np.ones(x.size, dtype=np.bool_)
            outside[places] = False
            if not (inside & outside).any() and np.count_nonzero(inside) > _AGAIN * len(places):
                self._interval = min(2 * self._interval, _MOST)
                return
        self._interval = _FIRST
        self._leave_out(~inside)

    def _leave_out(self, zeros: BoolArray) -> None:
        self._part = None
        if np.count_nonzero(zeros) < (1 - _WORTH) * zeros.size:
            return
        self._part = self._make(zeros)
        self._off = self._part is None

    def state(self) -> State:
        """What is left out, as plain arrays."""
        if self._stopped:
            return {"zeros_stopped": np.empty(0)}
        if self._part is None:
            return {}
        counts = np.array([self._steps, self._interval, int(self.complete)], dtype=np.int64)
        return {"zeros_places": self._part[1], "zeros_counts": counts}

    def restore(self, state: State) -> None:
        """Take over what `state` gave."""
        if "zeros_stopped" in state:
            self.stop()
        elif "zeros_places" in state:
            at_zero = np.ones(self._l1.size, dtype=np.bool_)
            at_zero[state["zeros_places"]] = False
            self._part = self._make(at_zero)
            steps, interval, complete = state["zeros_counts"].tolist()
            self._steps, self._interval, self.complete = int(steps), int(interval), bool(complete)
