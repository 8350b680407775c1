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
from fieldfit.refinement.pseudo_inverse import bread_inverse, root
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
    if not seems_worse(samples, both, derivative[:, keep], theta, information):
        return False
    if samples.weight is not None:  # a block of samples with the weight 0 has no mean
        samples = samples.subset(np.flatnonzero(samples.weight))
    blocks = min(_JACKKNIFE_BLOCKS, len(samples.codes))
    return blocks < 2 or _worse_by_jackknife(samples, both, theta, keep, information, blocks)


def seems_worse(
    samples: SampleConditions,
    both: tuple[FloatArray, csr_array],
    derivative: FloatArray,
    theta: FloatArray,
    information: FloatArray,
) -> bool:
    """Whether d is positive beyond twice the scatter of its terms: then the jackknife decides. ``both`` are weights."""
    terms = _differences(samples, both, derivative, theta, information)
    return bool(terms.mean() > _WORSE_ERRORS * terms.std() / np.sqrt(len(terms)))


def jackknife_products(r: int) -> float:
    """Multiply–adds of the jackknife besides its passes over samples: an inverse and two products for each estimate."""
    return (_JACKKNIFE_BLOCKS + 1) * 2 * 3.0 * r**3


def _differences(
    samples: SampleConditions,
    both: tuple[FloatArray, csr_array],
    derivative: FloatArray,
    theta: FloatArray,
    information: FloatArray,
) -> FloatArray:
    """What each sample adds to tr(I·Cov_refined) − tr(I·Cov_first) (n,), in random directions where these are many."""
    z = root_directions(root(information))
    turned = np.concatenate([z.T @ bread_inverse(weights @ derivative) @ weights for weights in both])
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
    breads, covariances, totals = [], [], []
    for block in range(blocks):
        part = samples.subset(np.arange(block, len(samples.codes), blocks))
        totals.append(part.total)
        derivative = part.derivative(theta)[:, keep] * part.total
        breads.append([weights @ derivative for weights in both])
        scores = [np.concatenate([values for _, values in part.scores(theta, weights)]) for weights in both]
        scale = 1.0 if part.weight is None else part.weight[:, None]
        covariances.append([(scale * values).T @ (scale * values) for values in scores])
    B, V, total = np.array(breads), np.array(covariances), np.array(totals)  # sums over blocks, of both estimates
    all_B, all_V, all_total = B.sum(axis=0), V.sum(axis=0), float(total.sum())

    def difference(B: FloatArray, V: FloatArray, total: float) -> float:
        inverses = [bread_inverse(bread, tolerance=1e-9) for bread in B]
        refined, first = (
            np.sum(information * (inverse @ meat @ inverse.T)) for inverse, meat in zip(inverses, V, strict=True)
        )
        return float(total * (refined - first))

    whole = difference(all_B, all_V, all_total)
    parts = np.array([difference(all_B - B[k], all_V - V[k], all_total - float(total[k])) for k in range(blocks)])
    corrected = blocks * whole - (blocks - 1) * parts.mean()
    error = np.sqrt((blocks - 1) * np.mean((parts - parts.mean()) ** 2))
    return bool(corrected > _WORSE_ERRORS * error)
