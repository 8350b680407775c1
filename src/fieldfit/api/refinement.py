"""The second stage of a fit: what it was, how it went, and its accuracy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldfit.policies.stages import Second, Staged, as_estimator
from fieldfit.refinement.estimating import RefinedScores, expected_moments
from fieldfit.refinement.local import LocalRefined
from fieldfit.refinement.local_accuracy import LocalAccuracy, LocalScores
from fieldfit.refinement.optimal import MOST_CONDITIONS, Account, Refined, moments_at
from fieldfit.refinement.score_moments import ScoreMoments, pooled
from fieldfit.refinement.specification import SpecificationTest, hansen_test
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, DataError, FloatArray, PolicyError
from fieldfit.variance import DenseAccuracy, Moments
from fieldfit.variance.meat import ScoreVariance

if TYPE_CHECKING:
    from fieldfit.api.state import FitState

#: Draws at the refined estimate behind model-based standard errors and the specification test.
_DRAWS = 20_000


@dataclass(frozen=True)
class Refinement:
    """The second stage of a fit. ``working`` is None for a fit that was loaded from a file without its samples."""

    second: Second
    first_theta: FloatArray
    account: Account
    working: Refined | LocalRefined | None = None
    saved_test: SpecificationTest | None = None

    @property
    def accepted(self) -> bool:
        """Whether the estimate is the second stage's."""
        return self.account.accepted

    @property
    def needed(self) -> Refined | LocalRefined:
        """The conditions with their samples; DataError for a fit that was loaded from a file."""
        if self.working is None:
            raise DataError(
                "This fit was loaded from a file, which does not hold the samples, and they are needed here. Give them "
                "again: load(path, data)."
            )
        return self.working

    def lines(self) -> list[str]:
        """The second stage in words."""
        account = self.account
        weights = f"weights from {account.source}"
        ridge = f", ridge {account.ridge:g}" if account.ridge else ""
        text = [
            f"second stage {self.second}: {account.conditions:,} moment conditions up to graph distance "
            f"{account.distance}, {weights}{ridge}; {account.steps} steps, {account.seconds:.2f} s"
        ]
        if account.accepted:
            if not np.isnan(account.predicted):
                text.append(
                    f"predicted variance relative to maximum likelihood: {account.predicted:.3f} (first stage "
                    f"{account.first:.3f})"
                )
        else:
            text.append(f"the estimate is the first stage's: {account.message}")
        return text

    def to_dict(self, test: SpecificationTest | None = None) -> dict[str, Any]:
        """Plain values, for JSON."""
        test = self.saved_test if test is None else test
        return {
            "second": str(self.second),
            "account": dict(vars(self.account)),
            "test": None if test is None else test.to_dict(),
        }


def read_refinement(header: dict[str, Any], first_theta: FloatArray) -> Refinement:
    """What `Refinement.to_dict` wrote."""
    staged = as_estimator(f"PL1 >> {header['second']}")
    assert isinstance(staged, Staged)
    test = None if header["test"] is None else SpecificationTest(**header["test"])
    return Refinement(staged.second, first_theta, Account(**header["account"]), None, test)


