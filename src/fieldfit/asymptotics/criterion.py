"""The size of the asymptotic variance of a mixture as a function of (λ, β), with its derivatives.

With bread B and meat M of `MixtureMoments` (d directions), the size is one of

    LogDeterminant   (log det M − 2 log det B)/p        p = 1, or p = d for one number a parameter
    LogTrace         log tr(R B⁻¹ M B⁻¹)                R a metric on the parameters
    LogDiagonal      Σ_l c_l (log M_ll − 2 log B_ll)    diagonals only (Hadamard's bound; Section 6 of the paper)

None of them changes when β is scaled. With G_M and G_B the derivatives of the size by M and B, and w = βλ,

    ∂/∂w_f = 2 Σ_g w_g ⟨G_M, K_fg⟩ + ⟨G_B, J_f⟩
    ∂/∂β_f = λ_f ∂/∂w_f + 2 β_f ⟨G_M, λ_f(1−λ_f) N_f + O_f⟩,      ∂/∂λ_f = β_f ∂/∂w_f + β_f² (1−2λ_f) ⟨G_M, N_f⟩.

All are infinite where the bread is singular: such a mixture does not determine the parameters.

With a penalty the fit is biased, and its variance alone would reward small samples. What counts then is the mean squared
error where θ has the penalty's own prior N(0, P⁻¹): θ̂ − θ is about (H + P)⁻¹(Σψ − Pθ), so that P/n is added to the bread
and to the meat alike. The scale of β matters then; the largest is taken as 1, as policies are written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fieldfit.asymptotics.mixture_moments import MixtureMoments, whitening
from fieldfit.types import BoolArray, FloatArray

#: What variances relative to maximum likelihood are where bread and meat are exact; elsewhere they are `mean_words`.
ROOT = "det^(1/r)"
#: Pivots and diagonal entries below this, relative to the largest, are 0.
_ZERO_PIVOT = 1e-9


def mean_words(size: str = "covariance") -> str:
    """The mean variance relative to maximum likelihood in words; ``size`` is the matrix that counts."""
    return f"tr(I·{size})/r"


#: Stands for derivatives that were not requested.
_NO_SLOPE = np.zeros(0)
#: A size and its derivatives by bread and meat; None where the bread (or the meat) is singular. Without ``slopes`` the
#: derivatives may be anything.
Sized = tuple[float, FloatArray, FloatArray] | None


@dataclass(frozen=True)
class LogDeterminant:
    """(log det M − 2 log det B)/``per``."""

    per: float = 1.0

    def __call__(self, bread: FloatArray, meat: FloatArray, *, slopes: bool = True) -> Sized:
        """The size and its derivatives."""
        breads, meats = _inverse(bread), _inverse(meat)
        if breads is None or meats is None:
            return None
        return (meats[1] - 2 * breads[1]) / self.per, -2 * breads[0] / self.per, meats[0] / self.per


@dataclass(frozen=True)
class LogTrace:
    """log tr(R B⁻¹ M B⁻¹) with R = ``metric`` (d, d).

    R is the information of the reference (for FL: twice n times the expected loss in likelihood; for PL1 alone tr(R·) is
    tr(bread⁻¹ meat), the effective number of parameters) or Σ aaᵀ/var(a) for functionals a that the user names.
    """

    metric: FloatArray

    def __call__(self, bread: FloatArray, meat: FloatArray, *, slopes: bool = True) -> Sized:
        """The size and its derivatives."""
        breads = _inverse(bread)
        if breads is None:
            return None
        inverse = breads[0]
        outer = inverse @ self.metric @ inverse
        total = float(np.sum(outer * meat))
        if not total > 0:
            return None
        if not slopes:
            return float(np.log(total)), _NO_SLOPE, _NO_SLOPE
        turned = inverse @ meat @ outer
        return float(np.log(total)), -(turned + turned.T) / total, outer / total


@dataclass(frozen=True)
class LogDiagonal:
    """Σ_l c_l (log M_ll − 2 log B_ll) with c = ``copies`` (d,), how often each parameter counts (None: once)."""

    copies: FloatArray | None = None

    def __call__(self, bread: FloatArray, meat: FloatArray, *, slopes: bool = True) -> Sized:
        """The size and its derivatives."""
        if not ((bread > 0).all() and (meat > 0).all()):
            return None
        copies = np.ones(len(bread)) if self.copies is None else self.copies
        value = float(copies @ (np.log(meat) - 2 * np.log(bread)))
        return value, -2 * copies / bread, copies / meat


@dataclass(frozen=True)
class Criterion:
    """log C(λ, β): the ``size`` of the variance minus ``reference``.

    ``penalty`` (d, d) is what is added to the bread, P for each sample, and ``prior`` what is added to the meat: the same
    where samples have no weights. ``information`` (terms,) is the size of each term's J in coordinates without units.
    """

    moments: MixtureMoments
    size: LogDeterminant | LogTrace | LogDiagonal
    information: FloatArray
    reference: float = 0.0
    penalty: FloatArray | None = None
    prior: FloatArray | None = None

    @classmethod
    def log_determinant(cls, moments: MixtureMoments) -> Criterion:
        """log det M − 2 log det B on the directions that some term has information on."""
        basis, constant = whitening(moments.J)
        whitened = moments.projected(basis)
        return cls(whitened, LogDeterminant(), whitened.information, constant)

    @classmethod
    def log_diagonal(cls, moments: MixtureMoments, copies: FloatArray | None = None) -> Criterion:
        """The diagonal form; ``moments`` are diagonals, and ``copies`` says how often each parameter counts.

        Left out are parameters on which no term has information, or on which a term has information but no score yet.
        """
        kept = counted_parameters(moments)
        few = MixtureMoments(
            moments.names, moments.J[:, kept], moments.K[:, :, kept], moments.N[:, kept], moments.O[:, kept]
        )
        shares = few.J / np.maximum(few.J.max(axis=0, initial=0.0), 1e-300)
        information = np.maximum(shares.sum(axis=1) if copies is None else shares @ copies[kept], 0.0)
        return cls(few, LogDiagonal(None if copies is None else copies[kept]), information)

    @property
    def rank(self) -> int:
        """The number of directions that are counted."""
        return int(self.moments.J.shape[-1])

    def relative_to(self, place: int) -> Criterion:
        """The same with C = 1 for one term, always selected and alone."""
        unit = np.eye(self.moments.count)[place]
        return replace(self, reference=self.reference + self.value(unit, unit))

    def subset(self, places: list[int]) -> Criterion:
        """The criterion of mixtures of some terms."""
        return replace(self, moments=self.moments.subset(places), information=self.information[places])

    def bread_meat(self, lam: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bread and meat of one mixture, with the penalty."""
        bread, meat = self.moments.mixture(lam, beta)
        if bread.ndim == 2:
            bread, meat = (bread + bread.T) / 2, (meat + meat.T) / 2
        if self.penalty is not None:
            bread = bread + self.penalty
            meat = meat + (self.penalty if self.prior is None else self.prior)
        return bread, meat

    def value(self, lam: FloatArray, beta: FloatArray) -> float:
        """log C, infinite where the bread is singular."""
        if self.penalty is not None:
            beta = beta / max(float(np.where(lam > 0, beta, 0.0).max()), 1e-300)
        sized = self.size(*self.bread_meat(lam, beta), slopes=False)
        return np.inf if sized is None else sized[0] - self.reference

    def value_grad(self, lam: FloatArray, beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """log C and its derivatives in λ and β (0 where log C is infinite)."""
        scale, largest = 1.0, 0
        if self.penalty is not None:
            largest = int(np.argmax(np.where(lam > 0, beta, 0.0)))
            scale = max(float(beta[largest]), 1e-300)
            beta = beta / scale
        sized = self.size(*self.bread_meat(lam, beta))
        if sized is None:
            return np.inf, np.zeros_like(lam), np.zeros_like(beta)
        value, by_bread, by_meat = sized[0], sized[1].ravel(), sized[2].ravel()
        moments, terms = self.moments, len(lam)
        by_w = moments.J.reshape(terms, -1) @ by_bread
        by_w += 2 * (moments.K.reshape(terms**2, -1) @ by_meat).reshape(terms, terms) @ (beta * lam)
        free, fixed = (noise.reshape(terms, -1) @ by_meat for noise in (moments.N, moments.O))
        by_beta = lam * by_w + 2 * beta * (lam * (1 - lam) * free + fixed)
        if self.penalty is not None:
            # β over the largest of them: that one moves all the others.
            by_beta[largest] -= float(by_beta @ beta)
            by_beta = by_beta / scale
        return value - self.reference, beta * by_w + beta**2 * (1 - 2 * lam) * free, by_beta

    def over_weights(self, lam: FloatArray | None = None) -> WeightsCriterion:
        """The same as a function of β alone, with all λ = 1 unless they are given."""
        return WeightsCriterion(self, np.ones(self.moments.count) if lam is None else lam)


@dataclass(frozen=True)
class WeightsCriterion:
    """J(β) = log C(λ, β) at one λ."""

    criterion: Criterion
    lam: FloatArray

    @property
    def information(self) -> FloatArray:
        """The size of each term's bread (terms,): 0 for a term without information."""
        return self.lam * self.criterion.information

    @property
    def rank(self) -> int:
        """The number of directions that are counted."""
        return self.criterion.rank

    def value(self, beta: FloatArray) -> float:
        """J(β)."""
        return self.criterion.value(self.lam, beta)

    def value_grad(self, beta: FloatArray) -> tuple[float, FloatArray]:
        """J(β) and its gradient; infinite (with gradient 0) where the bread is singular."""
        value, _, slope = self.criterion.value_grad(self.lam, beta)
        return value, slope


def counted_parameters(moments: MixtureMoments) -> BoolArray:
    """Which parameters of diagonal moments count (d,)."""
    scores = np.einsum("ffd->fd", moments.K)
    # A parameter's information is compared among the terms only: that of others has other units.
    most = moments.J.max(axis=0, initial=0.0)
    informed = _ZERO_PIVOT * np.maximum(most, 1e-300) < moments.J
    return np.asarray(informed.any(axis=0) & ~np.any(informed & (scores <= 0), axis=0))


def _inverse(matrix: FloatArray) -> tuple[FloatArray, float] | None:
    """A⁻¹ and log det A of a positive definite matrix; None where it is singular up to rounding."""
    from scipy.linalg import LinAlgError, cho_solve, cholesky

    if not np.isfinite(matrix).all():
        return None
    try:
        L = cholesky(matrix, lower=True, check_finite=False)
    except LinAlgError:
        return None
    pivots = np.square(np.diagonal(L))
    if pivots.min(initial=np.inf) <= _ZERO_PIVOT * pivots.max(initial=0.0):
        return None
    return np.asarray(cho_solve((L, True), np.eye(len(matrix)), check_finite=False)), float(np.sum(np.log(pivots)))
