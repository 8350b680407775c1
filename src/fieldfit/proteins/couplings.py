"""Scores of pairs of columns from their q × q couplings: zero-sum gauge, Frobenius norm, average product correction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldfit.types import FloatArray, IntArray


def zero_sum(couplings: FloatArray) -> FloatArray:
    """Couplings (pairs, q, q) in the gauge in which the rows and the columns of each table sum to 0.

    The probabilities do not change if the row and column means go to the fields: J − J(a, ·) − J(·, b) + J(·, ·).
    """
    rows, columns = couplings.mean(axis=2, keepdims=True), couplings.mean(axis=1, keepdims=True)
    centred: FloatArray = couplings - rows - columns + couplings.mean(axis=(1, 2), keepdims=True)
    return centred


def frobenius_norms(couplings: FloatArray, leave_out: int | None = 0) -> FloatArray:
    """Norms (pairs,) of the couplings in the zero-sum gauge; the state ``leave_out`` (the gap) does not count."""
    centred = zero_sum(couplings)
    if leave_out is not None:
        kept = np.arange(couplings.shape[1]) != leave_out
        centred = centred[:, kept][:, :, kept]
    norms: FloatArray = np.sqrt(np.square(centred).sum(axis=(1, 2)))
    return norms


def average_product_correction(scores: FloatArray, edges: IntArray, length: int) -> FloatArray:
    """Scores (pairs,) less what the means of their two columns explain: s_jk − s_j s_k / s (Dunn et al. 2008).

    ``edges`` (pairs, 2) are all pairs of ``length`` columns.
    """
    matrix = np.zeros((length, length))
    matrix[edges[:, 0], edges[:, 1]] = matrix[edges[:, 1], edges[:, 0]] = scores
    means = matrix.sum(axis=1) / (length - 1)
    overall = means.mean()
    if overall == 0:
        return scores.copy()
    corrected: FloatArray = scores - means[edges[:, 0]] * means[edges[:, 1]] / overall
    return corrected


def mutual_information(
    codes: NDArray[np.uint8], letters: int, edges: IntArray, weights: FloatArray | None = None, pseudo: float = 0.5
) -> FloatArray:
    """Mutual information (pairs,) of pairs of columns, the usual baseline; ``pseudo`` counts for each pair of letters."""
    n = len(codes)
    weight = np.ones(n) if weights is None else weights
    result = np.empty(len(edges))
    for place, (j, k) in enumerate(edges.tolist()):
        joint = np.bincount(codes[:, j].astype(np.int64) * letters + codes[:, k], weight, letters**2) + pseudo
        joint = (joint / joint.sum()).reshape(letters, letters)
        apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        result[place] = float(np.sum(joint * np.log(joint / apart)))
    return result
