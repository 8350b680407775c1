"""p(x_j = s | x_−j) of every variable of a field for many samples at once.

For binary pairwise fields log odds are one matrix product; for all others they are sums of entries of log tables.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldfit.models.field import FieldModel
from fieldfit.types import FloatArray, IntArray

#: Share of non-zero couplings from which a dense product is faster than a sparse one, and variables up to which the matrix
#: is dense in any case.
_DENSE_FROM, _MOST_DENSE_VARIABLES = 0.05, 2_000


class Conditionals:
    """The conditional distributions of the variables ``nodes`` of a field given all others."""

    def __init__(self, model: FieldModel, nodes: IntArray) -> None:
        self.model = model
        self.nodes = nodes
        graph = model.graph
        self.binary = max(map(len, graph.scopes), default=0) <= 2 and set(graph.cardinalities) <= {2}

    def probabilities(self, codes: NDArray[Any], theta: FloatArray) -> list[FloatArray]:
        """For each node the probabilities of its states but the first: (n, states − 1)."""
        tables = self.model.field_arrays.log_tables(theta)
        if self.binary and np.isfinite(tables).all():
            odds = self._log_odds(codes, tables)
            with np.errstate(over="ignore"):
                high = 1.0 / (1.0 + np.exp(-odds))
            return [high[:, [place]] for place in range(len(self.nodes))]
        return [self._by_tables(codes, tables, int(node)) for node in self.nodes]

    def of_binary(self, codes: NDArray[Any], theta: FloatArray) -> FloatArray | None:
        """P(x_j = second state | x_−j) as one matrix (n, nodes) where the field is binary and pairwise, else None."""
        tables = self.model.field_arrays.log_tables(theta)
        if not (self.binary and np.isfinite(tables).all()):
            return None
        odds = self._log_odds(codes, tables)
        np.negative(odds, out=odds)
        with np.errstate(over="ignore"):
            np.exp(odds, out=odds)
        odds += 1.0
        np.reciprocal(odds, out=odds)
        return odds

    def _log_odds(self, codes: NDArray[Any], tables: FloatArray) -> FloatArray:
        constant, matrix = self._couplings(tables)
        product = codes.astype(np.float64) @ matrix
        odds: FloatArray = np.asarray(product) + constant
        return odds

    def _couplings(self, tables: FloatArray) -> tuple[FloatArray, Any]:
        """Log odds of node j are constant_j + Σ_k matrix_kj code_k."""
        from scipy.sparse import coo_array

        m = self.model.m
        starts, pairs, single = self._layout
        constant = np.zeros(m)
        np.add.at(constant, single[1], tables[single[0] + 1] - tables[single[0]])
        t = tables[starts[:, None] + np.arange(4)]  # entries 00, 01, 10, 11
        a, b = pairs.T
        np.add.at(constant, a, t[:, 2] - t[:, 0])
        np.add.at(constant, b, t[:, 1] - t[:, 0])
        weight = t[:, 3] - t[:, 2] - t[:, 1] + t[:, 0]
        full = coo_array((np.tile(weight, 2), (np.r_[a, b], np.r_[b, a])), shape=(m, m)).tocsc()
        matrix: Any = full[:, self.nodes]
        if m <= _MOST_DENSE_VARIABLES or matrix.nnz >= _DENSE_FROM * m * len(self.nodes):
            matrix = matrix.toarray()
        return constant[self.nodes], matrix

    @cached_property
    def _layout(self) -> tuple[IntArray, IntArray, tuple[IntArray, IntArray]]:
        """Where the tables of pairs start and their variables, and the same for single variables."""
        graph = self.model.graph
        pairs = [(int(graph.offsets[f]), *scope) for f, scope in enumerate(graph.scopes) if len(scope) == 2]
        single = [(int(graph.offsets[f]), scope[0]) for f, scope in enumerate(graph.scopes) if len(scope) == 1]
        pair_rows = np.array(pairs, dtype=np.int64).reshape(-1, 3)
        single_rows = np.array(single, dtype=np.int64).reshape(-1, 2)
        return pair_rows[:, 0], pair_rows[:, 1:], (single_rows[:, 0], single_rows[:, 1])

    def _by_tables(self, codes: NDArray[Any], tables: FloatArray, node: int) -> FloatArray:
        graph = self.model.graph
        factors = np.array(graph.factors_of[node], dtype=np.int64)
        states = graph.cardinalities[node]
        logs = np.zeros((len(codes), states))
        if len(factors):
            steps = np.where(graph.scope_matrix[factors] == node, graph.stride_matrix[factors], 0).sum(axis=1)
            base = graph.entries(codes, factors) - codes[:, [node]] * steps
            for state in range(states):
                logs[:, state] = tables[base + state * steps].sum(axis=1)
        logs -= logs.max(axis=1, keepdims=True)
        weights = np.exp(logs)
        share: FloatArray = (weights / weights.sum(axis=1, keepdims=True))[:, 1:]
        return share
