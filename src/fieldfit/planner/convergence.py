"""How many evaluations a fit takes, from fits to the pilot's samples.

The shape of an objective differs much between families: PL1 of a dense field has a preconditioner and takes a dozen
evaluations, its full likelihood sixty Hessian products. So each family is fitted once. With the number of samples the shape
of a field's objective hardly changes; that of a tagger does, because its rare features come one by one: on CoNLL-2000
with σ² = 1 PL1 takes 69, 101, 167 and 295 evaluations for 100, 400, 1,600 and 8,936 sentences. There the number is

    evaluations(n) = evaluations(pilot) × (n / pilot)^γ,    0 ≤ γ ≤ 1/2

with γ a fifth above the slope from a quarter of the pilot to all of it, because that rises slowly (0.28, 0.36 and then
0.33 here).

A fit that is stopped early is extrapolated: the logarithm of its gradient is assumed to fall as fast as in its second half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.models.problem import Problem
from fieldfit.models.work import clock, least_seconds
from fieldfit.objective import Objective, has_affordable_hessian
from fieldfit.optim import Progress, Solution
from fieldfit.optim.solution import DEFAULT_MAX_ITER, DEFAULT_TOL
from fieldfit.planner.request import Tolerance
from fieldfit.refinement.statistical import CountedObjective, StatisticalStop, start_tolerance
from fieldfit.types import FloatArray

#: A penalty for each sample so weak that it only keeps parameters finite that the pilot's samples do not determine.
RIDGE = 1e-4
#: Iterations of a fit to the pilot's samples.
PILOT_ITERATIONS = 300
#: Evaluations that a fit of few parameters (up to the second number), and of many, usually takes.
_USUAL_FEW, _FEW_PARAMETERS, _USUAL_MANY = 30, 120, 100
#: Seconds of a short fit: one below this is run once more, because the first one loads code.
SHORT = 0.03
#: Questions to shards beside evaluations and Hessians: for a preconditioner, and for what a Hessian costs.
_QUESTIONS_BESIDES = 2
#: The question for the sampling error of the gradient, before a fit that is only a start.
_QUESTIONS_OF_START = 1
#: Seconds after its deadline at which a fit is given up within an iteration.
_GRACE_SECONDS = 0.05
#: Largest γ above, γ over the measured slope, and γ where the fits were stopped early and no slope is known.
_LARGEST_GROWTH, _GROWTH_OVER_SLOPE, USUAL_GROWTH = 0.5, 1.2, 1 / 3


@dataclass(frozen=True)
class Steps:
    """Evaluations of a fit. ``equivalents`` counts all its work in evaluations of value and gradient, timed here."""

    count: int  # evaluations and Hessian products
    equivalents: float
    overhead: float  # seconds of the optimiser itself in the whole fit
    converged: bool
    product: float = 2.0  # a Hessian product in evaluations
    tried: bool = True  # a fit was run, not only a usual number taken
    start: float = 1.0  # share of the fit after which its estimate is good enough as the start of another
    questions: float = 0.0  # to all shards at once, where samples are in shards

    def as_start(self) -> Steps:
        """A fit whose estimate is only the start of another."""
        return replace(
            self,
            equivalents=self.equivalents * self.start,
            overhead=self.overhead * self.start,
            questions=(self.questions - _QUESTIONS_BESIDES) * self.start + _QUESTIONS_BESIDES + _QUESTIONS_OF_START,
        )

    def times(self, factor: float) -> Steps:
        """A fit that takes ``factor`` times as long to converge, within the iterations of `fit`."""
        factor = min(factor, max(DEFAULT_MAX_ITER / max(self.count, 1), 1.0))
        return replace(
            self,
            count=round(self.count * factor),
            equivalents=self.equivalents * factor,
            overhead=self.overhead * factor,
            questions=self.questions * factor,
        )


def growth(evaluations: float, fewer_evaluations: float, ratio: float) -> float:
    """γ from the evaluations for all of the pilot and for 1/``ratio`` of it."""
    if min(evaluations, fewer_evaluations) < 1 or ratio <= 1:
        return 0.0
    slope = math.log(evaluations / fewer_evaluations) / math.log(ratio)
    return min(max(_GROWTH_OVER_SLOPE * slope, 0.0), _LARGEST_GROWTH)


def pilot_evaluations(r: int) -> int:
    """Evaluations that a fit of PL1 is expected to take: fewer with few parameters (Newton's method)."""
    return _USUAL_FEW if r <= _FEW_PARAMETERS else _USUAL_MANY


def usual_steps(r: int) -> Steps:
    """What a fit usually takes, for families that there is no time to try: half of it Hessian products."""
    count = pilot_evaluations(r)
    return Steps(count, count * (1 + Steps.product) / 2, 0.0, False, tried=False, questions=count)


def penalised(
    problem: Problem,
    precision: FloatArray | None = None,
    row_weight: FloatArray | None = None,
    units: FloatArray | None = None,
    *,
    counts: bool = False,
    preconditioned: bool = True,
) -> Objective:
    """The objective of a pilot: the penalty of the fit to come, and a trace of a ridge.

    ``units`` (r,) are the sizes of the features (None: all 1). ``counts``: the weights are numbers of copies.
    ``preconditioned``: whether the fit to come has the problem's preconditioner.
    """
    r, total = problem.n_parameters, problem.n_samples if row_weight is None else row_weight.sum()
    weight = RIDGE * total * (np.ones(r) if units is None else units**2)
    if precision is not None:
        weight = np.maximum(weight, precision)
    return Objective(problem, weight, np.zeros(r), np.ones(r, dtype=bool), row_weight, units, counts, preconditioned)


class TooLateError(Exception):
    """A fit did not finish an iteration before its deadline."""


@dataclass(frozen=True)
class _Watched(CountedObjective):
    """An objective that is given up in the middle of an iteration at ``last`` (`fieldfit.models.work.clock`)."""

    last: float = math.inf

    def hessian_product(self, x: FloatArray, v: FloatArray) -> FloatArray:
        """Its Hessian times a vector."""
        if clock() > self.last:
            raise TooLateError
        return super().hessian_product(x, v)


def maximise(
    objective: Objective,
    tol: Tolerance = DEFAULT_TOL,
    deadline: float = math.inf,
    most_evaluations: float = math.inf,
    grace: float = _GRACE_SECONDS,
) -> Solution:
    """Maximise from 0 as `fit` does, to its accuracy.

    It stops early once the clock reaches the deadline, or after ``most_evaluations`` of value and gradient and Hessian
    products; `TooLateError` where an iteration takes ``grace`` seconds longer.
    """
    plain = objective.problem, objective.precision, objective.start, objective.free, objective.row_weight
    watched = _Watched(*plain, objective.units, preconditioned=objective.preconditioned, last=deadline + grace)
    stop = None
    if tol == "statistical":
        stop = StatisticalStop(objective, matrices=watched.matrices, units=objective.free_units)

    def done(progress: Progress, x: FloatArray) -> bool:
        late = clock() > deadline or len(watched.calls) >= most_evaluations
        return late or (stop is not None and stop(progress, x))

    gtol = _largest_gradient(objective, tol)
    solution = watched.minimise(gtol=gtol, max_iter=PILOT_ITERATIONS, callback=done).uninterrupted()
    return solution if stop is None else stop.judged(solution, gtol)


def _largest_gradient(objective: Objective, tol: Tolerance) -> float:
    """The largest entry of the gradient at which a fit has converged in any case."""
    return max(objective.gradient_tolerance(DEFAULT_TOL if tol == "statistical" else tol), 1e-300)


def to_the_end(solution: Solution, gtol: float) -> float:
    """How many times longer than it ran a fit would take to converge: 1 if it did, a usual number if it hardly began."""
    if solution.converged:
        return 1.0
    if len(solution.history) < 4:
        return max(pilot_evaluations(len(solution.x)) / max(solution.evaluations, 1), 1.0)
    norms = np.log([max(line.gradient_norm, 1e-300) for line in solution.history])
    half = len(norms) // 2
    slope = float(np.polyfit(np.arange(len(norms) - half), norms[half:], 1)[0])
    most = max(DEFAULT_MAX_ITER / max(solution.iterations, 1), 1.0)
    if slope >= 0:
        return most
    missing = max(float(norms[-1]) - math.log(gtol), 0.0) / -slope
    return min(1 + missing / max(solution.iterations, 1), most)


def timed_fit(
    objective: Objective,
    tol: Tolerance = DEFAULT_TOL,
    deadline: float = math.inf,
    most_evaluations: float = math.inf,
    grace: float = _GRACE_SECONDS,
) -> tuple[Solution, Steps]:
    """A fit as in `maximise`, and its steps to convergence, with Hessian products and preconditioners.

    One that is short and whose evaluations are not limited is timed twice.
    """
    began = clock()
    solution = maximise(objective, tol, deadline, most_evaluations, grace)
    seconds = clock() - began
    if seconds < SHORT and clock() + seconds < deadline and math.isinf(most_evaluations):
        began = clock()
        maximise(objective, tol, deadline, grace=math.inf)
        seconds = min(seconds, clock() - began)
    x = np.asarray(solution.x)
    evaluation = least_seconds(lambda: objective.value_grad(x))
    product, equivalents = Steps.product, float(solution.evaluations)
    if objective.problem.optimiser != "lbfgs":
        if objective.by_matrix and solution.hessian_products:  # the matrix of each iteration, shared by its products
            matrix = least_seconds(lambda: objective.hessian(x)) / evaluation
            product = matrix * max(solution.iterations, 1) / solution.hessian_products
        else:
            product = least_seconds(lambda: objective.hessian_product(x, np.ones_like(x))) / evaluation
        # A fit asks for both before its first step.
        equivalents += least_seconds(lambda: (objective.preconditioner, objective.hessian_diagonal)) / evaluation
    equivalents += product * solution.hessian_products
    overhead = max(seconds - equivalents * evaluation, 0.0)
    count = solution.evaluations + solution.hessian_products
    products = float(solution.hessian_products)
    newton = has_affordable_hessian(objective.problem) and objective.preconditioner is None
    if newton or (objective.by_matrix and products):
        products = solution.iterations  # a matrix for each iteration
    questions = solution.evaluations + products + _QUESTIONS_BESIDES
    made = Steps(
        count, equivalents, overhead, solution.converged, product,
        start=_start_share(objective, solution), questions=questions,
    )  # fmt: skip
    whole = to_the_end(solution, _largest_gradient(objective, tol))
    return solution, replace(made.times(whole), start=made.start / whole)


def _start_share(objective: Objective, solution: Solution) -> float:
    """The share of the iterations after which the estimate would do as the start of another fit."""
    enough = start_tolerance(objective, 0)
    reached = next((line.iteration for line in solution.history if line.gradient_norm <= enough), solution.iterations)
    return (reached + 1) / (solution.iterations + 1)


def steps_of(objective: Objective, tol: Tolerance = DEFAULT_TOL, deadline: float = math.inf) -> Steps:
    """The steps of a fit, which is run; a usual number where not even an iteration is done before the deadline."""
    try:
        steps = timed_fit(objective, tol, deadline)[1]
    except TooLateError:
        return usual_steps(objective.problem.n_parameters)
    # The gradient of Newton's method falls ever faster: its first iterations say little about the rest.
    return replace(steps, tried=steps.converged or not objective.by_matrix)
