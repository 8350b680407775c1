"""All joint states of a small field with their probabilities: expectations over X as exact sums."""

from __future__ import annotations

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.types import FloatArray, Int32Array


def all_states(model: FieldModel, theta: FloatArray) -> tuple[Int32Array, FloatArray]:
    """Every joint state (states, m) and its probability."""
    shape = model.graph.cardinalities
    codes = np.ascontiguousarray(np.indices(shape, dtype=np.int32).reshape(len(shape), -1).T)
    logs = model.log_tables(theta)[model.graph.entries(codes)].sum(axis=1)
    weights = np.exp(logs - logs.max())
    return codes, weights / weights.sum()
