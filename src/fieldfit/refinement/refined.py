"""The estimate of a second stage with dense weights: its scores, accuracy and Hansen's test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.asymptotics import DenseAccuracy, Moments
from fieldfit.asymptotics.criterion import ROOT, mean_words
from fieldfit.asymptotics.meat import ScoreVariance
from fieldfit.data.samples import Table
from fieldfit.properties import cached_property
from fieldfit.refinement.estimating import (
    ConditionSums,
    SampleConditions,
    WeightedConditions,
    expected_bread_meat,
    symmetric_scores,
)
from fieldfit.refinement.model_moments import ModelMoments, ScoreMoments, is_exact, together
from fieldfit.refinement.specification import SpecificationTest, hansen_test
from fieldfit.refinement.stacking import Stack
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray, Int32Array, PolicyError

#: Draws at the refined estimate behind model-based standard errors and the specification test, and their seed.
_TEST_DRAWS, _TEST_SEED = 20_000, 0x7E57


@dataclass(frozen=True)
class Account:
    """How a second stage of moment conditions went.

    ``predicted`` and ``first`` are the predicted variance of the refined and of the first estimate relative to maximum
    likelihood (1 is best): det^(1/r), or tr(I·covariance)/r from draws. ``draws`` is the number of draws of the model
    behind the weights (0: exact sums). Where ``accepted`` is False the estimate is the first stage's, and ``message``
    says why.
    """

    distance: int
    conditions: int
    draws: int
    source: str
    ridge: float
    predicted: float
    first: float
    accepted: bool
    steps: int
    seconds: float
    message: str

    def lines(self, second: str) -> list[str]:
        """The second stage in words."""
        ridge = f", ridge {self.ridge:g}" if self.ridge and not math.isinf(self.ridge) else ""
        text = [
            f"second stage {second}: {self.conditions:,} moment conditions up to graph distance {self.distance}, weights "
            f"from {self.source}{ridge}; {self.steps} steps, {self.seconds:.2f} s"
        ]
        if not self.accepted:
            text.append(f"the estimate is the first stage's: {self.message}")
        elif self.message:
            text.append(self.message)
        if self.accepted and not math.isnan(self.predicted):
            criterion = ROOT if self.draws == 0 else mean_words()
            text.append(
                f"predicted variance relative to maximum likelihood, {criterion}: "
                f"{self.predicted:.3f} (first stage {self.first:.3f})"
            )
        return text


@dataclass(frozen=True)
class Refined:
    """The estimate (the first stage's where it was not accepted), its conditions and their weights A (r, p).

    ``stack`` holds the conditions under the model; ``samples`` those of the data, of which A ḡ(θ) = Pθ/n.
    """

    theta: FloatArray
    account: Account
    stack: Stack
    samples: ConditionSums
    matrix: FloatArray
    free: BoolArray
    precision: FloatArray

    @property
    def testable(self) -> bool:
        """Whether Hansen's test is available."""
        return True

    @cached_property
    def _symmetric(self) -> tuple[FloatArray, WeightedConditions]:
        return symmetric_scores(self.samples, self.matrix, self.theta, self.free, self.precision)

    @property
    def scores(self) -> WeightedConditions:
        """ψ of the fitted samples."""
        return self._symmetric[1]

    def scores_of_new(self, codes: Int32Array) -> WeightedConditions:
        """ψ of other samples, expected over Z."""
        return self.scores.of_new(codes, self.stack.mean)

    def accuracy(self, variance: ScoreVariance, active: BoolArray, units: FloatArray | None) -> DenseAccuracy:
        """Bread and meat from the data, valid for any weights, and outside the model too."""
        with one_blas_thread(with_scipy=True):
            (bread, scores), total = self._symmetric, self.samples.total
            if np.any(self.precision[self.free] > 0):
                variance = replace(variance, mean=scores.weights @ self.samples.mean(self.theta))
            meat = self.samples.meat(self.theta, scores.weights, variance) / total
        return DenseAccuracy(Moments(bread, meat, total, "the data"), self.precision, active, units)

    @cached_property
    def expected(self) -> tuple[ScoreMoments, str]:
        """V and K at the estimate: exact, or from draws that the weights do not know."""
        halves, source = self._halves
        return together(halves), source

    @cached_property
    def _halves(self) -> tuple[Sequence[ScoreMoments], str]:
        """The same from two halves of the draws."""
        model = self.stack.conditions.model
        table = Table(self.samples.at_hand, model.names, model.states)
        with one_blas_thread(with_scipy=True):
            at = ModelMoments(model, self.theta, self.stack, table, _TEST_SEED)
            if is_exact(model):
                return at.exact()
            halves, method = at.drawn(_TEST_DRAWS)
            return halves, method.format(draws=sum(half.draws or 0 for half in halves))

    def model_accuracy(self, counts: bool, active: BoolArray, units: FloatArray | None) -> DenseAccuracy:
        """The same expected under the estimate."""
        moments, source = self.expected
        weight, total = self.samples.weight, self.samples.total
        bread, meat = expected_bread_meat(self.matrix, moments, self.free, self.precision / total)
        if weight is not None and not counts:
            meat = meat * float(weight @ weight) / total
        return DenseAccuracy(Moments(bread, meat, total, source), self.precision, active, units)

    def specification_test(self, n: float) -> SpecificationTest:
        """Hansen's J with ``n`` effective samples."""
        if np.any(self.precision[self.free] > 0):
            raise PolicyError("Hansen's test needs a fit without a penalty: a penalty moves the estimate on purpose.")
        halves, source = self._halves
        keep = np.flatnonzero(self.free)
        if len(keep) < len(self.free):
            halves = [ScoreMoments(half.V, half.K[:, keep], half.information, half.draws) for half in halves]
        with one_blas_thread(with_scipy=True):
            samples = self.samples
            if isinstance(samples, SampleConditions):  # separate estimates have shifted conditions
                samples = replace(samples, conditions=self.stack.conditions)
            return hansen_test(samples.mean(self.theta), self.matrix[keep], halves, n, source)
