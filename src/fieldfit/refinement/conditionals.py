"""p(x_j = s | x_−j) of every variable of a field for many samples at once.

For binary pairwise fields log odds are one matrix product; for all others they are sums of entries of log tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldfit.inference.pairwise_odds import PairwiseOdds
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
        self._pairwise = PairwiseOdds.of(model.graph)

    @property
    def is_pairwise(self) -> bool:
        """Whether all variables are binary and all factors pairs or single variables."""
        return self._pairwise is not None

    def probabilities(self, codes: NDArray[Any], theta: FloatArray) -> list[FloatArray]:
        """For each node the probabilities of its states but the first: (n, states − 1)."""
        tables = self.model.field_arrays.log_tables(theta)
        odds = self._log_odds(codes, tables)
        if odds is not None:
            with np.errstate(over="ignore"):
                high = 1.0 / (1.0 + np.exp(-odds))
            return [high[:, [place]] for place in range(len(self.nodes))]
        return [self._by_tables(codes, tables, int(node)) for node in self.nodes]

    def of_binary(self, codes: NDArray[Any], theta: FloatArray) -> FloatArray | None:
        """P(x_j = second state | x_−j) as one matrix (n, nodes) where the field is binary and pairwise, else None."""
        tables = self.model.field_arrays.log_tables(theta)
        odds = self._log_odds(codes, tables)
        if odds is None:
            return None
        np.negative(odds, out=odds)
        with np.errstate(over="ignore"):
            np.exp(odds, out=odds)
        odds += 1.0
        np.reciprocal(odds, out=odds)
        return odds

    def _log_odds(self, codes: NDArray[Any], tables: FloatArray) -> FloatArray | None:
        """(n, nodes) where the field is binary and pairwise, else None."""
        couplings = None if self._pairwise is None else self._pairwise.couplings(tables)
        if couplings is None:
            return None
        constant, weights = couplings
        matrix: Any = weights[:, self.nodes]
        if self.model.m <= _MOST_DENSE_VARIABLES or matrix.nnz >= _DENSE_FROM * self.model.m * len(self.nodes):
            matrix = matrix.toarray()
        product: FloatArray = codes.astype(np.float64) @ matrix
        product += constant[self.nodes]
        return product

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
