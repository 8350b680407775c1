"""From a request to a plan: a survey of the ingredients, candidates, the joint optimum, one recommendation."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.models.work import clock
from fieldfit.objective import has_cheap_hessian
from fieldfit.planner.calibration import Calibration, calibration
from fieldfit.planner.candidates import choose, thinned
from fieldfit.planner.costs import FitCosts
from fieldfit.planner.ingredients import Builder, Ingredient, placed, split_policy
from fieldfit.planner.moments import Gathering, StageTerm, can_enumerate
from fieldfit.planner.pilot import (
    FULL,
    PILOT_POLICY,
    SURVEY,
    SURVEY_FLOPS,
    Pilot,
    moment_rows,
    run_pilot,
)
from fieldfit.planner.request import NO_EFFICIENCY, Allowance, Request
from fieldfit.planner.result import Plan
from fieldfit.planner.short_fits import ShortFits
from fieldfit.planner.survey import RefinedTerm, Survey
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law, Noise
from fieldfit.refinement.expansion import ExpandedObjective, expanded_fit
from fieldfit.refinement.planned import FirstStage, PlannedStage, PlanSetting, SkippedError, usual_stages
from fieldfit.threads import one_blas_thread, use_threads
from fieldfit.types import DataError, FieldfitError
from fieldfit.variance.meat import ENOUGH_FOR_PARAMETER
from fieldfit.variance.mixture_moments import MixtureMoments
from fieldfit.variance.separation import infinite_optimum, refused_second_stage

#: Fewest samples of a plan.
_FEWEST_PLANNED_SAMPLES = 10
#: Seconds for the families beside the first where the budget is not in seconds.
_UNHURRIED = 10.0
#: Share of the survey's seconds for the solves; what comes after them takes the rest.
_SOLVES = 0.7
#: Share of the survey's seconds that refined estimators leave for what comes after them.
_SEARCH = 0.15
#: Share of the survey's seconds for timing short fits.
_SHORT_FITS = 0.1
#: Share of the time and FLOPs left after the pilot for second stages that need no other family.
_EARLY = 0.5
#: Iterations of Newton's method from 0 at least.
_NEWTON_ITERATIONS = 10
#: Parts of the data that a first stage of ``A >> FL`` uses: it only has to start near.
_STARTS = (0.3, 0.1)


def make_plan(request: Request) -> Plan:
    """The plan."""
    rates = calibration()  # once for a machine: not a part of the budget
    # SciPy's BLAS is known to `one_blas_thread` only once it is loaded.
    importlib.import_module("scipy.linalg")
    importlib.import_module("scipy.optimize")
    if request.policies is not None and not request.policies:
        raise FieldfitError("policies is empty; give at least one, or leave it out.")
    # Many small factorisations: a pool of BLAS threads would cost more than it saves. On one thread the survey's clock
    # counts CPU seconds.
    with one_blas_thread(), use_threads(1):
        return recommend(make_survey(request, rates))


def check_enough(n_copies: int) -> None:
    """Refuse samples that are too few for a pilot."""
    if n_copies < _FEWEST_PLANNED_SAMPLES:
        raise DataError(f"A plan needs at least {_FEWEST_PLANNED_SAMPLES} samples for its pilot; got {n_copies}.")


def make_survey(request: Request, rates: Calibration) -> Survey:
    """Run the pilot and compute the moments of the requested laws, or of all candidates.

    Where the budget is in seconds, all of it takes about a fifth of them: requested policies are never skipped, but their
    fits and solves are stopped early.
    """
    model, dataset, target = request.model, request.dataset, request.target
    began, allowance = clock(), None
    if target.seconds is not None:
        share = SURVEY * target.seconds
        told = f"the {share:.2g} s for reading, pilot and variances ({SURVEY:.0%} of the budget)"
        allowance = Allowance(began + max(share - request.reading, 0.0), told)
    pilot = run_pilot(request)
    if pilot.separated and request.staged:
        raise FieldfitError(f"'{request.staged[0]}' cannot be compared. {refused_second_stage(pilot.separated)}")
    rows, simulated = moment_rows(model, pilot, request.random_state, counted=target.flops is not None)
    structure = model.structure(pilot.rows)
    compared, asked = None, list[Law]()
    laws = [Policy.parse(text).laws[0] for text in model.candidate_policies(structure)]
    if request.policies is not None:
        compared = tuple(split_policy(policy) for policy in request.policies if isinstance(policy, Policy))
        both = (policy for staged in request.staged for policy in staged.second.planned_policies(staged.first))
        named = [*compared, *map(split_policy, both)]
        asked = [law for terms in named for law in terms]
        laws = list(dict.fromkeys([*asked, *PILOT_POLICY.laws, *FULL.laws]))
    plain = model.sample_flops(PILOT_POLICY.bind(model.structure(rows)), rows)
    spent = pilot.spent * pilot.rows.n * plain
    flops = math.inf if target.flops is None else SURVEY_FLOPS * target.flops - spent
    now = clock()
    allowance = allowance or Allowance(now + _UNHURRIED, f"the {_UNHURRIED:g} s for variances")
    states = model.n_states if can_enumerate(model, rows) else None
    builder = Builder(request, rows, pilot, states, allowance, flops, simulated=simulated)
    if compared is None and builder.counted_passes * rows.n * plain > flops / 2:
        builder.states = None
    enumerated = builder.states is not None
    reasons: dict[str, SkippedError] = {}
    stages = list[PlannedStage]()
    refined = pilot.effort.dense and not pilot.separated
    if request.policies is None and refined:
        # Before the other families: those could take all of the time, and this is often the best of all.
        ingredients = builder.build([law for law in laws if law in PILOT_POLICY.laws])
        until = clock() + _EARLY * (allowance.left() - builder.reserved)
        setting = plan_setting(
            request, pilot, rows, ingredients, stages, lambda: until - clock(), _EARLY * builder.flops
        )
        stages += usual_stages(PILOT_POLICY, (), setting, reasons, early=True)
        builder.flops -= sum(stage.flops for stage in stages)
    ingredients = builder.build(laws)
    for law in asked:
        if str(law) in builder.skipped:
            raise FieldfitError(f"The policy with {law} cannot be compared: {builder.skipped[str(law)]}")
    if target.efficiency is not None and str(FULL) in builder.skipped:
        raise FieldfitError(NO_EFFICIENCY)
    # A sample in all ingredients; those with the same mean over Z count once.
    each = sum({id(part.problem): part.flops for part in ingredients}.values())
    means = 2.0 * model.n_parameters * rows.n * each
    flops -= builder.counted_passes * rows.n * each if enumerated else means
    later = builder.reserved + _SEARCH * (allowance.end - now)
    setting = plan_setting(request, pilot, rows, ingredients, stages, lambda: allowance.left() - later, flops)
    if request.policies is not None:
        stages += [staged.second.plan(staged.first, setting) for staged in request.staged]
    elif refined:
        parts = [part.law for part in ingredients if part.noise is Noise.TOGETHER][:1]
        starts = [PILOT_POLICY, *(Policy((law.at(share, 1.0),)) for law in parts for share in _STARTS)]
        stages += usual_stages(PILOT_POLICY, starts, setting, reasons, early=False)
    builder.skipped.update(reasons)
    stage_flops = sum(stage.flops for stage in stages)
    stage_terms = [StageTerm(str(stage.staged), stage.limit) for stage in stages if not isinstance(stage.limit, int)]
    deadline = math.inf if target.seconds is None else now + _SOLVES * (allowance.end - now)
    gathering = Gathering(request, ingredients, stage_terms, pilot, rows, simulated, deadline)
    compare = means <= min(builder.flops, flops - stage_flops)
    moments = gathering.gather(enumerated=enumerated, compare=compare)
    if moments.raw is not None:
        ingredients = [
            counted_steps(part, place, moments.raw, request, pilot) for place, part in enumerate(ingredients)
        ]
    evaluations = max(1, pilot.steps.times(pilot.scaling).count)
    costs = FitCosts(ingredients, dataset.n, dataset.n_copies, evaluations, rates, request.reading, request.shards)
    short = None
    if target.flops is None and request.shards is None:
        until = clock() + _SHORT_FITS * (allowance.end - now)
        short = ShortFits(request.refit, lambda: min(until - clock(), allowance.left()))
        costs = short.timed(costs)
    return Survey(
        request=request,
        target=target,
        asked=compared,
        pilot=pilot,
        ingredients=list(costs.ingredients),
        refined=[] if moments.raw is None else refined_terms(stages, moments.raw, costs, short),
        skipped=builder.skipped,
        moments=moments,
        costs=costs,
        simulated=simulated,
        pilot_flops=float(spent + moments.evaluations * each + stage_flops),
        began=began,
    )


def plan_setting(
    request: Request,
    pilot: Pilot,
    rows: Dataset,
    ingredients: Sequence[Ingredient],
    stages: Sequence[PlannedStage],
    seconds_left: Callable[[], float],
    flops: float,
) -> PlanSetting:
    """Where second stages are planned, within a time and a number of FLOPs for all ``stages`` so far and to come."""
    return PlanSetting(
        model=request.model,
        rows=rows,
        theta=pilot.theta,
        terms=ingredients,
        random_state=request.random_state,
        precision=request.precision,
        asked=request.policies is not None,
        seconds_left=seconds_left,
        flops_left=lambda: flops - sum(stage.flops for stage in stages),
    )


def refined_terms(
    stages: Sequence[PlannedStage], moments: MixtureMoments, costs: FitCosts, short: ShortFits | None
) -> list[RefinedTerm]:
    """The estimators with these second stages; those with moments of their own come after the ingredients."""
    ingredients = costs.ingredients
    terms, place = list[RefinedTerm](), len(ingredients)
    for stage in stages:
        first, limit = stage.staged.first, stage.limit
        stage_one = FirstStage(*placed(split_policy(first), ingredients))
        cost = costs.second_stage(stage.work(stage_one, moments, costs.copies))
        if short is not None:
            alone = costs.of(stage_one.lam, as_start=stage.staged.second.only_starts)
            cost = short.second_stage(stage.staged, alone, cost, costs.reading)
        terms.append(RefinedTerm(stage, stage_one.lam, limit if isinstance(limit, int) else place, cost))
        place += not isinstance(limit, int)
    return terms


def counted_steps(
    part: Ingredient, place: int, moments: MixtureMoments, request: Request, pilot: Pilot
) -> Ingredient:
    """The ingredient with the steps of a fit on the second-order expansion of its objective, where none was tried."""
    alone = part.together.steps
    if alone.tried:
        return part
    n = request.dataset.n_copies
    objective = ExpandedObjective(moments.J[place], moments.K[place, place], n, request.precision)
    tol = None if request.tol == "statistical" else request.tol
    solution = expanded_fit(
        objective, part.problem, -pilot.theta, request.model.feature_units, request.random_state, tol
    )
    evaluations, products, product = solution.evaluations, solution.hessian_products, alone.product
    if has_cheap_hessian(part.problem):  # one matrix in each iteration, for any number of products
        # The expansion is a parabola, on which Newton's method ends at once.
        iterations = max(solution.iterations, _NEWTON_ITERATIONS)
        evaluations = max(evaluations, iterations)
        product = part.problem.hessian_evaluations * iterations / max(products, 1)
    equivalents = evaluations + product * products
    return part.with_steps(replace(alone, count=evaluations + products, equivalents=equivalents, product=product))


def recommend(survey: Survey) -> Plan:
    """The best that the survey's target allows."""
    request, moments, target = survey.request, survey.moments, survey.target
    candidates = survey.candidates()
    if survey.asked is None:
        candidates = thinned(candidates)
    spent = survey.spent()
    candidates = [replace(policy, affordable=policy.cost <= target.limit - spent) for policy in candidates]
    # A penalty determines what the samples do not.
    penalised = request.precision is not None and bool(np.all(request.precision > 0))
    needed = 0 if penalised else request.model.n_parameters
    best, reason = choose(candidates, target, needed, survey.floor)
    cautions, parameters = list[str](), request.model.n_parameters
    if best.samples < ENOUGH_FOR_PARAMETER * parameters:
        used = f"'{best.policy}' uses about {best.samples:.0f} of {survey.n:,} samples"
        if best.samples >= survey.n:
            used = f"there are {survey.n:,} samples"
        told = "Variances are those of large samples; the real error is probably larger."
        if penalised:
            told = "The penalty determines what the samples do not; the comparison assumes that its prior is right."
        cautions.append(f"{used}, fewer than {ENOUGH_FOR_PARAMETER} for each of the {parameters} parameters. {told}")
    if survey.pilot.separated:
        told = "Variances are those where the pilot's optimiser stopped, and second stages are not compared: a fit refuses"
        cautions.append(
            f"{infinite_optimum(survey.pilot.separated)} {told} them without a finite first estimate. Give a penalty "
            "(sigma2), or fix or drop these parameters."
        )
    return Plan(
        survey=survey,
        candidates=tuple(candidates),
        best_candidate=best,
        reason=reason,
        unit=target.unit,
        budget=target.limit,
        spent=spent,
        reference=survey.reference,
        relative="maximum likelihood" if moments.full is not None else survey.reference,
        kind=moments.kind,
        method=moments.method,
        n=survey.n,
        evaluations=survey.costs.evaluations,
        theta=survey.pilot.theta,
        notes=survey.notes(),
        caution=f"Caution: {' '.join(cautions)}" if cautions else "",
        squared_error=moments.criterion.penalty is not None and request.functionals is None,
        floor=1.0 if survey.is_bounded else None,
    )
