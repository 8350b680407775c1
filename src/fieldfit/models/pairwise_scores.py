"""Scores of a binary pairwise field: by sample and family, and the sums of their products.

The score of sample i is Fᵀ of the residuals c − E[c | the rest] of its selected blocks, times the codes at the other end of
each edge, with a term of its own for pairs within a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.models.equal_samples import equal_samples
from fieldfit.models.pairwise_layout import BlockFamily, Layout, block_size, lay_out
from fieldfit.models.pairwise_parameters import PairwiseParameters
from fieldfit.models.sparse_moments import PairSums, is_sparse
from fieldfit.policies.selection import FamilySelection
from fieldfit.properties import cached_property
from fieldfit.threads import get_threads, one_blas_thread
from fieldfit.types import FloatArray, IntArray

_NONE: FloatArray = np.empty(0)
#: Most samples whose layouts are cached.
_FEW_SAMPLES = 20_000
#: Numbers in a chunk of scores whose products are summed.
_MOMENT_NUMBERS = 1 << 20


class PairwiseScores:
    """The scores of samples ``codes`` (n, m) of 0 and 1 with these selected blocks.

    ``dense``: local fields are matrix products rather than sums over edges. ``repeated``: at least half of the samples are
    equal to others.
    """

    def __init__(
        self,
        field: PairwiseParameters,
        codes: NDArray[np.uint8],
        parts: Sequence[FamilySelection],
        *,
        dense: bool,
        repeated: bool,
    ) -> None:
        self._field, self._codes, self._parts = field, codes, tuple(parts)
        self._dense, self._repeated = dense, repeated
        self._kept: list[tuple[NDArray[np.uint8], list[Layout]]] = []

    @cached_property
    def equal_samples(self) -> tuple[IntArray, IntArray] | None:
        """Groups of equal samples with equal rows of Z, if that saves half of the work."""
        return equal_samples(self._codes, self._parts) if self._repeated else None

    def between(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the samples start..stop by family, without β."""
        codes = self._codes[start:stop]
        parts = [part.between(start, start + len(codes)) for part in self._parts]
        return self._scores(theta, codes, [self._layout(codes, part) for part in parts])

    def of(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        """Scores of some samples by family, without β."""
        codes = self._codes[rows]
        return self._scores(
            theta, codes, [self._layout(codes, part.subset(rows, part.family)) for part in self._parts]
        )

    def blocks(
        self, theta: FloatArray, row_weight: FloatArray | None, size: int
    ) -> Iterator[tuple[FloatArray | None, FloatArray]]:
        """Blocks of samples as (weights, scores), from the cached layouts."""
        for weight, codes, layouts in self._layouts(row_weight, size):
            yield weight, self._scores(theta, codes, layouts)

    def statistics(self, theta: FloatArray, row_weight: FloatArray | None, size: int) -> FloatArray:
        """Σ_i w_i ψ_i^(f) ∘ ψ_i^(g), without β, summed from the residuals without storing scores.

        No parameter may be shared.
        """
        field, families = self._field, len(self._parts)
        edges = np.zeros((families, families, len(field.edges)))
        biases = np.zeros((families, families, field.n_variables))
        for weight, codes, layouts in self._layouts(row_weight, size):
            residual = np.zeros((families, len(codes), field.n_variables))
            pair_terms = np.zeros((families, len(codes), len(field.edges)))
            for f, layout in enumerate(layouts):
                layout.kernel.scores(
                    *field.to_field(theta), residual=residual[f], pair_terms=pair_terms[f], n_threads=get_threads()
                )
            _kernels.pairwise_moments(
                edges=field.edges,
                codes=codes,
                residual=residual.ravel(),
                pair_terms=pair_terms.ravel(),
                weight=_NONE if weight is None else weight,
                state0=field.state0,
                gap=field.gap,
                families=families,
                out=edges.ravel(),
                n_threads=get_threads(),
            )
            if field.bias_parameter is not None:
                weighted = residual if weight is None else residual * weight[:, None]
                biases += np.einsum("fij,gij->fgj", weighted, residual)
        total = np.zeros((families, families, field.n_parameters))
        total[:, :, field.edge_parameter] = edges
        if field.bias_parameter is not None:
            total[:, :, field.bias_parameter] = field.gap**2 * biases
        lower = np.tril_indices(families, -1)
        total[lower] = total[lower[::-1]]
        return total

    def moment(self, theta: FloatArray, samples: NDArray[np.uint8], weight: FloatArray | None) -> FloatArray:
        """Σ_i w_i ψ_i ψ_iᵀ (r, r) with weights that are not negative, by products of chunks of scores.

        Of distinct ``samples`` if everything is selected, else of all of them.
        """
        field, edges, m = self._field, len(self._field.edges), self._field.n_variables
        root = None if weight is None else np.sqrt(weight)
        kernel_field, (a, b) = field.to_field(theta), field.edges.T
        used = [part for part in self._parts if np.any(part.beta)] or self._parts[:1]
        betas = [part.beta for part in used]
        pairs = any(block_size(cast(BlockFamily, part.family)) > 1 for part in used)
        sums = PairSums(m) if not pairs and is_sparse(samples, edges) else None
        size = edges + m
        total = np.zeros((size, size) if sums is None else (0, 0))
        # Sums over pairs of variables need no matrix of scores, and larger chunks need fewer layouts.
        rows = min(max((_MOMENT_NUMBERS if sums is None else 4 * _MOMENT_NUMBERS) // size, 64), len(samples))
        scores, product = np.empty((len(total), rows)), np.empty((edges if sums is None else 0, rows))
        no_terms = None if pairs else np.zeros((rows, edges))  # single variables add nothing to it
        with one_blas_thread():
            for start in range(0, len(samples), rows):
                codes = np.ascontiguousarray(samples[start : start + rows])
                count = len(codes)
                chosen = [part.between(start, start + count) for part in used]
                layout = lay_out(codes, chosen, betas, field.edge_numbers, dense=self._dense, merge=False)
                residual = np.zeros((count, m))
                pair_terms = np.zeros((count, edges)) if no_terms is None else no_terms[:count]
                layout.kernel.scores(*kernel_field, residual=residual, pair_terms=pair_terms, n_threads=get_threads())
                if sums is not None:
                    sums.add(codes, residual if root is None else residual * root[start : start + count, None])
                    continue
                values, by_variable = codes.T.astype(np.float64), np.ascontiguousarray(residual.T)
                by_edge, other = scores[:edges, :count], product[:, :count]
                np.multiply(by_variable[a], values[b], out=by_edge)
                by_edge += np.multiply(by_variable[b], values[a], out=other)
                if pairs:
                    by_edge += pair_terms.T
                scores[edges:, :count] = by_variable
                chunk = scores[:, :count]
                if root is not None:
                    chunk *= root[start : start + count]
                total += chunk @ chunk.T
        return field.congruent(total if sums is None else sums.matrix(field.edges))

    def by_group(self, theta: FloatArray, groups: IntArray, n_groups: int, weight: FloatArray | None) -> FloatArray:
        """Σ_{i∈g} w_i ψ_i (n_groups, r): for each group one product of its residuals and codes, by edge afterwards."""
        field, edges, m = self._field, len(self._field.edges), self._field.n_variables
        kernel_field, (a, b) = field.to_field(theta), field.edges.T
        used = [part for part in self._parts if np.any(part.beta)] or self._parts[:1]
        betas = [part.beta for part in used]
        pairs = any(block_size(cast(BlockFamily, part.family)) > 1 for part in used)
        here = np.flatnonzero((groups >= 0) & (groups < n_groups))
        order = here[np.argsort(groups[here], kind="stable")]
        rows = max(_MOMENT_NUMBERS // max(edges, m * m, 1), 64)
        by_variable, by_edge = np.zeros((n_groups, m)), np.zeros((n_groups, edges))
        no_terms = None if pairs else np.zeros((min(rows, len(order)), edges))
        for start in range(0, len(order), rows):
            chosen = order[start : start + rows]
            codes = np.ascontiguousarray(self._codes[chosen])
            parts = [part.subset(chosen, part.family) for part in used]
            layout = lay_out(codes, parts, betas, field.edge_numbers, dense=self._dense, merge=False)
            residual = np.zeros((len(codes), m))
            pair_terms = np.zeros((len(codes), edges)) if no_terms is None else no_terms[: len(codes)]
            layout.kernel.scores(*kernel_field, residual=residual, pair_terms=pair_terms, n_threads=get_threads())
            if weight is not None:
                residual *= weight[chosen, None]
            group = groups[chosen]
            first = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
            values, ends = codes.astype(np.float64), [*first[1:].tolist(), len(codes)]
            products = np.empty((len(first), m, m))
            for k, (low, high) in enumerate(zip(first.tolist(), ends, strict=True)):
                np.matmul(residual[low:high].T, values[low:high], out=products[k])
            flat, lines = products.reshape(len(first), m * m), group[first]
            by_edge[lines] += flat.take(a * m + b, axis=1) + flat.take(b * m + a, axis=1)
            by_variable[lines] += np.add.reduceat(residual, first, axis=0)
            if pairs:
                terms = pair_terms if weight is None else pair_terms * weight[chosen, None]
                by_edge[lines] += np.add.reduceat(terms, first, axis=0)
        scores = np.zeros((n_groups, field.n_parameters))
        field.to_scores(by_edge, by_variable, out=scores)
        return scores

    def _layouts(
        self, row_weight: FloatArray | None, size: int
    ) -> Iterator[tuple[FloatArray | None, NDArray[np.uint8], list[Layout]]]:
        """Blocks of ``size`` samples as (weights, codes, a layout for each family), with equal samples merged.

        The layouts of few samples are cached, because statistics are computed at many θ.
        """
        equal = self.equal_samples
        rows = np.arange(len(self._codes)) if equal is None else equal[0]
        summed = row_weight
        if equal is not None:
            summed = np.bincount(equal[1], row_weight, len(rows)).astype(np.float64)
        for place, start in enumerate(range(0, len(rows), size)):
            block = slice(start, min(start + size, len(rows)))
            if place < len(self._kept):
                codes, layouts = self._kept[place]
            else:
                codes = np.ascontiguousarray(self._codes[rows[block]])
                parts = [part.subset(rows[block], part.family) for part in self._parts]
                layouts = [self._layout(codes, part) for part in parts]
                if len(rows) <= _FEW_SAMPLES:
                    self._kept.append((codes, layouts))
            yield None if summed is None else summed[block], codes, layouts

    def _layout(self, codes: NDArray[np.uint8], part: FamilySelection) -> Layout:
        """One family in the kernel's form for scores: without its β, unless each component has a weight."""
        beta = part.beta if np.ndim(part.beta) else 1.0
        return lay_out(codes, [part], [beta], self._field.edge_numbers, dense=self._dense, merge=False)

    def _scores(self, theta: FloatArray, codes: NDArray[np.uint8], layouts: Sequence[Layout]) -> FloatArray:
        field = self._field
        scores = np.zeros((len(codes), len(layouts), field.n_parameters))
        if not len(codes):
            return scores
        for f, layout in enumerate(layouts):
            residual = np.zeros((len(codes), field.n_variables))
            pair_terms = np.zeros((len(codes), len(field.edges)))
            layout.kernel.scores(
                *field.to_field(theta), residual=residual, pair_terms=pair_terms, n_threads=get_threads()
            )
            field.scores(codes, residual, pair_terms, out=scores[:, f])
        return scores
