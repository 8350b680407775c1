"""The root of A ḡ(θ) = Pθ/n by Newton steps whose derivative is computed again only where steps do not shrink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.refinement.estimating import ConditionSums
from fieldfit.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Step, in standard errors, at which the estimate is stable.
STABLE_STEP = 1e-4
#: Steps at most, and the length of a step, in standard errors, above which it is shortened.
_MOST_ROOT_STEPS, _LONGEST = 50, 5.0

#: Maps the equations to the step −(∂ equations/∂θ)⁻¹ · equations.
Solve = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class MomentEquations:
    """A ḡ(θ) = Pθ/n, with the ``weights`` A (free parameters, p) of the conditions and the ``precision`` P (r,)."""

    samples: ConditionSums
    weights: FloatArray | csr_array
    free: BoolArray
    precision: FloatArray

    @cached_property
    def keep(self) -> IntArray:
        """The places of the free parameters in θ."""
        return np.flatnonzero(self.free)

    def value(self, theta: FloatArray) -> FloatArray:
        """A ḡ(θ) − Pθ/n (free parameters,)."""
        penalty = self.precision[self.keep] * theta[self.keep] / self.samples.total
        return np.asarray(self.weights @ self.samples.mean(theta) - penalty)


def newton_root(
    equations: MomentEquations,
    theta: FloatArray,
    solver_at: Callable[[FloatArray], Solve],
    length_of: Callable[[FloatArray], float],
    stable: float,
) -> tuple[FloatArray, bool, int]:
    """θ that solves the equations, whether it is a root, and the number of steps.

    Steps have an entry for each free parameter; ``length_of(step)`` is in standard errors, and the root is found when it is
    at most ``stable``. The weights belong to the first estimate, so long steps are shortened.
    """
    solve: Solve | None = None
    previous = float("inf")
    for step in range(1, _MOST_ROOT_STEPS + 1):
        value = equations.value(theta)
        if solve is None:
            solve = solver_at(theta)
        move = solve(value)
        length = length_of(move)
        if not np.isfinite(length) or length > 2 * previous:
            return theta, False, step
        if length > 0.5 * previous:
            solve = None
        previous = length
        theta = theta.copy()
        theta[equations.keep] += move * (_LONGEST / length if length > _LONGEST else 1.0)
        if length <= stable:
            return theta, True, step
    return theta, False, _MOST_ROOT_STEPS
