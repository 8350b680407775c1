"""The size of the asymptotic variance of a mixture as a function of (λ, β), with its derivative.

With bread B and meat M of `FamilyMoments` (d directions that the data say something about),

    det:     log C = (log det M − 2 log det B)/d − reference       the d-th root of det(Υ Σ Υ), one number a parameter
    trace:   log C = log tr(R B⁻¹ M B⁻¹) − reference               R a metric on the parameters

R is the information of the reference (for FL: twice n times the expected loss in likelihood; for PL1 alone tr(R·) is
tr(bread⁻¹ meat), the effective number of parameters) or Σ aaᵀ/var(a) for functionals a that the user names. Neither
changes when β is scaled. With G_M = ∂log C/∂M, G_B = ∂log C/∂B and w = βλ,

    ∂/∂w_f = 2 Σ_g w_g ⟨G_M, K_fg⟩ + ⟨G_B, J_f⟩
    ∂/∂β_f = λ_f ∂/∂w_f + 2 β_f ⟨G_M, λ_f(1−λ_f) N_f + O_f⟩,      ∂/∂λ_f = β_f ∂/∂w_f + β_f² (1−2λ_f) ⟨G_M, N_f⟩.

``reference`` makes C = 1 for maximum likelihood, or for PL1 where that cannot be computed.

With a penalty the fit is biased, and its variance alone would reward small samples. What counts then is the mean squared
error where θ has the penalty's own prior N(0, P⁻¹): θ̂ − θ is about (H + P)⁻¹(Σψ − Pθ), so that P/n is added to the bread
and to the meat alike. The scale of β matters then; the largest is taken as 1, as policies are written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fieldfit.asymptotics.family_moments import FamilyMoments
from fieldfit.types import FloatArray

_ZERO = 1e-10


@dataclass(frozen=True)
class Criterion:
    """log C(λ, β). ``metric`` (d, d) is R, None for the det form; ``reference`` is subtracted.

    ``penalty`` (d, d) is what is added to the bread, P for each sample, and ``prior`` what is added to the meat: the same
    where samples have no weights.
    """

    moments: FamilyMoments
    metric: FloatArray | None = None
    reference: float = 0.0
    penalty: FloatArray | None = None
    prior: FloatArray | None = None

    def relative_to(self, family: int) -> Criterion:
        """The same with C = 1 for one family, always selected and alone."""
        unit = np.eye(len(self.moments.names))[family]
        return replace(self, reference=self.reference + self.value(unit, unit))

    def value(self, lam: FloatArray, beta: FloatArray) -> float:
        """log C, infinite where the bread is singular."""
        if self.penalty is not None:
            beta = beta / max(float(np.where(lam > 0, beta, 0.0).max()), 1e-300)
        return self._value_slopes(lam, beta)[0]

    def bread_meat(self, lam: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bread and meat of one mixture, with the penalty."""
        breads, meats = self.moments.moments(lam[None, :], beta[None, :])
        bread, meat = (breads[0] + breads[0].T) / 2, (meats[0] + meats[0].T) / 2
        if self.penalty is not None:
            bread = bread + self.penalty
            meat = meat + (self.penalty if self.prior is None else self.prior)
        return bread, meat

    def value_grad(self, lam: FloatArray, beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """log C and its derivatives in λ and β."""
        scale, largest = 1.0, 0
        if self.penalty is not None:
            largest = int(np.argmax(np.where(lam > 0, beta, 0.0)))
            scale = max(float(beta[largest]), 1e-300)
            beta = beta / scale
        value, by_meat, by_bread = self._value_slopes(lam, beta)
        if by_meat is None or by_bread is None:
            return value, np.zeros_like(lam), np.zeros_like(beta)
        J, K, N, O = self._flat  # noqa: E741
        families = len(lam)
        w = beta * lam
        by_w = 2 * (K @ by_meat).reshape(families, families) @ w + J @ by_bread
        noise, own = N @ by_meat, O @ by_meat
        by_beta = lam * by_w + 2 * beta * (lam * (1 - lam) * noise + own)
        if self.penalty is not None:
            # β over the largest of them: that one moves all the others.
            by_beta[largest] -= float(by_beta @ beta)
            by_beta = by_beta / scale
        return value, beta * by_w + beta**2 * (1 - 2 * lam) * noise, by_beta

    @cached_property
    def _flat(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        families = len(self.moments.names)
        own = self.moments
        return (
            own.J.reshape(families, -1),
            own.K.reshape(families * families, -1),
            own.N.reshape(families, -1),
            own.O.reshape(families, -1),
        )

    def _value_slopes(self, lam: FloatArray, beta: FloatArray) -> tuple[float, FloatArray | None, FloatArray | None]:
        """log C, G_M and G_B (flat)."""
        bread, meat = self.bread_meat(lam, beta)
        d = len(bread)
        inverse, log_det = _inverse(bread)
        if inverse is None:
            return np.inf, None, None
        if self.metric is None:
            meat_inverse, meat_log_det = _inverse(meat)
            if meat_inverse is None:
                return np.inf, None, None
            value = (meat_log_det - 2 * log_det) / d - self.reference
            return value, meat_inverse.ravel() / d, -2 * inverse.ravel() / d
        outer = inverse @ self.metric @ inverse
        total = float(np.sum(outer * meat))
        if not total > 0:
            return np.inf, None, None
        turned = inverse @ meat @ outer
        return np.log(total) - self.reference, outer.ravel() / total, -(turned + turned.T).ravel() / total


def _inverse(matrix: FloatArray) -> tuple[FloatArray | None, float]:
    """A⁻¹ and log det A of a positive definite matrix; None where it is singular up to rounding."""
    from scipy.linalg import LinAlgError, cho_solve, cholesky

    scale = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    if not (scale > 0).all() or not np.isfinite(scale).all():
        return None, 0.0
    try:
        L = cholesky(matrix / np.outer(scale, scale), lower=True, check_finite=False)
    except LinAlgError:
        return None, 0.0
    pivots = np.square(np.diagonal(L))
    if pivots.min() <= _ZERO:
        return None, 0.0
    inverse = cho_solve((L, True), np.eye(len(matrix)), check_finite=False) / np.outer(scale, scale)
    return np.asarray(inverse), float(np.sum(np.log(pivots)) + 2 * np.sum(np.log(scale)))
