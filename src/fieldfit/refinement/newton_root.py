"""The root of A ḡ(θ) = Pθ/n by Newton steps whose derivative is computed again only where steps do not shrink."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fieldfit.types import BoolArray, FloatArray

#: Steps at most, and the length of a step, in standard errors, above which it is shortened.
_MOST_ROOT_STEPS, _LONGEST = 50, 5.0

#: Maps the equations to the step −(∂ equations/∂θ)⁻¹ · equations.
Solve = Callable[[FloatArray], FloatArray]


def newton_root(
    theta: FloatArray,
    free: BoolArray,
    equations: Callable[[FloatArray], FloatArray],
    solver_at: Callable[[FloatArray], Solve],
    length_of: Callable[[FloatArray], float],
    stable: float,
) -> tuple[FloatArray, bool, int]:
    """θ, whether it is a root, and the number of steps.

    ``equations(θ)`` and steps have an entry for each free parameter; ``length_of(step)`` is in standard errors, and the
    root is found when it is at most ``stable``. The weights A belong to the first estimate, so long steps are shortened.
    """
    keep = np.flatnonzero(free)
    solve: Solve | None = None
    previous = float("inf")
    for step in range(1, _MOST_ROOT_STEPS + 1):
        value = equations(theta)
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