class RefinedMoments:
    """Bread, meat and the specification test of a refined fit; computed when they are first asked for."""

    def __init__(self, refined: Refined, theta: FloatArray, free: BoolArray, precision: FloatArray) -> None:
        self.refined, self.theta, self.free, self.precision = refined, theta, free, precision

    @cached_property
    def scores(self) -> RefinedScores:
        """ψ of the fitted samples."""
        return RefinedScores.of(self.refined.samples, self.refined.matrix, self.theta, self.free, self.precision)

    def robust(self, variance: ScoreVariance) -> Moments:
        """Bread and meat from the data, right whatever the weights, and outside the model too."""
        with one_blas_thread():
            total = self.refined.samples.total
            if np.any(self.precision[self.free] > 0):
                variance = replace(variance, mean=self.scores.mean())
            return Moments(self.scores.bread, variance.streamed(self.scores, self.theta) / total, total, "the data")

    @cached_property
    def expected(self) -> tuple[ScoreMoments, str]:
        """V and K at the refined estimate: exact, or from draws that the weights do not know."""
        stack = self.refined.stack
        model = stack.conditions.model
        with one_blas_thread():
            halves, source = moments_at(model, self.theta, stack, self._table, 0x7E57, None, None, fixed=_DRAWS)
        return (halves[0] if len(halves) == 1 else pooled(halves[0], halves[1])), source

    @property
    def _table(self) -> Any:
        from fieldfit.data.samples import Table

        model = self.refined.stack.conditions.model
        return Table(self.refined.samples.codes, model.names, model.states)

    def model_based(self, counts: bool) -> Moments:
        """The same expected under the refined estimate."""
        moments, source = self.expected
        samples = self.refined.samples
        bread, meat = expected_moments(self.refined.matrix, moments, self.free, self.precision / samples.total)
        if samples.weight is not None and not counts:
            meat = meat * float(samples.weight @ samples.weight) / samples.total
        return Moments(bread, meat, samples.total, source)

    def test(self, n: float) -> SpecificationTest:
        """Hansen's J with ``n`` effective samples."""
        if np.any(self.precision[self.free] > 0):
            raise PolicyError("Hansen's test needs a fit without a penalty: a penalty moves the estimate on purpose.")
        if self.refined.account.conditions > MOST_CONDITIONS:
            raise PolicyError(
                f"Hansen's test needs the covariance of all moment conditions: {self.refined.account.conditions:,} are "
                f"more than the limit of {MOST_CONDITIONS:,}. Use a smaller graph distance, or fit.goodness_of_fit()."
            )
        moments, source = self.expected
        keep = np.flatnonzero(self.free)
        if len(keep) < len(self.free):
            moments = ScoreMoments(moments.V, moments.K[:, keep], moments.information, moments.draws)
        with one_blas_thread():
            mean = self.refined.samples.mean(self.theta)
            return hansen_test(mean, self.refined.matrix[keep], moments, n, source)


def refined_moments(fit: FitState) -> RefinedMoments:
    """The moments of a refined fit with dense weights."""
    assert fit.refinement is not None
    needed = fit.refinement.needed
    if isinstance(needed, LocalRefined):
        raise PolicyError(
            f"'{fit.estimator}' has {needed.account.conditions:,} moment conditions and local weights; matrices over "
            f"all of them, as for this question, take at most {MOST_CONDITIONS:,}. Ask for chosen parameters or functions."
        )
    return RefinedMoments(needed, fit.theta, fit.free, fit.penalty.precision)


def refined_accuracy(fit: FitState, variance: ScoreVariance) -> DenseAccuracy | LocalAccuracy:
    """The robust accuracy of a refined fit."""
    assert fit.refinement is not None
    needed = fit.refinement.needed
    if isinstance(needed, LocalRefined):
        scores = LocalScores(needed)
        if fit.penalised:
            variance = replace(variance, mean=scores.mean())
        if needed.symmetric is None:
            return LocalAccuracy(needed, variance)
        total = needed.samples.total
        moments = Moments(needed.symmetric[0], variance.streamed(scores, fit.theta) / total, total, "the data")
        return DenseAccuracy(moments, fit.penalty.precision, fit.active, fit.model.feature_units)
    moments = fit.refined_moments.robust(variance)
    return DenseAccuracy(moments, fit.penalty.precision, fit.active, fit.model.feature_units)


def refuse_refined(fit: FitState, what: str, instead: str) -> None:
    """PolicyError where ``what`` has no meaning for a fit with a second stage."""
    if fit.refined:
        raise PolicyError(
            f"{what} needs an estimate that maximises its objective; '{fit.estimator}' combines moment conditions. "
            f"{instead}"
        )
