"""Moment conditions in plans, such as ``A >> optimal(d)``: their weights as a fit computes them, and estimating functions.

The estimate solves A ḡ(θ) = 0 with weights A of moment conditions g. To the comparison it is one more term whose scores
are A g_i: their bread and meat, over all states or over the plan's samples, are moments like those of a composite
likelihood. The weights are computed at the pilot's θ̂, so the seconds that this takes are those of the fit; what a fit
does over its own samples is timed on the plan's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.asymptotics.sampled_moments import SampledTerm
from fieldfit.data.samples import Table, as_table
from fieldfit.models.field import FieldModel
from fieldfit.models.work import clock, least_seconds
from fieldfit.policies.laws.base import Noise
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.refinement.acceptance import jackknife_products, seems_worse
from fieldfit.refinement.estimating import SampleConditions, WeightedConditions
from fieldfit.refinement.local import needs_local
from fieldfit.refinement.model_moments import (
    DRAWS_PER_CONDITION,
    FEWEST_DRAWS,
    MOST_DRAWS,
    NOISE,
    Points,
    ScoreMoments,
    drawn_points,
    is_exact,
    score_moments,
    together,
)
from fieldfit.refinement.optimal import MOST_CONDITIONS, MOST_CONDITIONS_TRIED, model_weights
from fieldfit.refinement.planned import STAGE_SECONDS, PlanSetting, SkippedError, StageWork
from fieldfit.refinement.regression import RIDGES, WORTH, Weights, own_weights
from fieldfit.refinement.stacking import Stack, stack
from fieldfit.refinement.staged import Staged
from fieldfit.types import FieldfitError, FloatArray

#: Newton steps of a second stage, which are sums over all samples; samples behind its derivatives and its acceptance.
_NEWTON_STEPS, _COMPARED_SAMPLES = 5, 4_000
#: Multiply–adds of factorisations per second, to predict the time of computing weights besides the moments; and number of
#: draws on which the moments are timed.
_MULTIPLIED_PER_SECOND, _TIMED_DRAWS = 5e9, 1_000


#: Seconds of what is done on points or samples: the least of two runs.
_timed = partial(least_seconds, repeats=2, long=0.05)


@dataclass(frozen=True)
class ConditionScores(WeightedConditions):
    """The estimating functions A g_i of moment conditions g on some samples, as the moments take them.

    ``bread`` is A E ∂g/∂θ under the model, or None where the samples do not follow it. Large weights that nearly cancel
    make its mean over a thousand samples noisy.
    """

    bread: FloatArray | None = None

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """A ∂Σ_i w_i g_i/∂θ, its symmetric part: to first order the rest leaves the size of the variance as it is."""
        assert isinstance(self.samples, SampleConditions)
        weighted = replace(self.samples, weight=row_weight)
        slope = self.bread if self.bread is not None else self.weights @ weighted.derivative(theta)
        return np.asarray((slope + slope.T) / 2 * weighted.total)

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The same times a vector."""
        return self.hessian_matrix(theta, row_weight) @ v


