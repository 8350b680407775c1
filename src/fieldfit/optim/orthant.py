"""Orthant-wise quasi-Newton steps for an L1 penalty (Andrew and Gao, "Scalable training of L1-regularized log-linear
models", 2007).

The direction is L-BFGS's for the pseudo-gradient, without the coordinates in which it would ascend; the step ends where a
coordinate would leave its orthant. Far from an optimum that costs little and goes far. Near one the cut directions are
poor, and proximal steps (proximal.py) take over.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from fieldfit.types import FloatArray

#: Pairs of the L-BFGS direction.
_PAIRS = 8
#: Proximal steps take over when the last _WINDOW steps together decrease the value by less than this fraction of it.
_WINDOW, _SLOW = 5, 5e-4
#: They do so too after this many steps, and where more than this share of the steps had to be shortened.
_MOST_STEPS, _SHORTENED = 100, 0.2


class OrthantSteps:
    """Directions from the last pairs, and whether such steps still bring enough."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=_PAIRS)
        self._values: deque[float] = deque(maxlen=_WINDOW + 1)
        self._steps = self._shortened = 0

    def append(self, step: FloatArray, change: FloatArray, value: float, *, shortened: bool) -> None:
        """Take in an accepted step with the change of the smooth part's gradient and the penalised value after it."""
        self._steps += 1
        self._shortened += shortened
        curvature = float(step @ change)
        if curvature > 1e-10 * float(change @ change) ** 0.5 * float(step @ step) ** 0.5:
            self._pairs.append((step, change, curvature))
        self._values.append(value)

    @property
    def pairs(self) -> list[tuple[FloatArray, FloatArray]]:
        """The steps and changes of the gradient that are kept, the oldest first."""
        return [(step, change) for step, change, _ in self._pairs]

    @property
    def slow(self) -> bool:
        """Whether such steps have become expensive or bring little."""
        values = self._values
        if self._steps >= _MOST_STEPS or self._shortened > 1 + _SHORTENED * self._steps:
            return True
        return len(values) > _WINDOW and values[0] - values[-1] < _SLOW * abs(values[-1])

    def direction(self, pseudo: FloatArray) -> FloatArray:
        """−H · pseudo-gradient without the coordinates in which it ascends."""
        q = pseudo.copy()
        weights = []
        for step, change, curvature in reversed(self._pairs):
            weight = float(step @ q) / curvature
            q -= weight * change
            weights.append(weight)
        if self._pairs:
            _, change, curvature = self._pairs[-1]
            q *= curvature / float(change @ change)
        else:
            q /= max(1.0, float(np.sqrt(pseudo @ pseudo)))
        for (step, change, curvature), weight in zip(self._pairs, reversed(weights), strict=True):
            q += (weight - float(change @ q) / curvature) * step
        np.negative(q, out=q)
        q[q * pseudo >= 0] = 0.0
        return q


def step_in_orthant(x: FloatArray, pseudo: FloatArray, direction: FloatArray, t: float) -> FloatArray:
    """x + t · direction, 0 where that would change the sign of a coordinate (or that of −pseudo where x is 0)."""
    moved = x + t * direction
    moved[moved * np.where(x != 0, x, -pseudo) < 0] = 0.0
    return moved
