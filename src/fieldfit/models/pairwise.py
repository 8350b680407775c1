"""Binary pairwise fields: blocks of variables given all the rest, in O(2^k) for a block.

    log p(x) = Σ_{(j,k)∈E} θ_jk x_j x_k + Σ_j b_j x_j − log Z,   x_j ∈ {s0, s1}

The kernel uses the states 0 and 1. With x = s0 + d c, d = s1 − s0, the same field has the weights q_jk = d² θ_jk
and the biases d (b_j + s0 Σ_k θ_jk), a linear map of θ. Its transpose maps gradients and Hessian products back. The
kernel is described in kernels/pairwise.hpp.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import as_table
from fieldfit.models.equal_samples import equal_samples
from fieldfit.models.node_blocks import NodeBlocks, fits_blocks
from fieldfit.models.pairwise_curvature import curvature_matrix, has_matrix_products
from fieldfit.models.pairwise_information import information_matrix, is_fast, layout_codes
from fieldfit.models.pairwise_layout import (
    LARGEST_BLOCK,
    BlockFamily,
    EdgeNumbers,
    Layout,
    distinct_rows,
    lay_out,
    sums_by,
)
from fieldfit.models.pairwise_preconditioner import SylvesterPreconditioner, code_moments
from fieldfit.models.problem import Problem
from fieldfit.models.sparse_moments import PairSums, is_sparse
from fieldfit.models.work import FamilyWork
from fieldfit.policies.field_families import FieldFamily
from fieldfit.policies.selection import FamilySelection
from fieldfit.policies.structure import BoundFamily
from fieldfit.threads import get_threads, one_blas_thread
from fieldfit.types import Array, DataError, FloatArray, Int32Array, IntArray, ModelError, Plain

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_NONE: FloatArray = np.empty(0)
# An entry of the dense matrix product costs about a sixth of an edge in the loop over edges.
_DENSE_FROM = 0.15
#: Most shared parameters for which the diagonal of the Hessian is exact, with one product for each.
MOST_EXACT_TIED = 32
#: Curvature below which every state is certain (θ = 1e3). Numbers computed from it would underflow.
_FLAT = 1e-100
#: Largest precision of the penalty per sample for which a preconditioner that ignores the penalty is still good.
_WEAK = 0.01
#: Most samples whose layouts for scores are cached.
_FEW_SAMPLES = 20_000
#: Numbers in a chunk of scores whose products are summed, and the largest share of distinct samples for which sorting
#: saves time.
_MOMENT_NUMBERS, _FEWER = 1 << 20, 0.9
#: Most numbers of the map from θ as a dense matrix.
_DENSE_MAP = 1 << 14


def pairwise_supports(part: FamilySelection) -> bool:
    """Whether all components of this part are blocks given all the rest, small enough for a table of their states."""
    family = cast(FieldFamily, part.family)
    if family.size is None or not getattr(family, "conditions_on_rest", False) or not hasattr(family, "blocks"):
        return False
    block_size = getattr(family, "block_size", None)
    if block_size is None:
        block_size = int(np.diff(family.blocks(np.arange(family.size))[0]).max(initial=0))
    return bool(block_size <= LARGEST_BLOCK)


class PairwiseProblem(Problem):
    """A binary pairwise field compiled with samples and selected blocks.

    Parameters
    ----------
    codes : (n, m) integers, 0 for state s0 and 1 for state s1; nothing is missing.
    states : the two states (s0, s1).
    edges : (E, 2) pairs of variables, each pair at most once.
    edge_parameter : (E,) which entry of θ is the weight of each edge; several edges may share one.
    bias_parameter : (m,) the same for the biases, or None for no biases.
    n_parameters : the length r of θ.
    parts : the selected components; `pairwise_supports` must hold for each.
    """

    def __init__(
        self,
        codes: Array,
        states: Sequence[float] | FloatArray,
        edges: Array,
        edge_parameter: Array,
        bias_parameter: Array | None,
        n_parameters: int,
        parts: Sequence[FamilySelection],
    ) -> None:
        self._bits = _checked_codes(codes)
        self.n_samples, self.n_variables = self._bits.shape
        self.n_parameters = n_parameters
        self.n_families = len(parts)
        self.state0, self.gap = _checked_states(states)
        self.edges = _checked_edges(edges, self.n_variables)
        self.edge_parameter = _checked_parameters(edge_parameter, len(self.edges), n_parameters, "edge_parameter")
        self.bias_parameter = (
            None
            if bias_parameter is None
            else _checked_parameters(bias_parameter, self.n_variables, n_parameters, "bias_parameter")
        )
        for part in parts:
            if not pairwise_supports(part):
                raise ModelError(
                    f"{part.family.name} is not a family of blocks of at most {LARGEST_BLOCK} variables given all "
                    "the rest; compile it with the general model."
                )
            if np.ndim(part.beta) and np.shape(part.beta) != (part.family.size,):
                raise ModelError(
                    f"{part.family.name} has {part.family.size} components, but {np.shape(part.beta)} weights β were "
                    "given; give one for each component, or one number."
                )
        self._parts = tuple(parts)
        self._written = self._parts  # as the policy has them, before any other weights
        self._edge_number = EdgeNumbers(self.n_variables, self.edges)
        repeated = self._edge_number.repeated
        if repeated is not None:
            raise ModelError(f"The edge {tuple(self.edges[repeated].tolist())} is given twice; leave one out.")
        m = self.n_variables
        self._dense = 2 * len(self.edges) > _DENSE_FROM * m * m
        self._ends = self.edges.ravel().astype(np.int64)
        component_betas = [p.beta if np.ndim(p.beta) else 1.0 for p in parts]
        self._unit = lay_out(self._bits, parts, component_betas, self._edge_number, dense=self._dense, merge=True)
        self._layout = self._unit.with_betas(self.betas)
        self._kept_layouts: list[tuple[NDArray[np.uint8], list[Layout]]] = []

    @property
    def dense(self) -> bool:
        """Whether local fields are matrix products (many edges) rather than sums over edges."""
        return bool(self._dense)

    # -- sums over samples -------------------------------------------------------------------------------------------

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient."""
        edges, biases, arguments = self._sums(row_weight)
        value = self._layout.kernel.gradient(*self.to_field(theta), **arguments)
        return value, self.to_parameters(edges, biases)

    @property
    def has_residual_products(self) -> bool:
        """Whether the kernel uses matrix products and all components are single variables of weight 1."""
        single = all(getattr(part.family, "block_size", None) == 1 and part.everything for part in self._parts)
        return self._dense and len(self._parts) == 1 and single and bool(np.all(self._parts[0].beta == 1.0))

    def residual_products(
        self, theta: FloatArray, row_weight: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Σ_i w_i r_j (m,) and Σ_i w_i c_k r_j (m, m), with the residuals r = c − E[c | all others] of the codes c."""
        _, biases, arguments = self._sums(row_weight)
        outer = np.empty((self.n_variables, self.n_variables))
        self._layout.kernel.gradient(*self.to_field(theta), outer_out=outer, **arguments)
        return biases, outer

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) v."""
        edges, biases, arguments = self._sums(row_weight)
        self._layout.kernel.hessian_product(*self.to_field(theta), *self.to_field(v), **arguments)
        return self.to_parameters(edges, biases)

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) as a matrix: block by block, by matrix products, or a product for each parameter."""
        weight = None if row_weight is None else self._checked_weight(row_weight)
        m, field = self.n_variables, self.to_field(theta)
        if is_fast(self._layout, m, len(self.edges)):
            information = information_matrix(self._layout, self.edges, *field, weight)
        elif has_matrix_products(self._layout, m, dense=self._dense, degrees=np.bincount(self._ends, minlength=m)):
            layout, codes, weight = self._distinct_layout(weight)
            information = curvature_matrix(layout, codes, self.edges, *field, weight, dense=self._dense)
        else:
            return super().hessian_matrix(theta, row_weight)
        return -self._in_parameters(information)

    @property
    def hessian_evaluations(self) -> float:
        """A few for each neighbour of a variable if blocks are small; else two for each parameter."""
        m, degrees = self.n_variables, np.bincount(self._ends, minlength=self.n_variables)
        short = is_fast(self._layout, m, len(self.edges))
        if short or has_matrix_products(self._layout, m, dense=self._dense, degrees=degrees):
            return min(4.0 * (float(degrees.mean()) + 1.0), super().hessian_evaluations)
        return super().hessian_evaluations

    def family_work(self, family: BoundFamily, dataset: Dataset) -> FamilyWork:
        """The counted work of one family on ``dataset``."""
        from fieldfit.models.pairwise_work import PairwiseWork

        return PairwiseWork.of(self, family, as_table(dataset).codes)

    def score_moment(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ψ_i ψ_iᵀ, by products of chunks of scores that are laid out by edge and variable."""
        weight = None if row_weight is None else self._checked_weight(row_weight)
        size, edges, m = len(self.edges) + self.n_variables, len(self.edges), self.n_variables
        shared = size > 4 * self.n_parameters  # shared by many edges: the scores of the parameters are shorter
        if shared or (weight is not None and weight.min(initial=0.0) < 0):
            return super().score_moment(theta, row_weight)
        bits, weight = self._distinct_samples(weight)
        root = None if weight is None else np.sqrt(weight)
        field, (a, b) = self.to_field(theta), self.edges.T
        pairs = bool(np.any(self._layout.meta[:, 0] > 1))
        sums = PairSums(m) if not pairs and is_sparse(bits, edges) else None
        total = np.zeros((size, size) if sums is None else (0, 0))
        # Sums over pairs of variables need no matrix of scores, and larger chunks need fewer layouts.
        rows = min(max((_MOMENT_NUMBERS if sums is None else 4 * _MOMENT_NUMBERS) // size, 64), len(bits))
        scores, product = np.empty((len(total), rows)), np.empty((edges if sums is None else 0, rows))
        used = [part for part in self._parts if np.any(part.beta)] or self._parts[:1]
        betas = [part.beta for part in used]
        with one_blas_thread():
            for start in range(0, len(bits), rows):
                codes = np.ascontiguousarray(bits[start : start + rows])
                count = len(codes)
                parts = [_of_samples(part, start, start + count) for part in used]
                layout = lay_out(codes, parts, betas, self._edge_number, dense=self._dense, merge=False)
                residual, pair_terms = np.zeros((count, m)), np.zeros((count, edges))
                layout.kernel.scores(*field, residual=residual, pair_terms=pair_terms, n_threads=get_threads())
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
        if sums is not None:
            total = sums.matrix(self.edges)
        return self._in_parameters(total)

    def _in_parameters(self, matrix: FloatArray) -> FloatArray:
        """FᵀAF for a matrix over the kernel's weights and biases, F the map from θ to those."""
        result: FloatArray
        if self._is_permutation:
            parameter = np.concatenate([self.edge_parameter, cast(IntArray, self.bias_parameter)])
            order = np.argsort(parameter)
            result = matrix if np.all(order[:-1] < order[1:]) else matrix[np.ix_(order, order)]
        else:
            field = self._field_matrix
            result = field.T @ (field.T @ matrix).T
        return (result + result.T) / 2

    @property
    def _is_permutation(self) -> bool:
        """Whether F is a permutation: the states are 0 and 1, and no parameter is shared."""
        zero_one = self.state0 == 0.0 and self.gap == 1.0
        return zero_one and self.bias_parameter is not None and bool(np.all(self._uses == 1))

    @property
    def _everything_selected(self) -> bool:
        return all(part.rows is None and part.indices is None for part in self._parts)

    def _distinct_samples(self, weight: FloatArray | None) -> tuple[NDArray[np.uint8], FloatArray | None]:
        """The samples and their weights. If everything is selected, equal samples are merged and their weights added."""
        if not self._everything_selected:
            return self._bits, weight
        codes, inverse = distinct_rows(self._bits, _FEWER)
        return codes, weight if inverse is None else sums_by(
            inverse, np.ones(len(inverse)) if weight is None else weight, len(codes)
        )

    def _distinct_layout(self, weight: FloatArray | None) -> tuple[Layout, NDArray[np.uint8], FloatArray | None]:
        """The layout for sums of curvature, its samples, and the weights for it."""
        if self._layout.inverse is None:
            codes, summed = self._distinct_samples(weight)
            if len(codes) < self.n_samples:
                betas = [part.beta for part in self._parts]
                layout = lay_out(codes, self._parts, betas, self._edge_number, dense=self._dense, merge=False)
                return layout, codes, summed
        return self._layout, layout_codes(self._layout, self.n_variables), weight

    @cached_property
    def _field_matrix(self) -> csr_array | FloatArray:
        """The linear map from θ to the kernel's weights and biases (edges + variables, n_parameters)."""
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

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The diagonal of −Σ_i w_i ∇² m_θ(X_i, Z_i), (n_parameters,), not negative; for preconditioning.

        Exact for parameters of one edge or one bias. The first 32 shared parameters are exact too (one Hessian
        product each); the others omit the covariances between the edges that share them.
        """
        edges, curvature = self._diagonal(theta, row_weight)
        outside = curvature[self.edges[:, 0]] + curvature[self.edges[:, 1]]
        diagonal = sums_by(self.edge_parameter, edges + (self.gap * self.state0) ** 2 * outside, self.n_parameters)
        if self.bias_parameter is not None:
            diagonal += sums_by(self.bias_parameter, self.gap**2 * curvature, self.n_parameters)
        for shared in np.flatnonzero(self._uses > 1)[:MOST_EXACT_TIED]:
            unit = np.zeros(self.n_parameters)
            unit[shared] = 1.0
            diagonal[shared] = -self.hessian_product(theta, unit, row_weight)[shared]
        return np.maximum(diagonal, 0.0)

    @property
    def exact_diagonal(self) -> bool:
        """Whether the diagonal is exact: few enough parameters are shared."""
        return int(np.sum(self._uses > 1)) <= MOST_EXACT_TIED

    @property
    def _uses(self) -> IntArray:
        """Number of edges and biases that use each parameter (n_parameters,)."""
        uses = np.bincount(self.edge_parameter, minlength=self.n_parameters)
        if self.bias_parameter is not None:
            uses += np.bincount(self.bias_parameter, minlength=self.n_parameters)
        return uses

    def preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> SylvesterPreconditioner | None:
        """v ↦ M⁻¹ v with M near P − Σ_i ∇² m_θ(X_i, Z_i), for dense graphs without shared parameters; else None.

        It costs about one evaluation, and each use costs four products of m × m matrices. None with sample weights,
        or with a penalty that is not weak.
        """
        if row_weight is not None or precision.max(initial=0.0) > _WEAK * self.n_samples:
            return None
        if not self._dense or not (self._uses == 1).all():
            return None
        _, curvature = self._diagonal(theta, None)
        if not float(curvature.max(initial=0.0)) > _FLAT:
            return None
        mean, second = code_moments(self._bits)
        ends = self.state0 + self.gap * mean
        shared = self.state0 * self.gap * (mean[:, None] + mean[None, :])
        return SylvesterPreconditioner.of(
            self.edges,
            self.edge_parameter,
            self.bias_parameter,
            self.gap**2 * curvature,
            ends,
            self.gap**2 * second + shared + self.state0**2,
            float(precision[self.edge_parameter].mean()) if len(self.edges) else 0.0,
        )

    def late_preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> NodeBlocks | None:
        """H⁻¹ at θ from the Hessian's block of each node, for PL1 on dense graphs without shared parameters; else None."""
        if not (self._dense and (self._uses == 1).all() and fits_blocks(self.n_variables)):
            return None
        beta = np.zeros(self.n_variables)
        for part in self._parts:
            if not part.everything or getattr(part.family, "block_size", None) != 1:
                return None
            family = cast(BlockFamily, part.family)
            component_beta = np.broadcast_to(np.asarray(part.beta, dtype=np.float64), family.size)
            beta += sums_by(family.blocks(np.arange(family.size))[1], component_beta, self.n_variables)
        # Evenly spaced samples are enough for a preconditioner, and bound its memory.
        most = max(_FEW_SAMPLES, 40 * self.n_variables)
        step = max(1, self.n_samples // most)
        codes = self._bits[::step].astype(np.float32)
        weight = np.ones(len(codes)) if row_weight is None else self._checked_weight(row_weight)[::step]
        q, bias = self.to_field(theta)
        matrix = np.zeros((self.n_variables, self.n_variables), dtype=np.float32)
        matrix[self.edges[:, 0], self.edges[:, 1]] = matrix[self.edges[:, 1], self.edges[:, 0]] = q
        with one_blas_thread():
            field = codes @ matrix + bias.astype(np.float32)
        share = np.exp(-np.abs(field))
        variance = share / np.square(1.0 + share) * np.float32(self.gap**2)
        variance *= (step * weight[:, None] * beta).astype(np.float32)
        values = np.float32(self.state0) + np.float32(self.gap) * codes
        return NodeBlocks.of(values, variance, self.edges, self.edge_parameter, self.bias_parameter, precision)

    # -- numbers for each sample -------------------------------------------------------------------------------------

    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sample."""
        rows, entries, arguments = self._by_sample()
        self._layout.kernel.values(*self.to_field(theta), **arguments)
        return self._layout.by_sample(self.n_samples, rows, entries)

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sample."""
        rows, entries, arguments = self._by_sample()
        self._layout.kernel.products(*self.to_field(theta), *self.to_field(v), **arguments)
        return self._layout.by_sample(self.n_samples, rows, entries)

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the samples start..stop by family, without β."""
        codes = self._bits[start:stop]
        parts = [_of_samples(part, start, start + len(codes)) for part in self._parts]
        return self._scores(theta, codes, [self._score_layout(codes, part) for part in parts])

    def family_score_blocks(
        self, theta: FloatArray, row_weight: FloatArray | None = None
    ) -> Iterator[tuple[FloatArray | None, FloatArray]]:
        """Stream the scores, from the cached layouts."""
        for weight, codes, layouts in self._score_layouts(row_weight):
            yield weight, self._scores(theta, codes, layouts)

    @cached_property
    def equal_samples(self) -> tuple[IntArray, IntArray] | None:
        """Groups of equal samples with equal rows of Z, if that saves half of the work."""
        return None if self._unit.inverse is None else equal_samples(self._bits, self._parts)

    def family_scores_of(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        """Scores of some samples by family, without β."""
        codes = self._bits[rows]
        return self._scores(theta, codes, [self._score_layout(codes, _of_rows(part, rows)) for part in self._parts])

    def family_statistics(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ψ_i^(f) ∘ ψ_i^(g), without β, summed from the residuals without storing scores."""
        if (self._uses > 1).any():
            return super().family_statistics(theta, row_weight)
        families, edges = self.n_families, np.zeros((self.n_families, self.n_families, len(self.edges)))
        biases = np.zeros((families, families, self.n_variables))
        for weight, codes, layouts in self._score_layouts(row_weight):
            residual = np.zeros((families, len(codes), self.n_variables))
            pair_terms = np.zeros((families, len(codes), len(self.edges)))
            for f, layout in enumerate(layouts):
                layout.kernel.scores(
                    *self.to_field(theta), residual=residual[f], pair_terms=pair_terms[f], n_threads=get_threads()
                )
            _kernels.pairwise_moments(
                edges=self.edges,
                codes=codes,
                residual=residual.ravel(),
                pair_terms=pair_terms.ravel(),
                weight=_NONE if weight is None else weight,
                state0=self.state0,
                gap=self.gap,
                families=families,
                out=edges.ravel(),
                n_threads=get_threads(),
            )
            if self.bias_parameter is not None:
                weighted = residual if weight is None else residual * weight[:, None]
                biases += np.einsum("fij,gij->fgj", weighted, residual)
        total = np.zeros((families, families, self.n_parameters))
        total[:, :, self.edge_parameter] = edges
        if self.bias_parameter is not None:
            total[:, :, self.bias_parameter] = self.gap**2 * biases
        lower = np.tril_indices(families, -1)
        total[lower] = total[lower[::-1]]
        return total

    def _score_layouts(
        self, row_weight: FloatArray | None
    ) -> Iterator[tuple[FloatArray | None, NDArray[np.uint8], list[Layout]]]:
        """Blocks of samples as (weights, codes, a layout for each family), with equal samples merged.

        The layouts of few samples are cached, because statistics are computed at many θ.
        """
        equal, size = self.equal_samples, self.block_rows
        rows = np.arange(self.n_samples) if equal is None else equal[0]
        summed = row_weight
        if equal is not None:
            summed = np.bincount(equal[1], row_weight, len(rows)).astype(np.float64)
        for place, start in enumerate(range(0, len(rows), size)):
            block = slice(start, min(start + size, len(rows)))
            if place < len(self._kept_layouts):
                codes, layouts = self._kept_layouts[place]
            else:
                codes = np.ascontiguousarray(self._bits[rows[block]])
                if equal is None:
                    parts = [_of_samples(part, block.start, block.stop) for part in self._parts]
                else:
                    parts = [_of_rows(part, rows[block]) for part in self._parts]
                layouts = [self._score_layout(codes, part) for part in parts]
                if len(rows) <= _FEW_SAMPLES:
                    self._kept_layouts.append((codes, layouts))
            yield None if summed is None else summed[block], codes, layouts

    def _score_layout(self, codes: NDArray[np.uint8], part: FamilySelection) -> Layout:
        """One family in the kernel's form for scores: without its β, unless each component has a weight."""
        beta = part.beta if np.ndim(part.beta) else 1.0
        return lay_out(codes, [part], [beta], self._edge_number, dense=self._dense, merge=False)

    def _scores(self, theta: FloatArray, codes: NDArray[np.uint8], layouts: Sequence[Layout]) -> FloatArray:
        scores = np.zeros((len(codes), self.n_families, self.n_parameters))
        if not len(codes):
            return scores
        a, b = self.edges.T
        first, second = codes[:, a], codes[:, b]
        for f, layout in enumerate(layouts):
            residual = np.zeros((len(codes), self.n_variables))
            pair_terms = np.zeros((len(codes), len(self.edges)))
            layout.kernel.scores(
                *self.to_field(theta), residual=residual, pair_terms=pair_terms, n_threads=get_threads()
            )
            at_a, at_b = residual[:, a], residual[:, b]
            # In place: these blocks are as large as all the scores of a family.
            by_edge = pair_terms
            by_edge += at_a * second
            by_edge += at_b * first
            if self.gap != 1.0:
                by_edge *= self.gap**2
            if self.state0 != 0.0:
                by_edge += self.gap * self.state0 * (at_a + at_b)
            self._add_columns(scores[:, f], self.edge_parameter, by_edge)
            if self.bias_parameter is not None:
                self._add_columns(scores[:, f], self.bias_parameter, self.gap * residual)
        return scores

    @staticmethod
    def _add_columns(scores: FloatArray, parameter: IntArray, columns: FloatArray) -> None:
        """scores[:, parameter[j]] += columns[:, j]; several j may share one parameter."""
        first = int(parameter[0]) if len(parameter) else 0
        if np.array_equal(parameter, np.arange(first, first + len(parameter))):
            scores[:, first : first + len(parameter)] += columns
        elif len(np.unique(parameter)) == len(parameter):
            scores[:, parameter] += columns
        else:
            np.add.at(scores.T, parameter, columns.T)

    @property
    def betas(self) -> FloatArray:
        """The weight β of each family; 1 if each component has a weight."""
        return np.array([1.0 if np.ndim(part.beta) else float(part.beta) for part in self._parts])

    def with_betas(self, betas: FloatArray) -> PairwiseProblem:
        """The same samples and blocks with other weights of the families; lists of weights are multiplied."""
        other = copy(self)
        other._parts = tuple(
            replace(part, beta=part.beta * b if np.ndim(part.beta) else float(b))
            for part, b in zip(self._written, betas, strict=True)
        )
        other._layout = self._unit.with_betas(betas)
        other._kept_layouts = []
        return other

    # -- θ and the kernel's weights and biases -----------------------------------------------------------------------

    def to_field(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The kernel's weights (edges,) and biases (m,), for the codes 0 and 1."""
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

    def to_parameters(self, edges: FloatArray, biases: FloatArray) -> FloatArray:
        """The transpose of `to_field`: a gradient by θ from that by the kernel's weights and biases."""
        by_edge = edges if self.gap == 1.0 else self.gap**2 * edges
        if self.state0 != 0.0:
            ends = biases[self.edges]
            by_edge = by_edge + self.gap * self.state0 * (ends[:, 0] + ends[:, 1])
        gradient = sums_by(self.edge_parameter, by_edge, self.n_parameters)
        if self.bias_parameter is not None:
            gradient += sums_by(self.bias_parameter, self.gap * biases, self.n_parameters)
        return gradient

    # -- the kernel --------------------------------------------------------------------------------------------------

    def _sums(self, row_weight: FloatArray | None) -> tuple[FloatArray, FloatArray, Plain]:
        """Allocate the sums over samples by edge and by variable. Also return the arguments of a call that fills them."""
        edges, biases = np.empty(len(self.edges)), np.empty(self.n_variables)
        arguments: Plain = {"edges_out": edges, "biases_out": biases, "n_threads": get_threads()}
        if row_weight is not None:
            row, entry = self._layout.weights(self._checked_weight(row_weight))
            arguments |= {"row_weight": row, "entry_weight": entry}
        return edges, biases, arguments

    def _diagonal(self, theta: FloatArray, row_weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """The curvature by edge and by variable."""
        edges, biases, arguments = self._sums(row_weight)
        self._layout.kernel.diagonal(*self.to_field(theta), state0=self.state0, state_gap=self.gap, **arguments)
        return edges, biases

    def _by_sample(self) -> tuple[FloatArray, FloatArray, Plain]:
        """Allocate numbers by sample and by listed entry. Also return the arguments of a call that fills them."""
        rows = np.zeros((len(self._layout.used), self._layout.n))
        entries = np.zeros(len(self._layout.entry_component))
        return rows, entries, {"row_out": rows, "entry_out": entries, "n_threads": get_threads()}

    def _checked_weight(self, weight: FloatArray) -> FloatArray:
        weight = np.asarray(weight, dtype=np.float64)
        if weight.shape != (self.n_samples,):
            raise DataError(f"row_weight must have the shape ({self.n_samples},); it has {weight.shape}.")
        return weight


def _checked_codes(codes: Array) -> NDArray[np.uint8]:
    codes = np.asarray(codes)
    if codes.ndim != 2 or 0 in codes.shape:
        raise DataError(f"The samples must be a table with rows and columns; it has the shape {codes.shape}.")
    wrong = np.argwhere((codes != 0) & (codes != 1))
    if len(wrong):
        i, j = wrong[0]
        raise DataError(f"Row {i}, variable {j} has the code {codes[i, j]}; a binary field has the codes 0 and 1.")
    return np.ascontiguousarray(codes, dtype=np.uint8)


def _checked_states(states: Sequence[float] | FloatArray) -> tuple[float, float]:
    values = np.asarray(states, dtype=np.float64)
    if values.shape != (2,) or not np.isfinite(values).all() or values[0] == values[1]:
        raise ModelError(f"A binary field needs two different finite states; got {states!r}.")
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


def _of_rows(part: FamilySelection, rows: IntArray) -> FamilySelection:
    """The part restricted to some samples, for families with whole rows selected."""
    return part if part.rows is None else replace(part, rows=part.rows[rows])


def _of_samples(part: FamilySelection, start: int, stop: int) -> FamilySelection:
    """The part restricted to these samples."""
    if part.indptr is not None and part.indices is not None:
        pointer = part.indptr[start : stop + 1]
        chosen = part.indices[pointer[0] : pointer[-1]]
        return FamilySelection(part.family, part.beta, indptr=pointer - pointer[0], indices=chosen)
    return FamilySelection(part.family, part.beta, rows=None if part.rows is None else part.rows[start:stop])


__all__ = ["BlockFamily", "PairwiseProblem", "pairwise_supports"]
