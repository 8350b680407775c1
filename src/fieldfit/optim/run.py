"""The account of one optimisation: counts, clock, history and the checks of what the callables return."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

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


class Run:
    """Counts evaluations and Hessian products, keeps the history and builds the Solution."""

    def __init__(self, fun: ValueGradient, size: int, callback: Callback | None) -> None:
        self._fun = fun
        self._size = size
        self._callback = callback
        self._start = time.perf_counter()
        self.evaluations = 0
        self.hessian_products = 0
        self.history: list[Progress] = []

    def evaluate(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The value and the gradient at x, as a float and a contiguous vector of doubles."""
        self.evaluations += 1
        value, gradient = self._fun(x)
        gradient = np.ascontiguousarray(gradient, dtype=np.float64)
        if gradient.shape != (self._size,):
            raise FieldfitError(
                f"The objective returned a gradient of shape {gradient.shape}; with {self._size} parameters it must "
                f"have shape ({self._size},)."
            )
        return float(value), gradient

    def record(self, value: float, gradient_norm: float, x: FloatArray) -> bool:
        """Add a line to the history and call the callback; true if the callback asks to stop."""
        progress = Progress(len(self.history), value, gradient_norm, time.perf_counter() - self._start)
        self.history.append(progress)
        if self._callback is None:
            return False
        view = x.view()
        view.flags.writeable = False
        return bool(self._callback(progress, view))

    def solution(
        self, x: FloatArray, value: float, gradient: FloatArray, gradient_norm: float, status: Status
    ) -> Solution:
        """The Solution at x. A run that was interrupted before its first value has NaN for it."""
        return Solution(
            x=x,
            value=value,
            gradient=gradient,
            gradient_norm=gradient_norm,
            iterations=max(0, len(self.history) - 1),
            evaluations=self.evaluations,
            hessian_products=self.hessian_products,
            seconds=time.perf_counter() - self._start,
            converged=status.converged,
            status=status,
            message=status.value,
            history=tuple(self.history),
        )


def small_change(previous: float, value: float, ftol: float) -> bool:
    """Whether the decrease is at most ftol · max(|previous|, |value|, 1); never with ftol = 0."""
    return ftol > 0 and math.isfinite(value) and previous - value <= ftol * max(abs(previous), abs(value), 1.0)
