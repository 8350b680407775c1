"""Orthant-wise quasi-Newton steps for an L1 penalty (Andrew and Gao, "Scalable training of L1-regularized log-linear
models", 2007).

The direction is L-BFGS's for the pseudo-gradient, without the coordinates in which it would ascend; the step ends where a
coordinate would leave its orthant. Far from an optimum that costs little and goes far. Near one the cut directions are
poor, and proximal steps (proximal.py) take over.

Most coordinates stay at 0 (working_set.py). The pairs of the others alone are also the better model of their curvature
(quadratic_model.py). A coordinate that begins to move has 0 in the pairs of earlier steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from fieldfit.optim.keeping import State
from fieldfit.optim.memory import Memory
from fieldfit.types import FloatArray, IntArray

#: Pairs of the L-BFGS direction.
_PAIRS = 8
#: Proximal steps take over when the last _WINDOW steps together decrease the value by less than this fraction of it.
_WINDOW, _SLOW = 5, 5e-4
#: They do so too after this many steps, and where more than this share of the steps had to be shortened.
_MOST_ORTHANT_STEPS, _SHORTENED = 100, 0.2


class OrthantSteps:
    """Directions from the last pairs of vectors of length ``size``, and whether such steps still bring enough."""

    def __init__(self, size: int) -> None:
        self._memory = Memory(size, _PAIRS, None)
        self._values: deque[float] = deque(maxlen=_WINDOW + 1)
        self._steps = self._shortened = 0

    def append(
        self,
        points: tuple[FloatArray, FloatArray],
        gradients: tuple[FloatArray, FloatArray],
        pseudo: FloatArray,
        value: float,
        *,
        shortened: bool,
    ) -> None:
        """Take in an accepted step between the (new, old) points, with the gradients of the smooth part there.

        ``pseudo`` is the pseudo-gradient and ``value`` the penalised value at the new point.
        """
        self._steps += 1
        self._shortened += shortened
        self._memory.append(points, gradients[0] - gradients[1], pseudo, None)
        self._values.append(value)

    def move(self, places: IntArray, pseudo: FloatArray) -> None:
        """Keep the pairs on other coordinates, as in `Memory.moved`; ``pseudo`` is the pseudo-gradient there."""
        self._memory = self._memory.moved(places, pseudo)

    @property
    def pairs(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """The steps and changes of the gradient that are kept, the oldest first, in double precision."""
        return ((step.astype(np.float64), change.astype(np.float64)) for step, change in self._memory.pairs)

    @property
    def slow(self) -> bool:
        """Whether such steps have become expensive or bring little."""
        values = self._values
        if self._steps >= _MOST_ORTHANT_STEPS or self._shortened > 1 + _SHORTENED * self._steps:
            return True
        return len(values) > _WINDOW and values[0] - values[-1] < _SLOW * abs(values[-1])

    def direction(self, x: FloatArray, pseudo: FloatArray) -> FloatArray:
        """−H · pseudo-gradient without the coordinates in which it ascends."""
        direction, trial = np.empty(x.size), np.empty(x.size)
        self._memory.direction(x, pseudo, None, direction, trial)
        if not len(self._memory):  # the scale is unknown: a step of about length 1
            direction /= max(1.0, float(np.sqrt(pseudo @ pseudo)))
        np.multiply(direction, pseudo, out=trial)
        direction[trial >= 0] = 0.0
        return direction

    def state(self) -> State:
        """What is remembered, as plain arrays."""
        pairs = {f"orthant_{name}": array for name, array in self._memory.state().items()}
        counts = np.array([self._steps, self._shortened], dtype=np.int64)
        return {**pairs, "orthant_values": np.array(self._values, dtype=np.float64), "orthant_counts": counts}

    def restore(self, state: State) -> None:
        """Take over what `state` gave."""
        prefix = "orthant_"
        self._memory.restore({name[len(prefix) :]: array for name, array in state.items() if name.startswith(prefix)})
        self._values.clear()
        self._values.extend(state["orthant_values"].tolist())
        self._steps, self._shortened = (int(count) for count in state["orthant_counts"])


def step_in_orthant(x: FloatArray, pseudo: FloatArray, direction: FloatArray, t: float) -> FloatArray:
    """x + t · direction, 0 where that would change the sign of a coordinate (or that of −pseudo where x is 0)."""
    moved = t * direction
    moved += x
    moved[np.where(x != 0, moved * x < 0, moved * pseudo > 0)] = 0.0
    return moved
