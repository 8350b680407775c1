"""The pilot: a cheap PL1 fit on at most a few thousand samples, for θ̂ and for the number of evaluations of a fit.

With a budget, pilot and moments together take about a fifth of it at most (`Effort`):

    pilot      fits of PL1 to `rows` samples (and to a quarter of them, for sequences)
    moments    of each family on `moment_rows` samples: the Hessian as a matrix where that is cheap (`Effort.dense`), else
               Hessian products for `probes` directions × `cg_steps`

Both are predicted before they begin, from two short timings of PL1 or from its FLOPs, and made smaller until they fit. A
budget that is too small for the smallest effort is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.models.base import Model, Problem
from fieldfit.models.work import Line, clock
from fieldfit.optim import Solution
from fieldfit.planner.convergence import (
    PILOT_ITERATIONS,
    USUAL_GROWTH,
    Steps,
    account,
    growth,
    maximise,
    penalised,
    pilot_evaluations,
)
from fieldfit.planner.request import Request
from fieldfit.policies import Policy
from fieldfit.types import FieldfitError, FloatArray, ModelError

#: What a pilot fits.
PILOT_POLICY = Policy.parse("PL1")
#: Shares of a budget: for the pilot's fits, for the moments, and for all that a plan does.
PILOT, MOMENTS, SURVEY = 0.06, 0.08, 0.2
#: Share of a budget in FLOPs for the pilot and the moments.
SURVEY_FLOPS = 0.3
#: Parameters up to which moments may be dense matrices: where the Hessian of PL1 takes no longer than solves in a few
#: directions, and always up to the second number.
MOST_DENSE_PARAMETERS, _ALWAYS_DENSE = 500, 120
#: Parameters from which half the directions and steps must do.
_VERY_MANY = 20_000
#: Seconds of a plan whatever the effort.
_FIXED = 0.02
#: Families whose moments are taken, in units of PL1.
_FAMILIES = 6.0
#: Fewest samples of a pilot and of moments.
_FEWEST = 40
#: Fewest evaluations of a pilot.
_FEWEST_EVALUATIONS = 8
#: Fewest steps of a solve, and steps that one usually takes.
_FEWEST_STEPS, _USUAL_STEPS = 20, 50
#: Of sequences every fourth sample of the pilot is fitted beside all of them, in this share of the time.
_QUARTER, _FIRST = 4, 0.4
#: Samples for each parameter below which moments come from simulated samples, and a part of the data is not recommended
#: without a caution.
ENOUGH_SAMPLES = 5


@dataclass(frozen=True)
class Effort:
    """Samples and directions of a survey. ``dense`` are the passes of dense moments, None where there are none."""

    rows: int
    moment_rows: int
    probes: int
    cg_steps: int
    dense: float | None = None

    def passes(self, directions: int | None) -> float:
        """About how many evaluations on their samples the moments of PL1 take."""
        return moment_passes(directions or self.probes, self.cg_steps) if self.dense is None else self.dense


def usual_effort(r: int, hessian: float) -> Effort:
    """What is enough for an error of a percent or two where time is not limited.

    ``hessian`` is the cost of PL1's Hessian as a matrix, in evaluations.
    """
    many = r >= _VERY_MANY
    rows = 400 if many else 1000 if r > 1_500 else 2000
    probes, steps = (3, 40) if many else (6, 120)
    cheap = r <= _ALWAYS_DENSE or hessian <= moment_passes(probes, steps)
    dense = min(hessian, r) + 5.0 if cheap and r <= MOST_DENSE_PARAMETERS else None
    moment_rows = 500 if r > 1_500 or (dense is not None and r > _ALWAYS_DENSE) else 1000
    return Effort(rows, moment_rows, probes, steps, dense)


def affordable_effort(
    r: int, hessian: float, total: int, budget: float, speed: Line, directions: int | None
) -> Effort:
    """The most that a budget allows; ``speed`` is the cost of an evaluation of PL1 in its unit, by the number of samples.

    ``directions`` is the number of functionals that were named: they are the directions then.
    """
    best = usual_effort(r, hessian)
    rows = _largest(
        min(best.rows, total),
        lambda n: pilot_evaluations(r) * (speed.at(n) + 0.6 * speed.at(n / 4)) <= PILOT * budget,
    )
    for part in (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1):
        moment_rows = max(_FEWEST, round(best.moment_rows * part))
        probes = best.probes if part > 0.6 else max(2, best.probes // 2)
        # A solve that is stopped early overestimates the variance of PL1; fewer samples only make it less certain.
        steps = best.cg_steps if part > 0.6 else max(_FEWEST_STEPS, 2 * best.cg_steps // 3)
        effort = Effort(rows, moment_rows, probes, steps, best.dense)
        if _FAMILIES * effort.passes(directions) * speed.at(moment_rows) <= MOMENTS * budget:
            return effort
    return Effort(rows, _FEWEST, 1, _FEWEST_STEPS, best.dense)


def moment_passes(probes: int, cg_steps: int) -> float:
    """About how many evaluations on their samples the moments of one family take by solves in a few directions."""
    # A Hessian product is two evaluations, and most solves end before their last step; then a Hessian product and the
    # scores' product for each of the solutions of all families.
    return probes * (1.4 * min(cg_steps, _USUAL_STEPS) + 12)


def refuse_if_too_small(effort: Effort, r: int, seconds: float, speed: Line, gone: float) -> None:
    """FieldfitError where a plan with the smallest effort would take more than 0.3 of the budget."""
    pilot = pilot_evaluations(r) * speed.at(effort.rows)
    moments = effort.passes(None) * speed.at(effort.moment_rows)
    least = gone + _FIXED + pilot + moments
    if least > 0.3 * seconds:
        raise FieldfitError(
            f"The budget of {seconds:.3g} s is too small for a plan: the pilot alone needs about {least:.2g} s. Fit PL1 "
            "without a plan; or plan without a budget and use plan.within(…) for the fit alone; or give "
            f"{4 * least:.2g} s or more."
        )


def refuse_flops_if_too_small(effort: Effort, n: int, r: int, flops: float, each: float) -> int:
    """The evaluations that a pilot may make within its share of ``flops``; FieldfitError where they are too few.

    ``each`` are the FLOPs of PL1 for one sample.
    """
    rows = min(effort.rows, n)
    share = SURVEY_FLOPS * flops - effort.passes(None) * effort.moment_rows * each
    most = int(share / (rows * each))
    if most < _FEWEST_EVALUATIONS:
        smallest = replace(effort, probes=1, cg_steps=_FEWEST_STEPS)
        least = (smallest.passes(None) + pilot_evaluations(r)) * _FEWEST * each
        raise FieldfitError(
            f"The budget of {flops:.3g} FLOPs is too small for a plan: the pilot alone needs about {least:.2g} FLOPs. Fit "
            "PL1 without a plan; or plan without a budget and use plan.within(flops=…) for the fit alone; or give "
            f"{least / SURVEY_FLOPS:.2g} FLOPs or more."
        )
    return min(most, PILOT_ITERATIONS)


def evaluation_speed(model: Model, rows: Dataset) -> Line:
    """Seconds of an evaluation of PL1 by the number of samples, from two short runs."""
    sizes = sorted({min(rows.n, 40), min(rows.n, 160)})
    theta = np.zeros(model.n_parameters)
    seconds = []
    for size in sizes:
        some = rows.subset(np.arange(size))
        problem = model.compile(some, PILOT_POLICY.bind(model.structure(some)).draw(0, 0, size))
        problem.value_grad(theta)
        times: list[float] = []
        while len(times) < 2 or (len(times) < 5 and sum(times) < 0.01):
            began = clock()
            problem.value_grad(theta)
            times.append(clock() - began)
        seconds.append(min(times))
    if len(sizes) == 1:
        return Line(0.0, seconds[0] / max(sizes[0], 1))
    return Line.through(sizes[1], seconds[1], sizes[0], seconds[0])


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest of ``most``, 0.8·``most``, … that fits, or the fewest."""
    n = most
    while n > _FEWEST and not fits(n):
        n = max(math.floor(0.8 * n), _FEWEST)
    return min(n, most)


