"""``A >> optimal``: the scores of A's components and further instruments with optimal matrix weights.

The weights come from the model at A's estimate (`regression`); the refined estimate solves A ḡ(θ) = 0 over the data.
Before it is accepted, its variance over a part of the data is compared with A's own: weights that are worse there than
the first stage are not used.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.refinement.acceptance import is_worse
from fieldfit.refinement.points import MOST_SUMMED_STATES, Points, all_points, drawn_points, is_exact, statistics
from fieldfit.refinement.pseudo_inverse import bread_inverse, pseudo_inverse
from fieldfit.refinement.regression import RIDGES, WORTH, Weights, choose_weights, covariance_of, relative_variance
from fieldfit.refinement.sample_conditions import SampleConditions
from fieldfit.refinement.score_moments import ScoreMoments, pooled, score_moments
from fieldfit.refinement.stacking import Stack, stack
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray, PolicyError

if TYPE_CHECKING:
    from fieldfit.data.table import Table

#: Conditions up to which the algebra is dense.
MOST_CONDITIONS = 3_000
#: Conditions up to which the default looks at a larger graph distance, and the largest distance that it looks at.
_MOST_TRIED, _FARTHEST = 1_200, 3
#: Draws of the model behind the weights: at first, for each condition, and at most.
FEWEST_DRAWS, DRAWS_PER_CONDITION, MOST_DRAWS = 4_000, 8, 30_000
#: More draws are made while the weights' own noise adds more than this to the predicted relative variance.
_NOISE = 0.01
#: Predicted excess over maximum likelihood below which there is nothing left to refine.
_NEAR = 0.005
#: With more conditions than this the first stage is judged alone first; it stays where its excess is below this.
_MANY, _ENOUGH = 300, 0.01
#: Step, in standard errors, at which the estimate is stable; and the most steps.
_STABLE, _MOST_STEPS = 1e-5, 50


@dataclass(frozen=True)
class Account:
    """How the second stage went, as plain values.

    ``predicted`` and ``first`` are the predicted variance of the refined and of the first estimate relative to maximum
    likelihood (1 is best); ``draws`` is the number of draws of the model behind the weights (0: exact sums). Where
    ``accepted`` is False the estimate is the first stage's, and ``message`` says why.
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


@dataclass(frozen=True)
class Refined:
    """The estimate of the second stage (A's own where it was not accepted), its conditions and their weights A (r, p)."""

    theta: FloatArray
    account: Account
    stack: Stack
    samples: SampleConditions
    matrix: FloatArray


def model_weights(
    model: FieldModel,
    theta: FloatArray,
    bound: BoundPolicy,
    *,
    distance: int | None,
    dataset: Table | None = None,
    free: BoolArray | None = None,
    random_state: int = 0,
    draws: int | None = None,
    most_states: int = MOST_SUMMED_STATES,
    given: Stack | None = None,
    exact_ridge: float = 0.0,
) -> tuple[Stack, Weights, Sequence[ScoreMoments], str]:
    """The best weights at θ, the moments they come from (two halves of the draws, or exact) and how those were made.

    ``distance=None`` increases the graph distance while that reduces the predicted variance by `WORTH`, and up to 1,200
    conditions. ``draws`` is a fixed number of draws; by default there are 8 for each condition and at least 4,000, and more
    (up to 30,000) while their noise matters. ``given`` are other conditions than those of the policy.
    ``exact_ridge`` is the ridge where the moments are exact: 0 for theory, small for the finite samples of a fit.
    """
    with one_blas_thread():
        best: tuple[Stack, Weights, Sequence[ScoreMoments], str] | None = None
        tried = [distance] if distance is not None else list(range(1, _FARTHEST + 1))
        if given is not None:
            tried = [1]
        for limit in tried:
            conditions = stack(model, bound, limit) if given is None else given
            p = conditions.conditions.size
            if p > MOST_CONDITIONS:
                if best is not None:
                    break
                raise PolicyError(
                    f"'{bound.policy} >> optimal({limit})' has {p:,} moment conditions; dense weights take at most "
                    f"{MOST_CONDITIONS:,}."
                )
            if best is not None and (p > _MOST_TRIED or p == best[0].conditions.size):
                break
            halves, source = moments_at(model, theta, conditions, dataset, random_state, draws, free, most_states)
            weights = choose_weights(
                halves, _free_rows(conditions.first, free), conditions.conditions.distance, [limit], exact_ridge
            )
            if best is not None and weights.predicted > best[1].predicted * (1 - WORTH):
                break
            best = (conditions, weights, halves, source)
            if weights.predicted < 1 + _NEAR:
                break
        assert best is not None
        return best


