"""Debiased couplings and their errors: one Newton step from the penalised estimate, without selection bias.

The penalised regression of variable j has coefficients c, with the intercept at its own place; z_i is row i with a 1 there:

    c̃ = c + H⁻¹ (1/n) Σ_i z_i (x_ij − p_i),     H = (1/n) Σ_i p_i (1 − p_i) z_i z_iᵀ

(van de Geer, Bühlmann, Ritov and Dezeure, "On asymptotically optimal confidence regions and tests for high-dimensional
models", 2014). H is inverted on its range, and coefficients with a part along its null space have no estimate. A
coupling is the mean of its two coefficients, and its variance is that of the mean of their influences
H⁻¹ z_i (x_ij − p_i), because the two regressions share the samples. c̃ is not 0 if c is 0, and its distribution does not
depend on the selection by the penalty.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray

#: Directions in which H is smaller than this share of its largest eigenvalue are not determined by the samples.
_LEAST = 1e-7
#: A coefficient with a larger part than this along such directions is not determined either.
_OUTSIDE_PART = 1e-5
#: Bytes of the influence of some samples that are held at a time.
_MOST_BLOCK_BYTES = 1 << 26


def _step(
    rows: FloatArray, weight: FloatArray, j: int, coefficients: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """c̃ (m,), an inverse of H on its range (m, m), x_ij − p_i (rows,), and which coefficients (m,) H determines.

    Weights sum to 1. Call it inside `one_blas_thread`: the threads of a BLAS library make small eigenvalue problems many
    times slower.
    """
    z = rows.copy()
    z[:, j] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        p = 1.0 / (1.0 + np.exp(-(z @ coefficients)))
    residual = rows[:, j] - p
    hessian = (z * (weight * p * (1.0 - p))[:, None]).T @ z
    m = len(coefficients)
    # H is a sum of as many terms of rank 1 as there are rows.
    if len(rows) < m or not np.isfinite(hessian).all():
        return np.full(m, np.nan), np.full((m, m), np.nan), residual, np.zeros(m, dtype=bool)
    values, vectors = np.linalg.eigh(hessian)
    good = values > _LEAST * values[-1]
    inverse = (vectors[:, good] / values[good]) @ vectors[:, good].T
    determined = np.linalg.norm(vectors[:, ~good], axis=1) <= _OUTSIDE_PART
    return coefficients + inverse @ (z.T @ (weight * residual)), inverse, residual, determined


def debiased_couplings(
    rows: NDArray[np.uint8], weight: FloatArray, regressions: FloatArray, thresholds: FloatArray
) -> FloatArray:
    """Debiased couplings (m, m), symmetric, zeros on the diagonal; ``weight`` (rows,) is the count of each row.

    NaN for couplings that the samples do not determine, for example those of two columns that are equal.
    """
    values, share = rows.astype(np.float64), weight / weight.sum()
    kept = share > 0
    values, share = values[kept], share[kept]
    m = rows.shape[1]
    directed = np.empty((m, m))
    with one_blas_thread():
        for j in range(m):
            moved, _, _, determined = _step(values, share, j, _with_intercept(regressions[j], thresholds[j], j))
            directed[j] = np.where(determined, moved, np.nan)
    np.fill_diagonal(directed, 0.0)
    return (directed + directed.T) / 2.0


def debiased_with_errors(
    rows: NDArray[np.uint8], weight: FloatArray, regressions: FloatArray, thresholds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Debiased couplings (m, m) and their standard errors (m, m); NaN where the samples do not determine them."""
    estimate, influences = _with_influences(rows, weight, regressions, thresholds)
    squares, means = np.zeros_like(estimate), np.zeros_like(estimate)
    for share, influence in influences:
        squares += np.einsum("i,ijk->jk", share, np.square(influence))
        means += np.einsum("i,ijk->jk", share, influence)
    errors = np.sqrt((squares - np.square(means)) / weight.sum())
    np.fill_diagonal(errors, 0.0)
    return estimate, errors


def debiased_with_covariances(
    rows: NDArray[np.uint8], weight: FloatArray, regressions: FloatArray, thresholds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Debiased couplings (m, m), and for each variable the covariances of its couplings (m, m, m)."""
    estimate, influences = _with_influences(rows, weight, regressions, thresholds)
    m = len(estimate)
    covariances, means = np.zeros((m, m, m)), np.zeros((m, m))
    with one_blas_thread():
        for share, influence in influences:
            of_variable = influence.transpose(1, 0, 2)
            covariances += of_variable.transpose(0, 2, 1) @ (share[:, None] * of_variable)
            means += np.einsum("i,ijk->jk", share, influence)
    covariances -= means[:, :, None] * means[:, None, :]
    diagonal = np.arange(m)
    covariances[diagonal, diagonal] = covariances[diagonal, :, diagonal] = 0.0
    return estimate, covariances / weight.sum()


def _with_influences(
    rows: NDArray[np.uint8], weight: FloatArray, regressions: FloatArray, thresholds: FloatArray
) -> tuple[FloatArray, Iterator[tuple[FloatArray, FloatArray]]]:
    """Debiased couplings (m, m), and some rows at a time with their shares and their influences (rows, m, m)."""
    values, share = rows.astype(np.float64), weight / weight.sum()
    m = rows.shape[1]
    directed, inverses, residuals = np.empty((m, m)), np.empty((m, m, m)), np.empty((m, len(rows)))
    with one_blas_thread():
        for j in range(m):
            penalised = _with_intercept(regressions[j], thresholds[j], j)
            moved, _, _, determined = _step(values, share, j, penalised)
            directed[j] = np.where(determined, moved, np.nan)
            # The penalty shrinks c towards 0, which makes H larger. At c̃ the errors have no such bias.
            _, inverses[j], residuals[j], still = _step(values, share, j, moved)
            inverses[j, :, ~(determined & still)] = np.nan
    np.fill_diagonal(directed, 0.0)

    def blocks() -> Iterator[tuple[FloatArray, FloatArray]]:
        step = max(1, _MOST_BLOCK_BYTES // (8 * m * m))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            influence = np.empty((len(values[part]), m, m))
            for j in range(m):
                z = values[part].copy()
                z[:, j] = 1.0
                influence[:, j] = (z @ inverses[j]) * residuals[j, part, None]
            yield share[part], (influence + influence.transpose(0, 2, 1)) / 2.0

    return (directed + directed.T) / 2.0, blocks()


def _with_intercept(regression: FloatArray, threshold: float, j: int) -> FloatArray:
    coefficients = regression.copy()
    coefficients[j] = threshold
    return coefficients
