"""``A >> optimal``: the scores of A's components and further instruments with optimal matrix weights.

The weights come from the model at A's estimate (`regression`); the refined estimate solves A ḡ(θ) = Pθ/n over the data, by
Newton steps whose derivative is computed again only where steps do not shrink. Before it is accepted, its variance over a
part of the data is compared with A's own: weights that are worse there than the first stage are not used.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.asymptotics import Asymptotics
from fieldfit.asymptotics.moments import MOST_ENUMERATED_STATES
from fieldfit.models.field import FieldModel
from fieldfit.policies import Policy
from fieldfit.policies.policy import BoundPolicy
from fieldfit.properties import cached_property
from fieldfit.refinement.acceptance import is_worse
from fieldfit.refinement.conditions import NodeConditions
from fieldfit.refinement.course import Course
from fieldfit.refinement.estimating import ConditionSums, SampleConditions
from fieldfit.refinement.model_moments import (
    MOST_SUMMED_STATES,
    ModelMoments,
    ScoreMoments,
    drawn_points,
    is_exact,
    score_moments,
    together,
)
from fieldfit.refinement.pseudo_inverse import bread_inverse
from fieldfit.refinement.refined import Account, Refined
from fieldfit.refinement.regression import RIDGES, WORTH, Weights, choose_weights, covariance_of, own_weights
from fieldfit.refinement.second_stage import FirstFit, TheorySetting
from fieldfit.refinement.sharded_conditions import conditions_of, samples_at_hand
from fieldfit.refinement.stacking import Stack, stack
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray, IdentifiabilityError, IntArray, ModelError, PolicyError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from fieldfit.data.table import Table

#: Step, in standard errors, at which the estimate is stable.
STABLE_STEP = 1e-4
#: Steps at most, and the length of a step, in standard errors, above which it is shortened.
_MOST_NEWTON_STEPS, _LONGEST = 50, 5.0

#: Maps the equations to the step −(∂ equations/∂θ)⁻¹ · equations.
Solve = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class MomentEquations:
    """A ḡ(θ) = Pθ/n, with the ``weights`` A (free parameters, p) of the conditions and the ``precision`` P (r,)."""

    samples: ConditionSums
    weights: FloatArray | csr_array
    free: BoolArray
    precision: FloatArray

    @cached_property
    def keep(self) -> IntArray:
        """The places of the free parameters in θ."""
        return np.flatnonzero(self.free)

    def value(self, theta: FloatArray) -> FloatArray:
        """A ḡ(θ) − Pθ/n (free parameters,)."""
        penalty = self.precision[self.keep] * theta[self.keep] / self.samples.total
        return np.asarray(self.weights @ self.samples.mean(theta) - penalty)

    def gradient_norm(self, value: FloatArray) -> float:
        """The largest entry of a ``value``, as a sum over samples."""
        return float(np.abs(value).max(initial=0.0)) * self.samples.total


def newton_root(
    equations: MomentEquations,
    theta: FloatArray,
    solver_at: Callable[[FloatArray], Solve],
    length_of: Callable[[FloatArray], float],
    stable: float,
    course: Course,
) -> tuple[FloatArray, bool, int]:
    """θ that solves the equations, whether it is a root, and the number of steps, which ``course`` bounds.

    Steps have an entry for each free parameter; ``length_of(step)`` is in standard errors, and the root is found when it is
    at most ``stable``. The weights belong to the first estimate, so long steps are shortened.
    """
    solve: Solve | None = None
    previous = float("inf")
    for step in range(1, _MOST_NEWTON_STEPS + 1):
        value = equations.value(theta)
        if course.ends(step - 1, equations.gradient_norm(value)):
            return theta, False, step - 1
        if solve is None:
            solve = solver_at(theta)
        move = solve(value)
        length = length_of(move)
        if not np.isfinite(length) or length > 2 * previous:
            return theta, False, step
        if length > 0.5 * previous:
            solve = None
        previous = length
        theta = theta.copy()
        theta[equations.keep] += move * (_LONGEST / length if length > _LONGEST else 1.0)
        if length <= stable:
            if course.tell is not None:
                course.report(step, equations.gradient_norm(equations.value(theta)))
            return theta, True, step
    return theta, False, _MOST_NEWTON_STEPS


def no_root(course: Course) -> str:
    """Why the equations were not solved."""
    if course.stopped is not None:
        return f"the second stage {course.stopped.value}"
    return "the moment conditions have no solution near the first estimate"


#: Most conditions whose covariance is a dense matrix.
MOST_CONDITIONS = 3_000
#: Conditions up to which the default tries a larger graph distance, and the largest distance that it tries.
MOST_CONDITIONS_TRIED, _LARGEST_DISTANCE_TRIED = 2_000, 3
#: Predicted excess over maximum likelihood at which no larger distance is tried.
SMALL_EXCESS = 0.005
#: Samples behind the derivative of the equations, and on which refined and first estimate are compared.
_SOME_SAMPLES = 4_000
#: The same as `STABLE_STEP` if a step takes a pass over many samples, with the derivative of a part of them. The remaining
#: error after such a step is smaller, and adds less than 1e-4 to the variance.
_STABLE_STEP_OF_MANY = 1e-2


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
    least_excess: float = 0.0,
) -> tuple[Stack, Weights, Sequence[ScoreMoments], str]:
    """The best weights at θ, the moments they come from (two halves of the draws, or exact) and how those were made.

    ``distance=None`` increases the graph distance while that reduces the predicted variance by `WORTH`, and up to 2,000
    conditions. ``draws`` is a fixed number of draws; by default there are 4 for each condition and at least 4,000, and more
    (up to 30,000) while their noise matters. ``given`` are other conditions than those of the policy.
    ``exact_ridge`` is the ridge where the moments are exact: 0 for theory, small for the finite samples of a fit.
    ``least_excess``: where draws predict that the first stage has no more variance than this above maximum likelihood, the
    weights are its own, with an infinite ridge.
    """
    with one_blas_thread(with_scipy=True):
        best: tuple[Stack, Weights, Sequence[ScoreMoments], str] | None = None
        tried = [distance] if distance is not None else list(range(1, _LARGEST_DISTANCE_TRIED + 1))
        if given is not None:
            tried = [1]
        for limit in tried:
            if (
                best is not None
                and isinstance(best[0].conditions, NodeConditions)
                and not best[0].conditions.grows(limit)
            ):
                break
            conditions = stack(model, bound, limit) if given is None else given
            p = conditions.conditions.size
            if p > MOST_CONDITIONS:
                if best is not None:
                    break
                raise PolicyError(
                    f"'{bound.policy} >> optimal({limit})' has {p:,} moment conditions; dense weights take at most "
                    f"{MOST_CONDITIONS:,}."
                )
            if best is not None and p > MOST_CONDITIONS_TRIED:
                break
            coefficients = conditions.first if free is None else conditions.first[free]
            weigh = partial(
                choose_weights, coefficients=coefficients, exact_ridge=exact_ridge, least_excess=least_excess
            )
            at = ModelMoments(model, theta, conditions, dataset, random_state, free)
            exact = draws is None and is_exact(model, most_states)
            weights, halves, source = at.weighed(weigh, draws, exact)
            if best is not None and weights.predicted > best[1].predicted * (1 - WORTH):
                break
            best = (conditions, weights, halves, source)
            if weights.predicted <= 1 + max(SMALL_EXCESS, least_excess):
                break
        assert best is not None
        return best


def refine_densely(
    first: FirstFit,
    model: FieldModel,
    *,
    distance: int | None = None,
    draws: int | None = None,
    given: Stack | None = None,
    drawn: BoundPolicy | None = None,
) -> Refined:
    """The refined estimate. ``given`` are other conditions than those of A, with a Z that ``drawn`` draws."""
    began, theta, free, precision = time.perf_counter(), first.theta, first.free, first.penalty.precision
    dataset = samples_at_hand(first, model)
    conditions, weights, halves, source = model_weights(
        model, theta, first.bound, distance=distance, dataset=dataset, free=free, random_state=first.random_state,
        draws=draws, given=given, exact_ridge=RIDGES[0], least_excess=WORTH if given is None else 0.0,
    )  # fmt: skip
    matrix = np.zeros((model.n_parameters, conditions.conditions.size))
    matrix[free] = weights.matrix
    count = halves[0].draws
    with one_blas_thread(with_scipy=True):
        samples = conditions_of(first, conditions.conditions, dataset.codes, conditions.masking, drawn)
        refined_theta, steps, accepted, message = theta, 0, True, ""
        if math.isinf(weights.ridge):
            message = own_weights(weights)
        else:
            some, information = samples.some(_SOME_SAMPLES), together(halves).information
            derivative = some.derivative(theta)
            equations = MomentEquations(samples, matrix[free], free, precision)
            refined_theta, accepted, steps = _solve(equations, some, derivative, theta, information, first.course)
            if not accepted:
                message = no_root(first.course)
            elif is_worse(some, derivative, matrix, conditions.first, refined_theta, free, information):
                accepted = False
                message = "over the data the refined estimate would be less accurate than the first"
    account = Account(
        distance=int(conditions.conditions.distance.max(initial=1)) if distance is None else distance,
        conditions=conditions.conditions.size,
        draws=0 if count is None else sum(half.draws or 0 for half in halves),
        source=source,
        ridge=weights.ridge,
        predicted=weights.predicted if weights.roots is None else weights.roots[0],
        first=weights.first if weights.roots is None else weights.roots[1],
        accepted=accepted,
        steps=steps,
        seconds=time.perf_counter() - began,
        message=message,
    )
    return Refined(refined_theta if accepted else theta, account, conditions, samples, matrix, free, precision)


def _solve(
    equations: MomentEquations,
    some: SampleConditions,
    derivative: FloatArray,
    theta: FloatArray,
    information: FloatArray,
    course: Course,
) -> tuple[FloatArray, bool, int]:
    """θ that solves the equations.

    The derivative only sets the direction of the steps: it is that of ``some`` of the samples, at the first estimate unless
    steps do not get shorter.
    """
    keep, total = equations.keep, equations.samples.total
    penalty = np.diag(equations.precision[keep]) / total
    known = [derivative]

    def solver_at(at: FloatArray) -> Solve:
        slope = known.pop() if known else some.derivative(at)
        inverse = bread_inverse(equations.weights @ slope[:, keep] - penalty, tolerance=1e-9)
        return lambda value: -inverse @ value

    def length_of(move: FloatArray) -> float:
        return float(np.sqrt(np.maximum(move @ information @ move, 0.0) * total / max(1, len(keep))))

    stable = STABLE_STEP if some.n == equations.samples.n else _STABLE_STEP_OF_MANY
    return newton_root(equations, theta, solver_at, length_of, stable, course)


#: Eigenvalues below this part of the largest are rounding.
_ROUNDING = 1e-10


def optimal_asymptotics(
    first: Policy, setting: TheorySetting, distance: int | None, given: Stack | None = None
) -> Asymptotics:
    """The inverse information KᵀV⁻¹K of a policy's conditions up to a graph distance, or of those that are given."""
    model, theta, method = setting.model, setting.theta, setting.method
    n_simulated, random_state = setting.n_simulated, setting.random_state
    bound = first.bind(model.structure())
    exact = is_exact(model, MOST_ENUMERATED_STATES)
    if method == "enumeration" and not exact:
        raise ModelError(f"The model has too many joint states; enumeration stops at {MOST_ENUMERATED_STATES:,}.")
    simulate = method == "simulation" or not exact
    stack, weights, halves, source = model_weights(
        model,
        theta,
        bound,
        distance=distance,
        random_state=random_state,
        draws=n_simulated if simulate else None,
        most_states=MOST_ENUMERATED_STATES,
        given=given,
    )
    moments = halves[0]
    if simulate:
        # Fresh draws: those that made the weights would show them too good.
        points = drawn_points(model, theta, None, n_simulated, random_state, 1_000)
        moments = score_moments(stack.conditions, points, theta)
        if stack.mean is not None and stack.second is not None:
            moments = moments.selected(stack.mean, stack.second, stack.conditions.component)
    covariance = covariance_of(weights.matrix, moments)
    basis = _range(moments.information)
    # Along a gauge freedom of the model, where there is one, any inverse has a part that means nothing.
    project = basis @ basis.T
    covariance = project @ covariance @ project
    information = _inverse(covariance)
    open_directions = basis.shape[1] - _range(covariance).shape[1]
    if open_directions > 0:
        raise IdentifiabilityError(
            f"The components of '{first}' do not determine {open_directions} directions of θ that the model does. Add "
            f"components, or fix parameters."
        )
    reference = _inverse(moments.information)
    return Asymptotics(information, information, covariance, reference, "exact", source, basis=basis)


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a symmetric matrix on its range."""
    inverse = bread_inverse(matrix, tolerance=_ROUNDING)
    return (inverse + inverse.T) / 2


def _range(matrix: FloatArray) -> FloatArray:
    """An orthonormal basis (r, d) of the range of a symmetric matrix, in any units of its variables."""
    diagonal = np.diag(matrix)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2 * scale[:, None] * scale)
    null = scale[:, None] * vectors[:, values <= _ROUNDING * float(values[-1])]
    if not null.shape[1]:
        return np.eye(len(matrix))
    return np.asarray(np.linalg.qr(null, mode="complete")[0][:, null.shape[1] :])
