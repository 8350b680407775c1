"""Inverses of covariance matrices and of breads on their range, whatever the units of the variables."""

from __future__ import annotations

import numpy as np

from fieldfit.types import FloatArray


def pseudo_inverse(matrix: FloatArray, tolerance: float = 1e-10) -> tuple[FloatArray, int]:
    """Inverse on the range, and the rank.

    The matrix is scaled to a unit diagonal first; directions with an eigenvalue below ``tolerance`` of the largest are
    null.
    """
    root = inverse_root(matrix, tolerance)
    return root @ root.T, root.shape[1]


def inverse_root(matrix: FloatArray, tolerance: float = 1e-10) -> FloatArray:
    """B (r, rank) with BBᵀ the inverse of a covariance matrix on its range."""
    diagonal = np.diag(matrix)
    scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2 * scale[:, None] * scale)
    good = values > tolerance * max(float(values[-1]), 0.0) if len(values) else values > 0
    root: FloatArray = (vectors[:, good] / np.sqrt(values[good])) * scale[:, None]
    return root


def bread_inverse(matrix: FloatArray, tolerance: float = 1e-10) -> FloatArray:
    """The Moore–Penrose inverse of a bread, which need not be symmetric.

    Rows and columns are scaled to a unit diagonal before singular values are compared with the largest.
    """
    diagonal = np.abs(np.diag(matrix))
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = matrix * scale[:, None] * scale
    try:
        plain = np.asarray(np.linalg.inv(scaled))
    except np.linalg.LinAlgError:
        plain = np.full_like(scaled, np.inf)
    if np.abs(plain).max(initial=0.0) * np.abs(scaled).max(initial=0.0) * tolerance <= 1.0:
        return plain * scale[:, None] * scale
    left, values, right = np.linalg.svd(scaled)
    good = values > tolerance * values.max(initial=0.0)
    inverse: FloatArray = ((right[good].T / values[good]) @ left[:, good].T) * scale[:, None] * scale
    if not good.all():
        # Any inverse on the range becomes that of Moore and Penrose without its parts along the two null spaces.
        rows, columns = (np.linalg.qr(scale[:, None] * null)[0] for null in (right[~good].T, left[:, ~good]))
        inverse = inverse - rows @ (rows.T @ inverse)
        inverse = inverse - (inverse @ columns) @ columns.T
    return inverse
