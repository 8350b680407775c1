"""All possible states of a small field, with their probabilities given the known values of each sample.

Expectations under the model are then finite sums:  Σ_i w_i E[f(X_i)] = Σ_x f(x) Σ_i w_i p_θ(x | observed values of i).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table, as_table
from fieldfit.types import DataError, FloatArray, Int32Array, IntArray

if TYPE_CHECKING:
    from fieldfit.models.field import FieldModel


def expected_states(
    model: FieldModel, theta: FloatArray, dataset: Dataset, most: int
) -> tuple[Table, FloatArray, FloatArray] | None:
    """All possible states given each distinct observation and pattern of missing values, with Σ w p and Σ w² p.

    Counts are copies, so with counts the second sum is that of w p. None if there would be more than ``most`` states,
    or if samples are in pieces whose observations or missing values are not known here.
    """
    free = [v for v in range(model.m) if v not in model.observed]
    shape = [model.graph.cardinalities[v] for v in free]
    states = math.prod(shape)
    if states > most:
        return None
    if dataset.in_pieces and (model.observed or dataset.has_missing):
        return None
    patterns, which = _patterns(model, dataset)
    if len(patterns) * states > most:
        return None
    grid = np.indices(shape, dtype=np.int32).reshape(len(free), -1).T
    codes: Int32Array = np.repeat(patterns, states, axis=0)
    codes[:, free] = np.tile(grid, (len(patterns), 1))
    logs = model.log_tables(theta)[model.graph.entries(codes)].sum(axis=1).reshape(len(patterns), states)
    probability = np.exp(logs - logs.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    codes[np.repeat(patterns < 0, states, axis=0)] = -1
    weight = np.ones(dataset.n) if dataset.sample_weight is None else dataset.sample_weight
    once = np.bincount(which, weight, len(patterns))
    squared = np.bincount(which, weight if dataset.has_counts else weight**2, len(patterns))
    possible = (logs > -np.inf).reshape(-1)  # the model may forbid some
    table = Table(np.ascontiguousarray(codes[possible]), model.names, model.states)
    sums = [(probability * weights[:, None]).reshape(-1)[possible] for weights in (once, squared)]
    return table, sums[0], sums[1]


def _patterns(model: FieldModel, dataset: Dataset) -> tuple[Int32Array, IntArray]:
    """The distinct observations (patterns, m) and that of each sample (n,).

    Missing values are -1, and modelled values 0.
    """
    if dataset.in_pieces or not (model.observed or dataset.has_missing):
        return np.zeros((1, model.m), dtype=np.int32), np.zeros(dataset.n, dtype=np.int64)
    codes, observed = as_table(dataset).codes, list(model.observed)
    known = np.where(codes < 0, -1, 0).astype(np.int32)
    known[:, observed] = codes[:, observed]
    if observed and (known[:, observed] < 0).any():
        raise DataError(
            "Some samples lack a value of a variable that the model conditions on: there is no model-based expectation "
            "for them. Use kind='robust'."
        )
    patterns, which = np.unique(known, axis=0, return_inverse=True)
    return patterns, which.reshape(-1)
