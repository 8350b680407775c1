"""The table of a fit for display: parameters, or effects if single parameters are not identified.

The parameters of free tables (a Potts model, a Markov random field) are determined only up to constants that move between
tables. Their rows of `Fit.table` have no standard errors; those of `Fit.effects` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.accuracies import fits_matrices
from fieldfit.api.estimate_table import EstimateTable, parameter_estimates

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.accuracies import Kind
    from fieldfit.api.standard_errors import StandardErrors

#: Most parameters for which effects replace the parameters automatically.
_MOST_PARAMETERS = 1_000


def identified_estimates(fit: StandardErrors, level: float = 0.95, kind: Kind = "robust") -> EstimateTable:
    """`Fit.table`, or `Fit.effects` if the model has free tables and more effects have standard errors."""
    table = parameter_estimates(fit, level, kind)
    # Shared parameters would have many, repeated effects.
    few = fit.model.n_parameters <= _MOST_PARAMETERS and fits_matrices(fit)
    if not (few and np.isnan(fit.dense_accuracy(kind).variances()).any() and fit.model.has_free_tables):
        return table
    effects = EstimateTable.of(fit.effects("corner", level, kind))
    known, more = (int(np.isfinite(rows.std_error).sum()) for rows in (table, effects))
    return effects if more > known else table


def identified_table(fit: StandardErrors, level: float = 0.95, kind: Kind = "robust") -> pd.DataFrame:
    """The same as a DataFrame; the name of its index says which: parameter or effect."""
    return identified_estimates(fit, level, kind).frame()
