"""What every descent shares, whatever its steps are: the loop, its criteria, the account of the work and its Solution.

The current point is one object, so that an interrupt never sees half of a change.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldfit.optim.solution import Callback, Progress, Solution, Status
from fieldfit.types import FieldfitError, FloatArray

#: x ↦ (value, gradient), to be minimised. The gradient may live in a buffer that the next call overwrites.
ValueGradient = Callable[[FloatArray], tuple[float, FloatArray]]


def start_point(x0: FloatArray) -> FloatArray:
    """A copy of x0 as a contiguous vector of doubles; refuses other shapes and numbers that are not finite."""
    x = np.array(x0, dtype=np.float64, order="C")
    if x.ndim != 1:
        raise FieldfitError(f"The start x0 must be a vector; it has shape {x.shape}.")
    if not np.isfinite(x).all():
        raise FieldfitError(f"The start x0 must be finite; entry {int(np.argmin(np.isfinite(x)))} is not.")
    return x


@dataclass(frozen=True)
class Point:
    """A point with what is known there.

    Under an L1 penalty ``value`` has the penalty in it, ``gradient`` is that of the smooth part and ``norm`` that of the
    pseudo-gradient.
    """

    x: FloatArray
    gradient: FloatArray
    value: float = math.nan
    norm: float = math.nan


class Descent(ABC):
    """One run: the current point and the account of the work. A method says how it begins and what a step is."""

    def __init__(self, fun: ValueGradient, x: FloatArray, callback: Callback | None) -> None:
        self.current = Point(x, np.full(x.size, np.nan))
        self._fun = fun
        self._callback = callback
        self._start = time.perf_counter()
        self._evaluations = 0
        self._hessian_products = 0
        self._history: list[Progress] = []

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
        return Solution(
            x=at.x,
            value=at.value,
            gradient=at.gradient,
            gradient_norm=at.norm,
            iterations=max(0, len(self._history) - 1),
            evaluations=self._evaluations,
            hessian_products=self._hessian_products,
            seconds=time.perf_counter() - self._start,
            converged=status.converged,
            status=status,
            message=status.value,
            history=tuple(self._history),
        )

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
            value = self.current.value
            small = (
                ftol > 0 and math.isfinite(value) and previous - value <= ftol * max(abs(previous), abs(value), 1.0)
            )
            if small and self.current.norm > gtol:
                return Status.SMALL_CHANGE
        return Status.CONVERGED if self.current.norm <= gtol else Status.ITERATION_LIMIT

    def _recorded(self) -> bool:
        """Add a line to the history and call the callback; true if it returns a request to stop."""
        at = self.current
        progress = Progress(len(self._history), at.value, at.norm, time.perf_counter() - self._start)
        self._history.append(progress)
        if self._callback is None:
            return False
        view = at.x.view()
        view.flags.writeable = False
        return bool(self._callback(progress, view))

    def _evaluate(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The value and the gradient at x, as a float and a contiguous vector of doubles."""
        self._evaluations += 1
        value, gradient = self._fun(x)
        gradient = np.ascontiguousarray(gradient, dtype=np.float64)
        if gradient.shape != (x.size,):
            raise FieldfitError(
                f"The objective returned a gradient of shape {gradient.shape}; with {x.size} parameters it must "
                f"have shape ({x.size},)."
            )
        return float(value), gradient
