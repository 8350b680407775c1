"""Moment conditions of a fit's own samples, and the estimating function with a symmetric bread that they make.

The estimate solves A ḡ(θ) − Pθ/n = 0. With B = −A ∂ḡ/∂θ and any symmetric Γ, the estimating function

    ψ = (Γ + P/n)(B + P/n)⁻¹ A g

has the same root, the same covariance of the estimate and the symmetric bread Γ, so that bread, meat and influence are
those of any other fit. Γ is the symmetric part of B where that is positive. Large weights on nearly redundant conditions
can make B far from symmetric, although its inverse is well determined; Γ is then the covariance A V Aᵀ of A g, which is
equal to B at the optimal weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.asymptotics.meat import ScoreVariance
from fieldfit.models.problem import Problem
from fieldfit.properties import cached_property
from fieldfit.refinement.conditions import Conditions, NodeConditions, Sums
from fieldfit.refinement.model_moments import ScoreMoments
from fieldfit.refinement.pseudo_inverse import bread_inverse
from fieldfit.types import BoolArray, FloatArray, Int32Array, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


#: An eigenvalue of the symmetric part of B below this, relative to the largest, in units of its diagonal, is negative.
_NEGATIVE = -1e-9


class ConditionSums(ABC):
    """Conditions of samples, wherever these are held: means over them are sums divided by ``total``.

    Sums over samples are sums over their parts, which are `SampleConditions` (`summed`).

    Attributes
    ----------
    conditions : the moment conditions
    weight : (n,) the weights of the samples, or None
    """

    conditions: Conditions
    weight: FloatArray | None

    @property
    @abstractmethod
    def n(self) -> int:
        """The number of samples."""

    @property
    @abstractmethod
    def at_hand(self) -> Int32Array:
        """Samples (rows, m) in this process: all, or some of them, evenly spread."""

    @abstractmethod
    def summed(self, question: Callable[..., FloatArray], *arguments: object) -> FloatArray:
        """The sum over the parts of what ``question(part, *arguments)`` answers."""

    @abstractmethod
    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """vᵀg_i for each sample."""

    @abstractmethod
    def scores(self, theta: FloatArray, matrix: FloatArray | csr_array) -> Iterator[tuple[slice, FloatArray]]:
        """Stream A g_i, without the sample's weight, as (samples, block (k, rows of A)), in the precision of A."""

    @abstractmethod
    def subset(self, rows: IntArray) -> SampleConditions:
        """Some of the samples, in this process."""

    @property
    def total(self) -> float:
        """The number of samples, or the sum of their weights."""
        return float(self.n if self.weight is None else self.weight.sum())

    def mean(self, theta: FloatArray) -> FloatArray:
        """ḡ(θ) (p,)."""
        return self.summed(SampleConditions.sums, theta) / self.total

    def derivative(self, theta: FloatArray) -> FloatArray:
        """∂ḡ/∂θ (p, n_parameters)."""
        return self.summed(SampleConditions.derivative_sums, theta) / self.total

    def covariance(self, theta: FloatArray, matrix: FloatArray | csr_array) -> FloatArray:
        """The mean of A g_i g_iᵀ Aᵀ over the samples (rows of A, rows of A)."""
        return self.summed(SampleConditions.square_sums, theta, matrix) / self.total

    def meat(self, theta: FloatArray, matrix: FloatArray | csr_array, variance: ScoreVariance) -> FloatArray:
        """The meat (rows of A, rows of A) of the scores A g_i.

        Groups may be in several parts, so their scores come here.
        """
        if variance.groups is not None:
            return variance.streamed(WeightedConditions(self, matrix), theta)
        return self.summed(SampleConditions.meat_sums, theta, matrix, variance.mean, variance.counts)

    def form(self, theta: FloatArray, rows: FloatArray, variance: ScoreVariance) -> FloatArray:
        """The same for a few rows (q, p) of weights, most of them 0; the mean of ``variance`` is ḡ (p,)."""
        if variance.groups is not None:
            return variance.form(self, theta, rows)
        return self.summed(SampleConditions.form_sums, theta, rows, variance.mean, variance.counts)

    def node_blocks(self, theta: FloatArray) -> list[FloatArray]:
        """Σ_i w_i Z_ic C_j h hᵀ for each component, a variable j: minus the derivatives by the coefficients of scores."""
        assert isinstance(self.conditions, NodeConditions)
        sizes = [s.stop - s.start for s in self.conditions.slices]
        numbers = np.split(self.summed(SampleConditions.block_sums, theta), np.cumsum(np.square(sizes))[:-1])
        return [block.reshape(size, size) for block, size in zip(numbers, sizes, strict=True)]

    def some(self, most: int) -> SampleConditions:
        """At most this number of the samples, evenly spread."""
        return self.subset(evenly_spread(self.n, most))


