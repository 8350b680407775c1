"""The curvature of a dense pairwise field if all samples had the same conditional variances.

Let v_j be the summed conditional variance of variable j and C the covariance of the samples (their second moment where
there are no biases). Taking the two as unrelated, the negative Hessian maps symmetric weights W to V W C + C W V and
biases, in coordinates centred at the mean, to V b. That is a Sylvester equation: with Ĉ = V^-½ C V^-½ = U Λ Uᵀ,

    W = V^-½ U [ (Uᵀ V^-½ G V^-½ U)_ij / (λ_i + λ_j) ] Uᵀ V^-½

solves it in four products of m × m matrices. Weights outside the graph are left out before and after, which keeps the
inverse symmetric and positive. A penalty with precision p adds p W, which is p V⁻¹ Ŵ V⁻¹ for Ŵ = V^½ W V^½; with the
geometric mean v̄ of the variances it adds p/v̄² to every denominator. Where columns are constant or copies of each other
C is singular, and only the penalty determines some directions of W.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldfit.models.pairwise_parameters import PairwiseParameters
from fieldfit.threads import one_blas_thread
from fieldfit.types import FloatArray

#: Samples whose products are summed at a time.
_SAMPLES_AT_A_TIME = 1 << 16
_SMALLEST, _FLATTEST = 1e-8, 1e-8


def code_moments(codes: NDArray[np.uint8]) -> tuple[FloatArray, FloatArray]:
    """The mean (m,) and the second moment (m, m) of 0/1 codes, exact because counts below 2^24 are not rounded."""
    n, m = codes.shape
    second = np.zeros((m, m))
    with one_blas_thread():
        for start in range(0, n, _SAMPLES_AT_A_TIME):
            block = codes[start : start + _SAMPLES_AT_A_TIME].astype(np.float32)
            second += block.T @ block
    second /= n
    return np.diag(second).copy(), second


@dataclass(frozen=True)
class SylvesterPreconditioner:
    """v ↦ M⁻¹ v, M near the negative Hessian of the sum over samples; for parameters that no two edges share.

    The products are in the precision of ``basis``.
    """

    field: PairwiseParameters
    variance: FloatArray
    mean: FloatArray
    basis: NDArray[np.floating]
    denominator: NDArray[np.floating]

    @classmethod
    def of(
        cls,
        field: PairwiseParameters,
        variance: FloatArray,
        mean: FloatArray,
        second: FloatArray,
        precision: FloatArray,
    ) -> SylvesterPreconditioner:
        """From v (m,), not all near 0, summed over samples, the mean and second moment of x, and the precision (r,)."""
        mean_precision = float(precision[field.edge_parameter].mean()) if len(field.edges) else 0.0
        variance = np.maximum(variance, _SMALLEST * max(float(variance.max()), 1e-300))
        root = np.sqrt(variance)
        centred = second if field.bias_parameter is None else second - np.outer(mean, mean)
        with one_blas_thread():
            values, vectors = np.linalg.eigh(centred / np.outer(root, root))
        held = mean_precision / float(np.exp(np.mean(np.log(variance)))) ** 2
        # The smallest eigenvalues of singular moments are rounding errors. Without information and penalty any
        # positive value works.
        values = np.maximum(values, max(_SMALLEST * float(values[-1]), 0.0))
        denominator = values[:, None] + values[None, :] + held
        denominator = np.maximum(denominator, _FLATTEST * float(denominator.max()))
        return cls(
            field,
            variance + mean_precision,
            mean,
            vectors / root[:, None],
            # C/v^½v^½ and G each scale as 1/v, so W has the units of gradient over curvature.
            denominator if denominator.max() > 0 else np.full_like(denominator, 1.0 / float(variance.max())),
        )

    def __call__(self, v: FloatArray) -> FloatArray:
        """M⁻¹ v (r,)."""
        m = len(self.mean)
        a, b = self.field.edges.T
        by_edge = v[self.field.edge_parameter]
        if self.field.bias_parameter is not None:
            by_bias = v[self.field.bias_parameter]
            by_edge = by_edge - by_bias[a] * self.mean[b] - by_bias[b] * self.mean[a]
        weights = np.zeros((m, m), dtype=self.basis.dtype)
        weights[a, b] = weights[b, a] = by_edge
        with one_blas_thread():
            weights = self.basis @ ((self.basis.T @ weights @ self.basis) / self.denominator) @ self.basis.T
        out = np.zeros(len(v))
        chosen = weights[a, b]
        out[self.field.edge_parameter] = chosen
        if self.field.bias_parameter is not None:
            shift = np.bincount(a, chosen * self.mean[b], m) + np.bincount(b, chosen * self.mean[a], m)
            out[self.field.bias_parameter] = by_bias / self.variance - shift
        return out
