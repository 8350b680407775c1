"""The same problem in other coordinates: with x = T y the optimiser sees g(y) = f(T y)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.optim.descent import ValueGradient
from fieldfit.optim.solution import Callback, Progress, Solution
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    from fieldfit.models.potts_coordinates import CentredCoordinates


@dataclass(frozen=True)
class Transformed:
    """A problem in ``coordinates``."""

    coordinates: CentredCoordinates

    def fun(self, fun: ValueGradient) -> ValueGradient:
        """g and its gradient."""

        def transformed(y: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = fun(self.coordinates.to_theta(y))
            return value, self.coordinates.gradient(gradient)

        return transformed

    def hessian(self, hessian: Callable[[FloatArray], FloatArray]) -> Callable[[FloatArray], FloatArray]:
        """The Hessian of g, TᵀHT: both its rows and its columns are mapped as gradients are."""

        def transformed(y: FloatArray) -> FloatArray:
            rows = np.array([self.coordinates.gradient(row) for row in hessian(self.coordinates.to_theta(y))])
            return np.array([self.coordinates.gradient(row) for row in rows.T])

        return transformed

    def callback(self, callback: Callback | None) -> Callback | None:
        """The caller's function sees x."""
        if callback is None:
            return None

        def transformed(state: Progress, y: FloatArray) -> object:
            return callback(state, self.coordinates.to_theta(y))

        return transformed

    def solution(self, solution: Solution) -> Solution:
        """The solution as x with the gradient of f; ``gradient_norm`` stays what was compared with the tolerance."""
        x = self.coordinates.to_theta(solution.x)
        return replace(solution, x=x, gradient=self.coordinates.gradient_by_theta(solution.gradient))
