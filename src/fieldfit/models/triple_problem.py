"""A second-order chain CRF compiled for its sequences and their selected windows.

As in `chain_problem`, but the score of a sequence has U(y_{t−2}, y_{t−1}, y_t), so a window is conditioned on the two
labels before it and the two after it. A window with an unknown label among these is left out.
"""

from __future__ import annotations

import numpy as np

from fieldfit import _kernels
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_curvature import state_columns
from fieldfit.models.chain_layout import ChainLayout
from fieldfit.models.chain_problem import ChainProblem, Windows
from fieldfit.models.label_triples import LabelTriples
from fieldfit.properties import cached_property
from fieldfit.threads import get_threads
from fieldfit.types import FloatArray, IntArray

#: Number of chunks of sequences that run in parallel, and numbers in the sums of arcs of all chunks.
_PARALLEL_CHUNKS, _MOST_TRIPLE_SUMS = 32, 1 << 24
#: Number of sequences that run through the recursion together, as in kernels/chain.hpp.
_SEQUENCES_TOGETHER = 4


class TripleProblem(ChainProblem):
    """Sums over the sequences of a second-order chain CRF."""

    @property
    def _triples(self) -> LabelTriples:
        return self.layout.arcs

    @property
    def _threads(self) -> int:
        return get_threads(float(self.dataset.n_tokens) * self._triples.n_arcs)

    def batches(self, precision: float, row_weight: FloatArray | None = None) -> None:
        """None: stochastic gradients need a first-order chain."""
        return

    def hessian_factor(self, theta: FloatArray, row_weight: FloatArray | None = None) -> None:
        """None: sampled factors need a first-order chain."""
        return

    @cached_property
    def _chunks(self) -> tuple[IntArray, IntArray]:
        """The ends of the chunks, and the order of the sequences: those that run together have about the same length."""
        by_length = np.argsort(-self.dataset.lengths, kind="stable")
        batches = [by_length[k : k + _SEQUENCES_TOGETHER] for k in range(0, len(by_length), _SEQUENCES_TOGETHER)]
        count = max(1, min(_PARALLEL_CHUNKS, _MOST_TRIPLE_SUMS // max(1, self._triples.n_arcs), len(batches)))
        parts = [np.concatenate([np.zeros(0, dtype=np.int64), *batches[c::count]]) for c in range(count)]
        return np.concatenate(([0], np.cumsum([len(part) for part in parts]))), np.concatenate(parts)

    def _scores(self, theta: FloatArray, direction: bool = False) -> tuple[FloatArray, FloatArray]:
        """Scores of all tokens (n_tokens, padded) and of all arcs (n_arcs,)."""
        scores = np.empty((self.dataset.n_tokens, self.layout.padded))
        weights = self.layout.unpack(theta, direction)
        _kernels.chain_scores(self.tokens, weights, scores=scores, n_threads=self._threads)
        return scores, self.layout.arc_scores(theta)

    def _evaluate(
        self,
        theta: FloatArray,
        v: FloatArray | None,
        row_weight: FloatArray | None,
        families: tuple[Windows, ...],
        *,
        squares: bool = False,
        sums: tuple[FloatArray, FloatArray] | None = None,
        chunks: tuple[IntArray, IntArray] | None = None,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Values and their derivatives in the direction v; residuals and sums of arcs are written to ``sums``."""
        scores, weights = self._scores(theta)
        slopes = None if v is None else self._scores(v, direction=True)
        values = np.empty(self.n_samples)
        tangents = None if v is None else np.empty(self.n_samples)
        pointer, order = self._chunks if chunks is None else chunks
        _kernels.triple_evaluate(
            self._triples.kernel,
            offsets=self.dataset.offsets,
            labels=self.dataset.labels,
            scores=scores,
            weights=weights,
            tangent_scores=None if slopes is None else slopes[0],
            tangent_weights=None if slopes is None else slopes[1],
            families=list(families),
            row_weight=row_weight,
            squares=squares,
            chunk_ptr=pointer,
            order=order,
            values=values,
            tangents=tangents,
            residuals=None if sums is None else sums[0],
            arcs=None if sums is None else sums[1],
            states=None,
            n_threads=self._threads,
        )
        return values, tangents

    def _gradient(
        self,
        theta: FloatArray,
        v: FloatArray | None,
        row_weight: FloatArray | None,
        families: tuple[Windows, ...],
        squares: bool = False,
        out: FloatArray | None = None,
    ) -> tuple[float, FloatArray]:
        layout = self.layout
        residuals = np.empty((self.dataset.n_tokens, layout.padded))
        arcs = np.empty((len(self._chunks[0]) - 1, self._triples.n_arcs))
        values, _ = self._evaluate(theta, v, row_weight, families, squares=squares, sums=(residuals, arcs))
        gradient = np.empty(self.n_parameters) if out is None else out
        start, end = np.empty(layout.padded), np.empty(layout.padded)
        _kernels.chain_state_gradient(
            self.tokens,
            residuals=residuals,
            squares=squares,
            state=gradient[: layout.n_state],
            start=start,
            end=end,
            n_threads=self._threads,
        )
        layout.pack_arcs(gradient, arcs.sum(axis=0), end)
        return float(values.sum()), gradient

    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sequence; −∞ if its labels have a forbidden triple."""
        return self._evaluate(self._vector(theta), None, None, self.used)[0]

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sequence: the derivative of the forward recursion in the direction v."""
        products = self._evaluate(self._vector(theta), self._vector(v), None, self.used)[1]
        assert products is not None
        return products

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the sequences start..stop by family, without β: dense, for models with few parameters."""
        rows = np.arange(start, stop)
        data = self.dataset.subset(rows)
        families = tuple(family.subset(rows)._replace(beta=1.0) for family in self.families)
        part = TripleProblem(self.layout, data, families)
        return np.stack([part._family_rows(self._vector(theta), family) for family in families], axis=1)

    def _family_rows(self, theta: FloatArray, family: Windows) -> FloatArray:
        """The score of each sequence (n_samples, r) for one family."""
        layout, data = self.layout, self.dataset
        residuals = np.empty((data.n_tokens, layout.padded))
        arcs = np.empty((data.n, self._triples.n_arcs))
        each = np.arange(data.n + 1), np.arange(data.n)
        self._evaluate(theta, None, None, (family,), sums=(residuals, arcs), chunks=each)
        result = np.zeros((data.n, self.n_parameters))
        add_state_scores(layout, data, residuals, result)
        ends = np.zeros((data.n, layout.padded))
        filled = np.flatnonzero(data.lengths > 0)
        ends[filled] = residuals[data.offsets[1:][filled] - 1]
        for row, counts, end in zip(result, arcs, ends, strict=True):
            layout.pack_arcs(row, counts, end)
        return result


def add_state_scores(layout: ChainLayout, data: Sequences, residuals: FloatArray, out: FloatArray) -> None:
    """Add Σ_t x_tf r_t(y) to the state weights of each sequence: ``out`` is (n_sequences, r)."""
    token = np.repeat(np.arange(data.n_tokens), np.diff(data.indptr))
    sequence = np.repeat(np.arange(data.n), data.lengths)[token]
    values = np.ones(len(token)) if data.values is None else data.values
    for label in range(layout.n_labels):
        places = state_columns(layout, data.indices, np.full(len(token), label, dtype=np.int32))
        known = places >= 0
        np.add.at(out, (sequence[known], places[known]), values[known] * residuals[token[known], label])
