"""The pilot: a cheap PL1 fit on at most a few thousand samples, for θ̂ and for the number of evaluations of a fit."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldfit.models.base import Model, Problem
from fieldfit.models.work import Line, clock
from fieldfit.optim import Solution
from fieldfit.planner.convergence import TOL, USUAL_GROWTH, Steps, account, growth, optimise, penalised
from fieldfit.planner.effort import (
    PILOT,
    Effort,
    affordable_effort,
    evaluation_speed,
    refuse_if_too_small,
    usual_effort,
)
from fieldfit.planner.ingredients import sample_flops
from fieldfit.planner.weighting import drawn, n_copies, n_samples, total_weight
from fieldfit.policies import Policy
from fieldfit.types import FloatArray, ModelError

#: The part of the pilot that sequences are fitted to beside all of it, and the share of the time that it may take.
_QUARTER, _FIRST = 4, 0.4


@dataclass(frozen=True)
class Pilot:
    """θ̂, the samples it comes from, and what it took.

    ``fewer`` are the samples that families are fitted to for their evaluations, and ``scaling`` is how many times as many
    a fit to all samples takes.
    """

    theta: FloatArray
    rows: Any
    n: int
    evaluations: int  # evaluations and Hessian products to convergence
    converged: bool
    effort: Effort
    fewer: Any
    steps: Steps  # of PL1 on ``fewer``
    scaling: float = 1.0

    @property
    def expected_evaluations(self) -> int:
        """Evaluations of PL1 on all samples."""
        return max(1, self.steps.times(self.scaling).count)


def moment_rows(model: Model, pilot: Pilot, random_state: int) -> tuple[Any, bool]:
    """The samples that moments are taken over, and whether they are simulated.

    Some of the pilot's where that is enough for a percent or two. Where the pilot had fewer than five samples for each
    parameter its own samples look better than they are (θ̂ has adapted to them): then their values are drawn anew
    from the model at θ̂, given what it conditions on and, of importance weights, the weights.
    """
    most = pilot.effort.moment_rows
    if pilot.n >= 5 * model.n_parameters:
        return _some(pilot, most, random_state), False
    seed = int(np.random.SeedSequence([random_state, 0x93]).generate_state(1)[0])
    try:
        # As many as needed: simulated samples are not limited by the data.
        return model.simulate(pilot.rows.subset(np.resize(np.arange(pilot.n), most)), pilot.theta, seed), True
    except ModelError:
        return _some(pilot, most, random_state), False


def _some(pilot: Pilot, most: int, random_state: int) -> Any:
    if pilot.n <= most:
        return pilot.rows
    return pilot.rows.subset(
        np.sort(np.random.default_rng([random_state, 0x92]).choice(pilot.n, most, replace=False))
    )


def run_pilot(
    model: Model,
    dataset: Any,
    random_state: int,
    precision: FloatArray | None = None,
    *,
    seconds: float | None = None,
    flops: float | None = None,
    directions: int | None = None,
    tol: float = TOL,
) -> Pilot:
    """Fit PL1 to a random part of the samples, to the accuracy of the fit to come.

    ``seconds`` or ``flops`` is the whole budget: the pilot takes its share of it, or (of too few seconds) is refused.
    ``directions`` is the number of functionals that were named.
    """
    began = time.perf_counter()
    r, random = model.n_parameters, np.random.default_rng([random_state, 0x91])
    effort = usual_effort(r)
    rows = drawn(dataset, effort.rows, random)
    deadline = math.inf
    if seconds is not None:
        speed = evaluation_speed(model, rows)
        effort = affordable_effort(r, n_samples(rows), seconds, speed, directions)
        refuse_if_too_small(effort, r, seconds, speed, time.perf_counter() - began)
        deadline = time.perf_counter() + 1.5 * PILOT * seconds
    elif flops is not None:
        each = sample_flops(model, Policy.parse("PL1").bind(model.structure(rows)), rows)
        effort = affordable_effort(r, n_samples(rows), flops, Line(0.0, each), directions)
    if effort.rows < n_samples(rows):
        rows = rows.subset(np.sort(random.choice(n_samples(rows), effort.rows, replace=False)))
    n = n_samples(rows)
    problem = _plain_problem(model, rows)
    if problem.optimiser != "lbfgs" or n < 2 * _QUARTER:
        solution, theta, steps = _fit(problem, rows, precision, tol, deadline)
        return Pilot(theta, rows, n, steps.count, solution.converged, effort, rows, steps)
    fewer = rows.subset(np.arange(0, n, _QUARTER))
    now = time.perf_counter()
    first, _, few = _fit(_plain_problem(model, fewer), fewer, precision, tol, now + _FIRST * (deadline - now))
    solution, theta, steps = _fit(problem, rows, precision, tol, deadline)
    ratio = n / n_samples(fewer)
    if first.converged and solution.converged:
        gamma, grown = growth(steps.count, few.count, ratio), max(steps.count / few.count, 1.0)
    else:
        gamma, grown = USUAL_GROWTH, ratio**USUAL_GROWTH
    scaling = grown * max(n_copies(dataset) / n, 1.0) ** gamma
    return Pilot(theta, rows, n, round(grown * few.count), solution.converged, effort, fewer, few, scaling)


def _plain_problem(model: Model, rows: Any) -> Problem:
    """PL1 with everything selected."""
    return model.compile(rows, Policy.parse("PL1").bind(model.structure(rows)).draw(0, 0, n_samples(rows)))


def _fit(
    problem: Problem, rows: Any, precision: FloatArray | None, tol: float, deadline: float
) -> tuple[Solution, FloatArray, Steps]:
    """The fit of PL1, its θ̂, and its steps."""
    weight, scale = rows.sample_weight, total_weight(rows)
    objective = penalised(problem, scale, precision, weight)
    began = clock()
    solution = optimise(objective, scale, tol, deadline)
    steps = account(objective, solution, scale, tol, clock() - began)
    return solution, objective.full(np.asarray(solution.x, dtype=np.float64)).copy(), steps
