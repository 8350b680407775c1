"""The Hessian's block of each node as a matrix; see `NodeBlocks`.

H_j = Σ_i v_ij z_i z_iᵀ. If the sums over all samples would take long, samples are drawn for each node with
probabilities proportional to v_ij, which omits samples with little information about it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.threads import one_blas_thread
from fieldfit.types import IntArray, SingleArray

#: Most multiplications for the sums of all blocks; above it samples are drawn. Then the fewest samples per row.
_MOST_OPERATIONS, _LEAST_ROWS = 2e11, 8


@dataclass(frozen=True, eq=False)
class WholeBlocks:
    """``blocks`` (m, d, d)."""

    blocks: SingleArray

    @classmethod
    def of(cls, design: SingleArray, variance: SingleArray) -> WholeBlocks:
        """From z (n, d) and v (n, m)."""
        (n, d), m = design.shape, variance.shape[1]
        blocks = np.empty((m, d, d), dtype=np.float32)
        rows = int(min(n, max(_LEAST_ROWS * d, _MOST_OPERATIONS / (m * d**2))))
        with one_blas_thread():
            for j in range(m):
                blocks[j] = drawn_moment(design, variance[:, j], rows)
        return cls(blocks)

    def products(self, vectors: SingleArray) -> SingleArray:
        """H_j w_j."""
        return row_products(self.blocks, vectors)


def row_products(matrices: SingleArray, vectors: SingleArray) -> SingleArray:
    """A_j w_j (m, d) for matrices (m, d, d) and vectors (m, d)."""
    products: SingleArray = np.matmul(matrices, vectors[:, :, None])[:, :, 0]
    return products


def drawn_moment(z: SingleArray, v: SingleArray, rows: int) -> SingleArray:
    """Σ_i v_i z_i z_iᵀ, from ``rows`` samples drawn with probabilities in proportion to v if there are more."""
    which, weight = _drawn(v, rows)
    scaled = (z if which is None else z[which]) * np.sqrt(weight)[:, None]
    moment: SingleArray = scaled.T @ scaled
    return moment


def _drawn(v: SingleArray, rows: int) -> tuple[IntArray | None, SingleArray]:
    """``rows`` samples with probabilities in proportion to v and equal weights; None and v itself for all samples."""
    if rows >= len(v):
        return None, v
    sums = np.cumsum(v, dtype=np.float64)
    if not sums[-1] > 0:
        return None, v
    # Evenly spaced along the cumulative sum: as good as independent draws, and reproducible.
    places = np.searchsorted(sums, (np.arange(rows) + 0.5) * (sums[-1] / rows))
    return np.minimum(places, len(v) - 1), np.full(rows, sums[-1] / rows, dtype=np.float32)
