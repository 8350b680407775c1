"""When a standard error should not be taken at its word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldfit.asymptotics import Accuracy, ImplicitAccuracy
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    from fieldfit.api.accuracies import Kind
    from fieldfit.api.state import FitState

#: Samples for each parameter below which a robust meat is made of residuals that the fit itself has made small.
FEWEST_SAMPLES = 5


def few_samples(fit: FitState, kind: Kind) -> str:
    """A clause where there are too few samples for robust errors, or nothing.

    Corollary 1 lets n grow for fixed r. With few samples for each parameter a fit follows its samples, penalised or not,
    and the scores ψ_i(θ̂), of which the robust meat is the sum of squares, are smaller than those of new samples.
    """
    estimated = int(fit.free.sum())
    if kind != "robust" or fit.total >= FEWEST_SAMPLES * estimated:
        return ""
    share, far = fit.total / estimated, "far " if fit.total < estimated else ""
    return f"{share:.2g} samples for each parameter, robust errors may be {far}too small: compare kind='model'"


def simulated(accuracy: Accuracy, direction: FloatArray) -> str:
    """A clause on the Monte Carlo error of the standard error of one function aᵀθ̂ of many parameters, or nothing."""
    if not isinstance(accuracy, ImplicitAccuracy):
        return ""
    error = accuracy.simulation_error_of(direction)
    return "" if error is None else f"simulated, to about {100 * error:.1g}%"
