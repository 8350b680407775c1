"""The root of A ḡ(θ) = Pθ/n by Newton steps whose derivative is computed again only where steps do not shrink."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.refinement.estimating import ConditionSums
from fieldfit.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Steps at most, and the length of a step, in standard errors, above which it is shortened.
_MOST_ROOT_STEPS, _LONGEST = 50, 5.0

#: Maps the equations to the step −(∂ equations/∂θ)⁻¹ · equations.
Solve = Callable[[FloatArray], FloatArray]


def newton_root(
    samples: ConditionSums,
    weights: FloatArray | csr_array,
    theta: FloatArray,
    free: BoolArray,
    precision: FloatArray,
    solver_at: Callable[[FloatArray], Solve],
    length_of: Callable[[FloatArray], float],
    stable: float,
) -> tuple[FloatArray, bool, int]:
    """θ with A ḡ(θ) = Pθ/n, whether it is a root, and the number of steps.

    ``weights`` are the rows of A for the free parameters, of which steps have an entry each; ``length_of(step)`` is in
    standard errors, and the root is found when it is at most ``stable``. The weights belong to the first estimate, so long
    steps are shortened.
    """
    keep = np.flatnonzero(free)
    solve: Solve | None = None
    previous = float("inf")
    for step in range(1, _MOST_ROOT_STEPS + 1):
        value = np.asarray(weights @ samples.mean(theta) - precision[keep] * theta[keep] / samples.total)
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
        theta[keep] += move * (_LONGEST / length if length > _LONGEST else 1.0)
        if length <= stable:
            return theta, True, step
    return theta, False, _MOST_ROOT_STEPS
