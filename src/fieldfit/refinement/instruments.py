"""Functions of single variables, and the score of one variable given the others as residuals times such functions.

Every variable j has functions φ_j1, …, φ_jb that together with the constant 1 span all functions of its state: the value
x_j itself for a binary variable with numeric states, else the indicators of all states but the first. The feature of a
clique C is a sum of products of them, so the score of log p(x_j | x_−j) is

    ∂/∂θ_l log p(x_j | x_−j) = Σ_b Σ_S c_{l,j,b,S} · (φ_jb(x_j) − E[φ_jb(x_j) | x_−j]) · Π_{(k,b')∈S} φ_kb'(x_k)

with sets S of functions of the other variables of cliques with j. `expand_scores` finds the coefficients c, and
`Conditionals` has p(x_j = s | x_−j) of many samples at once: log odds are one matrix product for binary pairwise fields,
and sums of entries of log tables for all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.inference.gibbs import PairwiseOdds
from fieldfit.models.field import FieldModel
from fieldfit.types import FloatArray, Int32Array, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: A function of one variable: (variable, number of the function from 1).
Function = tuple[int, int]
#: Coefficients below this part of the largest in a feature are rounding.
_ROUNDING = 1e-12
#: Share of non-zero couplings from which a dense product is faster than a sparse one, and variables up to which the matrix
#: is dense in any case.
_DENSE_FROM, _MOST_DENSE_VARIABLES = 0.05, 2_000


@dataclass(frozen=True)
class Expansion:
    """The scores of single variables in terms of residuals and instruments.

    Pair k is the residual of the function ``functions[k]`` times the product ``products[k]`` of functions of other
    variables, and ``coefficients`` (n_parameters, pairs) holds c.
    """

    functions: tuple[Function, ...]
    products: tuple[tuple[Function, ...], ...]
    coefficients: csr_array


def expand_scores(model: FieldModel, functions: tuple[FloatArray, ...]) -> Expansion:
    """All pairs of a residual and a product that occur in the score of a modelled variable given the others."""
    from scipy.sparse import coo_array

    graph = model.graph
    expanded = _feature_coefficients(model, functions)
    observed = set(model.observed)
    pairs: dict[tuple[Function, tuple[Function, ...]], int] = {}
    rows: list[IntArray] = []
    columns: list[int] = []
    values: list[FloatArray] = []
    entries = np.flatnonzero(np.diff(expanded.indptr))
    factors = np.searchsorted(graph.offsets, entries, side="right") - 1
    scopes, offsets, states = list(graph.scopes), graph.offsets.tolist(), list(graph.cardinalities)
    indices, indptr = expanded.indices.astype(np.int64), expanded.indptr.tolist()
    for entry, factor in zip(entries.tolist(), factors.tolist(), strict=True):
        members, rest = [], entry - offsets[factor]
        for v in reversed(scopes[factor]):  # the last variable varies fastest
            rest, b = divmod(rest, states[v])
            if b:
                members.append((v, b))
        stored = slice(indptr[entry], indptr[entry + 1])
        for member in members:
            if member[0] in observed:
                continue
            product = tuple(sorted(other for other in members if other != member))
            number = pairs.setdefault((member, product), len(pairs))
            rows.append(indices[stored])
            values.append(expanded.data[stored])
            columns.extend([number] * (stored.stop - stored.start))
    row = np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
    value = np.concatenate(values) if values else np.empty(0)
    shape2 = (model.n_parameters, len(pairs))
    coefficients = coo_array((value, (row, np.array(columns, dtype=np.int64))), shape=shape2).tocsr()
    return Expansion(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs), coefficients)


def _feature_coefficients(model: FieldModel, functions: tuple[FloatArray, ...]) -> csr_array:
    """The features (table entries, parameters) in the basis of products of 1 and the functions of each variable."""
    from scipy.sparse import coo_array

    graph = model.graph
    inverses = [np.linalg.inv(np.column_stack([np.ones(len(values)), values])) for values in functions]
    kinds: dict[bytes, int] = {}
    kind_of = [kinds.setdefault(inverse.tobytes() + bytes([len(inverse)]), len(kinds)) for inverse in inverses]
    groups: dict[tuple[int, ...], list[int]] = {}
    for factor, scope in enumerate(graph.scopes):
        groups.setdefault(tuple(kind_of[v] for v in scope), []).append(factor)
    rows, columns, values = [], [], []
    for members in groups.values():
        scope = graph.scopes[members[0]]
        transform: FloatArray = inverses[scope[0]]
        for v in scope[1:]:
            transform = np.asarray(np.kron(transform, inverses[v]), dtype=np.float64)
        row, column = np.nonzero(np.abs(transform) > _ROUNDING * np.abs(transform).max())
        starts = graph.offsets[np.array(members)][:, None]
        rows.append((starts + row).ravel())
        columns.append((starts + column).ravel())
        values.append(np.tile(transform[row, column], len(members)))
    size = graph.table_size
    transforms = coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(size, size)
    ).tocsr()
    expanded: csr_array = (transforms @ model.features).tocsr()
    largest = np.zeros(expanded.shape[1])
    np.maximum.at(largest, expanded.indices, np.abs(expanded.data))
    expanded.data[np.abs(expanded.data) <= _ROUNDING * largest[expanded.indices]] = 0.0
    expanded.eliminate_zeros()
    return expanded


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

    def probabilities(self, codes: Int32Array, theta: FloatArray) -> list[FloatArray]:
        """For each node the probabilities of its states but the first: (n, states − 1)."""
        tables = self.model.field_arrays.log_tables(theta)
        odds = self._log_odds(codes, tables)
        if odds is not None:
            with np.errstate(over="ignore"):
                high = 1.0 / (1.0 + np.exp(-odds))
            return [high[:, [place]] for place in range(len(self.nodes))]
        return [self._by_tables(codes, tables, int(node)) for node in self.nodes]

    def of_binary(self, codes: Int32Array, theta: FloatArray) -> FloatArray | None:
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

    def _log_odds(self, codes: Int32Array, tables: FloatArray) -> FloatArray | None:
        """(n, nodes) where the field is binary and pairwise, else None."""
        couplings = None if self._pairwise is None else self._pairwise.couplings(tables)
        if couplings is None:
            return None
        constant, weights = couplings
        matrix = weights[:, self.nodes]
        if self.model.m <= _MOST_DENSE_VARIABLES or matrix.nnz >= _DENSE_FROM * self.model.m * len(self.nodes):
            product: FloatArray = codes.astype(np.float64) @ matrix.toarray()
        else:
            product = codes.astype(np.float64) @ matrix
        product += constant[self.nodes]
        return product

    def _by_tables(self, codes: Int32Array, tables: FloatArray, node: int) -> FloatArray:
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
