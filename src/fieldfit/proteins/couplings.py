"""Scores of pairs of columns from their q × q couplings: zero-sum gauge, Frobenius norm, average product correction."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from fieldfit.arguments import instance_of, number_from_zero, numbers_of, whole_number, whole_numbers
from fieldfit.data.alignments import Alignment
from fieldfit.types import DataError, FloatArray, IntArray


def zero_sum(couplings: FloatArray) -> FloatArray:
    """Shift couplings to the gauge in which the rows and the columns of each table sum to 0.

    The probabilities do not change if the row and column means go to the fields: J − J(a, ·) − J(·, b) + J(·, ·).

    Parameters
    ----------
    couplings : ndarray of shape (pairs, q, q)
        Couplings in any gauge.

    Returns
    -------
    ndarray of shape (pairs, q, q)

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import proteins
    >>> proteins.zero_sum(np.array([[[2.0, 0.0], [0.0, 0.0]]]))
    array([[[ 0.5, -0.5],
            [-0.5,  0.5]]])
    """
    couplings = numbers_of(couplings, "couplings")
    if couplings.ndim != 3 or couplings.shape[1] != couplings.shape[2]:
        raise DataError(f"couplings has shape {couplings.shape}; it must have the shape (pairs, q, q).")
    rows, columns = couplings.mean(axis=2, keepdims=True), couplings.mean(axis=1, keepdims=True)
    centred: FloatArray = couplings - rows - columns + couplings.mean(axis=(1, 2), keepdims=True)
    return centred


def frobenius_norms(couplings: FloatArray, leave_out: int | None = 0) -> FloatArray:
    """Compute the Frobenius norm of the couplings of each pair in the zero-sum gauge.

    Parameters
    ----------
    couplings : ndarray of shape (pairs, q, q)
        Couplings in any gauge.
    leave_out : int or None, default: 0
        A state that does not count. By default the gap, which is the first letter. None: all states count.

    Returns
    -------
    ndarray of shape (pairs,)

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import proteins
    >>> proteins.frobenius_norms(np.array([[[2.0, 0.0], [0.0, 0.0]]]), leave_out=None)
    array([1.])
    """
    centred = zero_sum(couplings)
    if leave_out is not None:
        leave_out = whole_number(leave_out, "leave_out", 0)
        kept = np.arange(centred.shape[1]) != leave_out
        centred = centred[:, kept][:, :, kept]
    norms: FloatArray = np.sqrt(np.square(centred).sum(axis=(1, 2)))
    return norms


def average_product_correction(scores: FloatArray, edges: IntArray, length: int) -> FloatArray:
    """Subtract from each score what the means of its two columns explain: s_jk − s_j s_k / s (Dunn et al. 2008).

    Parameters
    ----------
    scores : ndarray of shape (pairs,)
        Scores of all pairs of columns.
    edges : ndarray of shape (pairs, 2)
        The columns of each pair.
    length : int
        Number of columns.

    Returns
    -------
    ndarray of shape (pairs,)

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import proteins
    >>> edges = np.array([[0, 1], [0, 2], [1, 2]])
    >>> proteins.average_product_correction(np.array([3.0, 1.0, 1.0]), edges, 3).round(2)
    array([ 0.6, -0.2, -0.2])
    """
    length = whole_number(length, "length", 2, 10**5)
    scores, edges = checked_pairs(scores, edges, length)
    matrix = np.zeros((length, length))
    matrix[edges[:, 0], edges[:, 1]] = matrix[edges[:, 1], edges[:, 0]] = scores
    means = matrix.sum(axis=1) / (length - 1)
    overall = means.mean()
    if overall == 0:
        return scores.copy()
    corrected: FloatArray = scores - means[edges[:, 0]] * means[edges[:, 1]] / overall
    return corrected


def checked_pairs(scores: object, edges: object, length: int) -> tuple[FloatArray, IntArray]:
    """Scores (pairs,) and the columns of each pair (pairs, 2), which are below ``length``."""
    numbers, pairs = numbers_of(scores, "scores"), whole_numbers(edges, "edges")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or numbers.shape != (len(pairs),):
        raise DataError(
            f"scores has the shape {numbers.shape} and edges {pairs.shape}; expected a score and two columns for each pair."
        )
    if len(pairs) and not (pairs.min() >= 0 and pairs.max() < length):
        raise DataError(
            f"edges names the columns {pairs.min()} to {pairs.max()}; there are the columns 0 to {length - 1}."
        )
    return numbers, pairs


def mutual_information(alignment: Alignment, weights: FloatArray | None = None, *, pseudo: float = 0.5) -> FloatArray:
    """Compute the mutual information of all pairs of columns, the usual baseline for contacts.

    Parameters
    ----------
    alignment : Alignment
        The sequences.
    weights : ndarray of shape (n,) or None, default: None
        Weights of the sequences, such as those of `sequence_weights` or of a fitted family. None: 1.
    pseudo : float, default: 0.5
        Added to the count of each pair of letters.

    Returns
    -------
    ndarray of shape (pairs,)
        In nats, for the pairs in the order of ``model.edge_array`` of a fitted family: (0, 1), (0, 2), …

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import proteins
    >>> codes = np.repeat([[1, 1], [2, 2]], 50, axis=0).astype(np.uint8)
    >>> family = proteins.Alignment(tuple(f"s{i}" for i in range(100)), codes, "-HP", np.arange(2))
    >>> proteins.mutual_information(family).round(2)
    array([0.63])
    """
    from scipy.special import rel_entr

    instance_of(alignment, Alignment, "mutual_information needs an Alignment (of a fitted family: fitted.alignment)")
    letters, codes = len(alignment.alphabet), alignment.codes
    weight = np.ones(alignment.n) if weights is None else numbers_of(weights, "weights")
    if weight.shape != (alignment.n,):
        raise DataError(f"weights has shape {weight.shape}; the alignment has {alignment.n:,} sequences.")
    if not (np.isfinite(weight) & (weight >= 0)).all() or not weight.sum() > 0:
        raise DataError("weights must be numbers of at least 0, and some must be positive.")
    pseudo = number_from_zero(pseudo, "pseudo")
    result = np.empty(alignment.length * (alignment.length - 1) // 2)
    for place, (j, k) in enumerate(combinations(range(alignment.length), 2)):
        joint = np.bincount(codes[:, j].astype(np.int64) * letters + codes[:, k], weight, letters**2) + pseudo
        joint = (joint / joint.sum()).reshape(letters, letters)
        apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        result[place] = float(rel_entr(joint, apart).sum())
    return result
