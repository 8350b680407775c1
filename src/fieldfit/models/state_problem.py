"""The Problem of a `TiedField`: small blocks given all the rest, state by state.

A block A with S joint states in a sample x has the log-likelihood

    log p(x_A | rest) = −log( 1 + Σ_{s ≠ x_A} exp(D_s θ) ),    D_s = F(s, rest) − F(x_A, rest),

where F are the features of the cliques that touch A. The rows D_s of all blocks are one matrix of S − 1 rows and r columns
for each block; values, scores and Hessians are products with it. It is a logistic regression of each block on its
neighbours, so few shared parameters cost little for any number of sites.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from fieldfit.models.located import LocatedScores
from fieldfit.models.problem import Problem
from fieldfit.policies.field_families import FieldFamily
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.threads import one_blas_thread
from fieldfit.types import DataError, FloatArray, Int32Array, IntArray

if TYPE_CHECKING:
    from fieldfit.models.tied import TiedField

#: Most joint states of a block that is evaluated state by state.
MOST_BLOCK_STATES = 64
#: Most bytes of the rows D of one problem.
MOST_STATE_BYTES = 3 << 30
#: Rows of D that are multiplied at a time.
_MULTIPLIED_ROWS = 1 << 16


def state_supports(part: FamilySelection, q: int) -> bool:
    """Whether all components of this part are blocks given all the rest with few joint states."""
    family = cast(FieldFamily, part.family)
    if family.size is None or not getattr(family, "conditions_on_rest", False):
        return False
    size = getattr(family, "block_size", None)
    if size is None:
        size = int(np.diff(family.blocks(np.arange(family.size))[0]).max(initial=0))
    return bool(size <= MOST_BLOCK_STATES.bit_length() and q**size <= MOST_BLOCK_STATES)  # at least two labels


@dataclass(frozen=True)
class BlockRows:
    """Selected blocks of one family and one size.

    ``rows`` (blocks, S − 1, r) are D, ``sample`` and ``site`` (blocks,) the sample and the first variable of each
    block, ``weight`` (blocks,) or None the weights of components.
    """

    family: int
    rows: FloatArray
    sample: IntArray
    site: IntArray
    weight: FloatArray | None

    def chunks(self) -> Iterator[slice]:
        """Slices of the blocks that are multiplied at a time."""
        size = max(1, _MULTIPLIED_ROWS // self.rows.shape[1])
        return (slice(start, start + size) for start in range(0, len(self.rows), size))

    def weights(self, beta: float, row_weight: FloatArray | None, part: slice) -> FloatArray | float:
        """The weight of each block of a part."""
        weight: FloatArray | float = beta if self.weight is None else beta * self.weight[part]
        return weight if row_weight is None else weight * row_weight[self.sample[part]]


class StateProblem(Problem):
    """See the module docstring. ``codes`` (n, m) have no missing values."""

    def __init__(self, model: TiedField, codes: Int32Array, selection: Selection) -> None:
        self.n_samples = len(codes)
        self.n_parameters = model.n_parameters
        self.n_families = len(selection.parts)
        self._betas = np.array([1.0 if isinstance(p.beta, np.ndarray) else p.beta for p in selection.parts])
        chosen = [
            (number, part, *picked)
            for number, part in enumerate(selection.parts)
            for picked in _by_size(part, selection.n)
        ]
        counted = [blocks.shape[0] * (model.n_labels ** blocks.shape[1] - 1) for _, _, blocks, _, _ in chosen]
        total = 8 * self.n_parameters * sum(counted)
        if total > MOST_STATE_BYTES:
            names = ", ".join(part.family.name for part in selection.parts)
            raise DataError(
                f"{names} on these samples needs {total:,} bytes for the states of {sum(len(c[2]) for c in chosen):,} "
                f"blocks; the limit is {MOST_STATE_BYTES:,}. Use smaller blocks, connected ones (PL2(connected)), or a "
                "part of them (0.1*PL2)."
            )
        self.blocks = tuple(
            BlockRows(
                number,
                _rows(model, codes, blocks, sample),
                sample,
                blocks[:, 0],
                np.asarray(part.beta)[index] if isinstance(part.beta, np.ndarray) else None,
            )
            for number, part, blocks, sample, index in chosen
        )

    @property
    def betas(self) -> FloatArray:
        """The weight β of each family."""
        return self._betas

    def with_betas(self, betas: FloatArray) -> StateProblem:
        """The same rows with other weights of the families."""
        from copy import copy

        other = copy(self)
        other._betas = np.array(betas, dtype=np.float64)
        return other

    def _used(self) -> Iterator[tuple[BlockRows, float]]:
        return ((block, float(self._betas[block.family])) for block in self.blocks if self._betas[block.family] != 0)

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient."""
        value, gradient = 0.0, np.zeros(self.n_parameters)
        with one_blas_thread():
            for block, beta in self._used():
                for part in block.chunks():
                    rows = block.rows[part]
                    log_z, p = _probabilities(rows @ theta)
                    weight = block.weights(beta, row_weight, part)
                    value -= float(np.sum(weight * log_z))
                    gradient -= _weighted(p, weight).ravel() @ rows.reshape(-1, self.n_parameters)
        return value, gradient

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) v."""
        result = np.zeros(self.n_parameters)
        with one_blas_thread():
            for block, beta in self._used():
                for part in block.chunks():
                    rows = block.rows[part]
                    _, p = _probabilities(rows @ theta)
                    slope = rows @ v
                    change = p * (slope - np.sum(p * slope, axis=1, keepdims=True))
                    weight = block.weights(beta, row_weight, part)
                    result -= _weighted(change, weight).ravel() @ rows.reshape(-1, self.n_parameters)
        return result

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) = −Σ w Cov(D) as a dense matrix."""
        result = np.zeros((self.n_parameters, self.n_parameters))
        with one_blas_thread():
            for block, beta in self._used():
                for part in block.chunks():
                    rows = block.rows[part]
                    _, p = _probabilities(rows @ theta)
                    weight = block.weights(beta, row_weight, part)
                    mean = np.einsum("bs,bsr->br", p, rows)
                    flat = rows.reshape(-1, self.n_parameters)
                    result -= (flat * _weighted(p, weight).reshape(-1, 1)).T @ flat
                    result += (mean * np.broadcast_to(weight, len(mean))[:, None]).T @ mean
        return (result + result.T) / 2

    @property
    def hessian_evaluations(self) -> float:
        """About one for every four parameters: one product of matrices, against two with vectors in an evaluation."""
        return 1.0 + self.n_parameters / 4

    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sample."""
        result = np.zeros(self.n_samples)
        for block, beta in self._used():
            for part in block.chunks():
                log_z, _ = _probabilities(block.rows[part] @ theta)
                values = -block.weights(beta, None, part) * log_z
                result += np.bincount(block.sample[part], values, self.n_samples)
        return result

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sample."""
        result = np.zeros(self.n_samples)
        for block, beta in self._used():
            for part in block.chunks():
                rows = block.rows[part]
                _, p = _probabilities(rows @ theta)
                values = -block.weights(beta, None, part) * np.sum(p * (rows @ v), axis=1)
                result += np.bincount(block.sample[part], values, self.n_samples)
        return result

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the samples start..stop by family."""
        stop = min(stop, self.n_samples)
        result = np.zeros((stop - start, self.n_families, self.n_parameters))
        for block in self.blocks:
            inside = np.flatnonzero((block.sample >= start) & (block.sample < stop))
            if len(inside):
                scores = self._scores(block, theta, inside)
                sample = block.sample[inside] - start
                for column in range(self.n_parameters):
                    result[:, block.family, column] += np.bincount(sample, scores[:, column], stop - start)
        return result

    def _scores(self, block: BlockRows, theta: FloatArray, chosen: IntArray) -> FloatArray:
        """The score of each of these blocks without β (blocks, r)."""
        rows = block.rows[chosen]
        with one_blas_thread():
            _, p = _probabilities(rows @ theta)
        scores: FloatArray = -np.einsum("bs,bsr->br", p, rows)
        return scores if block.weight is None else scores * block.weight[chosen, None]

    def located_scores(self, theta: FloatArray) -> LocatedScores:
        """The score of each block with β, at its first variable."""
        parts = [
            LocatedScores(beta * self._scores(block, theta, np.arange(len(block.rows))), block.site, block.sample)
            for block, beta in self._used()
        ]
        return LocatedScores.join(parts)


def _probabilities(logits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log(1 + Σ_s exp u_s) of each row (blocks,), and exp(u_s) over that sum (blocks, S − 1)."""
    largest = np.maximum(logits.max(axis=1, initial=0.0), 0.0)
    p = np.exp(logits - largest[:, None])
    total = p.sum(axis=1) + np.exp(-largest)
    p /= total[:, None]
    log_z: FloatArray = largest + np.log(total)
    return log_z, p


