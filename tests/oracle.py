"""Slow and plainly right: every joint state listed. What fast code is compared with."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np


def joint_states(cardinalities):
    return _joint_states(tuple(int(c) for c in cardinalities)).copy()


@cache
def _joint_states(cardinalities):
    return np.array(list(itertools.product(*[range(c) for c in cardinalities])), dtype=np.int32).reshape(
        -1, len(cardinalities)
    )


def log_weights(graph, log_tables, states):
    """Σ_C log φ_C(x_C) for each state, one factor at a time."""
    total = np.zeros(len(states))
    for factor, scope in enumerate(graph.scopes):
        shape = [graph.cardinalities[v] for v in scope]
        table = log_tables[graph.offsets[factor] : graph.offsets[factor + 1]].reshape(shape)
        total += table[tuple(states[:, v] for v in scope)]
    return total


def log_sum(values):
    largest = values.max(initial=-np.inf)
    return largest if np.isneginf(largest) else largest + np.log(np.exp(values - largest).sum())


def log_conditional(graph, log_tables, row, target, given):
    """log p(x_A | x_B) of one sample; −1 in ``row`` is missing and leaves both sets."""
    states = _joint_states(tuple(graph.cardinalities))
    logs = log_weights(graph, log_tables, states)
    target = [v for v in target if row[v] >= 0]
    given = [v for v in given if row[v] >= 0]
    if not target:
        return 0.0
    known = np.all(states[:, given] == row[given], axis=1) if given else np.ones(len(states), dtype=bool)
    both = known & np.all(states[:, target] == row[target], axis=1)
    return log_sum(logs[both]) - log_sum(logs[known])


def central_gradient(function, x, step=1e-5):
    """Central differences; ``function`` may be vector-valued, then the result has the parameters last."""
    columns = []
    for k in range(len(x)):
        up, down = x.copy(), x.copy()
        up[k] += step
        down[k] -= step
        columns.append((np.asarray(function(up)) - np.asarray(function(down))) / (2 * step))
    return np.stack(columns, axis=-1)
