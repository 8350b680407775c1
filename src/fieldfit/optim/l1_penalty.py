"""The penalty Σ_i l1_i |x_i|: its weights, and how far a point is from the optimality conditions.

At an optimum of f(x) + Σ l1 |x| the gradient of f is −l1 sign(x) where x ≠ 0 and lies in [−l1, l1] where x = 0. The
pseudo-gradient is the steepest one-sided derivative; it is 0 exactly there, and its largest entry is what is compared
with the tolerance.
"""

from __future__ import annotations

import numpy as np

from fieldfit import _kernels
from fieldfit.threads import get_threads
from fieldfit.types import FieldfitError, FloatArray


class L1Penalty:
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
        return _kernels.pseudo_gradient(x, gradient, self.weights, pseudo=self.pseudo, n_threads=get_threads())
