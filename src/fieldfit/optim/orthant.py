"""L1 penalties: minimise f(x) + Σ_i l1_i |x_i| one orthant at a time (OWL-QN).

Andrew and Gao, "Scalable training of L1-regularized log-linear models", 2007. The pseudo-gradient is the steepest
one-sided derivative; a step stays in the orthant that it points to, so the penalty is linear along it, and
coordinates that would change sign become exactly 0. The elastic net is this with the caller's L2 term inside f.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fieldfit import _kernels
from fieldfit.optim.line_search import Outcome
from fieldfit.threads import get_threads
from fieldfit.types import FieldfitError, FloatArray

_DECREASE = 1e-4
_NOISE = 1e-14


class OrthantPenalty:
    """The weights l1 (n_parameters,) ≥ 0 and the pseudo-gradient at the current point."""

    def __init__(self, l1: FloatArray | float, size: int) -> None:
        weights = np.asarray(l1, dtype=np.float64)
        if weights.ndim != 0 and weights.shape != (size,):
            raise FieldfitError(
                f"The L1 weights have shape {weights.shape}; with {size} parameters give one number or ({size},)."
            )
        self.weights = np.ascontiguousarray(np.broadcast_to(weights, (size,)))
        good = np.isfinite(self.weights) & (self.weights >= 0)
        if not good.all():
            at = int(np.argmin(good))
            raise FieldfitError(f"L1 weights must be finite and at least 0; entry {at} is {self.weights[at]}.")
        self.pseudo = np.zeros(size)

    def look(self, x: FloatArray, gradient: FloatArray) -> tuple[float, float]:
        """Set `pseudo` for the point x; returns Σ l1 |x| and max |pseudo|."""
        return _kernels.pseudo_gradient(x, gradient, self.weights, self.pseudo, get_threads())

    def progress(self, x: FloatArray, trial: FloatArray) -> tuple[float, float]:
        """Σ l1 |trial| and the decrease that the slope promises, pseudo·(trial − x)."""
        return _kernels.orthant_progress(x, trial, self.pseudo, self.weights, get_threads())


def backtrack(
    evaluate: Callable[[float], tuple[float, float]], value: float, step: float, limit: int = 40
) -> tuple[float, Outcome]:
    """Shorten the step until the value falls by 1e-4 of the promise; ``evaluate(t)`` gives value and promise.

    Returns the value there. The last call of ``evaluate`` is at the step that was accepted.
    """
    for _ in range(limit):
        trial, promise = evaluate(step)
        if trial == -math.inf:
            return trial, Outcome.UNBOUNDED
        if math.isfinite(trial):
            if promise < 0 and trial <= value + _DECREASE * promise + _NOISE * abs(value):
                return trial, Outcome.FOUND
            # The minimum of the parabola through both values with the promised slope.
            excess = trial - value - promise
            fraction = -promise / (2.0 * excess) if excess > 0 else 0.5
            step *= min(max(fraction, 0.1), 0.5)
        else:
            step *= 0.2
    return value, Outcome.FAILED
