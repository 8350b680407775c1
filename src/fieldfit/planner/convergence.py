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
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.models.work import clock
from fieldfit.objective import Objective
from fieldfit.optim import Progress, Solution, Status, minimise
from fieldfit.planner.request import TOL, Tolerance
from fieldfit.refinement.statistical import StatisticalStop
from fieldfit.types import BoolArray, FloatArray

#: A penalty for each sample so weak that it only keeps parameters finite that the pilot's samples do not determine.
RIDGE = 1e-4
#: Iterations of `fit`, and of a fit to the pilot's samples.
MOST_ITERATIONS, PILOT_ITERATIONS = 1000, 300
#: Evaluations that a fit of few parameters (up to the second number), and of many, usually takes.
_USUAL_FEW, _FEW_PARAMETERS, _USUAL_MANY = 30, 120, 100
#: Seconds below which a fit is timed again, and most runs: what the first one loads for the first time, and other programs,
#: would count as the optimiser's.
_SHORT, _MOST_RUNS = 0.03, 4
#: Seconds from which on one run is timed once.
_LONG = 0.02
#: Seconds after its deadline at which a fit is given up within an iteration.
_GRACE = 0.05
#: Largest γ above, γ over the measured slope, and γ where the fits were stopped early and no slope is known.
_STEEPEST, _RISING, USUAL_GROWTH = 0.5, 1.2, 1 / 3
#: Parameters from which on those that the pilot's samples say nothing about are left out of its fits.
_MANY = 20_000


@dataclass(frozen=True)
class Steps:
    """Evaluations of a fit. ``equivalents`` counts all its work in evaluations of value and gradient, timed here."""

    count: int  # evaluations and Hessian products
    equivalents: float
    overhead: float  # seconds of the optimiser itself in the whole fit
    converged: bool
    product: float = 2.0  # a Hessian product in evaluations
    tried: bool = True  # a fit was run, not only a usual number taken

    def times(self, factor: float) -> Steps:
        """A fit that takes ``factor`` times as long to converge, within the iterations of `fit`."""
        most = max(MOST_ITERATIONS / max(self.count, 1), 1.0)
        factor = min(factor, most)
        return replace(
            self,
            count=round(self.count * factor),
            equivalents=self.equivalents * factor,
            overhead=self.overhead * factor,
        )


def growth(evaluations: float, fewer_evaluations: float, ratio: float) -> float:
    """γ from the evaluations for all of the pilot and for 1/``ratio`` of it."""
    if min(evaluations, fewer_evaluations) < 1 or ratio <= 1:
        return 0.0
    slope = math.log(evaluations / fewer_evaluations) / math.log(ratio)
    return min(max(_RISING * slope, 0.0), _STEEPEST)


def penalised(
    problem: Problem,
    scale: float,
    precision: FloatArray | None,
    row_weight: FloatArray | None = None,
    units: FloatArray | None = None,
) -> Objective:
    """The objective of a pilot: the penalty of the fit to come, and a trace of a ridge.

    ``scale`` is the sum of weights; ``units`` (r,) are the sizes of the features (None: all 1).
    """
    r = problem.n_parameters
    weight = RIDGE * scale * (np.ones(r) if units is None else units**2)
    if precision is not None:
        weight = np.maximum(weight, precision)
    return Objective(problem, weight, np.zeros(r), _seen(problem, row_weight), row_weight, units)


def _seen(problem: Problem, row_weight: FloatArray | None) -> BoolArray:
    """The parameters that the samples say something about; all of them where there are few, or none can be told."""
    r = problem.n_parameters
    diagonal = problem.hessian_diagonal(np.zeros(r), row_weight) if r > _MANY else None
    if diagonal is None or not (diagonal > 0).any():
        return np.ones(r, dtype=bool)
    return np.asarray(diagonal > 0)


class TooLateError(Exception):
    """A trial fit did not finish an iteration before its deadline."""


def maximise(
    objective: Objective,
    scale: float,
    tol: Tolerance = TOL,
    deadline: float = math.inf,
    most_evaluations: float = math.inf,
) -> Solution:
    """Maximise from 0 as `fit` does, to its accuracy.

    It stops early once the clock (`fieldfit.models.work.clock`) reaches the deadline, or after ``most_evaluations`` of
    value and gradient and Hessian products; `TooLateError` where that comes within a long first iteration.
    """
    plain = objective.problem.optimiser == "lbfgs"
    made = 0
    stop = StatisticalStop(objective) if tol == "statistical" else None

    def done(progress: Progress, x: FloatArray) -> bool:
        late = clock() > deadline or made >= most_evaluations
        return late or (stop is not None and stop(progress, x))

    def value_grad(x: FloatArray) -> tuple[float, FloatArray]:
        nonlocal made
        made += 1
        return objective.value_grad(x)

    def hessian_product(x: FloatArray, v: FloatArray) -> FloatArray:
        nonlocal made
        made += 1
        if clock() > deadline + _GRACE:
            raise TooLateError
        return objective.hessian_product(x, v)

    solution = minimise(
        value_grad,
        np.zeros(int(objective.free.sum())),
        hessian_product=hessian_product,
        hessian_diagonal=None if plain else objective.hessian_diagonal,
        preconditioner=objective.preconditioner,
        method="lbfgs" if plain else "auto",
        history=6 if plain else 10,
        gtol=_largest_gradient(tol, scale),
        max_iter=PILOT_ITERATIONS,
        callback=None if math.isinf(deadline) and math.isinf(most_evaluations) and stop is None else done,
        units=objective.free_units,
    )
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # an interrupted pilot cannot be used for a plan
    return solution if stop is None else stop.judged(solution, _largest_gradient(tol, scale))


