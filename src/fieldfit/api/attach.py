"""Attach samples to a loaded fit. The same seed draws the same Z, so everything that needs data works again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fieldfit.api.prepare import prepare
from fieldfit.api.refine import refined_again
from fieldfit.api.result import Fit
from fieldfit.types import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

#: Relative difference of the objective at θ̂ above which the samples are not those of the fit.
_SAME_OBJECTIVE = 1e-6


def attach(
    fit: Fit,
    data: object,
    *,
    sample_weight: ArrayLike | str | None = None,
    weight_kind: str = "importance",
    groups: ArrayLike | str | None = None,
) -> Fit:
    """Return the fit with its samples. Raises DataError if they do not reproduce the fit's objective."""
    dataset = fit.model.read(data, sample_weight=sample_weight, weight_kind=weight_kind, groups=groups)
    prepared = prepare(
        fit.model,
        dataset,
        fit.policy.bind(fit.model.structure(dataset)),
        penalty=fit.penalty,
        start=fit.theta,
        free=fit.free,
        random_state=fit.random_state,
        wide_rows="drop" if len(fit.dropped_rows) else "refuse",
    )
    if prepared.dataset.n != fit.n:
        raise DataError(
            f"The fit was made from {fit.n:,} samples, and these are {prepared.dataset.n:,}. Give the data that were "
            "fitted."
        )
    had, given = fit.size.groups or 0, prepared.dataset.n_groups or 0
    if had != given:
        raise DataError(f"The fit had {had:,} groups, and these samples have {given:,}. Give the groups of the fit.")
    value = -prepared.objective.value_grad(fit.theta[fit.free])[0] - fit.penalty.l1_value(fit.theta, fit.free)
    if abs(value - fit.objective) > _SAME_OBJECTIVE * max(1.0, abs(fit.objective)):
        raise DataError(
            f"These are not the samples that were fitted: the objective at the fit's θ was {fit.objective:.6f}, and for "
            f"these samples it is {value:.6f}. Give the same data, in the same order and with the same weights."
        )
    attached = replace(fit, prepared=prepared)
    return attached if fit.refinement is None else refined_again(attached)