def _weighted(p: FloatArray, weight: FloatArray | float) -> FloatArray:
    result: FloatArray = p * (weight if np.ndim(weight) == 0 else np.asarray(weight)[:, None])
    return result


def _by_size(part: FamilySelection, n: int) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """The selected blocks of one size at a time: their variables (blocks, k), samples and numbers in the family."""
    family = cast(FieldFamily, part.family)
    pointer, samples = part.component_rows(n)
    used = np.flatnonzero(np.diff(pointer))
    counts = np.diff(pointer)[used]
    indptr, members = family.blocks(used)
    lengths = np.diff(indptr)
    for size in np.unique(lengths).tolist():
        here = np.flatnonzero(lengths == size)
        blocks = members[indptr[here][:, None] + np.arange(size)]
        starts = pointer[used[here]]
        each = counts[here]
        offset = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        yield np.repeat(blocks, each, axis=0), samples[np.repeat(starts, each) + offset], np.repeat(used[here], each)


def _rows(model: TiedField, codes: Int32Array, blocks: IntArray, sample: IntArray) -> FloatArray:
    """D (blocks, S − 1, r): the features of every other state of each block minus those of the observed state."""
    from scipy.sparse import csr_array

    q, k = model.n_labels, blocks.shape[1]
    states = q**k
    count = len(blocks)
    state = np.zeros(count, dtype=np.int64)
    for column in range(k):
        state = state * q + codes[sample, blocks[:, column]]
    result = np.zeros((count, states - 1, model.n_parameters))
    for group, numbers in zip(model.groups, model.numbers, strict=True):
        scopes, table = group.scopes, group.table
        width = scopes.shape[1]
        block, clique = _touching(scopes, blocks, model.m)
        if not len(block):
            continue
        gather = csr_array(
            (np.ones(len(block)), np.arange(len(block)), np.searchsorted(block, np.arange(count + 1))),
            shape=(count, len(block)),
        )
        covariates = group.covariates[clique]
        # The position of each variable of a clique in its block, or −1; and the part of the table index from outside
        # variables.
        place = np.full((len(block), width), -1)
        outside = np.zeros(len(block), dtype=np.int64)
        for position in range(width):
            for column in range(k):
                place[scopes[clique, position] == blocks[block, column], position] = column
            stride = q ** (width - 1 - position)
            fixed = codes[sample[block], scopes[clique, position]].astype(np.int64)
            outside += np.where(place[:, position] < 0, fixed * stride, 0)
        observed = _functions(state[block], place, outside, table, q, k)
        for step in range(1, states):
            change = _functions((state[block] + step) % states, place, outside, table, q, k) - observed
            for function in range(table.shape[1]):
                sums = gather @ (change[:, function, None] * covariates)
                for covariate, number in enumerate(numbers[function].tolist()):
                    result[:, step - 1, number] += sums[:, covariate]
    return result


