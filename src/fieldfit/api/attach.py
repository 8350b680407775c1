"""A loaded fit with its samples again: the same seed draws the same Z, so everything that needs data works."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fieldfit.api.result import Fit
from fieldfit.objective import Objective
from fieldfit.types import DataError

#: Relative difference of the objective at θ̂ beyond which the samples are others than those that were fitted.
_SAME = 1e-6


def attach(fit: Fit, data: Any, *, sample_weight: Any = None, weight_kind: str = "importance") -> Fit:
    """The fit with the samples that it was made from; DataError where its objective does not come out for them."""
    dataset = fit.model.read(data, sample_weight=sample_weight, weight_kind=weight_kind)
    bound = fit.policy.bind(fit.model.structure(dataset))
    dataset = dataset if bound.everything else dataset.copies()
    bound = fit.policy.bind(fit.model.structure(dataset))  # copies of sequences are sequences of their own
    if len(fit.dropped_rows) and dataset.n == fit.n + len(fit.dropped_rows):
        kept = np.setdiff1d(np.arange(dataset.n), fit.dropped_rows)
        dataset = dataset.subset(kept)
    if dataset.n != fit.n:
        raise DataError(
            f"The fit was made from {fit.n:,} samples, and these are {dataset.n:,}. Give the data that were fitted."
        )
    problem = fit.model.compile(dataset, bound.draw(fit.random_state, 0, dataset.n))
    objective = Objective(problem, 1.0 / fit.sigma2, fit.theta, fit.free, dataset.sample_weight)
    value = -objective.value_grad(fit.theta[fit.free])[0]
    if fit.l1 is not None:
        value -= float(fit.l1[fit.free] @ np.abs(fit.theta[fit.free]))
    if abs(value - fit.objective) > _SAME * max(1.0, abs(fit.objective)):
        raise DataError(
            f"These are not the samples that were fitted: the objective at the fit's θ was {fit.objective:.6f}, and for "
            f"these samples it is {value:.6f}. Give the same data, in the same order and with the same weights."
        )
    return replace(fit, dataset=dataset, objective_function=objective)
