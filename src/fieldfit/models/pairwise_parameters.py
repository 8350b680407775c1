"""θ of a binary pairwise field, and the kernel's weights and biases: a linear map and its transpose.

    log p(x) = Σ_{(j,k)∈E} θ_jk x_j x_k + Σ_j b_j x_j − log Z,   x_j ∈ {s0, s1}

The kernel uses the states 0 and 1. With x = s0 + d c, d = s1 − s0, the same field has the weights q_jk = d² θ_jk
and the biases d (b_j + s0 Σ_k θ_jk), a linear map F of θ. Its transpose maps gradients and Hessian products back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.pairwise_layout import EdgeNumbers, sums_by
from fieldfit.properties import cached_property
from fieldfit.types import Array, BoolArray, FloatArray, Int32Array, IntArray, ModelError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Most numbers of the map as a dense matrix.
_DENSE_MAP = 1 << 14
#: Numbers in one array of some samples by edge.
_CACHED_NUMBERS = 1 << 16


class PairwiseParameters:
    """The graph of a binary pairwise field, and the entry of θ of each of its weights and biases.

    Parameters
    ----------
    n_variables : the number m of variables.
    states : the two states (s0, s1).
    edges : (E, 2) pairs of variables, each pair at most once.
    edge_parameter : (E,) which entry of θ is the weight of each edge; several edges may share one.
    bias_parameter : (m,) the same for the biases, or None for no biases.
    n_parameters : the length r of θ.
    """

    def __init__(
        self,
        n_variables: int,
        states: Sequence[float] | FloatArray,
        edges: Array,
        edge_parameter: Array,
        bias_parameter: Array | None,
        n_parameters: int,
    ) -> None:
        self.n_variables, self.n_parameters = n_variables, n_parameters
        self.state0, self.gap = _checked_states(states)
        self.edges = _checked_edges(edges, n_variables)
        self.edge_parameter = _checked_parameters(edge_parameter, len(self.edges), n_parameters, "edge_parameter")
        self.bias_parameter = (
            None
            if bias_parameter is None
            else _checked_parameters(bias_parameter, n_variables, n_parameters, "bias_parameter")
        )
        self._ends = self.edges.ravel().astype(np.int64)
        self.edge_numbers = EdgeNumbers(n_variables, self.edges)
        repeated = self.edge_numbers.repeated
        if repeated is not None:
            raise ModelError(f"The edge {tuple(self.edges[repeated].tolist())} is given twice; leave one out.")

    @cached_property
    def degrees(self) -> IntArray:
        """How many edges each variable has (m,)."""
        return np.bincount(self._ends, minlength=self.n_variables)

    @cached_property
    def shared(self) -> BoolArray:
        """Which parameters (r,) belong to several edges or biases."""
        return self._uses > 1

    @cached_property
    def one_to_one(self) -> bool:
        """Whether every parameter belongs to exactly one edge or bias."""
        return bool((self._uses == 1).all())

    @property
    def _uses(self) -> IntArray:
        uses = np.bincount(self.edge_parameter, minlength=self.n_parameters)
        if self.bias_parameter is not None:
            uses += np.bincount(self.bias_parameter, minlength=self.n_parameters)
        return uses

    def to_field(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Fθ: the kernel's weights (edges,) and biases (m,), for the codes 0 and 1."""
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != (self.n_parameters,):
            raise ModelError(f"θ must have the shape ({self.n_parameters},); it has {theta.shape}.")
        q = theta[self.edge_parameter]
        bias = np.zeros(self.n_variables) if self.bias_parameter is None else theta[self.bias_parameter]
        if self.state0 != 0.0:
            degree = sums_by(self._ends, np.repeat(q, 2), self.n_variables)
            bias = bias + self.state0 * degree
        if self.gap != 1.0:
            q, bias = self.gap**2 * q, self.gap * bias
        return q, bias

    def to_matrix(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The kernel's weights as a symmetric matrix (m, m), and its biases (m,)."""
        q, bias = self.to_field(theta)
        weights = np.zeros((self.n_variables, self.n_variables))
        first, second = self.edges.T
        weights[first, second] = weights[second, first] = q
        return weights, bias

    def to_parameters(self, edges: FloatArray, biases: FloatArray) -> FloatArray:
        """Fᵀ: a gradient by θ from that by the kernel's weights and biases."""
        by_edge = edges if self.gap == 1.0 else self.gap**2 * edges
        if self.state0 != 0.0:
            ends = biases[self.edges]
            by_edge = by_edge + self.gap * self.state0 * (ends[:, 0] + ends[:, 1])
        gradient = sums_by(self.edge_parameter, by_edge, self.n_parameters)
        if self.bias_parameter is not None:
            gradient += sums_by(self.bias_parameter, self.gap * biases, self.n_parameters)
        return gradient

    def diagonal(self, edges: FloatArray, biases: FloatArray) -> FloatArray:
        """The diagonal by θ from the curvature by edge, in the states, and by code; no covariances of what is shared."""
        outside = biases[self.edges[:, 0]] + biases[self.edges[:, 1]]
        diagonal = sums_by(self.edge_parameter, edges + (self.gap * self.state0) ** 2 * outside, self.n_parameters)
        if self.bias_parameter is not None:
            diagonal += sums_by(self.bias_parameter, self.gap**2 * biases, self.n_parameters)
        return diagonal

    def congruent(self, matrix: FloatArray) -> FloatArray:
        """FᵀAF for a matrix A over the kernel's weights and biases."""
        result: FloatArray
        if self._is_permutation:
            assert self.bias_parameter is not None
            order = np.argsort(np.concatenate([self.edge_parameter, self.bias_parameter]))
            result = matrix if np.all(order[:-1] < order[1:]) else matrix[np.ix_(order, order)]
        else:
            result = self._matrix.T @ (self._matrix.T @ matrix).T
        result = result + result.T
        result /= 2
        return result

    def scores(self, codes: Array, residual: FloatArray, pair_terms: FloatArray, out: FloatArray) -> None:
        """Add the scores by θ (n, r) to ``out``, from residuals (n, m) and pair terms (n, edges) of codes (n, m).

        ``pair_terms`` is overwritten: it is as large as all scores of a family.
        """
        a, b = self.edges.T
        # A few samples at a time, so that the arrays by edge stay in the cache.
        size = max(1, _CACHED_NUMBERS // max(len(a), 1))
        for start in range(0, len(codes), size):
            some = slice(start, start + size)
            by_edge, values = pair_terms[some], codes[some].astype(np.float64)
            by_edge += residual[some].take(a, axis=1) * values.take(b, axis=1)
            by_edge += residual[some].take(b, axis=1) * values.take(a, axis=1)
            self.to_scores(by_edge, residual[some], out[some])

    def to_scores(self, by_edge: FloatArray, by_variable: FloatArray, out: FloatArray) -> None:
        """Add the scores by θ (n, r) to ``out`` from those by the kernel's weights (n, edges), which are overwritten, and
        biases (n, m).
        """
        if self.gap != 1.0:
            by_edge *= self.gap**2
        if self.state0 != 0.0:
            a, b = self.edges.T
            by_edge += self.gap * self.state0 * (by_variable[:, a] + by_variable[:, b])
        _add_columns(out, self.edge_parameter, by_edge)
        if self.bias_parameter is not None:
            _add_columns(out, self.bias_parameter, self.gap * by_variable)

    @property
    def _is_permutation(self) -> bool:
        """Whether F is a permutation: the states are 0 and 1, and no parameter is shared."""
        return self.state0 == 0.0 and self.gap == 1.0 and self.bias_parameter is not None and self.one_to_one

    @cached_property
    def _matrix(self) -> csr_array | FloatArray:
        """F as a matrix (edges + variables, n_parameters)."""
        edges, variables = len(self.edges), np.arange(self.n_variables)
        rows = [np.arange(edges), *(edges + end for end in self.edges.T)]
        columns = [self.edge_parameter] * 3
        values = [np.full(edges, self.gap**2), *[np.full(edges, self.gap * self.state0)] * 2]
        if self.bias_parameter is not None:
            rows.append(edges + variables)
            columns.append(self.bias_parameter)
            values.append(np.full(self.n_variables, self.gap))
        places = (np.concatenate(rows), np.concatenate(columns))
        shape = (edges + self.n_variables, self.n_parameters)
        if math.prod(shape) <= _DENSE_MAP:  # not worth the import
            dense = np.zeros(shape)
            np.add.at(dense, places, np.concatenate(values))
            return dense
        from scipy.sparse import csr_array

        return csr_array((np.concatenate(values), places), shape=shape)


def _add_columns(scores: FloatArray, parameter: IntArray, columns: FloatArray) -> None:
    """scores[:, parameter[j]] += columns[:, j]; several j may share one parameter."""
    first = int(parameter[0]) if len(parameter) else 0
    if np.array_equal(parameter, np.arange(first, first + len(parameter))):
        scores[:, first : first + len(parameter)] += columns
    elif len(np.unique(parameter)) == len(parameter):
        scores[:, parameter] += columns
    else:
        np.add.at(scores.T, parameter, columns.T)


def _checked_states(states: Sequence[float] | FloatArray) -> tuple[float, float]:
    values = np.asarray(states, dtype=np.float64)
    if values.shape != (2,) or not np.isfinite(values).all() or values[0] == values[1]:
        raise ModelError(f"A binary field needs two different finite states; got {states!r:.80}.")
    return float(values[0]), float(values[1] - values[0])


def _checked_edges(edges: Array, m: int) -> Int32Array:
    pairs = np.asarray(edges).reshape(-1, 2)
    wrong = np.flatnonzero((pairs < 0).any(axis=1) | (pairs >= m).any(axis=1) | (pairs[:, 0] == pairs[:, 1]))
    if len(wrong):
        raise ModelError(
            f"The edge {tuple(pairs[wrong[0]].tolist())} must join two different variables from 0 to {m - 1}."
        )
    return np.ascontiguousarray(pairs, dtype=np.int32)


def _checked_parameters(numbers: Array, length: int, n_parameters: int, name: str) -> IntArray:
    numbers = np.asarray(numbers, dtype=np.int64)
    if numbers.shape != (length,) or (length and (numbers.min() < 0 or numbers.max() >= n_parameters)):
        raise ModelError(f"{name} needs {length} numbers from 0 to {n_parameters - 1}; its shape is {numbers.shape}.")
    return numbers
