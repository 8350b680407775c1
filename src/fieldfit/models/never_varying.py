"""Which statistics never vary over the samples.

If two variables are never 1 together, or a column is constant, then the statistic of a parameter is the same in every
sample. Without a penalty its estimate is at infinity. With one it is finite, but the samples have no spread from which
to compute its standard error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.samples import Table
from fieldfit.types import BoolArray, IntArray

if TYPE_CHECKING:
    from fieldfit.models.field import FieldModel

#: Entries of tables (rows × factors) that are looked up at once.
_MOST_ENTRIES = 4_000_000


def never_varying(model: FieldModel, table: Table) -> BoolArray:
    """Parameters (r,) whose features have the same value wherever the samples have them.

    The factors of a parameter are taken together: of one lattice with shared parameters its sites vary.
    """
    graph, features = model.graph, model.features.tocsc()
    observed = _observed_entries(model, table)
    factor_of = np.repeat(np.arange(len(graph.scopes)), graph.table_sizes)
    counts = np.bincount(factor_of[observed], minlength=len(graph.scopes))
    parameter = np.repeat(np.arange(model.n_parameters), np.diff(features.indptr))
    filled = features.data != 0
    entry, parameter, value = features.indices[filled], parameter[filled], features.data[filled]
    pairs, place = np.unique(parameter * len(graph.scopes) + factor_of[entry], return_inverse=True)
    seen = observed[entry]
    # Observed entries of a factor that a parameter has no feature at: the value there is 0.
    zeros = counts[pairs % len(graph.scopes)] - np.bincount(place[seen], minlength=len(pairs))
    has_zero = np.bincount(pairs // len(graph.scopes), weights=zeros, minlength=model.n_parameters) > 0
    lowest, highest = np.where(has_zero, 0.0, np.inf), np.where(has_zero, 0.0, -np.inf)
    np.minimum.at(lowest, parameter[seen], value[seen])
    np.maximum.at(highest, parameter[seen], value[seen])
    constant: BoolArray = ~(lowest < highest)
    return constant


def _observed_entries(model: FieldModel, table: Table) -> BoolArray:
    """Which entries of the factors' tables some sample (with a positive weight, known where the factor is) has."""
    graph, codes = model.graph, table.codes
    if table.sample_weight is not None:
        codes = codes[table.sample_weight > 0]
    observed = np.zeros(graph.table_size, dtype=bool)
    open_factors: IntArray = np.arange(len(graph.scopes))
    start = 0
    while start < len(codes) and len(open_factors):
        rows = codes[start : start + max(1, _MOST_ENTRIES // len(open_factors))]
        start += len(rows)
        entries = graph.entries(np.maximum(rows, 0), open_factors)
        if table.has_missing:
            scopes = graph.scope_matrix[open_factors]
            entries = entries[((rows[:, scopes] >= 0) | (scopes < 0)).all(axis=2)]
        observed[entries] = True
        missed = np.add.reduceat(~observed, graph.offsets[:-1], dtype=np.int64) if len(observed) else observed
        open_factors = open_factors[missed[open_factors] > 0]
    return observed
