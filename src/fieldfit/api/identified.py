"""The table of a fit that a reader is shown: parameters, or effects where single parameters are not identified.

The parameters of free tables (a Potts model, a Markov random field) are determined only up to constants that move between
tables. Their rows of `Fit.table` have no standard errors; those of `Fit.effects` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.accuracies import fits_matrices
from fieldfit.models.field import FieldModel

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.accuracies import Kind
    from fieldfit.api.standard_errors import StandardErrors

#: Parameters up to which effects take the place of the parameters by themselves.
_MOST_PARAMETERS = 1_000


def identified_table(fit: StandardErrors, level: float = 0.95, kind: Kind = "robust") -> pd.DataFrame:
    """`Fit.table`, or `Fit.effects` where that has more rows with standard errors and the model has free tables.

    The name of the index says which: parameter or effect.
    """
    frame = fit.table(level, kind)
    if not _has_free_tables(fit) or not np.isnan(fit.dense_accuracy(kind).variances()).any():
        return frame
    effects = fit.effects("corner", level, kind)
    known, found = (int(table["std_error"].notna().sum()) for table in (frame, effects))
    return effects if found > known else frame


def _has_free_tables(fit: StandardErrors) -> bool:
    """Whether each parameter is one entry of one table. Effects of shared parameters would be many and repeated."""
    model = fit.model
    if not isinstance(model, FieldModel) or model.n_parameters > _MOST_PARAMETERS or not fits_matrices(fit):
        return False
    return bool(model.features.nnz == model.n_parameters)
