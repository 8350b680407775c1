"""A preconditioner for binary pairwise fields on correlated data: the Hessian itself, kept as one block for each node.

The pseudo-likelihood is a sum of m logistic regressions that share each coupling between two of them, so that

    H = Σ_j R_jᵀ H_j R_j,     H_j = Σ_i v_ij z_i z_iᵀ + penalty,     z_i = (x_ik for the neighbours k of j, 1),

where v_ij = Var(x_j | rest of sample i) and R_j picks the couplings and the bias of node j. A product with H takes m
products of small matrices and no pass over the samples, so M⁻¹v = H⁻¹v is solved by conjugate gradients. They are
preconditioned by the exact solutions of the m regressions, averaged for each coupling with the weights

    D_jk = s_jk / (s_jk + s_kj),     s_jk = 1 / (H_j⁻¹)_kk,

the share of its conditional curvature that belongs to node j (deluxe scaling of domain decomposition). Unlike
`SylvesterPreconditioner` this does not take v_ij as unrelated to x_i, which images, votes and spikes violate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldfit.models.pairwise_layout import sums_by
from fieldfit.threads import one_blas_thread
from fieldfit.types import FloatArray, IntArray

#: Most bytes of all blocks and their inverses; most multiplications for making them, beyond which samples are drawn.
MOST_BYTES, _MOST_OPERATIONS = 2**30, 2e11
_RIDGE, _ACCURACY, _MOST_STEPS = 1e-7, 0.01, 100


def fits_blocks(m: int) -> bool:
    """Whether the blocks of m nodes, each joined to all others, fit the memory that is set aside for them."""
    return 8 * (m + 1) ** 2 * m <= MOST_BYTES


@dataclass(frozen=True, eq=False)
class NodeBlocks:
    """v ↦ H⁻¹ v, nearly.

    ``places`` (m, d): the entry of θ of each row of a block, r for padding; ``share`` (m, d) is D, 0 for padding;
    ``blocks`` and ``inverses`` (m, d, d) in single precision.
    """

    n_parameters: int
    places: IntArray
    share: NDArray[np.float32]
    blocks: NDArray[np.float32]
    inverses: NDArray[np.float32]

    def __call__(self, v: FloatArray) -> FloatArray:
        """M⁻¹ v (r,) by conjugate gradients, to one per cent."""
        scale = float(np.abs(v).max(initial=0.0))
        if not (0 < scale < np.inf):
            return v.copy()
        # Single precision has a range of 1e38 only, and a gradient may be anything.
        residual = v / scale
        x = np.zeros_like(residual)
        z = self._product(self.inverses, residual, self.share)
        p = z.copy()
        rz = first = float(residual @ z)
        for _ in range(_MOST_STEPS):
            image = self._product(self.blocks, p, None)
            curvature = float(p @ image)
            if not curvature > 0 or not rz > 0:
                break
            step = rz / curvature
            x += step * p
            residual -= step * image
            z = self._product(self.inverses, residual, self.share)
            before, rz = rz, float(residual @ z)
            if rz <= _ACCURACY**2 * first:
                break
            p = z + (rz / before) * p
        return scale * x if x.any() else scale * z

    def _product(self, matrices: NDArray[np.float32], v: FloatArray, share: NDArray[np.float32] | None) -> FloatArray:
        """Σ_j R_jᵀ D_j A_j D_j R_j v."""
        node_vectors = np.append(v, 0.0).astype(np.float32)[self.places]
        if share is not None:
            node_vectors *= share
        image = np.matmul(matrices, node_vectors[:, :, None])[:, :, 0]
        if share is not None:
            image *= share
        return sums_by(self.places.ravel(), image.ravel(), self.n_parameters + 1)[:-1]

    @classmethod
    def of(
        cls,
        values: NDArray[np.float32],
        variance: NDArray[np.float32],
        edges: NDArray[np.integer],
        edge_parameter: IntArray,
        bias_parameter: IntArray | None,
        precision: FloatArray,
    ) -> NodeBlocks:
        """From the samples.

        Parameters
        ----------
        values : (n, m) the samples' values x
        variance : (n, m) what node j adds to the curvature, times the weight of the sample: w_i β_j Var(x_j | rest)
        edges, edge_parameter, bias_parameter : the graph and the entry of θ of each coupling and bias, none shared
        precision : (r,) 1/σ² of the penalty
        """
        n, m = values.shape
        r = len(precision)
        number = np.full((m, m), r, dtype=np.int64)
        number[edges[:, 0], edges[:, 1]] = number[edges[:, 1], edges[:, 0]] = edge_parameter
        design, places = values, number
        if bias_parameter is not None:
            design = np.concatenate([values, np.ones((n, 1), dtype=np.float32)], axis=1)
            places = np.concatenate([number, bias_parameter[:, None]], axis=1)
        d = places.shape[1]
        known = places < r
        split = np.where(np.arange(d) < m, 0.5, 1.0) * np.append(precision, 0.0)[places]
        blocks, inverses = np.zeros((2, m, d, d), dtype=np.float32)
        rows = int(min(n, max(8 * d, _MOST_OPERATIONS / (m * d**2))))
        with one_blas_thread():
            for j in range(m):
                which, v = _drawn(variance[:, j], rows)
                z = (design if which is None else design[which]) * np.sqrt(v)[:, None]
                block = (z.T @ z).astype(np.float64)
                block[~known[j]] = 0.0
                block[:, ~known[j]] = 0.0
                diagonal = np.einsum("aa->a", block)
                diagonal += split[j]
                diagonal += np.where(known[j], _RIDGE * max(float(diagonal.max()), 1e-30), 1.0)
                blocks[j] = block
                inverses[j] = np.linalg.inv(block)
        stiffness = np.where(known, 1.0 / np.maximum(np.einsum("jaa->ja", inverses), 1e-30), 0.0)
        share = known.astype(np.float64)
        pairs = stiffness[:, :m] + stiffness[:, :m].T
        share[:, :m] = np.divide(stiffness[:, :m], pairs, out=np.zeros((m, m)), where=pairs > 0)
        return cls(r, places, share.astype(np.float32), blocks, inverses)


def _drawn(v: NDArray[np.float32], rows: int) -> tuple[IntArray | None, NDArray[np.float32]]:
    """``rows`` samples with probabilities in proportion to v and equal weights; None and v itself for all samples."""
    if rows >= len(v):
        return None, v
    sums = np.cumsum(v, dtype=np.float64)
    if not sums[-1] > 0:
        return None, v
    # Evenly spaced along the sum: as good as independent draws, and the same each time.
    places = np.searchsorted(sums, (np.arange(rows) + 0.5) * (sums[-1] / rows))
    return np.minimum(places, len(v) - 1), np.full(rows, sums[-1] / rows, dtype=np.float32)
