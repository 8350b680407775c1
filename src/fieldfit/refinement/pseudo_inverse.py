"""The inverse of a covariance matrix on its range, whatever the units of its variables."""

from __future__ import annotations

import numpy as np

from fieldfit.types import FloatArray


def pseudo_inverse(matrix: FloatArray, tolerance: float = 1e-10) -> tuple[FloatArray, int]:
    """Inverse on the range, and the rank.

    The matrix is scaled to a unit diagonal first; directions with an eigenvalue below ``tolerance`` of the largest are
    null.
    """
    diagonal = np.diag(matrix)
    scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2 * scale[:, None] * scale)
    good = values > tolerance * max(float(values[-1]), 0.0) if len(values) else values > 0
    inverse = (vectors[:, good] / values[good]) @ vectors[:, good].T * scale[:, None] * scale
    return inverse, int(good.sum())
