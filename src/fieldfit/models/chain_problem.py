"""A linear-chain CRF compiled for its sequences and their selected windows.

For a window w of sequence (x, y) with the labels ℓ and r beside it, log p(y_w | ℓ, r, x) = score(y_w, ℓ, r) − log Z(ℓ, r)
where Z sums over the labels in w. The whole sequence is the window without ℓ and r.

Labels that are unknown (−1) are summed out: a window counts with the log of the summed probability,

    log p(known labels of w | ℓ, r, x) = log Z(known labels fixed, ℓ, r) − log Z(ℓ, r),

which is no longer concave in θ. A window next to an unknown label is left out, because it would condition on that
label. A window without any known label is left out too: its log-probability is 0.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_batches import ChainBatches
from fieldfit.models.chain_curvature import window_factor
from fieldfit.models.chain_decoding import ScoredChains
from fieldfit.models.chain_layout import ChainLayout, Weights
from fieldfit.models.problem import Problem
from fieldfit.policies.selection import FamilySelection
from fieldfit.policies.windows import WindowFamily
from fieldfit.properties import cached_property, state_without
from fieldfit.threads import get_threads
from fieldfit.types import BoolArray, DataError, FloatArray, IntArray, ModelError, Plain, PolicyError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Tokens whose residuals an evaluation holds in memory at once; 0: depends on the size of the data.
BLOCK_TOKENS = 0
#: Draws of the labels of each window for the factor of the Hessian.
_DRAWS = 4


class Windows(NamedTuple):
    """The selected windows of one family, as the kernels take them (see `FamilySelection`)."""

    width: int
    beta: float
    rows: NDArray[np.uint8] | None
    indptr: IntArray | None
    indices: IntArray | None

    def subset(self, rows: IntArray) -> Windows:
        """The same of some sequences."""
        mask = None if self.rows is None else np.ascontiguousarray(self.rows[rows])
        if self.indptr is None or self.indices is None:
            return self._replace(rows=mask)
        counts = np.diff(self.indptr)[rows]
        pointer = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        taken = np.repeat(self.indptr[:-1][rows] - pointer[:-1], counts) + np.arange(pointer[-1])
        return self._replace(rows=mask, indptr=pointer, indices=self.indices[taken])


def windows_of_selection(part: FamilySelection) -> Windows:
    """The windows that a policy has drawn for one family."""
    if not isinstance(part.family, WindowFamily):
        raise PolicyError(f"{part.family.name} is not a family of windows: bind the policy to SequenceStructure.")
    if not isinstance(part.beta, float | int):
        raise PolicyError(f"{part.family.name} has windows that differ between sequences: give it one weight β.")
    rows = None if part.rows is None else np.ascontiguousarray(part.rows).view(np.uint8)
    indptr = None if part.indptr is None else np.ascontiguousarray(part.indptr, dtype=np.int64)
    indices = None if part.indices is None else np.ascontiguousarray(part.indices, dtype=np.int64)
    return Windows(part.family.width, float(part.beta), rows, indptr, indices)


def active_tokens(offsets: IntArray, families: tuple[Windows, ...]) -> NDArray[np.uint8] | None:
    """Which tokens lie in a selected window (n_tokens,); None if all do."""
    lengths = np.diff(offsets)
    change = np.zeros(int(offsets[-1]) + 1, dtype=np.int64)
    for family in families:
        if family.indptr is not None and family.indices is not None:
            rows = np.repeat(np.arange(len(lengths)), np.diff(family.indptr))
            first = offsets[rows] + family.indices
            width = lengths[rows] if family.width == 0 else np.minimum(family.width, lengths[rows])
        elif family.rows is not None:
            rows = np.flatnonzero(family.rows)
            first, width = offsets[rows], lengths[rows]
        else:
            return None
        np.add.at(change, first, 1)
        np.add.at(change, first + width, -1)
    active = np.cumsum(change[:-1]) > 0
    return None if active.all() else active.view(np.uint8)


def check_labels(dataset: Sequences) -> None:
    """Raise an error if labels are unknown, for models that do not sum over them."""
    if dataset.n_tokens and int(dataset.labels.min()) < 0:
        token = int(np.flatnonzero(dataset.labels < 0)[0])
        sequence = int(np.searchsorted(dataset.offsets, token, side="right")) - 1
        raise DataError(
            f"Token {token - dataset.offsets[sequence]} of sequence {sequence} (counted from 0) has no known label, so "
            "the sequence has no likelihood. Leave such sequences out of the training data."
        )


def chain_tokens(
    layout: ChainLayout, dataset: Sequences, active: NDArray[np.uint8] | None = None, *, compact: bool = False
) -> _kernels.ChainTokens:
    """The sequences as the kernels take them; ``compact`` without lists of each token's features by frequency."""
    pair_ptr, pair_labels = layout.kernel_pairs()
    edges: Plain = {}
    if layout.column_ptr is not None:
        edges = {
            "edge_ptr": dataset.indptr,
            "edge_features": dataset.indices,
            "edge_values": dataset.values,
            "column_ptr": layout.column_ptr,
            "columns": layout.kernel_columns,
        }
    return _kernels.ChainTokens(
        offsets=dataset.offsets,
        indptr=dataset.indptr,
        indices=dataset.indices,
        values=dataset.values,
        labels=dataset.labels,
        n_labels=layout.n_labels,
        n_features=layout.n_features,
        active=active,
        pair_ptr=pair_ptr,
        pair_labels=pair_labels,
        **edges,
        block_tokens=BLOCK_TOKENS,
        compact=compact,
    )