@dataclass(frozen=True)
class PlannedConditions:
    """Weighted conditions; ``weight_seconds`` is what their weights take in a fit, ``first_flops`` A takes for a sample."""

    staged: Staged
    stack: Stack
    weights: Weights
    moments: ScoreMoments
    samples: SampleConditions
    observed: SampleConditions | None  # on data; None where they are masked
    theta: FloatArray
    weight_seconds: float
    first_flops: float
    states: float  # joint states of the model

    @property
    def sentence(self) -> str:
        """What it does."""
        return (
            f"The second stage combines {self.stack.conditions.size:,} moment conditions of '{self.staged.first}' with "
            "optimal weights; no likelihood is computed."
        )

    @property
    def flops(self) -> float:
        """The FLOPs of A on the points that the weights come from."""
        return self.first_flops * (self.moments.draws or self.states)

    @property
    def predicted(self) -> float:
        """The predicted variance relative to maximum likelihood."""
        return self.weights.predicted

    @property
    def log_gain(self) -> float:
        """What weights from one half of the draws gain in the other."""
        return math.log(self.weights.predicted / self.weights.first)

    @property
    def limit(self) -> PlannedConditions:
        """Moments of its own: those of A g_i."""
        return self

    def under_model(self) -> tuple[FloatArray, FloatArray]:
        """Bread and meat under the model."""
        bread = self.weights.matrix @ self.moments.K
        return (bread + bread.T) / 2, self.weights.matrix @ self.moments.V @ self.weights.matrix.T

    def bread(self, full: FloatArray) -> FloatArray:
        """A K from the draws, less what their own information differs from I.

        A g is near the score f − E f, so A K is near I, and both have nearly the same error. Without this, statistics that
        occur rarely in the draws make the variance too large.
        """
        bread = self.weights.matrix @ self.moments.K
        if math.isfinite(self.weights.ridge):  # else A g is the first stage's score
            bread = bread + full - self.moments.information
        return np.asarray((bread + bread.T) / 2)

    def sampled(self, follows_model: bool) -> SampledTerm:
        """A g_i on the plan's samples, which follow the model or do not."""
        bread = -self.weights.matrix @ self.moments.K if follows_model else None
        scores = ConditionScores(self.samples, self.weights.matrix, bread=bread)
        return SampledTerm(str(self.staged), Noise.TOGETHER, scores)

    def work(self, first: tuple[FloatArray, FloatArray], moments: MixtureMoments, n: int) -> StageWork:
        """Computing weights, and a few sums over all samples, timed on the plan's."""
        samples = self.samples.some(_TIMED_DRAWS)
        rows = samples.n
        sums = _timed(lambda: samples.mean(self.theta)) / rows
        slope = _timed(lambda: samples.derivative(self.theta)) / rows
        scores = _timed(lambda: list(samples.scores(self.theta, self.weights.matrix))) / rows
        compared = min(n, _COMPARED_SAMPLES)
        seconds = STAGE_SECONDS + self.weight_seconds + n * _NEWTON_STEPS * sums + compared * (2 * slope + 2 * scores)
        if self._takes_a_jackknife():
            seconds += compared * (slope + 2 * scores)
            seconds += jackknife_products(len(self.theta)) / _MULTIPLIED_PER_SECOND
        return StageWork(seconds, self.flops + self.first_flops * _NEWTON_STEPS * n, _NEWTON_STEPS)

    def _takes_a_jackknife(self) -> bool:
        """Whether a fit to samples like those observed decides by a jackknife if it keeps its first estimate."""
        from scipy.sparse import csr_array

        if self.observed is None or math.isinf(self.weights.ridge):
            return False
        some, both = self.observed.some(_COMPARED_SAMPLES), (self.weights.matrix, csr_array(self.stack.first))
        return seems_worse(some, both, some.derivative(self.theta), self.theta, self.moments.information)


def plan_conditions(staged: Staged, setting: PlanSetting, distance: int | None) -> PlannedConditions:
    """``A >> optimal(d)`` with its weights, as a fit computes them."""
    model, rows = field_rows(staged, setting)
    bound = staged.first.bind(model.structure(rows))
    if needs_local(model, bound, distance):
        raise SkippedError(
            f"{staged}: skipped, it has more than {MOST_CONDITIONS:,} conditions. A fit has local weights then, whose "
            "variance is not predicted.",
            usable=True,
        )
    return weighed_stage(staged, setting, bound, distance, bound.draw(setting.random_state, 0, rows.n))


def field_rows(staged: Staged, setting: PlanSetting) -> tuple[FieldModel, Table]:
    """The model and samples of a plan, if moment conditions can be made for them."""
    try:
        model, rows = setting.model.as_field(str(staged)), as_table(setting.rows)
    except FieldfitError:
        raise SkippedError(f"{staged}: skipped, it is for fields with the same variables in every sample.") from None
    if setting.incomplete:
        raise SkippedError(f"{staged}: skipped, it needs complete samples, and some values are missing.", usable=True)
    return model, rows