def evenly_spread(n: int, most: int) -> IntArray:
    """At most ``most`` of the numbers 0..n."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.int64)


@dataclass(frozen=True)
class SampleConditions(ConditionSums):
    """Conditions with samples ``codes`` (n, m), the drawn Z ``mask`` (n, components) and weights of the samples.

    ``compiled`` are their sums, where something faster than the conditions themselves has them.
    """

    conditions: Conditions
    codes: Int32Array
    mask: FloatArray | None = None
    weight: FloatArray | None = None
    compiled: Sums | None = None

    @classmethod
    def compiled_by(
        cls,
        conditions: Conditions,
        codes: Int32Array,
        mask: FloatArray | None,
        weight: FloatArray | None,
        problem: Problem | None = None,
    ) -> SampleConditions:
        """The samples with their conditions; sums are those of A's compiled ``problem`` where it has them."""
        compiled = None
        if problem is not None and mask is None and isinstance(conditions, NodeConditions):
            compiled = conditions.summed_by(problem, weight)
        return cls(conditions, codes, mask, weight, compiled)

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.codes)

    @property
    def at_hand(self) -> Int32Array:
        """All samples."""
        return self.codes

    def summed(self, question: Callable[..., FloatArray], *arguments: object) -> FloatArray:
        """There is one part."""
        return question(self, *arguments)

    def sums(self, theta: FloatArray) -> FloatArray:
        """Σ_i w_i Z_ic g_i (p,)."""
        return self._sums(theta)

    @cached_property
    def _sums(self) -> Sums:
        return self.compiled or self.conditions.summed(self.codes, self.weight, self.mask)

    def derivative_sums(self, theta: FloatArray) -> FloatArray:
        """Σ_i w_i Z_ic ∂g_i/∂θ (p, n_parameters)."""
        return self.conditions.derivative(self.codes, theta, self.weight, self.mask)

    def scores(self, theta: FloatArray, matrix: FloatArray | csr_array) -> Iterator[tuple[slice, FloatArray]]:
        """Stream A g_i, without the sample's weight, as (samples, block (k, rows of A)), in the precision of A."""
        single = matrix.dtype == np.float32
        for samples, block in self.conditions.value_blocks(self.codes, theta, single=single):
            if self.mask is not None:
                block = block * self.mask[samples][:, self.conditions.component]
            yield samples, block @ matrix.T

    def square_sums(self, theta: FloatArray, matrix: FloatArray | csr_array) -> FloatArray:
        """Σ_i w_i A g_i g_iᵀ Aᵀ (rows of A, rows of A)."""
        total = np.zeros((matrix.shape[0], matrix.shape[0]))
        for samples, block in self.scores(theta, matrix):
            weighted = block if self.weight is None else block * self.weight[samples, None]
            total += weighted.T @ block
        return total

    def meat_sums(
        self, theta: FloatArray, matrix: FloatArray | csr_array, mean: FloatArray | None, counts: bool
    ) -> FloatArray:
        """The meat of independent samples, around the mean score of all of them."""
        variance = ScoreVariance(self.weight, counts, None, mean)
        return variance.streamed(WeightedConditions(self, matrix), theta)

    def form_sums(self, theta: FloatArray, rows: FloatArray, mean: FloatArray | None, counts: bool) -> FloatArray:
        """The meat of a few rows of weights, one pass over the samples for each."""
        return ScoreVariance(self.weight, counts, None, mean).form(self, theta, rows)

    def block_sums(self, theta: FloatArray) -> FloatArray:
        """Σ_i w_i Z_ic C_j h hᵀ of all components, one after the other."""
        assert isinstance(self.conditions, NodeConditions)
        blocks = self.conditions.node_sums(self.codes, theta, self.weight, self.mask)
        return np.concatenate([block.ravel() for block in blocks])

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """vᵀg_i for each sample; of single variables, from the conditions with a weight only."""
        conditions = self.conditions
        if self.mask is not None or not isinstance(conditions, NodeConditions):
            return np.concatenate([block[:, 0] for _, block in self.scores(theta, v[None])])
        used, parts = np.flatnonzero(v), []
        for _, evaluated in conditions.blocks(self.codes, theta, 1_000):
            g = (
                evaluated.residuals[:, conditions.residual[used]]
                * evaluated.instruments[:, conditions.instrument[used]]
            )
            parts.append(g @ v[used])
        return np.concatenate(parts)

    def some(self, most: int) -> SampleConditions:
        """At most this number of the samples, evenly spread."""
        return self if self.n <= most else super().some(most)

    def subset(self, rows: IntArray) -> SampleConditions:
        """Some of the samples."""
        return SampleConditions(
            self.conditions,
            np.ascontiguousarray(self.codes[rows]),
            None if self.mask is None else self.mask[rows],
            None if self.weight is None else self.weight[rows],
        )


