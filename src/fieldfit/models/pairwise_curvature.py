"""The Hessian of a binary pairwise field for blocks of one and two variables, by matrix products over chunks of samples.

Codes c are 0 and 1, and x = (c, 1), so that the bias of a variable is its coupling to the constant. Given all the rest,
variable j has the variance v_j of its conditional probability, and the block {j} adds Σ_i v_ij x_ik x_il to the entry of
the edges (j, k) and (j, l). For all j that is one product of V (m, n) with the pair products x_k x_l (n, pairs).

A block {a, b} has the covariance of (c_a, c_b, c_a c_b) given the rest, from its four states:

- var(c_a) and var(c_b) are summed over the blocks and join V. The terms in which k or l is the block's other variable
  are taken out again: D_a[b, l] = Σ_i var(c_a) x_b x_l for the block {a, b}, a product with x alone.
- cov(c_a, c_b) adds Σ_i cov x_k x_l to the entry of (a, k) and (b, l): one product with the pair products for all blocks.
- cov(c_a, c_a c_b) and var(c_a c_b) concern the edge (a, b) itself: products with x.

On a sparse graph blocks of one variable take the neighbours' columns instead, one variable after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldfit.models.pairwise_layout import Layout, sums_by
from fieldfit.threads import one_blas_thread
from fieldfit.types import FloatArray, Int32Array, IntArray

#: Numbers in one array of a chunk, and in the sums over all samples.
_CHUNK, _MOST_CURVATURE_SUMS = 1 << 19, 1 << 25


def has_matrix_products(layout: Layout, n_variables: int, *, dense: bool, degrees: IntArray) -> bool:
    """Whether all blocks have one or two variables and the sums over samples fit in memory."""
    sizes, counts = layout.meta[:, 0], layout.meta[:, 1]
    if dense:
        pairs = n_variables * (n_variables + 1) // 2 + 1
        rows = n_variables + int(counts[sizes == 2].sum())
        return bool(np.all(sizes <= 2)) and rows * pairs <= _MOST_CURVATURE_SUMS
    return bool(np.all(sizes == 1)) and int(((degrees + 1) ** 2).sum()) <= _MOST_CURVATURE_SUMS


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
    size = min(max(_CHUNK // widest, 128), 4096)
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
        m = len(bias)
        self.m = m
        # Pair products: k < l, then each variable alone (x_k x_k = x_k x_constant), then the constant.
        self.upper = np.triu_indices(m, 1)
        place = np.zeros((m + 1, m + 1), dtype=np.int64)
        place[self.upper] = np.arange(len(self.upper[0]))
        place += place.T
        alone = len(self.upper[0]) + np.arange(m + 1)
        place[np.arange(m + 1), np.arange(m + 1)] = alone
        place[m, :m] = place[:m, m] = alone[:m]
        self.place, self.n_products = place, len(self.upper[0]) + m + 1

    def matrix(self) -> FloatArray:
        """The sums over all samples, each put where it belongs."""
        m, widest = self.m, max([self.n_products, *(len(part.blocks) for part in self.doubles)])
        single_sums = np.zeros((m, self.n_products))
        pairs = [_PairSums.of(part, m, self.n_products, self.number) for part in self.doubles]
        k, l = self.upper  # noqa: E741
        for start, stop in _chunks(len(self.codes), widest):
            x = np.ones((m + 1, stop - start))
            x[:m] = self.codes[start:stop].T
            field = self.couplings @ x[:m] + self.bias[:, None]
            products = np.concatenate([x[k] * x[l], x]).T
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
            terms = single_sums[j][self.place]
            for sums in pairs:
                out = sums.inside[j]
                terms -= out + out.T - np.diag(np.diag(out))
            near = np.flatnonzero(self.number[j] >= 0)
            result[np.ix_(self.number[j, near], self.number[j, near])] += terms[np.ix_(near, near)]
        for part, sums in zip(self.doubles, pairs, strict=True):
            sums.put(part, result, self.number, self.place)
        return result


@dataclass
class _PairSums:
    """Sums over samples for blocks {a, b} of two variables, ``joined`` those with an edge between the two."""

    joined: IntArray
    cross: FloatArray  # (joined, pair products): cov(c_a, c_b)
    edge: FloatArray  # (joined,): var(c_a c_b)
    ends: tuple[FloatArray, FloatArray]  # (joined, m + 1): cov(c_a, c_a c_b), cov(c_b, c_a c_b)
    inside: FloatArray  # (m, m + 1, m + 1): D of the module's text
    by_variable: tuple[FloatArray, FloatArray]

    @classmethod
    def of(cls, part: _Part, m: int, n_products: int, number: IntArray) -> _PairSums:
        from scipy.sparse import csr_array

        a, b = part.blocks.T
        joined = np.flatnonzero(number[a, b] >= 0)
        ones, blocks = np.ones(len(a)), np.arange(len(a))
        return cls(
            joined,
            np.zeros((len(joined), n_products)),
            np.zeros(len(joined)),
            (np.zeros((len(joined), m + 1)), np.zeros((len(joined), m + 1))),
            np.zeros((m, m + 1, m + 1)),
            tuple(csr_array((ones, (end, blocks)), shape=(m, len(a))) for end in (a, b)),  # type: ignore[arg-type]
        )

    def add(
        self, part: _Part, weight: FloatArray, x: FloatArray, products: FloatArray, field: FloatArray, q: FloatArray
    ) -> FloatArray:
        """Add a chunk; the variances of single variables, summed over blocks (m, samples), are handed back."""
        a, b = part.blocks.T
        coupling = q[a, b][:, None]
        field_a = field[a] - coupling * x[b]
        field_b = field[b] - coupling * x[a]
        both = field_a + field_b + coupling
        top = np.maximum(np.maximum(field_a, field_b), np.maximum(both, 0.0))
        p_a, p_b, p_ab, none = (np.exp(state - top) for state in (field_a, field_b, both, np.zeros(1)))
        mass = p_a + p_b + p_ab + none
        for state in (p_a, p_b, p_ab, none):
            state /= mass
        # Products of probabilities of excluding events: no difference of nearly equal numbers.
        only_a, only_b = p_a, p_b
        p_a, p_b = only_a + p_ab, only_b + p_ab
        not_a, not_b = only_b + none, only_a + none
        var_a, var_b = p_a * not_a * weight, p_b * not_b * weight
        for end, other, variance in ((a, b, var_a), (b, a, var_b)):
            np.add.at(self.inside, (end, other), (variance * x[other]) @ x.T)
        if len(self.joined):
            every = len(self.joined) == len(a)
            j = slice(None) if every else self.joined
            chosen = weight[j]
            covariance = p_ab[j] * none[j]
            covariance -= only_a[j] * only_b[j]
            covariance *= chosen
            self.cross += covariance @ products
            share = p_ab[j] * chosen
            self.edge += (share * (only_a[j] + not_a[j])).sum(axis=1)
            self.ends[0][...] += (share * not_a[j]) @ x.T
            self.ends[1][...] += (share * not_b[j]) @ x.T
        return np.asarray(self.by_variable[0] @ var_a + self.by_variable[1] @ var_b)

    def put(self, part: _Part, result: FloatArray, number: IntArray, place: IntArray) -> None:
        """Add to the matrix what concerns two variables or their edge."""
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