def first_efficiency(
    model: FieldModel, theta: FloatArray, conditions: Stack, dataset: Table | None, free: BoolArray, seed: int
) -> float:
    """The predicted variance of the first stage relative to maximum likelihood, from 4,000 draws.

    tr(I H⁻¹ K H⁻¹)/r with the information I from one half of the draws, the covariance K of the score from the other, and H
    from conditional covariances; without products of all pairs of conditions.
    """
    keep = np.flatnonzero(free)
    coefficients = conditions.first[keep]
    information, covariances, derivatives = [], [], []
    for batch in range(2):
        points = drawn_points(model, theta, dataset, FEWEST_DRAWS // 2, seed, 10_000 + batch)
        f = statistics(model, points)[:, keep]
        f -= f.mean(axis=0)
        information.append((f.T @ f) / len(f))
        score = np.concatenate(
            [block @ coefficients.T for _, block in conditions.conditions.value_blocks(points.codes, theta)]
        )
        covariances.append((score.T @ score) / len(score))
        derivatives.append(conditions.conditions.derivative(points.codes, theta, points.weight, None)[:, keep])
    inverse = _inverse(coefficients @ (derivatives[0] + derivatives[1]) / 2)
    middle = [inverse @ K @ inverse.T for K in reversed(covariances)]
    traces = [np.sum(half * covariance) for half, covariance in zip(information, middle, strict=True)]
    return float(np.mean(traces) / len(keep))


def _free_rows(matrix: FloatArray, free: BoolArray | None) -> FloatArray:
    return matrix if free is None or free.all() else matrix[free]


def moments_at(
    model: FieldModel,
    theta: FloatArray,
    conditions: Stack,
    dataset: Table | None,
    random_state: int,
    draws: int | None,
    free: BoolArray | None,
    most_states: int = MOST_SUMMED_STATES,
    *,
    fixed: int | None = None,
) -> tuple[list[ScoreMoments], str]:
    """Exact moments, or those of two halves of as many draws as needed; or of ``fixed`` draws where they are not exact."""

    def of(points: Points) -> ScoreMoments:
        moments = score_moments(conditions.conditions, points, theta)
        if free is not None and not free.all():
            keep = np.flatnonzero(free)
            moments = ScoreMoments(
                moments.V, moments.K[:, keep], moments.information[np.ix_(keep, keep)], moments.draws
            )
        if conditions.mean is not None and conditions.second is not None:
            moments = moments.selected(conditions.mean, conditions.second, conditions.conditions.component)
        return moments

    if is_exact(model, most_states) and draws is None:
        points = all_points(model, theta)
        return [of(points)], points.method
    draws = fixed if draws is None else draws
    p = conditions.conditions.size
    size = min(MOST_DRAWS, max(FEWEST_DRAWS, DRAWS_PER_CONDITION * p)) if draws is None else max(2, draws)
    batch, total = 0, 0
    halves: list[ScoreMoments] = []
    while True:
        drawn = [drawn_points(model, theta, dataset, -(-size // 2), random_state, batch + k) for k in range(2)]
        batch += 2
        total += sum(len(half.codes) for half in drawn)
        fresh = [of(half) for half in drawn]
        halves = fresh if not halves else [pooled(old, new) for old, new in zip(halves, fresh, strict=True)]
        if draws is not None or total * 2 > MOST_DRAWS or not _noisy(halves, conditions, free):
            break
        size = total
    return halves, drawn[0].method.replace(f"{len(drawn[0].codes):,}", f"{total:,}", 1)


def _noisy(halves: Sequence[ScoreMoments], conditions: Stack, free: BoolArray | None) -> bool:
    """Whether the weights' noise matters: how much worse they are in the other half than in their own, halved twice.

    A half's weights have twice the noise of both halves' weights, and their own half is as much too good as the other is
    too bad.
    """
    coefficients = _free_rows(conditions.first, free)
    chosen = choose_weights(halves, coefficients, np.ones(coefficients.shape[1], dtype=np.int64), [1])
    both = pooled(halves[0], halves[1])
    inside = relative_variance(covariance_of(chosen.matrix, both), both.information)
    return chosen.predicted - inside > 4 * _NOISE


def refine(
    model: FieldModel,
    dataset: Table,
    bound: BoundPolicy,
    selection: Selection,
    theta: FloatArray,
    *,
    distance: int | None = None,
    free: BoolArray,
    precision: FloatArray,
    row_weight: FloatArray | None = None,
    random_state: int = 0,
    draws: int | None = None,
    given: Stack | None = None,
    mask: FloatArray | None = None,
) -> Refined:
    """The refined estimate from A's estimate ``theta``; ``precision`` (r,) is that of a Gaussian penalty.

    ``given`` are other conditions than those of the policy, with the drawn Z in ``mask`` (n, components).
    """
    began = time.perf_counter()
    if given is None and not model.observed and bound.everything and not is_exact(model):
        first_stack = stack(model, bound, 1)
        if first_stack.conditions.size > _MANY:
            with one_blas_thread():
                relative = first_efficiency(model, theta, first_stack, dataset, free, random_state)
            if relative < 1 + _ENOUGH:
                return _unchanged(first_stack, dataset, row_weight, theta, relative, time.perf_counter() - began)
    conditions, weights, halves, source = model_weights(
        model, theta, bound, distance=distance, dataset=dataset, free=free, random_state=random_state, draws=draws,
        given=given, exact_ridge=RIDGES[0],
    )  # fmt: skip
    matrix = np.zeros((model.n_parameters, conditions.conditions.size))
    matrix[free] = weights.matrix
    count = halves[0].draws
    with one_blas_thread():
        samples = SampleConditions(
            conditions.conditions, dataset.codes, conditions.mask(selection) if given is None else mask, row_weight
        )
        information = halves[0].information if len(halves) == 1 else pooled(halves[0], halves[1]).information
        refined_theta, converged, steps = _solve(samples, matrix, theta, free, precision, information)
        message = ""
        accepted = converged
        if not converged:
            message = "the moment conditions have no solution near the first estimate"
        elif is_worse(samples, matrix, conditions.first, refined_theta, free, information):
            accepted = False
            message = "over the data the refined estimate would be less accurate than the first"
    account = Account(
        distance=weights.distance,
        conditions=conditions.conditions.size,
        draws=0 if count is None else sum(half.draws or 0 for half in halves),
        source=source,
        ridge=weights.ridge,
        predicted=weights.predicted,
        first=weights.first,
        accepted=accepted,
        steps=steps,
        seconds=time.perf_counter() - began,
        message=message,
    )
    return Refined(refined_theta if accepted else theta, account, conditions, samples, matrix)


def _unchanged(
    first_stack: Stack,
    dataset: Table,
    row_weight: FloatArray | None,
    theta: FloatArray,
    predicted: float,
    seconds: float,
) -> Refined:
    """A's own estimate, where there is next to nothing to gain."""
    relative = max(predicted, 1.0)  # smaller by the noise of the draws only
    message = (
        f"its predicted variance is {relative:.2f} times that of maximum likelihood, so there is nothing to refine"
    )
    account = Account(
        distance=1,
        conditions=first_stack.conditions.size,
        draws=FEWEST_DRAWS,
        source=f"{FEWEST_DRAWS:,} draws",
        ridge=0.0,
        predicted=relative,
        first=relative,
        accepted=False,
        steps=0,
        seconds=seconds,
        message=message,
    )
    samples = SampleConditions(first_stack.conditions, dataset.codes, None, row_weight)
    return Refined(theta, account, first_stack, samples, first_stack.first)


def _solve(
    samples: SampleConditions,
    matrix: FloatArray,
    theta: FloatArray,
    free: BoolArray,
    precision: FloatArray,
    information: FloatArray,
) -> tuple[FloatArray, bool, int]:
    """θ with A ḡ(θ) = Pθ/n, by Newton steps with a derivative that is computed again only where steps do not shrink."""
    keep = np.flatnonzero(free)
    weights, total = matrix[keep], samples.total
    bread: FloatArray | None = None
    previous = float(np.inf)
    rank = max(1, pseudo_inverse(information)[1])
    for step in range(1, _MOST_STEPS + 1):
        equation = weights @ samples.mean(theta) - precision[keep] * theta[keep] / total
        if bread is None:
            bread = _inverse(weights @ samples.derivative(theta)[:, keep] - np.diag(precision[keep]) / total)
        move = -bread @ equation
        length = float(np.sqrt(np.maximum(move @ information @ move, 0.0) * total / rank))
        if not np.isfinite(length):
            return theta, False, step
        if length > 0.5 * previous:
            if length > 2 * previous:
                return theta, False, step
            bread = None
        previous = length
        # A first step of many standard errors is shortened: the weights belong to the first estimate.
        scale = 5.0 / length if length > 5.0 else 1.0
        theta = theta.copy()
        theta[keep] += scale * move
        if length <= _STABLE:
            return theta, True, step
    return theta, False, _MOST_STEPS


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse on the range, for models with a gauge freedom."""
    return bread_inverse(matrix, tolerance=1e-9)