def weighed_stage(
    staged: Staged,
    setting: PlanSetting,
    bound: BoundPolicy,
    distance: int | None,
    selection: Selection,
    given: Stack | None = None,
) -> PlannedConditions:
    """The stage of A's conditions, or of those that are given, with the drawn Z."""
    model, rows = field_rows(staged, setting)
    first_flops = model.sample_flops(bound, rows)
    draws = None if setting.asked else _draws(staged, setting, model, rows, bound, distance, first_flops, given)
    began = clock()
    conditions, weights, halves, _ = model_weights(
        model, setting.theta, bound, distance=distance, dataset=rows, random_state=setting.random_state, draws=draws,
        given=given, exact_ridge=RIDGES[0], least_excess=WORTH if given is None else 0.0,
    )  # fmt: skip
    seconds = clock() - began
    if math.isinf(weights.ridge) and not setting.asked:
        raise SkippedError(f"{staged}: skipped, {own_weights(weights)}.")
    if draws is not None:
        seconds *= _fit_draws(weights, halves) / draws
    return PlannedConditions(
        staged=staged,
        stack=conditions,
        weights=weights,
        moments=together(halves),
        samples=SampleConditions(conditions.conditions, rows.codes, conditions.mask(selection)),
        observed=_observed(conditions, setting),
        theta=setting.theta,
        weight_seconds=seconds,
        first_flops=first_flops,
        states=model.n_states,
    )


def _observed(conditions: Stack, setting: PlanSetting) -> SampleConditions | None:
    """The conditions on the observed samples, where these are complete and everything is selected."""
    table = as_table(setting.observed)
    if conditions.masking is not None or table.has_missing:
        return None
    return SampleConditions(conditions.conditions, table.codes, None)


def _draws(
    staged: Staged,
    setting: PlanSetting,
    model: FieldModel,
    rows: Table,
    bound: BoundPolicy,
    distance: int | None,
    first_flops: float,
    given: Stack | None,
) -> int | None:
    """How many draws the weights come from: as many as in a fit (None), or fewer where time is short."""
    if setting.seconds_left() <= 0:
        raise SkippedError(f"{staged}: skipped, the plan has no time left for second stages.", for_time=True)
    conditions = (given or stack(model, bound, distance or 1)).conditions
    p, r = conditions.size, model.n_parameters
    if distance is not None and distance > 1 and p > MOST_CONDITIONS_TRIED:
        raise SkippedError(f"{staged}: skipped, it has {p:,} conditions.")
    exact = is_exact(model)
    fewest = model.n_states if exact else float(FEWEST_DRAWS)
    flops = fewest * first_flops
    if flops > setting.flops_left():
        raise SkippedError(f"{staged}: skipped, its weights alone would take about {flops:.2g} FLOPs.", for_time=True)
    solving = 4.0 * p**2 * (p + r) / _MULTIPLIED_PER_SECOND
    if solving > setting.seconds_left():  # nothing needs to be timed
        raise _too_long(staged, solving, setting.seconds_left())
    points, drawing = _some(rows), 0.0
    if not exact:
        began = clock()
        points = drawn_points(model, setting.theta, rows, _TIMED_DRAWS, 0, 0)
        drawing = clock() - began
    each = (drawing + _timed(lambda: score_moments(conditions, points, setting.theta))) / len(points.codes)
    usual = fewest if exact else 2.0 * max(FEWEST_DRAWS, DRAWS_PER_CONDITION * p)
    left = setting.seconds_left()
    if usual * each + solving <= left:
        return None
    needed = fewest * each + solving
    if needed <= left:
        return FEWEST_DRAWS
    raise _too_long(staged, needed, left)


def _too_long(staged: Staged, needed: float, left: float) -> SkippedError:
    """Why there is no time for the weights."""
    told = f"its weights alone would take about {needed:.2g} s, more than the {max(left, 0.0):.2g} s that the plan has left"
    return SkippedError(f"{staged}: skipped, {told} for second stages.", for_time=True)


def _some(rows: Table) -> Points:
    """Some of the samples, to time what is done on points."""
    codes = rows.codes[:_TIMED_DRAWS]
    return Points(codes, np.full(len(codes), 1.0 / len(codes)), True, "")


def _fit_draws(weights: Weights, halves: Sequence[ScoreMoments]) -> float:
    """About how many draws a fit makes, which doubles them while the noise of the weights matters."""
    drawn = total = sum(half.draws or 0 for half in halves)
    while weights.noise * drawn / total > NOISE and 2 * total <= MOST_DRAWS:
        total *= 2
    return float(total)
