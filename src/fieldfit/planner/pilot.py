"""The pilot: a cheap PL1 fit on at most a few thousand samples, for θ̂ and for the number of evaluations of a fit.

With a budget, pilot and moments together take about a fifth of it at most (`Effort`):

    pilot      fits of PL1 to `rows` samples (and to a quarter of them, for sequences)
    moments    of each family on `moment_rows` samples: the Hessian as a matrix where that is cheap (`Effort.dense`), else
               Hessian products for `probes` directions × `cg_steps`

Both are predicted before they begin, from two short timings of PL1 or from its FLOPs, and made smaller until they fit. A
budget that is too small for the smallest effort is refused.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress

import numpy as np

from fieldfit.asymptotics.separation import concerned_by, separated_parameters
from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table
from fieldfit.models.base import Model
from fieldfit.models.problem import Problem
from fieldfit.models.work import Line, clock, least_seconds
from fieldfit.objective import Objective
from fieldfit.optim import Solution
from fieldfit.planner.convergence import (
    PILOT_ITERATIONS,
    USUAL_GROWTH,
    Steps,
    growth,
    penalised,
    pilot_evaluations,
    timed_fit,
)
from fieldfit.planner.request import Request, Target
from fieldfit.policies import Policy
from fieldfit.types import FieldfitError, FloatArray, ModelError

#: What a pilot fits, and maximum likelihood.
PILOT_POLICY, FULL = Policy.parse("PL1"), Policy.parse("FL")
#: Shares of a budget: for the pilot's fits, for the moments, and for all that a plan does.
PILOT, MOMENTS, SURVEY = 0.06, 0.08, 0.2
#: Share of a budget in seconds for the search for joint states that never occur.
_SEPARATION_SHARE = 0.02
#: Share of a budget in FLOPs for the pilot and the moments, and of one in seconds that the smallest effort may take.
SURVEY_FLOPS = 0.3
#: Parameters up to which moments may be dense matrices: where the Hessian of PL1 takes no longer than solves in a few
#: directions, and always up to the second number.
MOST_DENSE_MOMENTS, _ALWAYS_DENSE = 500, 120
#: Parameters from which half the directions and steps must do.
_VERY_MANY = 20_000
#: Seconds of a plan that do not depend on the effort.
_FIXED_SECONDS = 0.02
#: Families whose moments are taken, in units of PL1.
_USUAL_FAMILIES = 6.0
#: Share of complete samples from which on moments are taken over these.
_MOSTLY = 0.9
#: Fewest samples of a pilot and of moments.
_FEWEST_ROWS = 40
#: Fewest evaluations of a pilot with a budget in FLOPs.
_FEWEST_EVALUATIONS = 8
#: Fewest steps of a solve, and steps that one usually takes.
_FEWEST_SOLVE_STEPS, _USUAL_SOLVE_STEPS = 20, 50
#: Of sequences every fourth sample of the pilot is fitted beside all of them, in this share of the time.
_FEWER_FACTOR, _FEWER_TIME_SHARE = 4, 0.4
#: Samples for each parameter below which the pilot's own samples look better than they are: θ̂ has adapted to them.
UNADAPTED = 20
#: How many times as many samples are simulated where they are cheap. A few hundred for 190 parameters make the variance of
#: PL1 too large: the error of its bread enters squared.
_SIMULATED_FACTOR = 4


@dataclass(frozen=True)
class Effort:
    """Samples and directions of a survey; ``dense``: moments are matrices."""

    rows: int
    moment_rows: int
    probes: int
    cg_steps: int
    dense: bool

    def hessian_rows(self, rows: int) -> int:
        """The number of samples for Hessians: all ``rows`` samples, or fewer if more samples than usual are simulated."""
        return rows if rows <= self.moment_rows else self.moment_rows // 2

    def passes(self, hessian: float, directions: int | None = None, rows: int = 0) -> float:
        """About how many evaluations on their samples the moments of one family take.

        ``hessian`` is the cost of its Hessian as a matrix on all ``rows``, in evaluations. In a few ``directions`` a
        Hessian product is two evaluations, and most solves end before their last step; then a Hessian product and the
        scores' product for each of the solutions of all families.
        """
        if self.dense:
            return hessian * self.hessian_rows(rows) / max(rows, 1) + 5.0 if rows else hessian + 5.0
        return (directions or self.probes) * (1.4 * min(self.cg_steps, _USUAL_SOLVE_STEPS) + 12)


def usual_effort(r: int, hessian: float) -> Effort:
    """What is enough for an error of a percent or two where time is not limited.

    ``hessian`` is the cost of PL1's Hessian as a matrix, in evaluations.
    """
    many = r >= _VERY_MANY
    rows = 400 if many else 1000 if r > 1_500 else 2000
    probes, steps = (3, 40) if many else (6, 120)
    effort = Effort(rows, 500 if r > 1_500 else 1000, probes, steps, dense=False)
    cheap = r <= _ALWAYS_DENSE or hessian <= effort.passes(hessian)
    if not cheap or r > MOST_DENSE_MOMENTS:
        return effort
    return replace(effort, moment_rows=500 if r > _ALWAYS_DENSE else 1000, dense=True)


def affordable_effort(
    r: int, hessian: float, total: int, budget: float, speed: Line, directions: int | None
) -> Effort:
    """The most that a budget allows; ``speed`` is the cost of an evaluation of PL1 in its unit, by the number of samples.

    ``directions`` is the number of functionals that were named: they are the directions then.
    """
    best = usual_effort(r, hessian)
    rows = most = min(best.rows, total)
    while rows > _FEWEST_ROWS and pilot_evaluations(r) * (speed.at(rows) + 0.6 * speed.at(rows / 4)) > PILOT * budget:
        rows = max(math.floor(0.8 * rows), _FEWEST_ROWS)
    rows = min(rows, most)
    for part in (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1):
        moment_rows = max(_FEWEST_ROWS, round(best.moment_rows * part))
        probes = best.probes if part > 0.6 else max(2, best.probes // 2)
        # A solve that is stopped early overestimates the variance of PL1; fewer samples only make it less certain.
        steps = best.cg_steps if part > 0.6 else max(_FEWEST_SOLVE_STEPS, 2 * best.cg_steps // 3)
        effort = Effort(rows, moment_rows, probes, steps, best.dense)
        if _USUAL_FAMILIES * effort.passes(min(hessian, r), directions) * speed.at(moment_rows) <= MOMENTS * budget:
            return effort
    return Effort(rows, _FEWEST_ROWS, 1, _FEWEST_SOLVE_STEPS, best.dense)


def check_budget(effort: Effort, r: int, hessian: float, target: Target, speed: Line, gone: float) -> float:
    """The evaluations that a pilot may make; FieldfitError where its smallest effort takes more than its share of a budget.

    ``gone`` are the seconds that were used before.
    """
    seconds, each = target.flops is None, speed.at(effort.rows)
    moments = effort.passes(min(hessian, r)) * speed.at(effort.moment_rows)
    least = moments + (gone + _FIXED_SECONDS + pilot_evaluations(r) * each if seconds else _FEWEST_EVALUATIONS * each)
    if least > SURVEY_FLOPS * target.limit:
        unit, argument = ("s", "") if seconds else ("FLOPs", "flops=")
        raise FieldfitError(
            f"The budget of {target.limit:.3g} {unit} is too small for a plan: the pilot alone needs about {least:.2g} "
            f"{unit}. Fit PL1 without a plan; or plan without a budget and use plan.within({argument}…) for the fit alone; "
            f"or give {4 * least:.2g} {unit} or more."
        )
    return PILOT_ITERATIONS if seconds else min((SURVEY_FLOPS * target.limit - moments) // each, PILOT_ITERATIONS)


def evaluation_speed(model: Model, rows: Dataset) -> Line:
    """Seconds of an evaluation of PL1 by the number of samples, from two short runs."""
    few, more = min(rows.n, 40), min(rows.n, 160)
    start = np.zeros(model.n_parameters)
    less, seconds = (
        least_seconds(partial(plain_problem(model, rows.subset(np.arange(size))).value_grad, start), 5)
        for size in (few, more)
    )
    return Line.through(more, seconds, few, less) if more > few else Line(0.0, seconds / more)


@dataclass(frozen=True)
class Pilot:
    """θ̂, the samples ``rows`` it comes from, and its cost.

    ``samples`` are those that moments are taken over, and ``fewer`` those that families are fitted to for their
    evaluations; ``scaling`` is how many times as many a fit to all samples takes.
    """

    theta: FloatArray
    rows: Dataset
    samples: Dataset
    simulated: bool  # the samples of the moments were drawn from the model
    converged: bool
    effort: Effort
    fewer: Dataset
    steps: Steps  # of PL1 on ``fewer``
    spent: float  # evaluations of PL1 on all of the pilot's samples that were made
    scaling: float = 1.0
    separated: tuple[str, ...] = ()  # parameters whose optimum is at infinity for all samples


def moment_samples(request: Request, rows: Dataset, effort: Effort, theta: FloatArray) -> tuple[Dataset, bool]:
    """The samples that moments are taken over, and whether they are simulated.

    Some of the pilot's where that is enough for a percent or two. Where the pilot had fewer than twenty samples for each
    parameter its own samples look better than they are (θ̂ has adapted to them, and PL1 looks better than maximum
    likelihood): then their values are simulated from the model at θ̂, given what it conditions on and, of importance
    weights, the weights. Complete samples only where few are not: variances are hardly others, and much quicker.
    """
    rows = mostly_complete(rows)
    model, most, counted = request.model, effort.moment_rows, request.target.flops is not None
    if rows.n < UNADAPTED * model.n_parameters:
        seed = int(np.random.SeedSequence([request.random_state, 0x93]).generate_state(1)[0])
        # As many as needed: simulated samples are not limited by the data. Where all have the same normaliser, many more
        # cost little.
        plenty = effort.dense and not counted and math.isfinite(model.n_states) and not rows.has_missing
        size = _SIMULATED_FACTOR * most if plenty else most
        with contextlib.suppress(ModelError):
            return model.simulate(rows.subset(np.resize(np.arange(rows.n), size)), theta, seed), True
    if rows.n <= most:
        return rows, False
    chosen = np.random.default_rng([request.random_state, 0x92]).choice(rows.n, most, replace=False)
    return rows.subset(np.sort(chosen)), False


def mostly_complete(rows: Dataset) -> Dataset:
    """The complete ones of the samples of a field, where few are not; else all samples."""
    if not isinstance(rows, Table) or not rows.has_missing:
        return rows
    complete = (rows.codes >= 0).all(axis=1)
    return rows.subset(complete) if complete.mean() >= _MOSTLY else rows


def run_pilot(request: Request) -> Pilot:
    """Fit PL1 to a random part of the samples, to the accuracy of the fit to come.

    The pilot takes its share of a budget, or refuses one that is too small.
    """
    started = clock()
    model, dataset, target = request.model, request.dataset, request.target
    r, random = model.n_parameters, np.random.default_rng([request.random_state, 0x91])
    sample = dataset.draw(_FEWEST_ROWS, np.random.default_rng([request.random_state, 0x94]))
    hessian = plain_problem(model, sample).hessian_evaluations
    effort = usual_effort(r, hessian)
    rows = dataset.draw(effort.rows, random)
    deadline, most = math.inf, float(PILOT_ITERATIONS)
    if math.isfinite(target.limit):
        if target.flops is None:
            speed = evaluation_speed(model, rows)
        else:
            # The paper's FLOPs know no cheap Hessian: it takes a product for each parameter.
            hessian, speed = float(r), Line(0.0, model.sample_flops(PILOT_POLICY.bind(model.structure(rows)), rows))
        effort = affordable_effort(r, hessian, rows.n, target.limit, speed, request.n_functionals)
        most = check_budget(effort, r, hessian, target, speed, clock() - started)
        if target.flops is None:
            deadline = clock() + 1.5 * PILOT * target.limit
    if effort.rows < rows.n:
        rows = rows.subset(np.sort(random.choice(rows.n, effort.rows, replace=False)))

    def fit(problem: Problem, samples: Dataset, until: float) -> tuple[Solution, Steps, float]:
        objective = penalised(
            problem, request.precision, samples.sample_weight, model.feature_units, counts=samples.has_counts,
            preconditioned=request.preconditioned,
        )  # fmt: skip
        solution, steps = timed_fit(objective, request.tol, until, most, grace=math.inf)
        return solution, steps, float(solution.evaluations + solution.hessian_products)

    problem, fewer, scaling, before = plain_problem(model, rows), rows, 1.0, 0.0
    sequences = problem.optimiser == "lbfgs" and rows.n >= 2 * _FEWER_FACTOR
    if sequences:
        fewer = rows.subset(np.arange(0, rows.n, _FEWER_FACTOR))
        now = clock()
        first, few, before = fit(plain_problem(model, fewer), fewer, now + _FEWER_TIME_SHARE * (deadline - now))
    solution, steps, spent = fit(problem, rows, deadline)
    if sequences:
        ratio = rows.n / fewer.n
        gamma, grown = USUAL_GROWTH, ratio**USUAL_GROWTH
        if first.converged and solution.converged:
            gamma, grown = growth(steps.count, few.count, ratio), max(steps.count / few.count, 1.0)
        scaling, steps = grown * max(dataset.n_copies / rows.n, 1.0) ** gamma, few
    theta = np.array(solution.x, dtype=np.float64)
    separated = separated_samples(
        request, rows, problem, theta, int(spent), dense=effort.dense,
        seconds=math.inf if target.seconds is None else _SEPARATION_SHARE * target.seconds,
    )  # fmt: skip
    samples, simulated = moment_samples(request, rows, effort, theta)
    spent += before / _FEWER_FACTOR
    return Pilot(theta, rows, samples, simulated, solution.converged, effort, fewer, steps, spent, scaling, separated)


def separated_samples(
    request: Request, rows: Dataset, problem: Problem, theta: FloatArray, work: int, *, dense: bool, seconds: float
) -> tuple[str, ...]:
    """The unpenalised parameters whose optimum lies at infinity for all samples, where second stages are refused.

    A pilot with all of the samples is judged as a fit is. The samples of a smaller pilot may separate where all of them do
    not: then only joint states count that never occur in all of the samples.

    ``problem`` is PL1 on the pilot's samples ``rows`` with the estimate ``theta`` after ``work`` evaluations. Curvatures
    are computed where its Hessian is cheap (``dense``), and all samples are searched where that takes at most ``seconds``.
    """
    model, dataset = request.model, request.dataset
    r, names = model.n_parameters, model.parameter_names
    precision = np.zeros(r) if request.precision is None else request.precision
    open_ = precision == 0
    if not open_.any():
        return ()
    seen, complete = set[str](), rows.n == dataset.n_copies
    if complete and dense:
        free = np.ones(r, dtype=bool)
        objective = Objective(problem, precision, np.zeros(r), free, rows.sample_weight, model.feature_units)
        landscape = objective.landscape(rows.total_weight, rows.least_weight, work)
        seen.update(
            separated_parameters(
                landscape, free, theta, ~open_, names, model.feature_units, model.determined_contrasts
            )
        )
    search = partial(model.boundary_directions, rows)
    concerned = concerned_by(search(), open_, open_)
    if concerned.any() and not complete:
        if least_seconds(search, 1) * dataset.n / rows.n > seconds:
            return ()
        concerned = concerned_by(model.boundary_directions(dataset), open_, open_)
    seen.update(compress(names, concerned))
    return tuple(name for name in names if name in seen) if seen else ()


def plain_problem(model: Model, rows: Dataset) -> Problem:
    """PL1 with everything selected."""
    return model.compile(rows, PILOT_POLICY.bind(model.structure(rows)).draw(0, 0, rows.n))
