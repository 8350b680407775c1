"""Every state that a small field can have, with its probability given what is known of each sample.

Expectations under the model are then sums:  Σ_i w_i E[f(X_i)] = Σ_x f(x) Σ_i w_i p_θ(x | observed values of i).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.samples import Table
from fieldfit.types import DataError, FloatArray, Int32Array

if TYPE_CHECKING:
    from fieldfit.models.field import FieldModel


def expected_states(
    model: FieldModel, theta: FloatArray, dataset: Table, most: int
) -> tuple[Table, FloatArray, FloatArray] | None:
    """All possible states given each distinct observation and pattern of missing values, with Σ w p and Σ w² p.

    Counts are copies, so for them the second sum is that of w p. None where there would be more than ``most`` states.
    """
    free = [v for v in range(model.m) if v not in model.observed]
    shape = [model.graph.cardinalities[v] for v in free]
    states = math.prod(shape)
    if states > most:
        return None
    known = np.where(dataset.codes < 0, -1, 0).astype(np.int32)
    observed = list(model.observed)
    known[:, observed] = dataset.codes[:, observed]
    if observed and (known[:, observed] < 0).any():
        raise DataError(
            "Some samples lack a value of a variable that the model conditions on: there is no model-based expectation "
            "for them. Use kind='robust'."
        )
    patterns, which = np.unique(known, axis=0, return_inverse=True)
    if len(patterns) * states > most:
        return None
    grid = np.indices(shape, dtype=np.int32).reshape(len(free), -1).T
    codes: Int32Array = np.repeat(patterns, states, axis=0)
    codes[:, free] = np.tile(grid, (len(patterns), 1))
    logs = model.log_tables(theta)[model.graph.entries(codes)].sum(axis=1).reshape(len(patterns), states)
    probability = np.exp(logs - logs.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    codes[np.repeat(patterns < 0, states, axis=0)] = -1
    weight = np.ones(len(known)) if dataset.sample_weight is None else dataset.sample_weight
    once = np.bincount(which.reshape(-1), weight, len(patterns))
    squared = np.bincount(which.reshape(-1), weight if dataset.has_counts else weight**2, len(patterns))
    possible = (logs > -np.inf).reshape(-1)  # the model may forbid some
    table = Table(np.ascontiguousarray(codes[possible]), model.names, model.states)
    sums = [(probability * weights[:, None]).reshape(-1)[possible] for weights in (once, squared)]
    return table, sums[0], sums[1]
