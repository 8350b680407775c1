"""``A >> optimal``: the scores of A's components and further instruments with optimal matrix weights.

The weights come from the model at A's estimate (`regression`); the refined estimate solves A ḡ(θ) = 0 over the data.
Before it is accepted, its variance over a part of the data is compared with A's own: weights that are worse there than
the first stage are not used.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.refinement.acceptance import is_worse
from fieldfit.refinement.account import Account
from fieldfit.refinement.conditions import balls
from fieldfit.refinement.first_efficiency import judge_first
from fieldfit.refinement.model_moments import free_rows, moments_at
from fieldfit.refinement.newton_root import Solve, newton_root
from fieldfit.refinement.points import MOST_SUMMED_STATES, is_exact
from fieldfit.refinement.pseudo_inverse import bread_inverse, pseudo_inverse
from fieldfit.refinement.refined import Refined
from fieldfit.refinement.regression import RIDGES, WORTH, Weights, choose_weights
from fieldfit.refinement.sample_conditions import SampleConditions
from fieldfit.refinement.score_moments import ScoreMoments, pooled
from fieldfit.refinement.stacking import Stack, only_nodes, stack
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray, PolicyError

if TYPE_CHECKING:
    from fieldfit.data.table import Table

#: Conditions up to which the algebra is dense.
MOST_CONDITIONS = 3_000
#: Conditions up to which the default tries a larger graph distance, and the largest distance that it tries.
MOST_CONDITIONS_TRIED, _LARGEST_DISTANCE_TRIED = 1_200, 3
#: Predicted excess over maximum likelihood at which no larger distance is tried.
SMALL_EXCESS = 0.005
#: With more conditions than this the first stage is judged alone first. Its estimate is kept where its excess is smaller,
#: or where a smaller part of the excess can be removed and no larger graph distance has further instruments.
_CONDITIONS_JUDGED, _EXCESS_KEPT, _PART_REMOVED = 300, 0.01, 0.2
#: Samples behind the derivative of the equations.
_DERIVATIVE_SAMPLES = 10_000
#: Step, in standard errors, at which the estimate is stable.
_STABLE = 1e-5


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
    with one_blas_thread(with_scipy=True):
        best: tuple[Stack, Weights, Sequence[ScoreMoments], str] | None = None
        tried = [distance] if distance is not None else list(range(1, _LARGEST_DISTANCE_TRIED + 1))
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
            if best is not None and (p > MOST_CONDITIONS_TRIED or p == best[0].conditions.size):
                break
            halves, source = moments_at(model, theta, conditions, dataset, random_state, draws, free, most_states)
            weights = choose_weights(
                halves, free_rows(conditions.first, free), conditions.conditions.distance, [limit], exact_ridge
            )
            if best is not None and weights.predicted > best[1].predicted * (1 - WORTH):
                break
            best = (conditions, weights, halves, source)
            if weights.predicted < 1 + SMALL_EXCESS:
                break
        assert best is not None
        return best


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
    if given is None and distance is None:
        kept = keep_first(model, dataset, bound, theta, free, random_state)
        if kept is not None:
            first_stack, account = kept
            samples = SampleConditions(first_stack.conditions, dataset.codes, None, row_weight)
            return Refined(theta, account, first_stack, samples, first_stack.first, free, precision)
    conditions, weights, halves, source = model_weights(
        model, theta, bound, distance=distance, dataset=dataset, free=free, random_state=random_state, draws=draws,
        given=given, exact_ridge=RIDGES[0],
    )  # fmt: skip
    matrix = np.zeros((model.n_parameters, conditions.conditions.size))
    matrix[free] = weights.matrix
    count = halves[0].draws
    with one_blas_thread(with_scipy=True):
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
    return Refined(refined_theta if accepted else theta, account, conditions, samples, matrix, free, precision)


def keep_first(
    model: FieldModel,
    dataset: Table,
    bound: BoundPolicy,
    theta: FloatArray,
    free: BoolArray,
    seed: int,
) -> tuple[Stack, Account] | None:
    """Conditions and account of a first stage whose estimate is kept, as a second one would not be worth its cost."""
    began = time.perf_counter()
    if model.observed or not bound.everything or is_exact(model):
        return None
    first_stack = stack(model, bound, 1)
    size = first_stack.conditions.size
    if size <= _CONDITIONS_JUDGED:
        return None
    measured_from = 1 + _EXCESS_KEPT if _no_further_instruments(model, bound) else float("inf")
    with one_blas_thread(with_scipy=True):
        judged = judge_first(model, theta, first_stack, dataset, free, seed, measured_from=measured_from)
    relative = max(judged.relative, 1.0)  # smaller by the noise of the draws only
    message = f"its predicted variance is {relative:.2f} times that of maximum likelihood"
    if judged.relative < 1 + _EXCESS_KEPT:
        message += ", so there is nothing to refine"
    elif judged.removable is not None and judged.removable < _PART_REMOVED:
        message += (
            f", and optimal weights would remove {100 * max(judged.removable, 0.0):.0f}% of the excess, which is not worth "
            f"their cost ('optimal(1)' computes them)"
        )
    else:
        return None
    account = Account(
        distance=1,
        conditions=size,
        draws=judged.points,
        source=judged.source,
        ridge=0.0,
        predicted=relative,
        first=relative,
        accepted=False,
        steps=0,
        seconds=time.perf_counter() - began,
        message=message,
    )
    return first_stack, account


def _no_further_instruments(model: FieldModel, bound: BoundPolicy) -> bool:
    """Whether all variables of each component are neighbours already, as in a dense field."""
    structure = model.structure()
    return only_nodes(bound) and all(
        len(balls(structure, node, 2)) == len(structure.neighbours[node]) for node in structure.free
    )


def _solve(
    samples: SampleConditions,
    matrix: FloatArray,
    theta: FloatArray,
    free: BoolArray,
    precision: FloatArray,
    information: FloatArray,
) -> tuple[FloatArray, bool, int]:
    """θ with A ḡ(θ) = Pθ/n."""
    keep = np.flatnonzero(free)
    weights, total = matrix[keep], samples.total
    rank = max(1, pseudo_inverse(information)[1])
    some, n = samples, len(samples.codes)
    if n > 2 * _DERIVATIVE_SAMPLES:  # the derivative only sets the direction of the steps
        some = samples.subset(np.linspace(0, n - 1, _DERIVATIVE_SAMPLES).astype(np.int64))

    def equations(at: FloatArray) -> FloatArray:
        return np.asarray(weights @ samples.mean(at) - precision[keep] * at[keep] / total)

    def solver_at(at: FloatArray) -> Solve:
        derivative = some.derivative(at)[:, keep]
        bread = bread_inverse(weights @ derivative - np.diag(precision[keep]) / total, tolerance=1e-9)
        return lambda value: -bread @ value

    def length_of(move: FloatArray) -> float:
        return float(np.sqrt(np.maximum(move @ information @ move, 0.0) * total / rank))

    return newton_root(theta, free, equations, solver_at, length_of, _STABLE)
