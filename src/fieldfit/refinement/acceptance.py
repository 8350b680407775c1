"""Whether a refined estimate is accepted: its variance over the data is compared with that of the first estimate.

    d = tr(I·Cov_refined) − tr(I·Cov_first),      Cov = (A D̂)⁻¹ A V̂ Aᵀ (A D̂)⁻ᵀ

with the derivative D̂ and the covariance V̂ of the conditions over the data, and the information I of the full likelihood.
The refined estimate is worse where d is positive beyond twice its error, by two estimates of that error: the scatter of
the samples' terms, and a jackknife over blocks of samples. Large weights that nearly cancel make A D̂ noisy, so that d is
biased upwards; the first error does not know that, the jackknife corrects it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.refinement.estimating import SampleConditions
from fieldfit.refinement.pseudo_inverse import bread_inverse, bread_solve, root
from fieldfit.refinement.regression import root_directions
from fieldfit.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Blocks of the jackknife.
_JACKKNIFE_BLOCKS = 20
#: Standard errors of d from which on the refined estimate is worse.
_WORSE_ERRORS = 2.0


def is_worse(
    samples: SampleConditions,
    derivative: FloatArray,
    matrix: FloatArray,
    first: FloatArray,
    theta: FloatArray,
    free: BoolArray,
    information: FloatArray,
) -> bool:
    """Whether the weights ``matrix`` give a larger variance over the data than those of the first stage, beyond noise.

    ``derivative`` (p, r) is D̂, at one of both estimates.
    """
    from scipy.sparse import csr_array

    keep = np.flatnonzero(free)
    both = (matrix[keep], csr_array(first[keep]))
    if not _is_above(_differences(samples, both, derivative[:, keep], theta, information)):
        return False
    blocks = min(_JACKKNIFE_BLOCKS, len(samples.codes))
    return blocks < 2 or _worse_by_jackknife(samples, both, theta, keep, information, blocks)


def _is_above(terms: FloatArray) -> bool:
    return bool(terms.mean() > _WORSE_ERRORS * terms.std() / np.sqrt(len(terms)))


def _differences(
    samples: SampleConditions,
    both: tuple[FloatArray, csr_array],
    derivative: FloatArray,
    theta: FloatArray,
    information: FloatArray,
) -> FloatArray:
    """What each sample adds to tr(I·Cov_refined) − tr(I·Cov_first) (n,), in random directions where these are many."""
    z = root_directions(root(information))
    turned = np.concatenate([bread_solve(weights @ derivative, z).T @ weights for weights in both])
    blocks = [block for _, block in samples.scores(theta, turned.astype(np.float32))]
    influence = np.concatenate(blocks).astype(np.float64) ** 2
    lengths: FloatArray = influence[:, : z.shape[1]].sum(axis=1) - influence[:, z.shape[1] :].sum(axis=1)
    return lengths if samples.weight is None else lengths * samples.weight**2


def _worse_by_jackknife(
    samples: SampleConditions,
    both: tuple[FloatArray, csr_array],
    theta: FloatArray,
    keep: IntArray,
    information: FloatArray,
    blocks: int,
) -> bool:
    """Whether d, corrected for its bias, is positive beyond twice its jackknife error."""
    derivatives, covariances, totals = [], [], []
    for block in range(blocks):
        part = samples.subset(np.arange(block, len(samples.codes), blocks))
        totals.append(part.total)
        derivatives.append(part.derivative(theta)[:, keep] * part.total)
        scores = [np.concatenate([values for _, values in part.scores(theta, weights)]) for weights in both]
        scale = 1.0 if part.weight is None else part.weight[:, None]
        covariances.append([(scale * values).T @ (scale * values) for values in scores])
    D, V, total = np.stack(derivatives), np.array(covariances), np.array(totals)

    def difference(kept: BoolArray) -> float:
        sizes: list[float] = []
        for place, weights in enumerate(both):
            inverse = _inverse(weights @ D[kept].sum(axis=0))
            spread = inverse @ V[kept, place].sum(axis=0) @ inverse.T
            sizes.append(float(total[kept].sum() * np.sum(information * spread)))
        return sizes[0] - sizes[1]

    whole = difference(np.ones(blocks, dtype=bool))
    parts = np.array([difference(np.arange(blocks) != block) for block in range(blocks)])
    corrected = blocks * whole - (blocks - 1) * parts.mean()
    error = np.sqrt((blocks - 1) * np.mean((parts - parts.mean()) ** 2))
    return bool(corrected > _WORSE_ERRORS * error)


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse on the range, for models with a gauge freedom."""
    return bread_inverse(matrix, tolerance=1e-9)
