"""Which means and correlations of the data a refined model does not have, where Hansen's J says that it is wrong.

The differences are in standard errors √(v (1/n + 1/draws)), with v = p(1 − p) for a mean p and v = (1 − ρ²)² for a
correlation ρ. Named are those beyond the normal quantile at which one of all would be named by chance with probability 5%.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.moments import MomentTable, fit_moments
from fieldfit.data.samples import Table
from fieldfit.types import FieldfitError

if TYPE_CHECKING:
    from fieldfit.api.state import FitState

#: Draws from the model: as many as samples, within these limits.
_FEWEST_DRAWS, _MOST_DRAWS = 10_000, 100_000
_MISFIT_LEVEL = 0.05


def differing_moments(fit: FitState) -> str:
    """The means and correlations that differ most between the data and a fitted field, as a sentence.

    Nothing where they cannot be compared: without the samples, for chains and conditional fields, and where the model has
    no exact draws.
    """
    if fit.prepared is None or not fit.model.joint or not isinstance(fit.prepared.dataset, Table):
        return ""
    draws = int(min(max(fit.total, _FEWEST_DRAWS), _MOST_DRAWS))
    try:
        tables = fit_moments(fit, draws=draws, method="exact")
    except FieldfitError:
        return ""
    weighted = fit.prepared.dataset.sample_weight is not None  # only means are weighted there
    told = [_far(table, 1 / fit.total + 1 / draws) for table in tables[: 1 if weighted else 2]]
    named = [text for text in told if text]
    if not named:
        kinds = " or ".join(table.kind for table in tables[: len(told)])
        return (
            f"No single {kinds} differs by more than chance between data and model: the misfit is spread over many of them "
            "or is in joint states of three and more variables (the page of the fit compares triplets)"
        )
    return f"Data and model differ in {' and in '.join(named)}"


def _far(table: MomentTable, noise: float) -> str:
    """How many moments of one kind differ, and the one that differs most."""
    from scipy.stats import norm

    data, model = table.values
    share = (data + model) / 2
    variance = np.square(1.0 - data**2) if table.kind == "correlation" else share * (1.0 - share)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.abs(model - data) / np.sqrt(variance * noise)
    z = np.where(np.isfinite(z), z, 0.0)
    limit = float(norm.isf(_MISFIT_LEVEL / 2 / len(z)))
    count, worst = int((z > limit).sum()), int(z.argmax())
    if not count:
        return ""
    return (
        f"{count} of {len(z):,} {table.plural} by more than {limit:.1f} standard errors, most in {table.names[worst]} "
        f"({data[worst]:.3f} in the data, {model[worst]:.3f} in the model, {z[worst]:.1f} standard errors)"
    )
