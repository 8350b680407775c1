"""The estimate of a second stage with local weights: its scores and accuracy, by sparse matrices.

With B = −A ∂ḡ/∂θ + P/n and u = B⁻ᵀa, the function aᵀθ̂ has the variance Σ_i (w_i uᵀA g_i)² / (Σw)².
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, cast

import numpy as np

from fieldfit.asymptotics import Accuracy, DenseAccuracy, Moments
from fieldfit.asymptotics.accuracy import MOST_COVARIANCE_PARAMETERS
from fieldfit.asymptotics.meat import ScoreVariance
from fieldfit.properties import cached_property
from fieldfit.refinement.conditions import NodeConditions
from fieldfit.refinement.estimating import ConditionSums, WeightedConditions, symmetric_bread
from fieldfit.refinement.refined import Account
from fieldfit.refinement.specification import SpecificationTest
from fieldfit.types import BoolArray, FloatArray, Int32Array, PolicyError

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array


def sparse_derivative(samples: ConditionSums, theta: FloatArray) -> csr_array:
    """∂ḡ/∂θ (p, r) of the samples, sparse."""
    from scipy.sparse import block_diag, csr_array

    conditions = samples.conditions
    assert isinstance(conditions, NodeConditions)
    blocks = csr_array(block_diag(samples.node_blocks(theta)))
    matrix: csr_array = (-(blocks @ conditions.score_coefficients.T.tocsr()) / samples.total).tocsr()
    return matrix


def sparse_bread(
    samples: ConditionSums, matrix: csr_array, theta: FloatArray, free: BoolArray, precision: FloatArray
) -> csc_array:
    """B = −A ∂ḡ/∂θ + P/n over the free parameters, sparse."""
    from scipy.sparse import diags_array

    keep = np.flatnonzero(free)
    bread = -(matrix[keep] @ sparse_derivative(samples, theta)[:, keep])
    whole: csc_array = (bread + diags_array(precision[keep] / samples.total)).tocsc()
    return whole


class SparseFactor(Protocol):
    """SciPy's SuperLU, whose stub does not know ``trans``."""

    def solve(self, right: FloatArray, trans: Literal["N", "T"] = "N") -> FloatArray:
        """B⁻¹ · right, or B⁻ᵀ · right."""


@dataclass(frozen=True)
class LocalRefined:
    """The estimate with sparse weights A (r, p) of its conditions."""

    theta: FloatArray
    account: Account
    samples: ConditionSums
    matrix: csr_array
    free: BoolArray
    precision: FloatArray

    @property
    def testable(self) -> bool:
        """Whether Hansen's test is available."""
        return False

    @cached_property
    def factor(self) -> SparseFactor:
        """A sparse LU factorisation of the bread B = −A ∂ḡ/∂θ + P/n over the free parameters."""
        from scipy.sparse.linalg import splu

        bread = sparse_bread(self.samples, self.matrix, self.theta, self.free, self.precision)
        return cast(SparseFactor, splu(bread))

    @cached_property
    def symmetric(self) -> tuple[FloatArray, FloatArray] | None:
        """Γ and T (r, r) as in `estimating`: T A g has the symmetric bread Γ. None above 3,000 parameters."""
        keep = np.flatnonzero(self.free)
        r = len(self.free)
        if r > MOST_COVARIANCE_PARAMETERS:
            return None
        P = np.diag(self.precision[keep] / self.samples.total)
        whole = sparse_bread(self.samples, self.matrix, self.theta, self.free, self.precision).toarray()
        gamma = symmetric_bread(whole - P, lambda: self.samples.covariance(self.theta, self.matrix[keep]))
        turn = (gamma + P) @ np.linalg.inv(whole)
        bread, rows = np.zeros((r, r)), np.zeros((r, r))
        bread[np.ix_(keep, keep)], rows[np.ix_(keep, keep)] = gamma, turn
        return bread, rows

    @cached_property
    def scores(self) -> WeightedConditions:
        """ψ of the fitted samples: T A g with a symmetric bread up to 3,000 parameters, A g above."""
        return WeightedConditions(self.samples, self.matrix, None if self.symmetric is None else self.symmetric[1])

    def scores_of_new(self, codes: Int32Array) -> WeightedConditions:
        """ψ of other samples."""
        return self.scores.of_new(codes)

    def accuracy(self, variance: ScoreVariance, active: BoolArray, units: FloatArray | None) -> Accuracy:
        """Bread and meat from the data: matrices up to 3,000 parameters, sparse solves above."""
        mean = self.samples.mean(self.theta) if np.any(self.precision[self.free] > 0) else None
        if self.symmetric is None:
            return LocalAccuracy(self, replace(variance, mean=mean))
        if mean is not None:
            variance = replace(variance, mean=self.matrix @ mean)
        total, (bread, turn) = self.samples.total, self.symmetric
        meat = turn @ self.samples.meat(self.theta, self.matrix, variance) @ turn.T
        return DenseAccuracy(Moments(bread, meat / total, total, "the data"), self.precision, active, units)

    def model_accuracy(self, counts: bool, active: BoolArray, units: FloatArray | None) -> Accuracy:
        """Refused: it needs the covariance of all conditions under the model."""
        del counts, active, units
        raise self._refusal("Model-based standard errors need", "Use robust ones (kind='robust').")

    def specification_test(self, n: float) -> SpecificationTest:
        """Refused: it needs the covariance of all conditions."""
        del n
        raise self._refusal("Hansen's test needs", "Use fit.goodness_of_fit().")

    def _refusal(self, what: str, instead: str) -> PolicyError:
        return PolicyError(
            f"{what} the covariance of all moment conditions, and these are {self.account.conditions:,} with local "
            f"weights, too many for a matrix. {instead}"
        )


class LocalAccuracy:
    """The covariance of linear functions of a refined estimate with local weights; the mean of ``variance`` is ḡ (p,)."""

    def __init__(self, refined: LocalRefined, variance: ScoreVariance) -> None:
        self.refined, self.variance = refined, variance

    @property
    def method(self) -> str:
        """How bread and meat were found."""
        return "the data, by sparse solves"

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the variances: many independent samples."""
        return math.inf

    def solve(self, directions: FloatArray) -> FloatArray:
        """B⁻ᵀ a / n for each row a of ``directions`` (q, r); 0 at fixed parameters."""
        refined = self.refined
        keep = np.flatnonzero(refined.free)
        result = np.zeros(directions.shape)
        for place, direction in enumerate(directions):
            result[place, keep] = refined.factor.solve(np.ascontiguousarray(direction[keep]), trans="T")
        return result / refined.samples.total

    def covariance_of(self, directions: FloatArray) -> FloatArray:
        """Covariance (q, q) of the functions aᵀθ̂."""
        refined = self.refined
        rows = np.asarray((refined.matrix.T @ self.solve(directions).T).T)
        return refined.samples.form(refined.theta, rows, self.variance)

    def effective_parameters(self) -> tuple[float, float]:
        """Refused: it takes a solve for each parameter."""
        raise PolicyError(
            f"The effective number of parameters of a refined fit needs matrices of {len(self.refined.free):,} parameters; "
            f"the limit is {MOST_COVARIANCE_PARAMETERS:,}."
        )
