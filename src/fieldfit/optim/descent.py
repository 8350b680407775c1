"""What every descent shares, whatever its steps are: the loop, its criteria, and a point that an interrupt cannot tear."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from fieldfit.optim.run import Run, small_change
from fieldfit.optim.solution import Solution, Status
from fieldfit.types import FloatArray


@dataclass(frozen=True)
class Point:
    """A point with what is known there: one object, so that an interrupt never sees half of a change.

    Under an L1 penalty ``value`` has the penalty in it, ``gradient`` is that of the smooth part and ``norm`` that of the
    pseudo-gradient.
    """

    x: FloatArray
    gradient: FloatArray
    value: float = math.nan
    norm: float = math.nan


class Descent(ABC):
    """One run: the current point and the account of the work. A method says how it begins and what a step is."""

    def __init__(self, run: Run, x: FloatArray) -> None:
        self.current = Point(x, np.full(x.size, np.nan))
        self._run = run

    @abstractmethod
    def begin(self) -> bool:
        """Evaluate the start; false if the value or the gradient is not finite there."""

    @abstractmethod
    def step(self, gtol: float) -> Status | None:
        """Move `current` to a better point, or say why that cannot be done."""

    def minimise(self, gtol: float, ftol: float, max_iter: int) -> Solution:
        """Descend until a criterion holds or the user interrupts; the last accepted point either way."""
        try:
            status = self._iterate(gtol, ftol, max_iter)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        at = self.current
        return self._run.solution(at.x, at.value, at.gradient, at.norm, status)

    def _iterate(self, gtol: float, ftol: float, max_iter: int) -> Status:
        if not self.begin():
            return Status.NOT_FINITE
        if self._recorded():
            return Status.CALLBACK
        for _ in range(max_iter):
            if self.current.norm <= gtol:
                return Status.CONVERGED
            previous = self.current.value
            if (status := self.step(gtol)) is not None:
                return status
            if self._recorded():
                return Status.CALLBACK
            if self.current.norm > gtol and small_change(previous, self.current.value, ftol):
                return Status.SMALL_CHANGE
        return Status.CONVERGED if self.current.norm <= gtol else Status.ITERATION_LIMIT

    def _recorded(self) -> bool:
        """Tell the callback; true if it asks to stop."""
        return self._run.record(self.current.value, self.current.norm, self.current.x)