def _largest_gradient(tol: Tolerance, scale: float) -> float:
    """The largest entry of the gradient at which a fit has converged in any case."""
    return (TOL if tol == "statistical" else tol) * max(scale, 1e-300)


def pilot_evaluations(r: int) -> int:
    """Evaluations that a fit of PL1 is expected to take: fewer with few parameters (Newton's method)."""
    return _USUAL_FEW if r <= _FEW_PARAMETERS else _USUAL_MANY


def usual_steps(r: int) -> Steps:
    """What a fit usually takes, for families that there is no time to try: half of it Hessian products."""
    count = pilot_evaluations(r)
    return Steps(count, count * (1 + Steps.product) / 2, 0.0, False, tried=False)


def to_the_end(solution: Solution, gtol: float) -> float:
    """How many times longer than it ran a fit would take to converge: 1 if it did, a usual number if it hardly began."""
    if solution.converged:
        return 1.0
    if len(solution.history) < 4:
        return max(pilot_evaluations(len(solution.x)) / max(solution.evaluations, 1), 1.0)
    norms = np.log([max(line.gradient_norm, 1e-300) for line in solution.history])
    half = len(norms) // 2
    slope = float(np.polyfit(np.arange(len(norms) - half), norms[half:], 1)[0])
    most = MOST_ITERATIONS / max(solution.iterations, 1)
    if slope >= 0:
        return max(most, 1.0)
    missing = max(float(norms[-1]) - math.log(gtol), 0.0) / -slope
    return float(min(1 + missing / max(solution.iterations, 1), max(most, 1.0)))


def steps_of(
    problem: Problem,
    scale: float,
    precision: FloatArray | None,
    *,
    row_weight: FloatArray | None = None,
    units: FloatArray | None = None,
    tol: Tolerance = TOL,
    deadline: float = math.inf,
) -> Steps:
    """Fit the problem and count its steps: Hessian products and preconditioners in units of evaluations."""
    objective = penalised(problem, scale, precision, row_weight, units)
    began = clock()
    try:
        solution = maximise(objective, scale, tol, deadline)
    except TooLateError:
        return usual_steps(problem.n_parameters)
    seconds = total = clock() - began
    for run in range(1, _MOST_RUNS):
        if total > _SHORT * (2 if run == 1 else 1) or clock() + seconds > deadline:
            break
        began = clock()
        maximise(objective, scale, tol, deadline)
        took = clock() - began
        seconds, total = min(seconds, took), total + took
    return account(objective, solution, scale, tol, seconds)


def account(objective: Objective, solution: Solution, scale: float, tol: Tolerance, seconds: float) -> Steps:
    """The steps of a fit that took ``seconds``."""
    x = np.asarray(solution.x)
    direction = np.ones_like(x)
    evaluation = _least(lambda: objective.value_grad(x))
    equivalents = float(solution.evaluations)
    product = 2.0
    if objective.problem.optimiser != "lbfgs":
        product = _least(lambda: objective.hessian_product(x, direction)) / evaluation
    equivalents += product * solution.hessian_products
    if objective.problem.optimiser != "lbfgs":
        # Both are asked for before the first step.
        equivalents += _least(lambda: (objective.preconditioner, objective.hessian_diagonal)) / evaluation
    overhead = max(seconds - equivalents * evaluation, 0.0)
    if not objective.free.all():
        overhead = solution.iterations * optimiser_seconds(len(objective.free))
    count = solution.evaluations + solution.hessian_products
    made = Steps(count, equivalents, overhead, solution.converged, product)
    return made.times(to_the_end(solution, _largest_gradient(tol, scale)))


def optimiser_seconds(r: int) -> float:
    """Seconds that an iteration of L-BFGS takes besides the evaluation, with r parameters."""
    curvature = np.linspace(1.0, 50.0, r)
    buffer = np.empty(r)

    def value_grad(x: FloatArray) -> tuple[float, FloatArray]:
        np.multiply(curvature, x, out=buffer)
        buffer[:] -= 1.0
        return 0.5 * float(x @ buffer) - 0.5 * float(x.sum()), buffer

    began = clock()
    solution = minimise(value_grad, np.zeros(r), method="lbfgs", history=6, gtol=0.0, max_iter=9)
    seconds = clock() - began
    seconds -= solution.evaluations * _least(lambda: value_grad(np.asarray(solution.x)))
    return max(seconds, 0.0) / max(solution.iterations, 1)


def _least(run: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        began = clock()
        run()
        times.append(clock() - began)
        if times[-1] > _LONG:
            break
    return max(min(times), 1e-7)
