"""The Hessian's block of each node in a common basis, for fields with too many variables for `WholeBlocks`.

All blocks are sums over the same samples, H_j = Σ_i v_ij z_i z_iᵀ. In the basis Q of eigenvectors of Σ_j H_j, with
eigenvalues λ_1 ≥ λ_2 ≥ …, the samples of images and other correlated data lie near the first r directions U:

    H_j ≈ Q [ Uᵀ H_j U      0        ] Qᵀ,     s_j = Σ_i v_ij / Σ_ij v_ij,
            [ 0        diag(s_j λ_k) ]

exact within U, and with the average shape of all blocks outside it. Memory and work are those of m matrices of r × r
instead of m × m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.models.whole_blocks import drawn_moment, row_products
from fieldfit.threads import one_blas_thread
from fieldfit.types import SingleArray

#: Most directions of the common basis, and the fewest with which this preconditioner is used.
MOST_DIRECTIONS, LEAST_DIRECTIONS = 256, 64
#: Samples per direction in the sum of a block.
_SAMPLES_PER_DIRECTION = 8


def directions_that_fit(m: int, most_bytes: int) -> int:
    """The number r of directions, so that the blocks of m nodes fit ``most_bytes``."""
    return min(MOST_DIRECTIONS, m, int((most_bytes / (4 * m)) ** 0.5))


@dataclass(frozen=True, eq=False)
class ReducedBlocks:
    """``basis`` (d, r) is U, ``rest`` (d, d − r) the other directions, ``outside`` (m, d − r) their diagonal.

    ``blocks`` (m, r, r) are UᵀH_jU; d = m, or m + 1 with biases.
    """

    basis: SingleArray
    rest: SingleArray
    blocks: SingleArray
    outside: SingleArray

    @classmethod
    def of(cls, design: SingleArray, variance: SingleArray, r: int) -> ReducedBlocks:
        """From z (n, d), v (n, m) and the number of directions."""
        n, m = variance.shape
        totals = variance.sum(axis=0, dtype=np.float64)
        blocks = np.empty((m, r, r), dtype=np.float32)
        with one_blas_thread():
            together = drawn_moment(design, variance.sum(axis=1), n).astype(np.float64)
            values, vectors = np.linalg.eigh(together)
            basis, rest = (
                np.ascontiguousarray(part, dtype=np.float32) for part in np.split(vectors[:, ::-1], [r], axis=1)
            )
            projected = design @ basis
            for j in range(m):
                blocks[j] = drawn_moment(projected, variance[:, j], min(n, _SAMPLES_PER_DIRECTION * r))
        left = np.maximum(values[::-1][r:], 0.0) / max(float(totals.sum()), 1e-30)
        return cls(basis, rest, blocks, np.outer(totals, left).astype(np.float32))

    def products(self, vectors: SingleArray) -> SingleArray:
        """H_j w_j."""
        with one_blas_thread():
            image: SingleArray = row_products(self.blocks, vectors @ self.basis) @ self.basis.T
            image += ((vectors @ self.rest) * self.outside) @ self.rest.T
        return image
