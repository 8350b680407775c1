"""Inverses of symmetric matrices that may be singular, and which directions are null.

An information matrix is singular along the gauge freedom of its model. Whether an eigenvalue is 0 must not depend on the
units of the features, and rare features have small entries that are no rounding errors. So the matrix A is scaled to a
unit diagonal first (the form of a correlation matrix), S = D A D with D = diag(A)^-½, and the eigenvalues of S are
compared with the largest. The null space of A is then D n for the null vectors n of S.

The diagonal itself tells rounding from a small feature only if the size of the features is known: a variance that is
computed from values of size u has an error of about 1e-16 u². That is what ``units`` are for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray

#: Eigenvalues of the scaled matrix up to this, relative to the largest, are 0. An error of 1e-16 in a meat between two
#: inverses grows with their square, so that below this nothing of a variance would be left.
_NULL_EIGENVALUE = 1e-8
#: Reciprocal condition number, an estimate, above which there is certainly no null space.
_SAFE_CONDITION = 1e-7
#: Rows of a matrix up to which NumPy is used in place of SciPy, whose import would take longer than the work.
SMALL = 128
#: Diagonal entries up to this, in units of the features and relative to the largest, are rounding.
_ROUNDING_DIAGONAL = 1e-13
#: A row with a larger part than this (relative to its length) along the null space is outside the range.
_OUTSIDE_PART = 1e-5


@dataclass(frozen=True)
class RangeInverse:
    """An inverse (r, r) of A on its range; ``scale`` (r,) is D, and ``null`` (r, k) spans the null space of D A D."""

    inverse: FloatArray
    scale: FloatArray
    null: FloatArray

    @property
    def nullity(self) -> int:
        """The dimension of the null space."""
        return int(self.null.shape[1])

    def reaches(self, rows: FloatArray) -> BoolArray:
        """Which rows a (q, r) lie in the range of A."""
        scaled = rows * self.scale
        outside = np.linalg.norm(scaled @ self.null, axis=1)
        answer: BoolArray = outside <= _OUTSIDE_PART * np.maximum(np.linalg.norm(scaled, axis=1), 1e-300)
        return answer

    @property
    def reached(self) -> BoolArray:
        """Which coordinates (r,) lie in the range of A: those with no part along the null space."""
        answer: BoolArray = np.linalg.norm(self.null, axis=1) <= _OUTSIDE_PART
        return answer


def _positive_inverse(matrix: FloatArray) -> FloatArray | None:
    """The inverse by Cholesky's method, a tenth of the work of all eigenvectors; None if there may be a null space.

    The condition number in the 1-norm is at least that of the eigenvalues, so that a small one shows there is none.
    """
    if not len(matrix):
        return None
    if len(matrix) <= SMALL:
        return _small_inverse(matrix)
    with one_blas_thread():
        factor = _positive_factor(matrix)
        if factor is None:
            return None
        from scipy.linalg.lapack import dpotri

        lower, failed = dpotri(factor, lower=True, overwrite_c=True)
    if failed:
        return None
    # The other triangle is 0.
    result: FloatArray = lower + lower.T
    np.fill_diagonal(result, np.diag(lower))
    return result


def _positive_factor(matrix: FloatArray) -> FloatArray | None:
    """The lower triangle of Cholesky's method, or None if there may be a null space."""
    from scipy.linalg import lapack

    # The transpose is in Fortran's order, so that LAPACK needs no other copy.
    factor, failed = lapack.dpotrf(matrix.T, lower=True)
    if failed:
        return None
    reciprocal, _ = lapack.dpocon(factor, np.abs(matrix).sum(axis=0).max(), uplo="L")
    return factor if reciprocal > _SAFE_CONDITION else None


def _small_inverse(matrix: FloatArray) -> FloatArray | None:
    """The same by NumPy alone, which is there already: importing SciPy would take longer than the inverse."""
    with one_blas_thread():
        try:
            np.linalg.cholesky(matrix)
            inverse = np.linalg.inv(matrix)
        except np.linalg.LinAlgError:
            return None
    condition = float(np.abs(matrix).sum(axis=0).max() * np.abs(inverse).sum(axis=0).max())
    return (inverse + inverse.T) / 2 if condition * _SAFE_CONDITION < 1 else None


def is_singular(matrix: FloatArray, units: FloatArray | None = None) -> bool:
    """Whether a symmetric matrix has a null space, as `range_inverse` finds it, for a quarter of the work."""
    scaled, _, alive = _unit_diagonal(matrix, units)
    if len(matrix) > SMALL and alive.all():
        with one_blas_thread():
            if _positive_factor(scaled) is not None:
                return False
    return range_inverse(matrix, units).nullity > 0


def _unit_diagonal(matrix: FloatArray, units: FloatArray | None) -> tuple[FloatArray, FloatArray, BoolArray]:
    """S = D A D, D (r,), and which diagonal entries (r,) are more than rounding."""
    symmetric = matrix + matrix.T
    symmetric /= 2
    sizes = np.ones(len(matrix)) if units is None else units
    diagonal = np.abs(np.diag(symmetric)) / sizes**2
    alive = diagonal > (0.0 if units is None else _ROUNDING_DIAGONAL * float(diagonal.max(initial=0.0)))
    scale = 1.0 / (sizes * np.sqrt(np.where(alive, diagonal, 1.0)))
    symmetric *= np.outer(scale, scale)
    return symmetric, scale, alive


def range_inverse(matrix: FloatArray, units: FloatArray | None = None) -> RangeInverse:
    """Inverse of a symmetric matrix on its range, with its null space.

    ``units`` (r,) is the size of the feature behind each coordinate. With it the inverse is 0 along the null space, in
    coordinates of these units; without, it is one of the many that are right on the range.
    """
    r = len(matrix)
    scaled, scale, alive = _unit_diagonal(matrix, units)
    sizes = np.ones(r) if units is None else units
    live = np.ix_(alive, alive)
    whole = _positive_inverse(scaled) if alive.all() else None
    if whole is not None:
        whole *= np.outer(scale, scale)
        return RangeInverse(whole, scale, np.zeros((r, 0)))
    scaled = scaled[live]
    with one_blas_thread():
        values, vectors = np.linalg.eigh(scaled)
    good = values > _NULL_EIGENVALUE * float(values.max(initial=0.0))
    inverse = np.zeros((r, r))
    inverse[live] = (vectors[:, good] / values[good]) @ vectors[:, good].T
    null = np.zeros((r, int(np.sum(~good) + np.sum(~alive))))
    null[np.ix_(alive, np.arange(int(np.sum(~good))))] = vectors[:, ~good]
    null[~alive, np.arange(int(np.sum(~good)), null.shape[1])] = 1.0
    if units is not None and null.shape[1]:
        relative = scale * sizes
        basis = np.linalg.qr(relative[:, None] * null)[0]
        inverse *= np.outer(relative, relative)
        inverse -= basis @ (basis.T @ inverse)
        inverse -= (inverse @ basis) @ basis.T
        inverse /= np.outer(sizes, sizes)
    else:
        inverse *= np.outer(scale, scale)
    return RangeInverse((inverse + inverse.T) / 2, scale, null)
