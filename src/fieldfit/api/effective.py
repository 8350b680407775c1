"""The effective number of parameters tr(bread⁻¹ meat), and its Monte Carlo error if it is simulated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.variance import DenseAccuracy, ImplicitAccuracy, Moments

if TYPE_CHECKING:
    from fieldfit.api.accuracies import Kind
    from fieldfit.api.standard_errors import StandardErrors


def effective_parameters(fit: StandardErrors, kind: Kind) -> tuple[float, float]:
    """tr(bread⁻¹ meat) and its Monte Carlo error, which is 0 if neither the trace nor the matrices are simulated.

    Importance weights count as ``fit.total`` samples of equal weight, so that their scale does not matter.
    """
    accuracy = fit.accuracy(kind)
    if isinstance(accuracy, DenseAccuracy):
        count, error = accuracy.effective_parameters(), _simulation_error(accuracy)
    else:
        assert isinstance(accuracy, ImplicitAccuracy)
        count, error = accuracy.effective_parameters()
    return count / fit.unit_weight, error / fit.unit_weight


def _simulation_error(accuracy: DenseAccuracy) -> float:
    """The error of the trace due to simulated bread and meat, by leaving out one simulated part at a time."""
    parts = accuracy.moments.replicates
    count = len(parts)
    if count < 2:
        return 0.0
    breads, meats = sum(part[0] for part in parts), sum(part[1] for part in parts)
    values = []
    for bread, meat in parts:
        rest = Moments((breads - bread) / (count - 1), (meats - meat) / (count - 1), accuracy.moments.total, "")
        values.append(replace(accuracy, moments=rest).effective_parameters())
    return float(np.sqrt((count - 1) * np.var(values)))