class ChainProblem(Problem):
    """Sums over the sequences of a linear-chain CRF."""

    # On CoNLL-2000 (2,000 sentences, σ² = 1) to 1e-4 of the optimum: 103 iterations, 223 with the diagonal as a
    # preconditioner, 422 Hessian products by Newton's method.
    optimiser = "lbfgs"
    streams_scores = False
    _compact = False

    def __init__(self, layout: ChainLayout, dataset: Sequences, families: tuple[Windows, ...]) -> None:
        self.layout = layout
        self.dataset = dataset
        self.families = families
        self.n_samples = dataset.n_sequences
        self.n_parameters = layout.n_parameters
        self.n_families = len(families)

    @cached_property
    def tokens(self) -> _kernels.ChainTokens:
        """The sequences as the kernels take them, compiled when they are first used."""
        active = active_tokens(self.dataset.offsets, self.families)
        return chain_tokens(self.layout, self.dataset, active, compact=self._compact)

    def __getstate__(self) -> Plain:
        return state_without(self, "tokens")

    @property
    def _threads(self) -> int:
        """The number of threads for one evaluation; one for a few sentences."""
        layout, dataset = self.layout, self.dataset
        return get_threads(
            float(dataset.n_tokens) * layout.padded * layout.padded + len(dataset.indices) * layout.padded
        )

    @property
    def betas(self) -> FloatArray:
        """The weight β of each family."""
        return np.array([family.beta for family in self.families])

    def with_betas(self, betas: FloatArray) -> ChainProblem:
        """The same sequences and windows with other weights of the families."""
        self.tokens  # noqa: B018, compiled once for both
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.families = tuple(family._replace(beta=float(b)) for family, b in zip(self.families, betas, strict=True))
        return other

    def compact(self) -> ChainProblem:
        """The same sums without lists of each token's features, which are read from the data in each evaluation."""
        if "tokens" in self.__dict__:
            return self
        other = copy(self)
        other._compact = True
        return other

    def without(self, zeros: BoolArray) -> tuple[Problem, IntArray] | None:
        """The chain without the state and label-pair weights in ``zeros`` (r,), whose features are not read."""
        layout = self.layout
        end, last = layout.bounds[3:]
        keep, keep_columns = ~zeros[: layout.n_state], ~zeros[end:last]
        kept = layout.selected(keep, keep_columns)
        other = copy(self)
        other.layout, other.n_parameters = kept, kept.n_parameters
        assert kept.pair_ptr is not None
        assert kept.pair_labels is not None
        other.tokens = self.tokens.selected(
            keep=keep.view(np.uint8),
            pair_ptr=kept.pair_ptr,
            pair_labels=kept.pair_labels,
            column_ptr=kept.column_ptr,
            columns=kept.kernel_columns,
        )
        places = (
            np.flatnonzero(keep),
            np.arange(layout.n_state, end),
            end + np.flatnonzero(keep_columns),
            np.arange(last, layout.n_parameters),
        )
        return other, np.concatenate(places)

    @property
    def used(self) -> tuple[Windows, ...]:
        """The families that sums need: those with a weight other than 0."""
        return tuple(family for family in self.families if family.beta != 0) or self.families[:1]

    def _vector(self, theta: FloatArray) -> FloatArray:
        array = np.ascontiguousarray(theta, dtype=np.float64)
        if array.shape != (self.n_parameters,):
            raise ModelError(
                f"θ must have {self.n_parameters} numbers; it has {array.size} numbers in {array.shape}."
            )
        return array

    def _gradient(
        self,
        theta: FloatArray,
        v: FloatArray | None,
        row_weight: FloatArray | None,
        families: tuple[Windows, ...],
        squares: bool = False,
        out: FloatArray | None = None,
    ) -> tuple[float, FloatArray]:
        layout, padded = self.layout, self.layout.padded
        gradient = np.empty(self.n_parameters) if out is None else out
        transitions, start, end = np.zeros((padded, padded)), np.zeros(padded), np.zeros(padded)
        values = np.empty(self.n_samples)
        _kernels.chain_evaluate(
            self.tokens,
            layout.unpack(theta),
            direction=None if v is None else layout.unpack(v, direction=True),
            families=list(families),
            row_weight=row_weight,
            observed=True,
            squares=squares,
            values=values,
            tangents=None if v is None else np.empty(self.n_samples),
            residuals=None,
            gradient=(gradient[: layout.n_state], transitions, start, end, gradient[layout.bounds[3] :]),
            n_threads=self._threads,
        )
        layout.pack(gradient, transitions, start, end)
        return float(values.sum()), gradient

    def value_grad(
        self, theta: FloatArray, row_weight: FloatArray | None = None, out: FloatArray | None = None
    ) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient, which is written to ``out`` if that is given."""
        return self._gradient(self._vector(theta), None, _maybe(row_weight), self.used, out=out)

    def batches(self, precision: float, row_weight: FloatArray | None = None) -> ChainBatches | None:
        """The sum over batches of sequences, for stochastic gradients; None if label pairs have features."""
        if self.layout.column_ptr is not None:
            return None
        active = active_tokens(self.dataset.offsets, self.families)
        return ChainBatches(self, active, precision, _maybe(row_weight))

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) v, by derivatives through the same recursions.

        Negative semi-definite where all labels are known; otherwise the difference of two log Z's Hessians.
        """
        return self._gradient(self._vector(theta), self._vector(v), _maybe(row_weight), self.used)[1]

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i Σ p(1 − p) x² over tokens and edges, with marginals p, without covariances between tokens.

        The negative part due to unknown labels is omitted too, so that the diagonal stays positive.
        """
        return -self._gradient(self._vector(theta), None, _maybe(row_weight), self.used, squares=True)[1]

    def hessian_factor(self, theta: FloatArray, row_weight: FloatArray | None = None) -> csr_array | None:
        """Sparse X with XᵀX near the curvature, from labels drawn at θ; None if label pairs have features."""
        from scipy import sparse

        if self.layout.column_ptr is not None or not self.families:
            return None
        weights = self.layout.unpack(self._vector(theta))
        scores = np.empty((self.dataset.n_tokens, self.layout.padded))
        _kernels.chain_scores(self.tokens, weights, scores=scores, n_threads=self._threads)
        chains = ScoredChains(self.dataset.offsets, scores, self.layout.n_labels, weights[1][None])
        factors = [
            window_factor(self.layout, self.dataset, chains, family, _maybe(row_weight), _DRAWS, seed)
            for seed, family in enumerate(self.used)
        ]
        return sparse.csr_array(sparse.vstack(factors))

    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sequence; only the forward recursion runs."""
        return self._by_sequence(theta, None)[0]

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sequence: the derivative of the forward recursion in the direction v."""
        return self._by_sequence(theta, self.layout.unpack(self._vector(v), direction=True))[1]

    def _by_sequence(self, theta: FloatArray, direction: Weights | None) -> tuple[FloatArray, FloatArray]:
        """The value of each sequence, and its derivative in a direction."""
        values, products = np.empty(self.n_samples), np.empty(0 if direction is None else self.n_samples)
        _kernels.chain_evaluate(
            self.tokens,
            self.layout.unpack(self._vector(theta)),
            direction=direction,
            families=list(self.used),
            row_weight=None,
            observed=True,
            squares=False,
            values=values,
            tangents=None if direction is None else products,
            residuals=None,
            gradient=None,
            n_threads=self._threads,
        )
        return values, products

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the sequences start..stop by family, without β: dense, for models with few parameters."""
        layout = self.layout
        result = np.empty((stop - start, self.n_families, self.n_parameters))
        _kernels.chain_sequence_scores(
            self.tokens,
            layout.unpack(self._vector(theta)),
            families=list(self.families),
            first=start,
            transition_places=layout.transition_places,
            start=layout.start,
            end=layout.end,
            scores=result,
            n_threads=self._threads,
        )
        return result


def _maybe(row_weight: FloatArray | None) -> FloatArray | None:
    return None if row_weight is None else np.ascontiguousarray(row_weight, dtype=np.float64)
