"""The survey of a plan: pilot, ingredients, second stages, their moments and their costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fieldfit.data.dataset import Dataset
from fieldfit.models.work import clock
from fieldfit.objective import has_cheap_hessian
from fieldfit.planner.calibration import Calibration
from fieldfit.planner.costs import FitCosts
from fieldfit.planner.ingredients import AFTER_MOMENTS, Builder, Ingredient, PolicyTerms, placed, split_policy
from fieldfit.planner.moments import Gathering, StageTerm, can_enumerate
from fieldfit.planner.pilot import FULL, PILOT_POLICY, SURVEY, SURVEY_FLOPS, Pilot, moment_rows, run_pilot
from fieldfit.planner.request import NO_EFFICIENCY, Allowance, Request
from fieldfit.planner.survey import RefinedTerm, Survey
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law, Noise
from fieldfit.refinement.expansion import ExpandedObjective, expanded_fit
from fieldfit.refinement.planned import FirstStage, PlannedStage, PlanSetting, SkippedError, usual_stages
from fieldfit.steps import expect
from fieldfit.types import FieldfitError
from fieldfit.variance.mixture_moments import MixtureMoments
from fieldfit.variance.separation import refused_second_stage

#: Seconds for the families beside the first where the budget is not in seconds.
_UNHURRIED_SECONDS = 10.0
#: Share of the survey's seconds for the solves; what comes after them takes the rest.
_SOLVES_SHARE = 0.7
#: Share of the survey's seconds that refined estimators leave for what comes after them.
_AFTER_STAGES_SHARE = 0.15
#: Share of the time and FLOPs left after the pilot for second stages that need no other family.
_EARLY_STAGES_SHARE = 0.5
#: Iterations of Newton's method from 0 at least.
_NEWTON_ITERATIONS = 10
#: Parts of the data that a first stage of ``A >> FL`` uses: it only has to start near.
_START_SHARES = (0.3, 0.1)


def make_survey(request: Request, rates: Calibration) -> Survey:
    """Run the pilot and compute the moments of the requested laws, or of all candidates.

    Where the budget is in seconds, all of it takes about a fifth of them: requested policies are never skipped, but their
    fits and solves are stopped early.
    """
    began = clock()
    pilot = run_pilot(request)
    if pilot.separated and request.staged:
        raise FieldfitError(f"'{request.staged[0]}' cannot be compared. {refused_second_stage(pilot.separated)}")
    ground = Ground.of(request, pilot, began)
    compared, asked, laws = laws_of(request, pilot)
    builder = ground.builder()
    builder.n_laws = len(laws)
    stages, reasons = list[PlannedStage](), dict[str, SkippedError]()
    ground.plan_early(builder, laws, stages, reasons)
    ingredients = builder.build(laws)
    refuse_skipped(request, asked, builder.skipped)
    work = MomentWork.of(ground, builder, ingredients)
    ground.plan_stages(builder, ingredients, stages, reasons, work.flops_left)
    expect(builder.reserved + AFTER_MOMENTS)
    moments = ground.gathering(ingredients, stages).gather(
        enumerated=builder.states is not None,
        compare=work.means <= min(builder.flops, work.flops_left - sum(stage.flops for stage in stages)),
    )
    expect(AFTER_MOMENTS)
    if moments.raw is not None:
        ingredients = [
            counted_steps(part, place, moments.raw, request, pilot) for place, part in enumerate(ingredients)
        ]
    dataset, evaluations = request.dataset, max(1, pilot.steps.times(pilot.scaling).count)
    costs = FitCosts(ingredients, dataset.n, dataset.n_copies, evaluations, rates, request.reading, request.shards)
    return Survey(
        request=request,
        target=request.target,
        asked=compared,
        pilot=pilot,
        ingredients=ingredients,
        refined=[] if moments.raw is None else refined_terms(stages, moments.raw, costs),
        skipped=builder.skipped | reasons,
        moments=moments,
        costs=costs,
        simulated=ground.simulated,
        pilot_flops=ground.spent + moments.evaluations * work.each + sum(stage.flops for stage in stages),
        began=began,
    )


def laws_of(request: Request, pilot: Pilot) -> tuple[tuple[PolicyTerms, ...] | None, list[Law], list[Law]]:
    """The terms of the requested policies, the laws that these and second stages need, and all laws to compile."""
    if request.policies is None:
        texts = request.model.candidate_policies(request.model.structure(pilot.rows))
        return None, [], [Policy.parse(text).laws[0] for text in texts]
    compared = tuple(split_policy(policy) for policy in request.policies if isinstance(policy, Policy))
    both = (policy for staged in request.staged for policy in staged.second.planned_policies(staged.first))
    asked = [law for terms in (*compared, *map(split_policy, both)) for law in terms]
    return compared, asked, list(dict.fromkeys([*asked, *PILOT_POLICY.laws, *FULL.laws]))


def refuse_skipped(request: Request, asked: Sequence[Law], skipped: Mapping[str, SkippedError]) -> None:
    """Refuse a plan without what was requested."""
    for law in asked:
        if str(law) in skipped:
            raise FieldfitError(f"The policy with {law} cannot be compared: {skipped[str(law)]}")
    if request.target.efficiency is not None and str(FULL) in skipped:
        raise FieldfitError(NO_EFFICIENCY)


@dataclass(frozen=True)
class Ground:
    """What a survey begins with after its pilot: the samples of the moments, and the time and FLOPs that are left."""

    request: Request
    pilot: Pilot
    rows: Dataset
    simulated: bool  # the samples were drawn from the model
    allowance: Allowance
    began: float  # when the pilot had ended, by this thread's clock
    each: float  # FLOPs of PL1 for one sample
    spent: float  # FLOPs of the pilot

    @classmethod
    def of(cls, request: Request, pilot: Pilot, began: float) -> Ground:
        """After a pilot that ``began`` at this time."""
        model, target = request.model, request.target
        rows, simulated = moment_rows(model, pilot, request.random_state, counted=target.flops is not None)
        each = model.sample_flops(PILOT_POLICY.bind(model.structure(rows)), rows)
        now = clock()
        allowance = Allowance(now + _UNHURRIED_SECONDS, f"the {_UNHURRIED_SECONDS:g} s for variances")
        if target.seconds is not None:
            share = SURVEY * target.seconds
            told = f"the {share:.2g} s for reading, pilot and variances ({SURVEY:.0%} of the budget)"
            allowance = Allowance(began + max(share - request.reading, 0.0), told)
        return cls(request, pilot, rows, simulated, allowance, now, each, pilot.spent * pilot.rows.n * each)

    @property
    def flops(self) -> float:
        """FLOPs that are left for moments."""
        flops = self.request.target.flops
        return math.inf if flops is None else SURVEY_FLOPS * flops - self.spent

    def part(self, share: float) -> float:
        """A share of the seconds from the end of the pilot to the end of the survey."""
        return share * (self.allowance.end - self.began)

    def builder(self) -> Builder:
        """Compiles laws; with sums over all states where these are few, and take at most half of the FLOPs."""
        model, rows = self.request.model, self.rows
        states = model.n_states if can_enumerate(model, rows) else None
        builder = Builder(
            self.request, rows, self.pilot, states, self.allowance, self.flops, simulated=self.simulated
        )
        if self.request.policies is None and builder.counted_passes * rows.n * self.each > self.flops / 2:
            builder.states = None
        return builder

    @property
    def _has_stages(self) -> bool:
        """Whether second stages are compared although none was requested."""
        return self.request.policies is None and self.pilot.effort.dense and not self.pilot.separated

    def plan_early(
        self,
        builder: Builder,
        laws: Sequence[Law],
        stages: list[PlannedStage],
        reasons: dict[str, SkippedError],
    ) -> None:
        """Plan second stages that need PL1 alone before the other families.

        Those could take all of the time, and this is often the best of all.
        """
        if self._has_stages:
            ingredients = builder.build([law for law in laws if law in PILOT_POLICY.laws])
            until = clock() + _EARLY_STAGES_SHARE * (self.allowance.left() - builder.reserved)
            setting = self._setting(ingredients, stages, lambda: until - clock(), _EARLY_STAGES_SHARE * builder.flops)
            stages += usual_stages(PILOT_POLICY, (), setting, reasons, early=True)
            builder.flops -= sum(stage.flops for stage in stages)

    def plan_stages(
        self,
        builder: Builder,
        ingredients: Sequence[Ingredient],
        stages: list[PlannedStage],
        reasons: dict[str, SkippedError],
        flops: float,
    ) -> None:
        """Plan the second stages that were requested, or the usual ones that are not planned yet."""
        later = builder.reserved + self.part(_AFTER_STAGES_SHARE)
        setting = self._setting(ingredients, stages, lambda: self.allowance.left() - later, flops)
        stages += [staged.second.plan(staged.first, setting) for staged in self.request.staged]
        if self._has_stages:
            parts = [part.law for part in ingredients if part.noise is Noise.TOGETHER][:1]
            starts = [PILOT_POLICY, *(Policy((law.at(share, 1.0),)) for law in parts for share in _START_SHARES)]
            stages += usual_stages(PILOT_POLICY, starts, setting, reasons, early=False)

    def _setting(
        self,
        ingredients: Sequence[Ingredient],
        stages: Sequence[PlannedStage],
        seconds_left: Callable[[], float],
        flops: float,
    ) -> PlanSetting:
        """Where second stages are planned, within a time and a number of FLOPs for all ``stages`` so far and to come."""
        return PlanSetting(
            model=self.request.model,
            rows=self.rows,
            observed=self.pilot.rows,
            theta=self.pilot.theta,
            terms=ingredients,
            random_state=self.request.random_state,
            precision=self.request.precision,
            asked=self.request.policies is not None,
            seconds_left=seconds_left,
            flops_left=lambda: flops - sum(stage.flops for stage in stages),
        )

    def gathering(self, ingredients: Sequence[Ingredient], stages: Sequence[PlannedStage]) -> Gathering:
        """Takes the moments of ingredients and of stages that have moments of their own."""
        limits = [(str(stage.staged), stage.limit) for stage in stages]
        terms = [StageTerm(name, limit) for name, limit in limits if not isinstance(limit, int)]
        deadline = math.inf if self.request.target.seconds is None else self.began + self.part(_SOLVES_SHARE)
        return Gathering(self.request, ingredients, terms, self.pilot, self.rows, self.simulated, deadline)


class MomentWork(NamedTuple):
    """FLOPs of the moments of all ingredients."""

    each: float  # of a sample in all ingredients; those with the same mean over Z count once
    means: float  # of moments as means over samples
    flops_left: float  # after the moments, for second stages

    @classmethod
    def of(cls, ground: Ground, builder: Builder, ingredients: Sequence[Ingredient]) -> MomentWork:
        """Of ingredients that are compiled."""
        each, n = sum({id(part.problem): part.flops for part in ingredients}.values()), ground.rows.n
        means = 2.0 * ground.request.model.n_parameters * n * each
        taken = means if builder.states is None else builder.counted_passes * n * each
        return cls(each, means, ground.flops - taken)


def refined_terms(stages: Sequence[PlannedStage], moments: MixtureMoments, costs: FitCosts) -> list[RefinedTerm]:
    """The estimators with these second stages; those with moments of their own come after the ingredients."""
    ingredients = costs.ingredients
    terms, place = list[RefinedTerm](), len(ingredients)
    for stage in stages:
        first, limit = stage.staged.first, stage.limit
        stage_one = FirstStage(*placed(split_policy(first), ingredients))
        cost = costs.second_stage(stage.work(stage_one, moments, costs.copies))
        terms.append(RefinedTerm(stage, stage_one.lam, limit if isinstance(limit, int) else place, cost))
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
