"""From a request to a plan: pilot, ingredients, second stages, their moments and their costs, one recommendation."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.asymptotics.separation import refused_second_stage
from fieldfit.models.work import clock
from fieldfit.objective import has_cheap_hessian
from fieldfit.planner.calibration import Calibration
from fieldfit.planner.costs import FitCosts
from fieldfit.planner.ingredients import AFTER_MOMENTS, Builder, Ingredient, PolicyTerms, placed, split_policy
from fieldfit.planner.moments import Gathering, can_enumerate
from fieldfit.planner.pilot import FULL, PILOT_POLICY, SURVEY, SURVEY_FLOPS, Pilot, run_pilot
from fieldfit.planner.request import NO_EFFICIENCY, Request
from fieldfit.planner.result import Plan, recommend
from fieldfit.planner.survey import RefinedTerm, Survey
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law, Noise
from fieldfit.refinement.expansion import ExpandedObjective, expanded_fit
from fieldfit.refinement.planned import PlannedStage, PlanSetting, PlanTerm, SkippedError, usual_stages
from fieldfit.refinement.staged import Staged
from fieldfit.steps import expect
from fieldfit.threads import one_blas_thread, use_threads
from fieldfit.types import DataError, FieldfitError

#: Fewest samples of a plan.
_FEWEST_PLANNED_SAMPLES = 10
#: Seconds for the families beside the first where the budget is not in seconds.
_UNHURRIED_SECONDS = 10.0
#: Share of the survey's seconds for the solves; what comes after them takes the rest.
_SOLVES_SHARE = 0.7
#: Share of the survey's seconds that refined estimators leave for what comes after them.
_AFTER_STAGES_SHARE = 0.15
#: Share of the time and FLOPs left after the pilot for second stages that need no other family.
_EARLY_STAGES_SHARE = 0.5
#: Seconds of the smallest budget with which the pilot's field is simulated, which takes up to half a second.
_LEAST_TO_SIMULATE = 5.0
#: Iterations of Newton's method from 0 at least.
_NEWTON_ITERATIONS = 10
#: Parts of the data that a first stage of ``A >> FL`` uses: it only has to start near.
_START_SHARES = (0.3, 0.1)


def make_plan(request: Request, rates: Calibration) -> Plan:
    """The plan, with the rates of this machine."""
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
    began = clock()
    pilot = run_pilot(request)
    if pilot.separated and request.staged:
        raise FieldfitError(f"'{request.staged[0]}' cannot be compared. {refused_second_stage(pilot.separated)}")
    compared, asked, laws = laws_of(request, pilot)
    builder, spent = new_builder(request, pilot, began, len(laws))
    flops, n, dataset = builder.flops, pilot.samples.n, request.dataset
    stages = early_stages(builder, laws)
    ingredients = builder.build(laws)
    refuse_skipped(request, asked, builder.skipped)
    if not ingredients:
        raise FieldfitError(f"No policy can be compared. {next(iter(builder.skipped.values()))}")
    # FLOPs of a sample in all ingredients; those with the same mean over Z count once.
    each = sum({id(part.problem): part.flops for part in ingredients}.values())
    means = 2.0 * request.model.n_parameters * n * each
    flops -= means if builder.states is None else builder.counted_passes * n * each
    stages += later_stages(builder, ingredients, stages, flops)
    stage_flops = sum(stage.flops for stage in stages)
    expect(builder.reserved + AFTER_MOMENTS)
    deadline = math.inf if request.target.seconds is None else builder.began + builder.part(_SOLVES_SHARE)
    moments = Gathering(request, pilot, ingredients, stages, deadline).gather(
        enumerated=builder.states is not None, compare=means <= min(builder.flops, flops - stage_flops)
    )
    expect(AFTER_MOMENTS)
    if moments.raw is not None:
        ingredients = [
            counted_steps(part, place, moments.raw, request, pilot) for place, part in enumerate(ingredients)
        ]
    evaluations = max(1, pilot.steps.times(pilot.scaling).count)
    costs = FitCosts(ingredients, dataset.n, dataset.n_copies, evaluations, rates, request.reading, request.shards)
    return Survey(
        request=request,
        target=request.target,
        asked=compared,
        pilot=pilot,
        ingredients=ingredients,
        refined=[] if moments.raw is None else refined_terms(stages, moments.raw, costs),
        skipped=builder.skipped,
        moments=moments,
        costs=costs,
        pilot_flops=spent + moments.evaluations * each + stage_flops,
        began=began,
        drift=pilot_drift(request, pilot),
    )


def pilot_drift(request: Request, pilot: Pilot) -> str:
    """How samples of the pilot's field drift away from the data; not known where the budget is too small to look."""
    seconds = request.target.seconds
    if request.drift is None or pilot.separated or (seconds is not None and seconds < _LEAST_TO_SIMULATE):
        return ""
    return request.drift(pilot.theta)


def laws_of(request: Request, pilot: Pilot) -> tuple[tuple[PolicyTerms, ...] | None, list[Law], list[Law]]:
    """The terms of the requested policies, the laws that these and second stages need, and all laws to compile."""
    if request.policies is None:
        texts = request.model.candidate_policies(request.model.structure(pilot.rows))
        return None, [], [Policy.parse(text).laws[0] for text in texts]
    compared = tuple(split_policy(policy) for policy in request.policies if isinstance(policy, Policy))
    both = (policy for staged in request.staged for policy in staged.second.planned_policies(staged.first))
    asked = [law for terms in (*compared, *map(split_policy, both)) for law in terms]
    return compared, asked, list(dict.fromkeys([*asked, *PILOT_POLICY.laws, *FULL.laws]))


