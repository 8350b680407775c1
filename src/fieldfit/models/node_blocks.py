"""A preconditioner for binary pairwise fields on correlated data: the Hessian itself, kept as one block for each node.

The pseudo-likelihood is a sum of m logistic regressions that share each coupling between two of them, so that

    H = Σ_j R_jᵀ H_j R_j + penalty,     H_j = Σ_i v_ij z_i z_iᵀ,     z_i = (x_ik for the neighbours k of j, 1),

where v_ij = Var(x_j | rest of sample i) and R_j picks the couplings and the bias of node j. A product with H takes m
products of small matrices and no pass over the samples, so M⁻¹v = H⁻¹v is solved by conjugate gradients. They are
preconditioned by the `SylvesterPreconditioner` of the same curvatures, which treats v_ij as unrelated to x_i. That is
wrong for images, votes and spikes, and the blocks correct it. On images of 784 pixels ten steps reduce the residual
to a tenth; the solutions of the m regressions, averaged for each coupling, take 70.

The blocks are whole matrices if those fit into memory, else reduced (reduced_blocks.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fieldfit.models.pairwise_layout import sums_by
from fieldfit.models.pairwise_parameters import PairwiseParameters
from fieldfit.models.pairwise_preconditioner import SylvesterPreconditioner
from fieldfit.models.reduced_blocks import LEAST_DIRECTIONS, ReducedBlocks, directions_that_fit
from fieldfit.models.whole_blocks import WholeBlocks
from fieldfit.threads import one_blas_thread
from fieldfit.types import FloatArray, IntArray, SingleArray

#: Most bytes of all blocks.
MOST_NODE_BLOCK_BYTES = 2**29
_MOST_NODE_STEPS = 100
#: Least curvature of a variable in the rough preconditioner, as a share of the largest.
_LEAST_SHARE = 1e-3


class NodeBlocksSource(Protocol):
    """H_j of all nodes; vectors (m, d) have one row for each node, in single precision."""

    def products(self, vectors: SingleArray) -> SingleArray:
        """H_j w_j. Entries that are no regressors of node j must be 0 in w_j; ignore them in the result."""


def fits_blocks(m: int) -> bool:
    """Whether the blocks of m nodes, whole or reduced, fit the memory reserved for them."""
    return _whole(m) or directions_that_fit(m, MOST_NODE_BLOCK_BYTES) >= LEAST_DIRECTIONS


def _whole(m: int) -> bool:
    return 4 * (m + 1) ** 2 * m <= MOST_NODE_BLOCK_BYTES


@dataclass(frozen=True, eq=False)
class NodeBlocks:
    """v ↦ H⁻¹ v, nearly.

    ``places`` (m, d): the entry of θ of each row of a block, r for padding. ``precision`` (r,) is 1/σ². The conjugate
    gradients end when the norm of the residual, in the metric of ``rough``, has fallen to ``accuracy``.
    """

    places: IntArray
    precision: FloatArray
    blocks: NodeBlocksSource
    rough: SylvesterPreconditioner
    accuracy: float = 0.1

    def __call__(self, v: FloatArray) -> FloatArray:
        """M⁻¹ v (r,) by conjugate gradients."""
        scale = float(np.abs(v).max(initial=0.0))
        if not (0 < scale < np.inf):
            return v.copy()
        # Single precision overflows at 1e38, and gradients may be larger.
        residual = v / scale
        x = np.zeros_like(residual)
        z = self.rough(residual)
        p = z.copy()
        rz = first = float(residual @ z)
        for _ in range(_MOST_NODE_STEPS):
            image = self.product(p)
            curvature = float(p @ image)
            if not curvature > 0 or not rz > 0:
                break
            step = rz / curvature
            x += step * p
            residual -= step * image
            z = self.rough(residual)
            before, rz = rz, float(residual @ z)
            if rz <= self.accuracy**2 * first:
                break
            p = z + (rz / before) * p
        return scale * x if x.any() else scale * z

    def product(self, v: FloatArray) -> FloatArray:
        """H v = Σ_j R_jᵀ H_j R_j v + v/σ²."""
        by_node = self.blocks.products(np.append(v, 0.0).astype(np.float32)[self.places])
        sums = sums_by(self.places.ravel(), by_node.ravel().astype(np.float64), len(v) + 1)[:-1]
        return sums + self.precision * v

    @classmethod
    def of(
        cls,
        values: SingleArray,
        variance: SingleArray,
        field: PairwiseParameters,
        precision: FloatArray,
    ) -> NodeBlocks:
        """From the samples; `fits_blocks` must hold.

        Parameters
        ----------
        values : (n, m) the samples' values x
        variance : (n, m) what node j adds to the curvature, times the weight of the sample: w_i β_j Var(x_j | rest)
        field : the graph and the entry of θ of each coupling and bias, none shared
        precision : (r,) 1/σ² of the penalty
        """
        n, m = values.shape
        edges, r = field.edges, len(precision)
        number = np.full((m, m), r, dtype=np.int64)
        number[edges[:, 0], edges[:, 1]] = number[edges[:, 1], edges[:, 0]] = field.edge_parameter
        design, places = values, number
        if field.bias_parameter is not None:
            design = np.concatenate([values, np.ones((n, 1), dtype=np.float32)], axis=1)
            places = np.concatenate([number, field.bias_parameter[:, None]], axis=1)
        totals = variance.sum(axis=0, dtype=np.float64)
        # Moments of samples weighted by their curvature, with the same total weight for each node.
        weight = variance @ np.reciprocal(np.maximum(totals, 1e-30)).astype(np.float32)
        weight /= max(float(weight.sum(dtype=np.float64)), 1e-30)
        with one_blas_thread():
            second = ((values * weight[:, None]).T @ values).astype(np.float64)
        rough = SylvesterPreconditioner.of(
            field,
            # A policy may leave variables out. Their own curvature is 0, but that of their pairs is not.
            np.maximum(totals, _LEAST_SHARE * float(totals.max(initial=0.0))),
            (weight @ values).astype(np.float64),
            second,
            precision,
        )
        blocks: NodeBlocksSource
        if _whole(m):
            blocks = WholeBlocks.of(design, variance)
        else:
            blocks = ReducedBlocks.of(design, variance, directions_that_fit(m, MOST_NODE_BLOCK_BYTES))
        single = replace(
            rough, basis=rough.basis.astype(np.float32), denominator=rough.denominator.astype(np.float32)
        )
        return cls(places, precision, blocks, single)
