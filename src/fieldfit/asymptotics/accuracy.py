"""The accuracy of an estimate: the covariance of any linear functions aᵀθ̂.

With H = −Σ_i w_i ∇²m_θ̂(X_i, Z_i), P the precision of the penalty and M = Σ_i w_i² ψ_i ψ_iᵀ (Corollary 1),

    Cov(θ̂) = (H + P)⁻¹ M (H + P)⁻¹.

`DenseAccuracy` holds the matrices. Where they would be too large, `ImplicitAccuracy` (in implicit.py) solves (H + P) u = a
for each requested function.

A function aᵀθ is *identified* if a lies in the range of H + P. Where the model has a gauge freedom (directions of θ that
change no probability) some are not: θ̂ is then one of many that fit equally well, and the variance of such a function
is given as NaN, never as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from fieldfit.asymptotics.range_inverse import SMALL, RangeInverse, is_singular, range_inverse
from fieldfit.properties import cached_property
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray

#: Most parameters for which bread, meat and covariances are dense matrices.
MOST_COVARIANCE_PARAMETERS = 3_000


#: Computes bread and meat of each part of the simulated data.
Replicates = Callable[[], Sequence[tuple[FloatArray, FloatArray]]]


@dataclass(frozen=True)
class Moments:
    """Bread H/N (without the penalty) and meat M/N, N = ``total`` the number of samples (or Σw).

    ``method`` says how they were found. ``replicates()`` has the same from parts of the simulated data, if simulated.
    ``degrees`` are the degrees of freedom of the meat: a variance from it, over its mean, is about a χ² over ``degrees``.
    They are ∞ where it is the sum over many independent samples.
    """

    bread: FloatArray
    meat: FloatArray
    total: float
    method: str
    replicates: Replicates | None = field(default=None, repr=False)
    degrees: float = math.inf


class Accuracy(Protocol):
    """What standard errors, functionals, tests and influence need."""

    @property
    def method(self) -> str:
        """How bread and meat were found."""

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the variances, for quantiles of Student's t; ∞ for those of the normal distribution."""

    def solve(self, directions: FloatArray) -> FloatArray:
        """(H + P)⁻¹ a for each row a of ``directions`` (q, r); NaN where a is not identified, 0 at fixed parameters."""

    def covariance_of(self, directions: FloatArray) -> FloatArray:
        """Covariance (q, q) of the functions aᵀθ̂; NaN where one is not identified."""

    def effective_parameters(self) -> tuple[float, float]:
        """tr((H + P)⁻¹ M), and its Monte Carlo error: 0 if neither the trace nor the matrices are simulated."""


def penalised_inverse(
    bread: FloatArray, precision: FloatArray, free: BoolArray, units: FloatArray | None
) -> RangeInverse:
    """Inverse and null space of ``bread`` + diag(``precision``) over the ``free`` parameters, in all r coordinates."""
    r = len(free)
    keep = np.ix_(free, free)
    sizes = np.ones(r) if units is None else units
    total = bread.copy()
    total[np.diag_indices(r)] += precision
    if free.all():
        return range_inverse(total, sizes)
    small = range_inverse(total[keep], sizes[free])
    inverse, scale, null = np.zeros((r, r)), np.zeros(r), np.zeros((r, small.nullity))
    inverse[keep], scale[free], null[free] = small.inverse, small.scale, small.null
    return RangeInverse(inverse, scale, null)


def triangle_product(symmetric: FloatArray, b: FloatArray) -> FloatArray:
    """T b with a triangle T of a symmetric matrix T + Tᵀ, which takes half the work of a product of full matrices."""
    triangle = symmetric.copy()
    triangle[np.diag_indices(len(triangle))] /= 2.0
    result: FloatArray
    if len(triangle) <= SMALL:
        result = np.triu(triangle) @ b
    else:
        from scipy.linalg.blas import dtrmm

        # Fortran's order: bᵀTᵀ, with Tᵀ the lower triangle of the transposed array.
        result = dtrmm(1.0, triangle.T, b.T, side=1, lower=True).T
    return result


