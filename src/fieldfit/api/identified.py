"""The table of a fit that a reader is shown: parameters, or effects where single parameters are not identified.

The parameters of free tables (a Potts model, a Markov random field) are determined only up to constants that move between
tables. Their rows of `Fit.table` have no standard errors; those of `Fit.effects` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.accuracies import fits_matrices
from fieldfit.api.estimate_table import EstimateTable, parameter_estimates
from fieldfit.models.field import FieldModel

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.accuracies import Kind
    from fieldfit.api.standard_errors import StandardErrors

#: Parameters up to which effects take the place of the parameters by themselves.
_MOST_PARAMETERS = 1_000


def identified_estimates(fit: StandardErrors, level: float = 0.95, kind: Kind = "robust") -> EstimateTable:
    """`Fit.table`, or `Fit.effects` where that has more rows with standard errors and the model has free tables."""
    table = parameter_estimates(fit, level, kind)
    if not np.isnan(fit.dense_accuracy(kind).variances()).any() or not _has_free_tables(fit):
        return table
    effects = EstimateTable.of(fit.effects("corner", level, kind))
    known, found = (int(np.isfinite(one.std_error).sum()) for one in (table, effects))
    return effects if found > known else table


def identified_table(fit: StandardErrors, level: float = 0.95, kind: Kind = "robust") -> pd.DataFrame:
    """The same as a DataFrame; the name of its index says which: parameter or effect."""
    return identified_estimates(fit, level, kind).frame()


def _has_free_tables(fit: StandardErrors) -> bool:
    """Whether each parameter is one entry of one table. Effects of shared parameters would be many and repeated."""
    model = fit.model
    if not isinstance(model, FieldModel) or model.n_parameters > _MOST_PARAMETERS or not fits_matrices(fit):
        return False
    return bool(model.features.nnz == model.n_parameters)
