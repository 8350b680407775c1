"""``A >> optimal(d)`` in plans: its weights as a fit computes them, and the estimating functions that they make.

The estimate solves A ḡ(θ) = 0 with weights A of moment conditions g. To the comparison it is one more term whose scores
are A g_i: their bread and meat, over all states or over the plan's samples, are moments like those of a composite
likelihood. The weights are computed at the pilot's θ̂, so the seconds that this takes are those of the fit; what a fit
does over its own samples is timed on the plan's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.data.samples import Table
from fieldfit.models.field import FieldModel
from fieldfit.models.work import clock
from fieldfit.policies import Optimal, Policy, Staged
from fieldfit.policies.policy import BoundPolicy
from fieldfit.refinement.local import needs_local
from fieldfit.refinement.model_moments import DRAWS_PER_CONDITION, FEWEST_DRAWS, MOST_DRAWS, NOISE
from fieldfit.refinement.optimal import MOST_CONDITIONS, MOST_CONDITIONS_TRIED, SMALL_EXCESS, model_weights
from fieldfit.refinement.planned import FirstStage, PlanSetting, StageSkippedError, StageWork
from fieldfit.refinement.points import Points, drawn_points, is_exact
from fieldfit.refinement.regression import RIDGES, WORTH, Weights
from fieldfit.refinement.sample_conditions import SampleConditions
from fieldfit.refinement.score_moments import ScoreMoments, score_moments, together
from fieldfit.refinement.stacking import Stack, stack
from fieldfit.types import FloatArray
from fieldfit.variance.mixture_moments import MixtureMoments

#: Graph distances that are compared.
_DISTANCES = (1, 2, 3)
#: Newton steps of a second stage, which are sums over all samples; samples behind its derivatives and its acceptance.
_NEWTON, _COMPARED = 5, 4_000
#: Multiply–adds a second of factorisations, to predict what computing weights takes beside the moments; draws on which the
#: moments are timed; and seconds of a stage beside both.
_FACTORISED, _TIMED_DRAWS, _FIXED = 5e9, 1_000, 0.004


class OptimalScores:
    """The estimating functions A g_i of ``A >> optimal`` on some samples, as the moments take them.

    ``bread`` is A E ∂g/∂θ under the model, or None where the samples do not follow it. Large weights that nearly cancel
    make its mean over a thousand samples noisy.
    """

    def __init__(self, samples: SampleConditions, matrix: FloatArray, bread: FloatArray | None) -> None:
        self.samples, self.matrix, self.bread = samples, matrix, bread
        self.n_samples = len(samples.codes)

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """A ∂Σ_i w_i g_i/∂θ, its symmetric part: to first order the rest leaves the size of the variance as it is."""
        weighted = replace(self.samples, weight=row_weight)
        slope = self.bread if self.bread is not None else self.matrix @ weighted.derivative(theta)
        return np.asarray((slope + slope.T) / 2 * weighted.total)

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The same times a vector."""
        return self.hessian_matrix(theta, row_weight) @ v

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """v·A g_i (n,)."""
        return np.concatenate([block @ v for _, block in self.score_blocks(theta)])

    def score_blocks(self, theta: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """Stream A g_i."""
        for rows, block in self.samples.scores(theta, self.matrix):
            yield rows.start, block


@dataclass(frozen=True)
class PlannedOptimal:
    """``A >> optimal(d)``; ``weight_seconds`` is what its weights take in a fit, ``first_flops`` A takes for a sample."""

    staged: Staged
    stack: Stack
    weights: Weights
    moments: ScoreMoments
    samples: SampleConditions
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
    def limit(self) -> PlannedOptimal:
        """Moments of its own: those of A g_i."""
        return self

    def under_model(self) -> tuple[FloatArray, FloatArray]:
        """Bread and meat under the model."""
        bread = self.weights.matrix @ self.moments.K
        return (bread + bread.T) / 2, self.weights.matrix @ self.moments.V @ self.weights.matrix.T

    def scores(self, *, follows_model: bool) -> OptimalScores:
        """A g_i on the plan's samples."""
        bread = -self.weights.matrix @ self.moments.K if follows_model else None
        return OptimalScores(self.samples, self.weights.matrix, bread)

    def work(self, first: FirstStage, moments: MixtureMoments, n: int) -> StageWork:
        """Computing weights, and a few sums over all samples, timed on the plan's."""
        samples, rows = self.samples, len(self.samples.codes)
        sums = _seconds(lambda: samples.mean(self.theta)) / rows
        slope = _seconds(lambda: samples.derivative(self.theta)) / rows
        scores = _seconds(lambda: list(samples.scores(self.theta, self.weights.matrix))) / rows
        seconds = _FIXED + self.weight_seconds + n * _NEWTON * sums + min(n, _COMPARED) * (2 * slope + 2 * scores)
        return StageWork(seconds, self.flops + self.first_flops * _NEWTON * n, _NEWTON)


def plan_optimal(staged: Staged, setting: PlanSetting) -> PlannedOptimal:
    """The stage with its weights, as a fit computes them."""
    model, rows, theta, first, second = setting.model, setting.rows, setting.theta, staged.first, staged.second
    assert isinstance(first, Policy)
    assert isinstance(second, Optimal)
    if not isinstance(model, FieldModel) or not isinstance(rows, Table):
        raise StageSkippedError(f"{staged}: skipped, it is for fields with the same variables in every sample.")
    if rows.has_missing:
        raise StageSkippedError(f"{staged}: skipped, it needs complete samples.")
    bound = first.bind(model.structure(rows))
    if needs_local(model, bound, second.distance):
        raise StageSkippedError(f"{staged}: skipped, it has more than {MOST_CONDITIONS:,} conditions.")
    first_flops = model.sample_flops(bound, rows)
    draws = _draws(staged, second, setting, model, rows, bound, first_flops)
    began = clock()
    conditions, weights, halves, _ = model_weights(
        model, theta, bound, distance=second.distance, dataset=rows, random_state=setting.random_state,
        draws=draws, exact_ridge=RIDGES[0],
    )  # fmt: skip
    seconds = clock() - began
    if draws is not None:
        seconds *= _fit_draws(weights, halves) / draws
    selection = bound.draw(setting.random_state, 0, rows.n)
    return PlannedOptimal(
        staged=staged,
        stack=conditions,
        weights=weights,
        moments=together(halves),
        samples=SampleConditions(conditions.conditions, rows.codes, conditions.mask(selection)),
        theta=theta,
        weight_seconds=seconds,
        first_flops=first_flops,
        states=model.n_states,
    )


def distances(first: Policy, setting: PlanSetting, skipped: dict[str, StageSkippedError]) -> Iterator[PlannedOptimal]:
    """``A >> optimal(d)`` for d = 1, 2, … while that reduces the predicted variance, as the default of a fit does.

    The first that is skipped ends it, and ``skipped`` says why.
    """
    best, known = np.inf, None
    for distance in _DISTANCES:
        if known is not None:
            model = known.conditions.model
            if stack(model, first.bind(model.structure()), distance).conditions.size == known.conditions.size:
                return
        staged = Staged(first, Optimal(distance))
        try:
            stage = plan_optimal(staged, setting)
        except StageSkippedError as reason:
            skipped[str(staged)] = reason
            return
        if stage.predicted > best * (1 - WORTH):
            return
        best, known = stage.predicted, stage.stack
        yield stage
        if best < 1 + SMALL_EXCESS:
            return


def _draws(
    staged: Staged,
    second: Optimal,
    setting: PlanSetting,
    model: FieldModel,
    rows: Table,
    bound: BoundPolicy,
    first_flops: float,
) -> int | None:
    """How many draws the weights come from: as many as in a fit (None), or fewer where time is short."""
    if setting.asked:
        return None
    if setting.seconds_left() <= 0:
        raise StageSkippedError(f"{staged}: skipped, no time left in the pilot's share of the budget.", for_time=True)
    conditions = stack(model, bound, second.distance or 1).conditions
    p, r = conditions.size, model.n_parameters
    if second.distance is not None and second.distance > 1 and p > MOST_CONDITIONS_TRIED:
        raise StageSkippedError(f"{staged}: skipped, it has {p:,} conditions.")
    exact = is_exact(model)
    fewest = model.n_states if exact else float(FEWEST_DRAWS)
    flops = fewest * first_flops
    if flops > setting.flops_left():
        raise StageSkippedError(
            f"{staged}: skipped, its weights alone would take about {flops:.2g} FLOPs.", for_time=True
        )
    points, drawing = _some(rows), 0.0
    if not exact:
        began = clock()
        points = drawn_points(model, setting.theta, rows, _TIMED_DRAWS, 0, 0)
        drawing = clock() - began
    each = (drawing + _seconds(lambda: score_moments(conditions, points, setting.theta))) / len(points.codes)
    usual = fewest if exact else 2.0 * max(FEWEST_DRAWS, DRAWS_PER_CONDITION * p)
    solving, left = 10.0 * p**2 * (p + r) / _FACTORISED, setting.seconds_left()
    if usual * each + solving <= left:
        return None
    needed = fewest * each + solving
    if needed <= left:
        return FEWEST_DRAWS
    raise StageSkippedError(f"{staged}: skipped, its weights alone would take about {needed:.2g} s.", for_time=True)


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


def _seconds(run: Callable[[], object]) -> float:
    """The least of two runs."""
    times = []
    for _ in range(2):
        began = clock()
        run()
        times.append(clock() - began)
        if times[-1] > 0.05:
            break
    return max(min(times), 1e-7)