@dataclass(frozen=True)
class Pilot:
    """θ̂, the samples it comes from, and its cost.

    ``fewer`` are the samples that families are fitted to for their evaluations, and ``scaling`` is how many times as many
    a fit to all samples takes.
    """

    theta: FloatArray
    rows: Dataset
    n: int
    evaluations: int  # evaluations and Hessian products to convergence
    converged: bool
    effort: Effort
    fewer: Dataset
    steps: Steps  # of PL1 on ``fewer``
    spent: float  # evaluations of PL1 on all of the pilot's samples that were made
    scaling: float = 1.0

    @property
    def expected_evaluations(self) -> int:
        """Evaluations of PL1 on all samples."""
        return max(1, self.steps.times(self.scaling).count)


def moment_rows(model: Model, pilot: Pilot, random_state: int) -> tuple[Dataset, bool]:
    """The samples that moments are taken over, and whether they are simulated.

    Some of the pilot's where that is enough for a percent or two. Where the pilot had fewer than five samples for each
    parameter its own samples look better than they are (θ̂ has adapted to them): then their values are simulated
    from the model at θ̂, given what it conditions on and, of importance weights, the weights.
    """
    most = pilot.effort.moment_rows
    if pilot.n >= ENOUGH_SAMPLES * model.n_parameters:
        return _some(pilot, most, random_state), False
    seed = int(np.random.SeedSequence([random_state, 0x93]).generate_state(1)[0])
    try:
        # As many as needed: simulated samples are not limited by the data.
        return model.simulate(pilot.rows.subset(np.resize(np.arange(pilot.n), most)), pilot.theta, seed), True
    except ModelError:
        return _some(pilot, most, random_state), False