def symmetric(
    matrix: FloatArray,
    derivative: FloatArray,
    free: BoolArray,
    penalty: FloatArray,
    covariance: Callable[[FloatArray], FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """(Γ, weights of ψ) for the weights A (r, p) and the derivative (p, r) of ḡ.

    ``penalty`` (r,) is P/n, and ``covariance(A)`` is A V Aᵀ.
    """
    keep = np.flatnonzero(free)
    weights = matrix[keep]
    bread = -weights @ derivative[:, keep]
    gamma = symmetric_bread(bread, lambda: covariance(weights))
    P = np.diag(penalty[keep])
    turned = (gamma + P) @ bread_inverse(bread + P) @ weights
    r = len(free)
    whole, rows = np.zeros((r, r)), np.zeros((r, matrix.shape[1]))
    whole[np.ix_(keep, keep)] = gamma
    rows[keep] = turned
    return whole, rows


def symmetric_bread(bread: FloatArray, covariance: Callable[[], FloatArray]) -> FloatArray:
    """Γ: the symmetric part of B = ``bread`` where that is positive, else the covariance A V Aᵀ."""
    gamma = (bread + bread.T) / 2
    return gamma if _is_positive(gamma) else covariance()


def _is_positive(matrix: FloatArray) -> bool:
    """Whether a symmetric matrix is positive semi-definite up to rounding, in any units."""
    diagonal = np.diag(matrix)
    if np.any(diagonal < 0):
        return False
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values = np.linalg.eigvalsh(matrix * scale[:, None] * scale)
    return bool(values[0] >= _NEGATIVE * max(float(values[-1]), 0.0)) if len(values) else True


@dataclass(frozen=True)
class WeightedConditions:
    """Estimating functions ψ = T A g − c of samples, with ``weights`` A (r, p), ``turn`` T (r, r) and ``centre`` c (r,).

    T is kept apart because it is dense where A is sparse. None is the identity, and 0.
    """

    samples: ConditionSums
    weights: FloatArray | csr_array
    turn: FloatArray | None = None
    centre: FloatArray | None = None

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return self.samples.n

    @property
    def n_parameters(self) -> int:
        """The number r of scores."""
        return int(self.weights.shape[0])

    def score_blocks(self, theta: FloatArray, rows: int | None = None) -> Iterator[tuple[int, FloatArray]]:
        """Stream ψ as (first sample, block); the conditions set the size of the blocks."""
        del rows
        for samples, block in self.samples.scores(theta, self.weights):
            turned = block if self.turn is None else block @ self.turn.T
            yield samples.start, turned if self.centre is None else turned - self.centre

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sample."""
        products = self.samples.row_products(theta, self.weights.T @ (v if self.turn is None else self.turn.T @ v))
        return products if self.centre is None else products - v @ self.centre

    def scores_of(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        """ψ of some samples (rows, r)."""
        some = replace(self, samples=self.samples.subset(rows))
        return np.concatenate([block for _, block in some.score_blocks(theta)])

    def of_new(self, codes: Int32Array, mean: FloatArray | None = None) -> WeightedConditions:
        """The same function of other samples, expected over Z with E[Z] = ``mean`` (components,), None: all ones."""
        mask = None if mean is None else np.broadcast_to(mean, (len(codes), len(mean)))
        return replace(self, samples=SampleConditions(self.samples.conditions, codes, mask))


def symmetric_scores(
    samples: ConditionSums, matrix: FloatArray, theta: FloatArray, free: BoolArray, precision: FloatArray
) -> tuple[FloatArray, WeightedConditions]:
    """Γ at θ, a mean over samples, and ψ of the fitted samples for the weights A (r, p)."""
    bread, weights = symmetric(
        matrix,
        samples.derivative(theta),
        free,
        precision / samples.total,
        lambda rows: samples.covariance(theta, rows),
    )
    return bread, WeightedConditions(samples, weights)


def expected_bread_meat(
    matrix: FloatArray, moments: ScoreMoments, free: BoolArray, penalty: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bread Γ and meat of ψ expected under the model, from V and K = −D."""
    gamma, weights = symmetric(matrix, -moments.K, free, penalty, lambda rows: rows @ moments.V @ rows.T)
    meat = weights @ moments.V @ weights.T
    return gamma, (meat + meat.T) / 2
