"""The same problem in other units: with u = s x the optimiser sees g(u) = f(u / s).

A tolerance for the gradient means the same for every parameter only if a step of 1 does. Where features have very
different sizes, x is measured in units of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.optim.descent import ValueGradient
from fieldfit.optim.newton import HessianProduct
from fieldfit.optim.preconditioner import Preconditioner
from fieldfit.optim.settling import Settling
from fieldfit.optim.solution import Callback, Progress, Solution
from fieldfit.optim.working_set import Smaller
from fieldfit.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Units:
    """``scale`` (n_parameters,) is s. Powers of two change no bit of what is computed."""

    scale: FloatArray

    def fun(self, fun: ValueGradient) -> ValueGradient:
        """g and its gradient."""

        def scaled(u: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = fun(u / self.scale)
            return value, gradient / self.scale

        return scaled

    def smaller(self, smaller: Smaller | None) -> Smaller | None:
        """g without coordinates that are 0, from the same of f."""
        if smaller is None:
            return None

        def scaled(zeros: BoolArray) -> tuple[ValueGradient, IntArray] | None:
            part = smaller(zeros)
            return None if part is None else (Units(self.scale[part[1]]).fun(part[0]), part[1])

        return scaled

    def hessian_product(self, product: HessianProduct | None) -> HessianProduct | None:
        """The Hessian of g times a vector."""
        if product is None:
            return None

        def scaled(u: FloatArray, v: FloatArray) -> FloatArray:
            image: FloatArray = product(u / self.scale, v / self.scale) / self.scale
            return image

        return scaled

    def matrix(
        self, function: Callable[[FloatArray], FloatArray] | None
    ) -> Callable[[FloatArray], FloatArray] | None:
        """A function that gives the Hessian or its diagonal, for g."""
        if function is None:
            return None

        def scaled(u: FloatArray) -> FloatArray:
            curvature = function(u / self.scale)
            if curvature.ndim == 2:
                return curvature / np.outer(self.scale, self.scale)
            return curvature / self.scale**2

        return scaled

    def settling(self, settling: Settling) -> Settling:
        """The same distances, with the Hessian of g."""
        return settling.scaled(self.scale, self.matrix(settling.matrix))

    def preconditioner(self, near: Preconditioner | None) -> Preconditioner | None:
        """An operator near the inverse Hessian, or the diagonal of the Hessian, for g."""
        if near is None:
            return None
        if not callable(near):
            return np.asarray(near) / self.scale**2
        operator = near

        def scaled(v: FloatArray) -> FloatArray:
            image: FloatArray = operator(v * self.scale) * self.scale
            return image

        return scaled

    def callback(self, callback: Callback | None) -> Callback | None:
        """The caller's function sees x."""
        if callback is None:
            return None

        def scaled(state: Progress, u: FloatArray) -> object:
            return callback(state, u / self.scale)

        return scaled

    def solution(self, solution: Solution) -> Solution:
        """The solution as x with the gradient of f; ``gradient_norm`` stays what was compared with the tolerance."""
        return replace(solution, x=solution.x / self.scale, gradient=solution.gradient * self.scale)
