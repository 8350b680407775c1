"""One Newton step on the full likelihood: the skeleton of a second stage. Copy it to src/fieldfit/refinement/stages/.

``A >> onestep`` moves the first estimate by

    θ̂ = θ_A + (H + P)⁻¹ (∇ℓ(θ_A) − P θ_A)

with the gradient ∇ℓ and the negative Hessian H of the full log-likelihood and the precision P of a Gaussian penalty. To
first order that is the maximum likelihood estimate.

A second stage is found by its file: the class OneStep in onestep.py. It says how its text reads, how it refines a fit, its
variance in theory and in plans, and what it refuses. Its estimate, a `StageFit`, has scores and accuracy. The contract
tests run over `examples`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fieldfit.asymptotics import Asymptotics, DenseAccuracy, Moments
from fieldfit.asymptotics.meat import ScoreVariance
from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.data.samples import Table, as_table
from fieldfit.models.field import FieldModel
from fieldfit.models.problem import Problem
from fieldfit.policies import Policy
from fieldfit.policies.text import Reader
from fieldfit.refinement.planned import PlanSetting, SkippedError, StageWork
from fieldfit.refinement.pseudo_inverse import pseudo_inverse
from fieldfit.refinement.second_stage import FirstFit, RefinedEstimate, SecondStage, TheorySetting, field_of
from fieldfit.refinement.specification import SpecificationTest
from fieldfit.refinement.staged import Staged
from fieldfit.types import BoolArray, FloatArray, Int32Array, PolicyError

FULL = Policy.parse("FL")


@dataclass(frozen=True)
class StepAccount:
    """How the step went, as plain values that a file can hold."""

    longest: float  # the largest change of a parameter
    seconds: float
    accepted: bool = True

    def lines(self, second: str) -> list[str]:
        """The second stage in words."""
        return [f"second stage {second}: one Newton step, largest change {self.longest:.3g}, {self.seconds:.2f} s"]


@dataclass(frozen=True)
class OneStep(SecondStage):
    """``onestep``."""

    examples: ClassVar[tuple[str, ...]] = ("PL1 >> onestep", "0.5*PL1 + 0.5*PL2 >> onestep")
    account: ClassVar[type[StepAccount]] = StepAccount

    def __str__(self) -> str:
        return "onestep"

    @classmethod
    def read(cls, reader: Reader) -> OneStep | None:
        """The word."""
        return cls() if reader.word() == "onestep" else None

    def evaluates(self, first: Policy) -> tuple[Policy, ...]:
        """The first stage, and the full likelihood."""
        return first, FULL

    def planned_policies(self, first: Policy) -> tuple[Policy, ...]:
        """The same: its moments are those of the full likelihood."""
        return first, FULL

    def fit(self, first: FirstFit) -> RefinedEstimate:
        """The step. `field_of` refuses chains, missing values and L1 penalties with a sentence."""
        began = time.perf_counter()
        model, dataset = field_of(first, f"'{self.text(first.bound.policy)}'"), as_table(first.dataset)
        keep, precision, weight = np.flatnonzero(first.free), first.penalty.precision, dataset.sample_weight
        problem = compiled(model, dataset)
        slope = problem.value_grad(first.theta, weight)[1] - precision * first.theta
        curvature = np.diag(precision) - problem.hessian_matrix(first.theta, weight)
        move = pseudo_inverse(curvature[np.ix_(keep, keep)])[0] @ slope[keep]
        theta = first.theta.copy()
        theta[keep] += move
        account = StepAccount(float(np.abs(move).max(initial=0.0)), time.perf_counter() - began)
        return RefinedEstimate(StepFit(theta, account, model, problem, first.free, precision, weight))

    def theory(self, first: Policy, setting: TheorySetting) -> Asymptotics:
        """That of maximum likelihood."""
        del first
        return setting.of_policy(FULL)

    def plan(self, first: Policy, setting: PlanSetting) -> PlannedStep:
        """The variance of the full likelihood, if the plan has that, for one evaluation and one Hessian."""
        laws = [term.law for term in setting.terms]
        if FULL.laws[0] not in laws:
            raise SkippedError(f"{self.text(first)}: skipped, the plan has no FL.")
        place = laws.index(FULL.laws[0])
        return PlannedStep(Staged(first, self), place, setting.terms[place].problem.hessian_evaluations)


@dataclass(frozen=True)
class StepFit:
    """The estimate with the compiled full likelihood of its samples, whose scores are the estimating functions."""

    theta: FloatArray
    account: StepAccount
    model: FieldModel
    scores: Problem
    free: BoolArray
    precision: FloatArray
    weight: FloatArray | None

    @property
    def testable(self) -> bool:
        """There is no condition beside those that determine the parameters."""
        return False

    @property
    def total(self) -> float:
        """The number of samples, or the sum of their weights."""
        return float(self.scores.n_samples if self.weight is None else self.weight.sum())

    @property
    def information(self) -> FloatArray:
        """−H/n (r, r); the full likelihood of a field has the same one expected under the model."""
        return -self.scores.hessian_matrix(self.theta, self.weight) / self.total

    def scores_of_new(self, codes: Int32Array) -> Problem:
        """Scores of other samples."""
        return compiled(self.model, Table(codes, self.model.names, self.model.states))

    def accuracy(self, variance: ScoreVariance, active: BoolArray, units: FloatArray | None) -> DenseAccuracy:
        """Bread and meat from the data; the meat around the mean score, which is not exactly 0 after one step."""
        mean = self.scores.value_grad(self.theta, self.weight)[1] / self.total
        meat = replace(variance, mean=mean).streamed(self.scores, self.theta) / self.total
        return self._dense(meat, "the data", active, units)

    def model_accuracy(self, counts: bool, active: BoolArray, units: FloatArray | None) -> DenseAccuracy:
        """The meat expected under the estimate, which is the information."""
        squares = self.weight is not None and not counts
        scale = float(self.weight @ self.weight) / self.total if squares and self.weight is not None else 1.0
        return self._dense(scale * self.information, "the model", active, units)

    def _dense(self, meat: FloatArray, method: str, active: BoolArray, units: FloatArray | None) -> DenseAccuracy:
        return DenseAccuracy(Moments(self.information, meat, self.total, method), self.precision, active, units)

    def specification_test(self, n: float) -> SpecificationTest:
        """Refused."""
        del n
        raise PolicyError("'onestep' has as many equations as parameters, so there is nothing to test.")


@dataclass(frozen=True)
class PlannedStep:
    """The stage in a plan; ``limit`` is the place of the full likelihood among the plan's terms."""

    staged: Staged
    limit: int
    hessian_evaluations: float
    flops: float = 0.0

    @property
    def sentence(self) -> str:
        """What it does."""
        return "The second stage is one Newton step on the full likelihood."

    def work(self, first: tuple[FloatArray, FloatArray], moments: MixtureMoments, n: int) -> StageWork:
        """One evaluation of FL and one Hessian."""
        del first, moments, n
        return StageWork(0.0, 0.0, 1 + round(self.hessian_evaluations), term=self.limit)


def compiled(model: FieldModel, dataset: Table) -> Problem:
    """The full likelihood of all samples."""
    return model.compile(dataset, FULL.bind(model.structure(dataset)).draw(0, 0, dataset.n))
