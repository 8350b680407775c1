"""The Hessian of a binary pairwise field for blocks of one and two variables, by matrix products over chunks of samples.

Codes c are 0 and 1, and x = (c, 1), so that the bias of a variable is its coupling to the constant. Given all the rest,
variable j has the variance v_j of its conditional probability, and the block {j} adds Σ_i v_ij x_ik x_il to the entry of
the edges (j, k) and (j, l). For all j that is one product of V (m, n) with the pair products x_k x_l (n, pairs).

A block {a, b} has the covariance of (c_a, c_b, c_a c_b) given the rest, from its four states:

- var(c_a) and var(c_b) are summed over the blocks and join V. The terms in which k or l is the block's other variable
  are taken out again: D_a[b, l] = Σ_i var(c_a) x_b x_l for the block {a, b}, a product with x alone.
- cov(c_a, c_b) adds Σ_i cov x_k x_l to the entry of (a, k) and (b, l): one product with the pair products for all blocks.
- cov(c_a, c_a c_b) and var(c_a c_b) concern the edge (a, b) itself: products with x.

If most codes are 0, so are most pair products, and their matrix is stored as a sparse one. On a sparse graph blocks of one
variable use the columns of their neighbours instead, one variable after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldfit._kernels import exp_array
from fieldfit.models.code_pairs import CodePairs
from fieldfit.models.pairwise_layout import Layout, sums_by
from fieldfit.threads import one_blas_thread
from fieldfit.types import FloatArray, Int32Array, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csc_array

#: Numbers in one array of a chunk, and in the sums over all samples.
_CHUNK_NUMBERS, _MOST_CURVATURE_SUMS = 1 << 19, 1 << 25
#: Cost of a multiplication in a sparse product, relative to a dense product.
_SPARSE_COST = 12.0
#: Blocks of two variables in one chunk, so that their arrays stay in the cache.
_PAIRS_AT_A_TIME = 64


def has_matrix_products(layout: Layout, n_variables: int, *, dense: bool, degrees: IntArray) -> bool:
    """Whether all blocks have one or two variables and the sums over samples fit in memory."""
    sizes, counts = layout.meta[:, 0], layout.meta[:, 1]
    if dense:
        pairs = n_variables * (n_variables + 1) // 2 + 1
        rows = n_variables + int(counts[sizes == 2].sum())
        return bool(np.all(sizes <= 2)) and rows * pairs <= _MOST_CURVATURE_SUMS
    return bool(np.all(sizes == 1)) and int(((degrees + 1) ** 2).sum()) <= _MOST_CURVATURE_SUMS


def has_few_ones(codes: NDArray[np.uint8]) -> bool:
    """Whether so few codes are 1 that a sparse matrix of pair products takes less time."""
    m = codes.shape[1]
    ones = np.count_nonzero(codes, axis=1).astype(np.float64)
    filled = 1.0 + (ones * (ones + 1.0) / 2.0).mean()
    return bool(_SPARSE_COST * filled < m * (m + 1) // 2 + 1)


@dataclass(frozen=True)
class _Part:
    """Blocks of one size with their weights: ``rows`` (n,) or listed ``entries`` (a weight for each sample and block)."""

    blocks: Int32Array
    beta: FloatArray
    rows: FloatArray | None
    listed: tuple[IntArray, Int32Array, FloatArray | None] | None

    def weight(self, start: int, stop: int) -> FloatArray:
        """β times the weight of each block (blocks, 1 or samples) in the samples start..stop."""
        if self.listed is None:
            return self.beta[:, None] if self.rows is None else self.beta[:, None] * self.rows[start:stop]
        pointer, component, weight = self.listed
        first, last = int(pointer[start]), int(pointer[stop])
        sample = np.repeat(np.arange(stop - start), np.diff(pointer[start : stop + 1]))
        chosen = component[first:last].astype(np.int64)
        entry_weight = self.beta[chosen] if weight is None else self.beta[chosen] * weight[first:last]
        size = stop - start
        return sums_by(chosen * size + sample, entry_weight, len(self.beta) * size).reshape(len(self.beta), size)


def curvature_matrix(
    layout: Layout,
    codes: NDArray[np.uint8],
    edges: Int32Array,
    q: FloatArray,
    bias: FloatArray,
    weight: FloatArray | None,
    *,
    dense: bool,
) -> FloatArray:
    """Σ_i w_i Σ β Cov(features of a block), (edges + variables)², for codes with the weights ``q`` and ``bias``."""
    m = len(bias)
    number = np.full((m, m + 1), -1, dtype=np.int64)
    couplings = np.zeros((m, m))
    a, b = edges.T
    number[a, b] = number[b, a] = np.arange(len(edges))
    number[:, m] = len(edges) + np.arange(m)
    couplings[a, b] = couplings[b, a] = q
    parts = list(_parts(layout, m, weight))
    with one_blas_thread():
        if dense:
            return _Dense(codes, couplings, bias, number, parts).matrix()
        return _sparse(codes, couplings, bias, number, parts)


def _parts(layout: Layout, m: int, weight: FloatArray | None) -> Iterator[_Part]:
    meta, row_weight, entry_weight = layout.meta, layout.row_weight, layout.entry_weight
    if weight is not None:
        meta = layout.meta_weighted
        row_weight, entry_weight = layout.weights(weight)
    for k, components, target, _, first_beta, listed, row_start, pointer, entry, entry_start in meta.tolist():
        blocks = layout.targets[target : target + components * k].reshape(-1, k)
        if k == 1 and not listed:
            blocks = np.arange(m, dtype=np.int32)[:, None]
        beta = layout.beta[first_beta : first_beta + components]
        if not listed:
            yield _Part(blocks, beta, row_weight[row_start : row_start + layout.n] if row_start >= 0 else None, None)
            continue
        indptr = layout.indptr[pointer : pointer + layout.n + 1]
        chosen = layout.entry_component[entry : entry + int(indptr[-1])]
        chosen_weight = entry_weight[entry_start : entry_start + len(chosen)] if entry_start >= 0 else None
        yield _Part(blocks, beta, None, (indptr, chosen, chosen_weight))


def _chunks(n: int, widest: int) -> Iterator[tuple[int, int]]:
    size = min(max(_CHUNK_NUMBERS // widest, 128), 4096)
    for start in range(0, n, size):
        yield start, min(start + size, n)


def _variances(field: FloatArray) -> FloatArray:
    """p(1 − p) at these log-odds, to full relative accuracy in both tails."""
    small = np.exp(-np.abs(field))
    result: FloatArray = small / np.square(1.0 + small)
    return result


def _sparse(
    codes: NDArray[np.uint8], couplings: FloatArray, bias: FloatArray, number: IntArray, parts: list[_Part]
) -> FloatArray:
    """Blocks of one variable, with the columns of its neighbours."""
    m = len(bias)
    size = int(number.max()) + 1
    columns = [np.flatnonzero(number[j] >= 0) for j in range(m)]
    sums = [np.zeros((len(node_columns), len(node_columns))) for node_columns in columns]
    for start, stop in _chunks(len(codes), m + 1):
        x = np.ones((m + 1, stop - start))
        x[:m] = codes[start:stop].T
        total = np.zeros((m, stop - start))
        for part in parts:
            np.add.at(total, part.blocks[:, 0], part.weight(start, stop))
        for j, node_columns in enumerate(columns):
            near = x[node_columns]
            variance = _variances(couplings[j, node_columns[:-1]] @ near[:-1] + bias[j]) * total[j]
            sums[j] += (near * variance) @ near.T
    result = np.zeros((size, size))
    for j, node_columns in enumerate(columns):
        result[np.ix_(number[j, node_columns], number[j, node_columns])] += sums[j]
    return result


class _Dense:
    """Blocks of one and two variables on a graph with many edges."""

    def __init__(
        self,
        codes: NDArray[np.uint8],
        couplings: FloatArray,
        bias: FloatArray,
        number: IntArray,
        parts: list[_Part],
    ) -> None:
        self.codes, self.couplings, self.bias, self.number = codes, couplings, bias, number
        self.singles = [part for part in parts if part.blocks.shape[1] == 1]
        self.doubles = [part for part in parts if part.blocks.shape[1] == 2]
        self.m, self.pairs = len(bias), CodePairs(len(bias))
        self.few_ones = has_few_ones(codes)

    def _products(self, codes: NDArray[np.uint8], x: FloatArray) -> FloatArray | csc_array:
        """The pair products (samples, pairs) of a chunk, sparse if few codes are 1."""
        if self.few_ones:
            return self.pairs.products(codes)
        k, l = self.pairs.upper  # noqa: E741
        dense: FloatArray = np.concatenate([x[k] * x[l], x]).T
        return dense

    def matrix(self) -> FloatArray:
        """The sums over all samples as one matrix."""
        m = self.m
        widest = max([m + 1 if self.few_ones else self.pairs.count, *(len(part.blocks) for part in self.doubles)])
        single_sums = np.zeros((m, self.pairs.count))
        pairs = [_PairSums.of(part, m, self.pairs.count, self.number) for part in self.doubles]
        for start, stop in _chunks(len(self.codes), widest):
            x = np.ones((m + 1, stop - start))
            x[:m] = self.codes[start:stop].T
            field = self.couplings @ x[:m] + self.bias[:, None]
            products = self._products(self.codes[start:stop], x)
            total = np.zeros((m, stop - start))
            for part in self.singles:
                np.add.at(total, part.blocks[:, 0], part.weight(start, stop))
            variances = _variances(field) * total
            for part, sums in zip(self.doubles, pairs, strict=True):
                weight = part.weight(start, stop)
                variances += sums.add(part, weight, x, products, field, self.couplings)
            single_sums += variances @ products
        size = int(self.number.max()) + 1
        result = np.zeros((size, size))
        for j in range(m):
            terms = single_sums[j][self.pairs.place]
            for sums in pairs:
                out = sums.inside[j]
                terms -= out + out.T - np.diag(np.diag(out))
            near = np.flatnonzero(self.number[j] >= 0)
            result[np.ix_(self.number[j, near], self.number[j, near])] += terms[np.ix_(near, near)]
        for part, sums in zip(self.doubles, pairs, strict=True):
            sums.put(part, result, self.number, self.pairs.place)
        return result


def _pair_probabilities(
    field_a: FloatArray, field_b: FloatArray, coupling: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """P(only a is 1), P(only b is 1), P(both are 1) and P(none is 1) from the log-odds of each alone."""
    both = field_a + field_b
    both += coupling
    top = np.maximum(field_a, field_b)
    np.maximum(top, both, out=top)
    np.maximum(top, 0.0, out=top)
    states = (field_a, field_b, both, np.zeros_like(top))
    for state in states:
        state -= top
        exp_array(state.ravel(), state.ravel())
    mass = states[0] + states[1]
    mass += states[2]
    mass += states[3]
    np.divide(1.0, mass, out=mass)
    for state in states:
        state *= mass
    return states


@dataclass
class _PairSums:
    """Sums over samples for blocks {a, b} of two variables, ``joined`` those with an edge between the two."""

    joined: IntArray
    cross: FloatArray  # (joined, pair products): cov(c_a, c_b)
    edge: FloatArray  # (joined,): var(c_a c_b)
    ends: tuple[FloatArray, FloatArray]  # (joined, m + 1): cov(c_a, c_a c_b), cov(c_b, c_a c_b)
    inside: FloatArray  # (m, m + 1, m + 1): D of the module docstring

    @classmethod
    def of(cls, part: _Part, m: int, n_products: int, number: IntArray) -> _PairSums:
        a, b = part.blocks.T
        joined = np.flatnonzero(number[a, b] >= 0)
        return cls(
            joined,
            np.zeros((len(joined), n_products)),
            np.zeros(len(joined)),
            (np.zeros((len(joined), m + 1)), np.zeros((len(joined), m + 1))),
            np.zeros((m, m + 1, m + 1)),
        )

    def add(
        self,
        part: _Part,
        weight: FloatArray,
        x: FloatArray,
        products: FloatArray | csc_array,
        field: FloatArray,
        q: FloatArray,
    ) -> FloatArray:
        """Add a chunk; return the variances of single variables, summed over blocks (m, samples)."""
        variances = np.zeros(field.shape)
        variable = np.arange(len(field))[:, None]
        for first in range(0, len(part.blocks), _PAIRS_AT_A_TIME):
            some = slice(first, first + _PAIRS_AT_A_TIME)
            a, b = part.blocks[some].T
            coupling = q[a, b][:, None]
            x_a, x_b, factor = x[a], x[b], weight[some]
            only_a, only_b, both, none = _pair_probabilities(
                field[a] - coupling * x_b, field[b] - coupling * x_a, coupling
            )
            # Products of probabilities of disjoint events, to avoid cancellation.
            not_a, not_b = only_b + none, only_a + none
            var_a, var_b = (only_a + both) * not_a * factor, (only_b + both) * not_b * factor
            variances += (variable == a) @ var_a + (variable == b) @ var_b
            np.add.at(self.inside, (a, b), (var_a * x_b) @ x.T)
            np.add.at(self.inside, (b, a), (var_b * x_a) @ x.T)
            low, high = np.searchsorted(self.joined, [first, first + len(a)])
            lines, joined = slice(low, high), self.joined[low:high] - first
            if len(joined) < len(a):
                only_a, only_b, both, none, not_a, not_b = (
                    state[joined] for state in (only_a, only_b, both, none, not_a, not_b)
                )
                factor = factor[joined]
            self.cross[lines] += ((both * none - only_a * only_b) * factor) @ products
            both *= factor
            self.edge[lines] += (both * (only_a + not_a)).sum(axis=1)
            self.ends[0][lines] += (both * not_a) @ x.T
            self.ends[1][lines] += (both * not_b) @ x.T
        return variances

    def put(self, part: _Part, result: FloatArray, number: IntArray, place: IntArray) -> None:
        """Add the terms of two variables and of their edge to the matrix."""
        for line, block in enumerate(self.joined.tolist()):
            a, b = part.blocks[block].tolist()
            edge = int(number[a, b])
            result[edge, edge] += self.edge[line]
            near_a, near_b = (number[end] >= 0 for end in (a, b))
            near_a[b] = near_b[a] = False
            k, l = np.flatnonzero(near_a), np.flatnonzero(near_b)  # noqa: E741
            to_a, to_b = number[a, k], number[b, l]
            terms = self.cross[line][place[np.ix_(k, l)]]
            result[np.ix_(to_a, to_b)] += terms
            result[np.ix_(to_b, to_a)] += terms.T
            for to, ends in ((to_a, self.ends[0][line, k]), (to_b, self.ends[1][line, l])):
                result[edge, to] += ends
                result[to, edge] += ends