def refuse_skipped(request: Request, asked: Sequence[Law], skipped: Mapping[Law | Staged, SkippedError]) -> None:
    """Refuse a plan without what was requested."""
    for law in asked:
        if law in skipped:
            raise FieldfitError(f"The policy with {law} cannot be compared: {skipped[law]}")
    if request.target.efficiency is not None and FULL.laws[0] in skipped:
        raise FieldfitError(NO_EFFICIENCY)


def new_builder(request: Request, pilot: Pilot, began: float, n_laws: int) -> tuple[Builder, float]:
    """What compiles ``n_laws`` laws after a pilot that ``began`` at this time, and the FLOPs that the pilot has taken.

    Moments are sums over all states where these are few, and take at most half of the FLOPs.
    """
    model, target, samples = request.model, request.target, pilot.samples
    each = model.sample_flops(PILOT_POLICY.bind(model.structure(samples)), samples)
    spent = pilot.spent * pilot.rows.n * each
    flops = math.inf if target.flops is None else SURVEY_FLOPS * target.flops - spent
    end, limit = clock() + _UNHURRIED_SECONDS, f"the {_UNHURRIED_SECONDS:g} s for variances"
    if target.seconds is not None:
        share = SURVEY * target.seconds
        limit = f"the {share:.2g} s for reading, pilot and variances ({SURVEY:.0%} of the budget)"
        end = began + max(share - request.reading, 0.0)
    states = model.n_states if can_enumerate(model, samples) else None
    builder = Builder(request, pilot, states, end, limit, flops, n_laws)
    if request.policies is None and builder.counted_passes * samples.n * each > flops / 2:
        builder.states = None
    return builder, spent


def has_usual_stages(builder: Builder) -> bool:
    """Whether second stages are compared although none was requested."""
    pilot = builder.pilot
    return builder.request.policies is None and pilot.effort.dense and not pilot.separated


def early_stages(builder: Builder, laws: Sequence[Law]) -> list[PlannedStage]:
    """The second stages that need PL1 alone, before the other families.

    Those could take all of the time, and this is often the best of all.
    """
    stages = list[PlannedStage]()
    if has_usual_stages(builder):
        ingredients = builder.build([law for law in laws if law in PILOT_POLICY.laws])
        until, flops = clock() + _EARLY_STAGES_SHARE * builder.left(), _EARLY_STAGES_SHARE * builder.flops
        setting = stage_setting(builder, ingredients, stages, lambda: until - clock(), flops)
        stages += usual_stages(PILOT_POLICY, (), setting, builder.skipped, early=True)
        builder.flops -= sum(stage.flops for stage in stages)
    return stages


def later_stages(
    builder: Builder, ingredients: Sequence[Ingredient], known: Sequence[PlannedStage], flops: float
) -> list[PlannedStage]:
    """The second stages that were requested, or the usual ones that are not ``known`` yet."""
    later, stages = builder.part(_AFTER_STAGES_SHARE), list(known)
    setting = stage_setting(builder, ingredients, stages, lambda: builder.left() - later, flops)
    stages += [staged.second.plan(staged.first, setting) for staged in builder.request.staged]
    if has_usual_stages(builder):
        parts = [part.law for part in ingredients if part.noise is Noise.TOGETHER][:1]
        starts = [PILOT_POLICY, *(Policy((law.at(share, 1.0),)) for law in parts for share in _START_SHARES)]
        stages += usual_stages(PILOT_POLICY, starts, setting, builder.skipped, early=False)
    return stages[len(known) :]


def stage_setting(
    builder: Builder,
    ingredients: Sequence[Ingredient],
    stages: Sequence[PlannedStage],
    seconds_left: Callable[[], float],
    flops: float,
) -> PlanSetting:
    """Where second stages are planned, within a time and a number of FLOPs for all ``stages`` so far and to come."""
    request, pilot = builder.request, builder.pilot
    return PlanSetting(
        model=request.model,
        rows=pilot.samples,
        observed=pilot.rows,
        theta=pilot.theta,
        terms=[PlanTerm(part.law, part.problem) for part in ingredients],
        random_state=request.random_state,
        precision=request.precision,
        incomplete=request.dataset.has_missing,
        asked=request.policies is not None,
        seconds_left=seconds_left,
        flops_left=lambda: flops - sum(stage.flops for stage in stages),
    )


def refined_terms(stages: Sequence[PlannedStage], moments: MixtureMoments, costs: FitCosts) -> list[RefinedTerm]:
    """The estimators with these second stages; those with moments of their own come after the ingredients."""
    ingredients = costs.ingredients
    terms, place = list[RefinedTerm](), len(ingredients)
    for stage in stages:
        first, limit = stage.staged.first, stage.limit
        lam, beta = placed(split_policy(first), ingredients)
        cost = costs.second_stage(stage.work((lam, beta), moments, costs.copies))
        terms.append(RefinedTerm(stage, lam, limit if isinstance(limit, int) else place, cost))
        place += not isinstance(limit, int)
    return terms


def counted_steps(
    part: Ingredient, place: int, moments: MixtureMoments, request: Request, pilot: Pilot
) -> Ingredient:
    """The ingredient with the steps of a fit on the second-order expansion of its objective, where none was tried."""
    alone = part.steps
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
    steps = replace(alone, count=evaluations + products, equivalents=equivalents, product=product)
    return replace(part, steps=steps)
