"""Binary pairwise fields: blocks of variables given all the rest, in O(2^k) for a block.

The model and the kernel's weights and biases are in `PairwiseParameters`, scores of samples in `PairwiseScores`. The
kernel is described in kernels/pairwise.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import as_table
from fieldfit.models.node_blocks import NodeBlocks, fits_blocks
from fieldfit.models.pairwise_curvature import curvature_matrix, has_matrix_products
from fieldfit.models.pairwise_information import information_matrix, is_fast, layout_codes
from fieldfit.models.pairwise_layout import (
    LARGEST_BLOCK,
    BlockFamily,
    Layout,
    block_size,
    distinct_rows,
    lay_out,
    sums_by,
)
from fieldfit.models.pairwise_parameters import PairwiseParameters
from fieldfit.models.pairwise_preconditioner import SylvesterPreconditioner, code_moments
from fieldfit.models.pairwise_scores import PairwiseScores
from fieldfit.models.problem import Problem, ResidualProducts
from fieldfit.models.work import FamilyWork
from fieldfit.policies.field_families import FieldFamily
from fieldfit.policies.selection import FamilySelection
from fieldfit.policies.structure import BoundFamily
from fieldfit.properties import cached_property
from fieldfit.threads import get_threads, one_blas_thread
from fieldfit.types import Array, DataError, FloatArray, IntArray, ModelError, Plain, SingleArray

# An entry of the dense matrix product costs about a sixth of an edge in the loop over edges.
_DENSE_FROM = 0.15
#: Most shared parameters for which the diagonal of the Hessian is exact, with one product for each.
MOST_EXACT_TIED = 32
#: Curvature below which every state is certain (θ = 1e3). Numbers computed from it would underflow.
_CERTAIN_CURVATURE = 1e-100
#: The same for numbers in single precision.
_CERTAIN_CURVATURE_IN_SINGLE = 1e-10
#: Largest precision of the penalty per sample for which a preconditioner that ignores the penalty is still good.
_WEAK_PRECISION = 0.01
#: Samples, at least, from which a preconditioner is made.
_PRECONDITIONER_SAMPLES = 20_000
#: Largest share of distinct samples for which sorting saves time.
_MOST_DISTINCT_SHARE = 0.9


def pairwise_supports(part: FamilySelection) -> bool:
    """Whether all components of this part are blocks given all the rest, small enough for a table of their states."""
    family = cast(FieldFamily, part.family)
    if family.size is None or not getattr(family, "conditions_on_rest", False) or not hasattr(family, "blocks"):
        return False
    return block_size(cast(BlockFamily, family)) <= LARGEST_BLOCK


class PairwiseProblem(Problem):
    """A binary pairwise field compiled with samples and selected blocks.

    Parameters
    ----------
    codes : (n, m) integers, 0 for state s0 and 1 for state s1; nothing is missing.
    field : the graph and the entry of θ of each weight and bias.
    parts : the selected components; `pairwise_supports` must hold for each.
    """

    def __init__(self, codes: Array, field: PairwiseParameters, parts: Sequence[FamilySelection]) -> None:
        self._bits = _checked_codes(codes, field.n_variables)
        self.field = field
        self.n_samples, self.n_parameters, self.n_families = len(self._bits), field.n_parameters, len(parts)
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
        self.dense = 2 * len(field.edges) > _DENSE_FROM * field.n_variables**2
        component_betas = [p.beta if np.ndim(p.beta) else 1.0 for p in parts]
        self._unit = lay_out(self._bits, parts, component_betas, field.edge_numbers, dense=self.dense, merge=True)
        self._layout = self._unit.with_betas(self.betas)
        self._scores = self._scores_of_parts()

    def _scores_of_parts(self) -> PairwiseScores:
        repeated = self._unit.inverse is not None
        return PairwiseScores(self.field, self._bits, self._parts, dense=self.dense, repeated=repeated)

    # -- sums over samples -------------------------------------------------------------------------------------------

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient."""
        edges, biases, arguments = self._sums(row_weight)
        value = self._layout.kernel.gradient(*self.field.to_field(theta), **arguments)
        return value, self.field.to_parameters(edges, biases)

    def residual_products(self, row_weight: FloatArray | None = None) -> ResidualProducts | None:
        """For a kernel that uses matrix products and components that are all single variables of weight 1."""
        single = all(getattr(part.family, "block_size", None) == 1 and part.everything for part in self._parts)
        if not (self.dense and len(self._parts) == 1 and single and np.all(self._parts[0].beta == 1.0)):
            return None
        return partial(self._residual_products, row_weight)

    def _residual_products(self, row_weight: FloatArray | None, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        _, biases, arguments = self._sums(row_weight)
        outer = np.empty((self.field.n_variables, self.field.n_variables))
        self._layout.kernel.gradient(*self.field.to_field(theta), outer_out=outer, **arguments)
        return biases, outer

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) v."""
        edges, biases, arguments = self._sums(row_weight)
        self._layout.kernel.hessian_product(*self.field.to_field(theta), *self.field.to_field(v), **arguments)
        return self.field.to_parameters(edges, biases)

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) as a matrix: block by block, by matrix products, or a product for each parameter."""
        weight = None if row_weight is None else self._checked_weight(row_weight)
        m, edges, field = self.field.n_variables, self.field.edges, self.field.to_field(theta)
        if is_fast(self._layout, m, len(edges)):
            information = information_matrix(self._layout, edges, *field, weight)
        elif has_matrix_products(self._layout, m, dense=self.dense, degrees=self.field.degrees):
            layout, codes, weight = self._distinct_layout(weight)
            information = curvature_matrix(layout, codes, edges, *field, weight, dense=self.dense)
        else:
            return super().hessian_matrix(theta, row_weight)
        return -self.field.congruent(information)

    @property
    def hessian_evaluations(self) -> float:
        """A few for each neighbour of a variable if blocks are small; else two for each parameter."""
        m, degrees = self.field.n_variables, self.field.degrees
        short = is_fast(self._layout, m, len(self.field.edges))
        if short or has_matrix_products(self._layout, m, dense=self.dense, degrees=degrees):
            return min(4.0 * (float(degrees.mean()) + 1.0), super().hessian_evaluations)
        return super().hessian_evaluations

    def family_work(self, family: BoundFamily, dataset: Dataset) -> FamilyWork:
        """The counted work of one family on ``dataset``."""
        from fieldfit.models.pairwise_work import PairwiseWork

        return PairwiseWork.of(self, family, as_table(dataset).codes)

    def score_moment(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ψ_i ψ_iᵀ, by products of chunks of scores that are laid out by edge and variable."""
        weight = None if row_weight is None else self._checked_weight(row_weight)
        field = self.field
        by_edge = len(field.edges) + field.n_variables <= 4 * self.n_parameters  # else the scores by θ are shorter
        if not by_edge or (weight is not None and weight.min(initial=0.0) < 0):
            return super().score_moment(theta, row_weight)
        return self._scores.moment(theta, *self._distinct_samples(weight))

    def group_scores(
        self, theta: FloatArray, groups: IntArray, n_groups: int, row_weight: FloatArray | None = None
    ) -> FloatArray:
        """Σ_{i∈g} w_i ψ_i of each group, on dense graphs by one product of residuals and codes for each group."""
        if not self.dense:
            return super().group_scores(theta, groups, n_groups, row_weight)
        return self._scores.by_group(theta, groups, n_groups, row_weight)

    @property
    def _everything_selected(self) -> bool:
        return all(part.rows is None and part.indices is None for part in self._parts)

    def _distinct_samples(self, weight: FloatArray | None) -> tuple[NDArray[np.uint8], FloatArray | None]:
        """The samples and their weights. If everything is selected, equal samples are merged and their weights added."""
        if not self._everything_selected:
            return self._bits, weight
        codes, inverse = self._distinct_bits
        return codes, weight if inverse is None else sums_by(
            inverse, np.ones(len(inverse)) if weight is None else weight, len(codes)
        )

    @cached_property
    def _distinct_bits(self) -> tuple[NDArray[np.uint8], IntArray | None]:
        """The distinct samples, and the number of each sample among them if that are clearly fewer."""
        return distinct_rows(self._bits, _MOST_DISTINCT_SHARE)

    def _distinct_layout(self, weight: FloatArray | None) -> tuple[Layout, NDArray[np.uint8], FloatArray | None]:
        """The layout for sums of curvature, its samples, and the weights for it."""
        if self._layout.inverse is None:
            codes, summed = self._distinct_samples(weight)
            if len(codes) < self.n_samples:
                betas = [part.beta for part in self._parts]
                layout = lay_out(codes, self._parts, betas, self.field.edge_numbers, dense=self.dense, merge=False)
                return layout, codes, summed
        return self._layout, layout_codes(self._layout, self.field.n_variables), weight

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The diagonal of −Σ_i w_i ∇² m_θ(X_i, Z_i), (n_parameters,), not negative; for preconditioning.

        Exact for parameters of one edge or one bias. The first 32 shared parameters are exact too (one Hessian
        product each); the others omit the covariances between the edges that share them.
        """
        diagonal = self.field.diagonal(*self._diagonal(theta, row_weight))
        for shared in np.flatnonzero(self.field.shared)[:MOST_EXACT_TIED]:
            unit = np.zeros(self.n_parameters)
            unit[shared] = 1.0
            diagonal[shared] = -self.hessian_product(theta, unit, row_weight)[shared]
        return np.maximum(diagonal, 0.0)

    @property
    def exact_diagonal(self) -> bool:
        """Whether the diagonal is exact: few enough parameters are shared."""
        return int(np.sum(self.field.shared)) <= MOST_EXACT_TIED

    def preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> SylvesterPreconditioner | None:
        """v ↦ M⁻¹ v with M near P − Σ_i ∇² m_θ(X_i, Z_i), for dense graphs without shared parameters; else None.

        It costs about one evaluation, and each use costs four products of m × m matrices. None with sample weights,
        or with a penalty that is not weak.
        """
        if row_weight is not None or precision.max(initial=0.0) > _WEAK_PRECISION * self.n_samples:
            return None
        if not self.dense or not self.field.one_to_one:
            return None
        _, curvature = self._diagonal(theta, None)
        if not float(curvature.max(initial=0.0)) > _CERTAIN_CURVATURE:
            return None
        field, (mean, second) = self.field, code_moments(self._bits)
        shift = field.state0 * field.gap * (mean[:, None] + mean[None, :])
        return SylvesterPreconditioner.of(
            field,
            field.gap**2 * curvature,
            field.state0 + field.gap * mean,
            field.gap**2 * second + shift + field.state0**2,
            precision,
        )

    def late_preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> NodeBlocks | None:
        """H⁻¹ at θ from the Hessian's block of each node, for PL1 on dense graphs without shared parameters; else None."""
        if not (self.dense and self.field.one_to_one and fits_blocks(self.field.n_variables)):
            return None
        beta = np.zeros(self.field.n_variables)
        for part in self._parts:
            if not part.everything or getattr(part.family, "block_size", None) != 1:
                return None
            family = cast(BlockFamily, part.family)
            component_beta = np.broadcast_to(np.asarray(part.beta, dtype=np.float64), family.size)
            beta += sums_by(family.blocks(np.arange(family.size))[1], component_beta, self.field.n_variables)
        # Evenly spaced samples are enough for a preconditioner, and bound its memory.
        most = max(_PRECONDITIONER_SAMPLES, 40 * self.field.n_variables)
        step = max(1, self.n_samples // most)
        codes = self._bits[::step].astype(np.float32)
        weight = np.ones(len(codes)) if row_weight is None else self._checked_weight(row_weight)[::step]
        matrix, bias = self.field.to_matrix(theta)
        with one_blas_thread():
            local = codes @ matrix.astype(np.float32) + bias.astype(np.float32)
        share: SingleArray = np.exp(-np.abs(local))
        variance = share / np.square(1.0 + share) * np.float32(self.field.gap**2)
        variance *= (step * weight[:, None] * beta).astype(np.float32)
        if not float(variance.sum(axis=0, dtype=np.float64).max(initial=0.0)) > _CERTAIN_CURVATURE_IN_SINGLE:
            return None
        values = np.float32(self.field.state0) + np.float32(self.field.gap) * codes
        return NodeBlocks.of(values, variance, self.field, precision)

    # -- numbers for each sample -------------------------------------------------------------------------------------

    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sample."""
        rows, entries, arguments = self._by_sample()
        self._layout.kernel.values(*self.field.to_field(theta), **arguments)
        return self._layout.by_sample(self.n_samples, rows, entries)

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sample."""
        rows, entries, arguments = self._by_sample()
        self._layout.kernel.products(*self.field.to_field(theta), *self.field.to_field(v), **arguments)
        return self._layout.by_sample(self.n_samples, rows, entries)

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the samples start..stop by family, without β."""
        return self._scores.between(theta, start, stop)

    def family_score_blocks(
        self, theta: FloatArray, row_weight: FloatArray | None = None
    ) -> Iterator[tuple[FloatArray | None, FloatArray]]:
        """Stream the scores, from the cached layouts."""
        return self._scores.blocks(theta, row_weight, self.block_rows)

    @property
    def equal_samples(self) -> tuple[IntArray, IntArray] | None:
        """Groups of equal samples with equal rows of Z, if that saves half of the work."""
        return self._scores.equal_samples

    def family_scores_of(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        """Scores of some samples by family, without β."""
        return self._scores.of(theta, rows)

    def family_statistics(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ψ_i^(f) ∘ ψ_i^(g), without β."""
        if self.field.shared.any():
            return super().family_statistics(theta, row_weight)
        return self._scores.statistics(theta, row_weight, self.block_rows)

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
        other._scores = other._scores_of_parts()
        return other

    # -- the kernel --------------------------------------------------------------------------------------------------

    def _sums(self, row_weight: FloatArray | None) -> tuple[FloatArray, FloatArray, Plain]:
        """Allocate the sums over samples by edge and by variable. Also return the arguments of a call that fills them."""
        edges, biases = np.empty(len(self.field.edges)), np.empty(self.field.n_variables)
        arguments: Plain = {"edges_out": edges, "biases_out": biases, "n_threads": get_threads()}
        if row_weight is not None:
            row, entry = self._layout.weights(self._checked_weight(row_weight))
            arguments |= {"row_weight": row, "entry_weight": entry}
        return edges, biases, arguments

    def _diagonal(self, theta: FloatArray, row_weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """The curvature by edge and by variable."""
        edges, biases, arguments = self._sums(row_weight)
        self._layout.kernel.diagonal(
            *self.field.to_field(theta), state0=self.field.state0, state_gap=self.field.gap, **arguments
        )
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


def _checked_codes(codes: Array, m: int) -> NDArray[np.uint8]:
    codes = np.asarray(codes)
    if codes.ndim != 2 or 0 in codes.shape or codes.shape[1] != m:
        raise DataError(f"The samples must be a table with rows and {m} columns; it has the shape {codes.shape}.")
    wrong = np.argwhere((codes != 0) & (codes != 1))
    if len(wrong):
        i, j = wrong[0]
        raise DataError(f"Row {i}, variable {j} has the code {codes[i, j]}; a binary field has the codes 0 and 1.")
    return np.ascontiguousarray(codes, dtype=np.uint8)


__all__ = ["BlockFamily", "PairwiseProblem", "pairwise_supports"]
