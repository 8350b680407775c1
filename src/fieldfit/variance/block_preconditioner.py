"""A preconditioner for the Hessian of a model with very many features: dense where it matters, diagonal elsewhere.

Sorted by curvature, a few features of a tagger (tags, frequent words, transitions) have nearly all of it, and they are
what is nearly collinear. Their block of H + P is taken from a sparse factor X (XᵀX near H) and inverted by Cholesky's
method; the many rare features have little curvature beside the penalty, and their diagonal is enough. On CoNLL-2000
(σ² = 10) `benchmarks/standard_errors.py` counts the Hessian products of a solve; with the diagonal alone 160 were not
enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.types import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Parameters in the dense block. With three times as many the noise of a factor of few draws costs more than it gains.
BLOCK = 1_000
#: Added to the block's diagonal, relative to it: the factor may have a lower rank than H.
_RIDGE = 1e-8


def block_preconditioner(
    factor: csr_array, curvature: FloatArray, precision: FloatArray
) -> Callable[[FloatArray], FloatArray] | None:
    """v ↦ M⁻¹v for H + P with H near ``factor``ᵀ ``factor``; None if the block is singular.

    ``curvature`` (r,) is the diagonal of H, ``precision`` (r,) that of P.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    r = len(curvature)
    diagonal = curvature + precision
    chosen = np.sort(np.argsort(-curvature, kind="stable")[: min(BLOCK, r)])
    columns = factor[:, chosen]
    block = (columns.T @ columns).toarray()
    block[np.diag_indices_from(block)] += precision[chosen] + _RIDGE * diagonal[chosen]
    try:
        cholesky = cho_factor(block, lower=True)
    except LinAlgError:
        return None
    inverse = 1.0 / np.where(diagonal > 0, diagonal, 1.0)

    def apply(v: FloatArray) -> FloatArray:
        result: FloatArray = v * inverse
        result[chosen] = cho_solve(cholesky, v[chosen], check_finite=False)
        return result

    return apply
