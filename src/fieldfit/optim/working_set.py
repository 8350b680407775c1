"""The coordinates on which a descent with an L1 penalty works: weights that stay at 0 are left out.

At an optimum of f(x) + Σ l1 |x| a coordinate is 0 where |∂f| < l1. Where ∂f is well below l1 it stays 0 for many steps,
and neither the value nor the other derivatives need it. So the descent works on the others only: its vectors are short, and
a smaller function of these coordinates is evaluated where the problem has one. Every few steps all derivatives are
computed, and coordinates that have to leave 0 come back. No coordinate outside has |∂f| > l1 after such a check, and a
descent converges only after one, so that the optimality conditions hold for all coordinates: the optimum is the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fieldfit.optim.descent import ValueGradient
from fieldfit.optim.keeping import State
from fieldfit.optim.l1_penalty import L1Penalty
from fieldfit.types import BoolArray, FloatArray, IntArray

#: zeros (n,) ↦ the function without some of these coordinates, which are 0, and the places of those that remain; None
#: where a function of fewer coordinates would take as long.
Smaller = Callable[[BoolArray], tuple[ValueGradient, IntArray] | None]

#: A coordinate at 0 is left out where the derivative is below this share of its l1.
_SAFE_SHARE = 0.8
#: Coordinates are left out where at most this share of all remains, and again where this share of the set remains.
_LARGEST_SHARE, _SHRUNK_SHARE = 0.35, 0.7
#: Steps until all derivatives are computed again: at first, and at most after checks that found nothing.
_FIRST_INTERVAL, _LONGEST_INTERVAL = 4, 32
#: Fewer coordinates than this are all kept.
_MANY_COORDINATES = 4_096


class WorkingSet:
    """The coordinates of a descent for ``fun`` of n coordinates and their penalties."""

    def __init__(
        self, fun: ValueGradient, smaller: Smaller | None, penalty: L1Penalty, *, fresh: bool = False
    ) -> None:
        self._fun, self._smaller, self._fresh = fun, smaller, fresh
        self.all_penalties, self._l1 = penalty, penalty.weights
        self.places: IntArray | None = None  # in increasing order; None: all
        self._part: ValueGradient | None = None  # the function of these; None: that of all has to do
        self._steps = self._interval = 0
        self._off = len(self._l1) < _MANY_COORDINATES
        self._seen: tuple[FloatArray, FloatArray] | None = None  # a point, and the gradient of all coordinates there

    def evaluate(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The value and the gradient of the coordinates in the set."""
        if self._part is not None and self._steps < self._interval:
            self._seen = None
            value, gradient = self._part(x)
            return value, gradient if self._fresh else gradient.copy()
        return self.evaluate_all(x)

    def evaluate_all(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The same, with the gradient of all coordinates kept for `choose`."""
        self._seen = None  # its vectors make room for the new ones
        value, gradient = self._fun(self.spread(x))
        self._seen = x, gradient
        return value, self.part(gradient)

    def gradient_near(self, x: FloatArray) -> FloatArray:
        """The gradient of the coordinates in the set at a point of them; what `gradient_at` knows stays."""
        if self._part is not None:
            return self._part(x)[1]
        gradient = self._fun(self.spread(x))[1]
        return gradient if self.places is None else gradient[self.places]

    def gradient_at(self, x: FloatArray) -> FloatArray | None:
        """The gradient of all coordinates at the point x, if that was the last evaluation and computed it."""
        return self._seen[1] if self._seen is not None and self._seen[0] is x else None

    def part(self, vector: FloatArray) -> FloatArray:
        """The entries of a vector of all coordinates that are in the set; a copy, unless vectors are ``fresh``."""
        if self.places is None:
            return vector if self._fresh else vector.copy()
        return vector[self.places]

    def penalty(self) -> L1Penalty:
        """The penalties of the coordinates in the set."""
        return self.all_penalties if self.places is None else self.all_penalties.restricted(self.places)

    def spread(self, part: FloatArray) -> FloatArray:
        """The vector of all coordinates that has ``part`` on the set and 0 elsewhere."""
        if self.places is None:
            return part
        vector = np.zeros(len(self._l1))
        vector[self.places] = part
        return vector

    def choose(self, x: FloatArray) -> tuple[IntArray, FloatArray] | None:
        """Choose the set for the steps after the one to x; None if it stays.

        Otherwise the place of each coordinate of the new set in the old one, −1 where it was outside, and the gradient of
        all coordinates.
        """
        gradient = self.gradient_at(x)
        if self._off or gradient is None:
            self._steps += 1
            return None
        if self.places is None and np.count_nonzero(x) > _LARGEST_SHARE * x.size:
            return None
        self._steps = 0
        size = np.abs(gradient)
        inside = size > _SAFE_SHARE * self._l1
        if self.places is None:
            inside |= x != 0
            return self._change(inside, gradient)
        inside[self.places[x != 0]] = True
        size[self.places] = 0.0
        if (size > self._l1).any():
            self._interval = _FIRST_INTERVAL
        elif np.count_nonzero(inside) > _SHRUNK_SHARE * len(self.places):
            self._interval = min(2 * self._interval, _LONGEST_INTERVAL)
            return None
        return self._change(inside, gradient)

    def keep_all(self) -> IntArray:
        """Leave nothing out from now on; the place of each coordinate in the old set, −1 where it was outside."""
        place = self._numbers()
        self._off, self.places, self._part = True, None, None
        return place

    def _change(self, inside: BoolArray, gradient: FloatArray) -> tuple[IntArray, FloatArray] | None:
        place = self._numbers()
        if 0 < np.count_nonzero(inside) <= _LARGEST_SHARE * inside.size:
            self._take(np.flatnonzero(inside))
        elif self.places is None:
            return None
        else:
            self.places, self._part = None, None
        return place if self.places is None else place[self.places], gradient

    def _numbers(self) -> IntArray:
        """The place of each of all coordinates in the set, −1 outside."""
        if self.places is None:
            return np.arange(len(self._l1))
        place = np.full(len(self._l1), -1, dtype=np.int64)
        place[self.places] = np.arange(len(self.places))
        return place

    def _take(self, places: IntArray) -> None:
        self.places, self._part = places, None
        self._interval = self._interval or _FIRST_INTERVAL
        if self._smaller is None:
            return
        zeros = np.ones(len(self._l1), dtype=np.bool_)
        zeros[places] = False
        function = self._smaller(zeros)
        if function is None:
            self._smaller = None
        else:
            self._part, self.places = function

    def state(self) -> State:
        """The set, as plain arrays."""
        counts = {"set_counts": np.array([self._steps, self._interval, int(self._off)], dtype=np.int64)}
        return counts if self.places is None else {"set_places": self.places, **counts}

    def restore(self, state: State) -> None:
        """Take over what `state` gave."""
        if "set_places" in state:
            self._take(state["set_places"])
        steps, interval, off = state["set_counts"].tolist()
        self._steps, self._interval, self._off = int(steps), int(interval), bool(off)