def _some(pilot: Pilot, most: int, random_state: int) -> Dataset:
    if pilot.n <= most:
        return pilot.rows
    return pilot.rows.subset(
        np.sort(np.random.default_rng([random_state, 0x92]).choice(pilot.n, most, replace=False))
    )


def run_pilot(request: Request) -> Pilot:
    """Fit PL1 to a random part of the samples, to the accuracy of the fit to come.

    The pilot takes its share of a budget, or refuses one that is too small.
    """
    started = clock()
    model, dataset, target = request.model, request.dataset, request.target
    r, random = model.n_parameters, np.random.default_rng([request.random_state, 0x91])
    sample = dataset.draw(_FEWEST, np.random.default_rng([request.random_state, 0x94]))
    hessian = _plain_problem(model, sample).hessian_evaluations
    effort = usual_effort(r, hessian)
    rows = dataset.draw(effort.rows, random)
    deadline, most = math.inf, PILOT_ITERATIONS
    if target.seconds is not None:
        speed = evaluation_speed(model, rows)
        effort = affordable_effort(r, hessian, rows.n, target.seconds, speed, request.n_functionals)
        refuse_if_too_small(effort, r, target.seconds, speed, clock() - started)
        deadline = clock() + 1.5 * PILOT * target.seconds
    elif target.flops is not None:
        each = model.sample_flops(PILOT_POLICY.bind(model.structure(rows)), rows)
        # The paper's FLOPs know no cheap Hessian: it takes a product for each parameter.
        effort = affordable_effort(r, float(r), rows.n, target.flops, Line(0.0, each), request.n_functionals)
        most = refuse_flops_if_too_small(effort, rows.n, r, target.flops, each)
    if effort.rows < rows.n:
        rows = rows.subset(np.sort(random.choice(rows.n, effort.rows, replace=False)))
    n = rows.n
    problem = _plain_problem(model, rows)
    if problem.optimiser != "lbfgs" or n < 2 * _QUARTER:
        solution, theta, steps, spent = _fit(problem, rows, request, deadline, most)
        return Pilot(theta, rows, n, steps.count, solution.converged, effort, rows, steps, spent)
    fewer = rows.subset(np.arange(0, n, _QUARTER))
    now = clock()
    early = now + _FIRST * (deadline - now)
    first, _, few, first_spent = _fit(_plain_problem(model, fewer), fewer, request, early, most)
    solution, theta, steps, spent = _fit(problem, rows, request, deadline, most)
    ratio = n / fewer.n
    if first.converged and solution.converged:
        gamma, grown = growth(steps.count, few.count, ratio), max(steps.count / few.count, 1.0)
    else:
        gamma, grown = USUAL_GROWTH, ratio**USUAL_GROWTH
    scaling = grown * max(dataset.n_copies / n, 1.0) ** gamma
    spent += first_spent / _QUARTER
    return Pilot(theta, rows, n, round(grown * few.count), solution.converged, effort, fewer, few, spent, scaling)


def _plain_problem(model: Model, rows: Dataset) -> Problem:
    """PL1 with everything selected."""
    return model.compile(rows, PILOT_POLICY.bind(model.structure(rows)).draw(0, 0, rows.n))


def _fit(
    problem: Problem, rows: Dataset, request: Request, deadline: float, most: int
) -> tuple[Solution, FloatArray, Steps, float]:
    """The fit of PL1, its θ̂, its steps to convergence, and the evaluations that it took."""
    scale = rows.total_weight
    objective = penalised(problem, scale, request.precision, rows.sample_weight, request.model.feature_units)
    began = clock()
    solution = maximise(objective, scale, request.tol, deadline, most)
    steps = account(objective, solution, scale, request.tol, clock() - began)
    theta = objective.full(np.asarray(solution.x, dtype=np.float64)).copy()
    return solution, theta, steps, float(solution.evaluations + solution.hessian_products)