@dataclass(frozen=True)
class DenseAccuracy:
    """The covariance of θ̂ as a matrix. ``precision`` (r,) is P, ``free`` (r,) marks what was estimated.

    ``units`` (r,) are the sizes of the features (all 1 if None): what is rounding is seen in these units. ``known`` is the
    inverse of the bread where it has been computed before.
    """

    moments: Moments
    precision: FloatArray
    free: BoolArray
    units: FloatArray | None = None
    known: RangeInverse | None = field(default=None, repr=False, compare=False)

    @property
    def method(self) -> str:
        """How bread and meat were found."""
        return self.moments.method

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the variances."""
        return self.moments.degrees

    @cached_property
    def bread(self) -> RangeInverse:
        """(H + P)/N over the free parameters with its inverse and null space, in all r coordinates."""
        if self.known is not None:
            return self.known
        return penalised_inverse(self.moments.bread, self.precision / self.moments.total, self.free, self.units)

    @property
    def inverse(self) -> FloatArray:
        """((H + P)/N)⁻¹ (r, r), 0 for fixed parameters and along the null space."""
        return self.bread.inverse

    @cached_property
    def _half(self) -> FloatArray:
        """U bread⁻¹/N with a triangle U of the meat M = U + Uᵀ, so that Cov(θ̂) = bread⁻¹ U bread⁻¹/N and its transpose."""
        with one_blas_thread():
            return triangle_product(self.moments.meat, self.inverse) / self.moments.total

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of θ̂ (r, r): right for every identified function; along the null space it is 0."""
        with one_blas_thread():
            product: FloatArray = self.inverse @ self._half
        return product + product.T

    def identified(self, directions: FloatArray) -> BoolArray:
        """Which rows of ``directions`` (q, r) are identified."""
        return self.bread.reaches(directions)

    def needs_penalty(self) -> bool:
        """Whether some function of the free parameters is identified only because of the penalty."""
        free = np.flatnonzero(self.free)
        units = None if self.units is None else self.units[free]
        return is_singular(self.moments.bread[np.ix_(free, free)], np.ones(len(free)) if units is None else units)

    def solve(self, directions: FloatArray) -> FloatArray:
        """(H + P)⁻¹ a for each row."""
        solved: FloatArray = directions @ self.inverse / self.moments.total
        solved[~self.identified(directions)] = np.nan
        return solved

    def covariance_of(self, directions: FloatArray) -> FloatArray:
        """A Cov(θ̂) Aᵀ."""
        result: FloatArray = directions @ self.covariance @ directions.T
        lost = ~self.identified(directions)
        result[lost] = np.nan
        result[:, lost] = np.nan
        return result

    def variances(self) -> FloatArray:
        """The variance of each parameter (r,), NaN where it is not identified."""
        variances = np.maximum(2.0 * np.einsum("ij,ij->j", self.inverse, self._half), 0.0)
        return np.where(self.bread.reached, variances, np.nan)

    def effective_parameters(self) -> tuple[float, float]:
        """tr(bread⁻¹ meat), and its error if bread and meat are simulated."""
        values = np.array([part._trace for part in self._left_out()])
        return self._trace, float(_jackknife(values)) if len(values) else 0.0

    def simulation_error(self) -> FloatArray | None:
        """Relative Monte Carlo error of each standard error; None if nothing is simulated."""
        errors = np.sqrt([part.variances() for part in self._left_out()])
        if not len(errors):
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            relative: FloatArray = _jackknife(errors) / np.sqrt(self.variances())
            return relative

    def _left_out(self) -> Iterator[DenseAccuracy]:
        """The accuracy from all simulated parts but one, for each of them; one at a time, because matrices are large."""
        moments = self.moments
        parts = () if moments.replicates is None else moments.replicates()
        count, others = len(parts), len(parts) - 1
        if others > 0:
            for bread, meat in parts:
                rest = [
                    (count * mean - part) / others for mean, part in ((moments.bread, bread), (moments.meat, meat))
                ]
                yield replace(self, moments=Moments(rest[0], rest[1], moments.total, ""), known=None)

    @property
    def _trace(self) -> float:
        return float(np.sum(self.inverse * self.moments.meat))


def _jackknife(values: FloatArray) -> FloatArray:
    """The standard errors (…) of numbers from their values (parts, …) without one part each."""
    return np.asarray(np.sqrt((len(values) - 1) * np.var(values, axis=0)))
