"""The accuracy of one Newton step from a penalised estimate, which removes its shrinkage.

    θ̃ = θ̂ + d,    d = H(θ̂)⁻¹ Σ_i w_i ψ_i(θ̂),    Σ_i w_i ψ_i(θ̂) = P θ̂

H is the Hessian without the penalty P. A small change of sample i moves θ̂ by (H + P)⁻¹(ψ_i − ψ̄), and with it the point at
which H and the scores are taken. The derivative of θ̃ is therefore

    H⁻¹ [ψ_i − h_i d − (∂_d H)(H + P)⁻¹(ψ_i − ψ̄)],

h_i the part of sample i in H and ∂_d H the derivative of H along d. With ψ̃ and H̃ at θ̃ that is, up to terms of second order
in d,

    H⁻¹ (H + P)(H̃ + P)⁻¹ (ψ̃_i − mean of ψ̃).

Without a penalty it is the sandwich at θ̃. With a penalty so strong that θ̂ hardly depends on the data it is H⁻¹ψ̃: the
sandwich at θ̃ would be too large, because H̃ is smaller than H where θ̃ is farther from 0. Parameters that an L1 penalty has
set to 0 stay 0 in θ̂, as if P were infinite there.

θ̃ itself is off by terms of second order in d. What a second step with the same Hessian would add, H⁻¹ Σ_i w_i ψ_i(θ̃), shows
their size: compared with a standard error it must be small.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fieldfit.asymptotics.accuracy import Moments, penalised_inverse, triangle_product
from fieldfit.asymptotics.implicit import ImplicitBread, Limit
from fieldfit.asymptotics.range_inverse import RangeInverse
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray


@dataclass(frozen=True)
class PenalisedStart:
    """A penalised estimate: θ̂ (r,), the diagonal of P (r,), and which parameters (r,) are neither fixed nor set to 0.

    ``remainder`` (r,) is what a second step with the same Hessian would add. ``curvature`` is H as a mean over samples with
    its inverse, where it has been computed; it is not saved.
    """

    theta: FloatArray
    precision: FloatArray
    active: BoolArray
    remainder: FloatArray
    curvature: Curvature | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Curvature:
    """A matrix H (r, r) with its inverse on its range."""

    matrix: FloatArray
    inverse: RangeInverse


def debiased_moments(
    at_start: FloatArray, at_step: Moments, start: PenalisedStart, units: FloatArray | None
) -> Moments:
    """Bread H and the meat KᵀM̃K with K = (H̃ + P)⁻¹(H + P), so that the covariance is H⁻¹KᵀM̃KH⁻¹.

    ``at_start`` is H as a mean over samples; ``at_step`` has H̃ and M̃. The rows of K for zeros of an L1 penalty are those of
    the unit matrix. Parts of simulated data go through the same formula.
    """

    def of_parts() -> list[tuple[FloatArray, FloatArray]]:
        assert at_step.replicates is not None
        return [
            (at_start, _meat(at_start, bread, meat, at_step.total, start, units))
            for bread, meat in at_step.replicates()
        ]

    meat = _meat(at_start, at_step.bread, at_step.meat, at_step.total, start, units)
    return Moments(at_start, meat, at_step.total, at_step.method, None if at_step.replicates is None else of_parts)


def _meat(
    at_start: FloatArray,
    bread: FloatArray,
    meat: FloatArray,
    total: float,
    start: PenalisedStart,
    units: FloatArray | None,
) -> FloatArray:
    """KᵀM̃K from H, H̃ (``bread``) and M̃ (``meat``)."""
    active, zero = np.flatnonzero(start.active), np.flatnonzero(~start.active)
    precision = start.precision / total
    inverse = penalised_inverse(bread, precision, start.active, units).inverse
    if len(zero):
        inverse = inverse[np.ix_(active, active)]
    right = at_start[active]
    right[np.arange(len(active)), active] += precision[active]
    right[:, zero] -= bread[np.ix_(active, zero)]
    factor = np.eye(len(at_start))
    with one_blas_thread():
        factor[active] = inverse @ right
        product: FloatArray = factor.T @ triangle_product(meat, factor)
    return product + product.T


class DebiasedBread:
    """a ↦ w with wᵀ(ψ̃_i − mean) the part of sample i in aᵀθ̃, by two solves: Hz = a and (H̃ + P)w = a + Pz.

    ``at_start`` is H, ``at_step`` is H̃ + P over the active parameters, where w is solved for. Elsewhere w = z, and
    H̃ times that part of z moves to the right-hand side.
    """

    def __init__(self, at_start: ImplicitBread, at_step: ImplicitBread) -> None:
        self._at_start, self._at_step = at_start, at_step
        self.theta, self.free, self.precision = at_step.theta, at_start.free, at_start.precision
        self._zero = at_start.free & ~at_step.free

    @property
    def products(self) -> int:
        """The number of Hessian products so far."""
        return self._at_start.products + self._at_step.products

    def full(self, v: FloatArray) -> FloatArray:
        """A vector over the free parameters as one over all, 0 at the fixed ones."""
        return self._at_start.full(v)

    def solve(self, directions: FloatArray, limit: Limit | None = None) -> FloatArray:
        """w (q, r) for the rows a of ``directions``; NaN where a is not identified without the penalty."""
        first = self._at_start.solve(directions)
        lost = np.isnan(first).any(axis=1)
        first[lost] = 0.0
        right = directions + self._at_step.precision * first
        if self._zero.any():
            right -= np.stack([self._at_step.data_product(np.where(self._zero, z, 0.0)) for z in first])
        solved = np.where(self._zero, first, self._at_step.solve(right))
        solved[lost] = np.nan
        return solved