def _functions(state: IntArray, place: IntArray, outside: IntArray, table: FloatArray, q: int, k: int) -> FloatArray:
    """The functions of each clique with its block in ``state``."""
    entry = outside.copy()
    width = place.shape[1]
    for position in range(width):
        inside = place[:, position] >= 0
        digit = state // q ** np.where(inside, k - 1 - place[:, position], 0) % q
        entry += np.where(inside, digit * q ** (width - 1 - position), 0)
    values: FloatArray = table[entry]
    return values


def _touching(scopes: IntArray, blocks: IntArray, m: int) -> tuple[IntArray, IntArray]:
    """Pairs (block, clique) that share a variable, each once, sorted."""
    from scipy.sparse import csr_array

    count, k = blocks.shape
    in_block = csr_array((np.ones(count * k, np.int8), blocks.ravel(), np.arange(count + 1) * k), shape=(count, m))
    cliques, width = scopes.shape
    in_clique = csr_array(
        (np.ones(cliques * width, np.int8), scopes.ravel(), np.arange(cliques + 1) * width), shape=(cliques, m)
    )
    pairs = (in_block @ in_clique.T.tocsr()).tocsr()
    pairs.sort_indices()
    return np.repeat(np.arange(count), np.diff(pairs.indptr)), pairs.indices.astype(np.int64)
