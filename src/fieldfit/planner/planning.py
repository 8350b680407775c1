"""From a request to a plan: a survey of the ingredients, candidates, the joint optimum, one recommendation.

All variances are for the given sample: a policy that uses a fifth of it has λ = 0.2, and a larger variance.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fieldfit.models.work import clock
from fieldfit.planner.calibration import Calibration, calibration
from fieldfit.planner.candidates import SEARCH_SHARE, Comparison, Origin, choose, thinned
from fieldfit.planner.costs import FitCosts
from fieldfit.planner.ingredients import (
    Builder,
    Ingredient,
    Passes,
    Skipped,
    Term,
    candidate_laws,
    split_policy,
)
from fieldfit.planner.moments import PilotMoments, can_enumerate, gather
from fieldfit.planner.pilot import (
    ENOUGH_SAMPLES,
    PILOT_POLICY,
    SURVEY,
    SURVEY_FLOPS,
    Pilot,
    moment_passes,
    moment_rows,
    run_pilot,
)
from fieldfit.planner.refined import FULL, Cost, RefinedTerm, refined_terms
from fieldfit.planner.request import NO_EFFICIENCY, Allowance, Request, Target
from fieldfit.planner.result import Plan
from fieldfit.planner.search import reachable_edge
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law
from fieldfit.refinement.planned_steps import ExpandedObjective, expanded_fit
from fieldfit.threads import one_blas_thread
from fieldfit.types import DataError, FieldfitError
from fieldfit.variance.mixture_moments import MixtureMoments

#: Fewest samples of a plan.
_FEWEST = 10
#: Seconds for the families beside the first where the budget is not in seconds.
_UNHURRIED = 10.0
#: Share of a budget on the wall clock after which a survey on a busy machine ends.
_BUSY = 0.6
#: Share of the survey's seconds for the solves; what comes after them takes the rest.
_SOLVES = 0.7
#: Share of the survey's seconds that refined estimators leave for what comes after them.
_SEARCH = 0.15


@dataclass(frozen=True)
class Survey:
    """All that recommendations for this model and these samples are made of, whatever the budget."""

    request: Request
    terms: tuple[tuple[Term, ...], ...] | None  # of the policies that were asked for
    pilot: Pilot
    ingredients: list[Ingredient]
    refined: list[tuple[RefinedTerm, Cost]]
    skipped: dict[str, Skipped]
    moments: PilotMoments
    costs: FitCosts
    simulated: bool  # the samples of the moments were drawn from the model
    seconds: float  # from the beginning to the end of the survey

    @property
    def n(self) -> int:
        """Samples, with their counts."""
        return self.request.dataset.n_copies

    @property
    def weighted(self) -> bool:
        """Whether samples have importance weights."""
        return self.request.dataset.relative_weight is not None

    def spent(self, unit: str) -> float:
        """The cost of reading, pilot and moments up to now, in the unit of a budget."""
        if unit == "seconds":
            return time.perf_counter() - self.request.began
        model, rows = self.request.model, self.pilot.rows
        first = model.sample_flops(PILOT_POLICY.bind(model.structure(rows)), rows)
        moments = self.moments.evaluations * _distinct_flops(self.ingredients)
        weights = sum(term.stage.flops for term, _ in self.refined)
        return float(self.pilot.spent * self.pilot.n * first + moments + weights)

    def notes(self) -> tuple[str, ...]:
        """What the reader of a plan should know besides."""
        notes = list(self.moments.notes)
        if not self.pilot.converged:
            notes.append("The pilot was stopped early and extrapolated, so the number of evaluations is uncertain.")
        if self.moments.criterion.penalty is not None:
            notes.append("The comparison includes the penalty: squared error when θ has the prior N(0, σ²).")
        if self.weighted:
            told = "The values of the pilot's samples are simulated, and weights are treated as independent of them."
            notes.append("Importance weights enter bread and meat." + (f" {told}" if self.simulated else ""))
        full = str(FULL)
        for name, skipped in self.skipped.items():
            if skipped.for_time:
                notes.append(skipped.reason)
            elif name == full:
                notes.append(f"{name}: skipped. {skipped.reason}")
        if self.moments.full is None:
            reference = self.ingredients[self.moments.reference].name
            notes.append(f"Variances are relative to {reference}, not to maximum likelihood.")
        return tuple(dict.fromkeys(notes))


def make_plan(request: Request) -> Plan:
    """The plan."""
    before = time.perf_counter()
    rates = calibration()  # once for a machine: not a part of the budget
    # SciPy's BLAS is known to `one_blas_thread` only once it is loaded.
    importlib.import_module("scipy.linalg")
    importlib.import_module("scipy.optimize")
    request = request.later(time.perf_counter() - before)
    if request.policies is not None and not request.policies:
        raise FieldfitError("policies is empty; give at least one, or leave it out.")
    # Many small factorisations: a pool of BLAS threads would cost more than it brings.
    with one_blas_thread():
        survey = make_survey(request, rates)
        return recommend(survey, request.target)


def check_enough(n_copies: int) -> None:
    """Refuse samples that are too few for a pilot."""
    if n_copies < _FEWEST:
        raise DataError(f"There are {n_copies} samples; a plan needs at least {_FEWEST} for its pilot.")


def make_survey(request: Request, rates: Calibration) -> Survey:
    """Run the pilot and compute the moments of the laws that were asked for, or of all candidates.

    Where the budget is in seconds, all of it takes about a fifth of them: what was asked for is never skipped, but its
    fits and solves are stopped early.
    """
    model, dataset, target = request.model, request.dataset, request.target
    check_enough(dataset.n_copies)
    began = clock()
    allowance = None
    if target.seconds is not None:
        ends = began + max(SURVEY * target.seconds - request.reading, 0.0), request.began + _BUSY * target.seconds
        allowance = Allowance(*ends)
    pilot = run_pilot(request)
    rows, simulated = moment_rows(model, pilot, request.random_state)
    terms, asked, laws = None, list[Law](), candidate_laws(model, model.structure(pilot.rows))
    if request.policies is not None:
        terms = tuple(split_policy(policy) for policy in request.policies if isinstance(policy, Policy))
        stages = [stage for staged in request.staged for stage in (staged.first, staged.second)]
        named = [*terms, *(split_policy(stage) for stage in stages if isinstance(stage, Policy))]
        asked = [term.law for policy in named for term in policy]
        laws = list(dict.fromkeys([*asked, *PILOT_POLICY.laws, *FULL.laws]))
    flops = math.inf if target.flops is None else SURVEY_FLOPS * target.flops
    plain = model.sample_flops(PILOT_POLICY.bind(model.structure(rows)), rows)
    flops -= pilot.spent * pilot.n * plain
    directions = moment_passes(request.n_functionals or pilot.effort.probes, pilot.effort.cg_steps)
    dense = pilot.effort.dense is not None
    passes = Passes(model.n_parameters, model.n_states if can_enumerate(model, rows) else None, dense, directions)
    if passes.states is not None and terms is None and passes.of(rows.n) * rows.n * plain > flops / 2:
        passes = replace(passes, states=None)
    enumerated = passes.states is not None
    now = clock()
    allowance = allowance or Allowance(now + _UNHURRIED)
    builder = Builder(
        request=request,
        rows=rows,
        pilot=pilot,
        passes=passes,
        allowance=allowance,
        flops=flops,
    )
    ingredients = builder.build(laws)
    _refuse_missing(asked, builder.skipped)
    if target.efficiency is not None and str(FULL) in builder.skipped:
        raise FieldfitError(NO_EFFICIENCY)
    spent = rows.n * (passes.of(rows.n) if enumerated else 2.0 * model.n_parameters) * _distinct_flops(ingredients)
    later = builder.reserved + _SEARCH * (allowance.end - now)
    refined, flops_left = refined_terms(
        request,
        pilot,
        rows,
        ingredients,
        seconds_left=lambda: allowance.left() - later,
        flops=flops - spent,
        skipped=builder.skipped,
    )
    needed = 2.0 * model.n_parameters * rows.n * _distinct_flops(ingredients)
    moments = gather(
        request,
        ingredients,
        refined,
        pilot,
        rows,
        simulated=simulated,
        enumerated=enumerated,
        compare=needed <= min(builder.flops, flops_left),
        deadline=math.inf if target.seconds is None else now + _SOLVES * (allowance.deadline() - now),
    )
    if moments.raw is not None:
        ingredients = [
            counted_steps(part, place, moments.raw, request, pilot) for place, part in enumerate(ingredients)
        ]
    costs = FitCosts(ingredients, dataset.n, dataset.n_copies, pilot.expected_evaluations, rates, request.reading)
    return Survey(
        request=request,
        terms=terms,
        pilot=pilot,
        ingredients=ingredients,
        refined=[(term, term.cost(moments.raw, costs)) for term in refined if moments.raw is not None],
        skipped=builder.skipped,
        moments=moments,
        costs=costs,
        simulated=simulated,
        seconds=time.perf_counter() - request.began,
    )


def counted_steps(
    part: Ingredient, place: int, moments: MixtureMoments, request: Request, pilot: Pilot
) -> Ingredient:
    """The ingredient with the steps of a fit on the second-order expansion of its objective, where none was tried."""
    alone = part.fit_work(everything=True).steps
    if alone.tried:
        return part
    n = request.dataset.n_copies
    objective = ExpandedObjective(moments.J[place], moments.K[place, place], n, request.precision)
    tol = None if request.tol == "statistical" else request.tol
    solution = expanded_fit(
        objective, part.parts[0][1], -pilot.theta, request.model.feature_units, request.random_state, tol
    )
    count = solution.evaluations + solution.hessian_products
    equivalents = solution.evaluations + alone.product * solution.hessian_products
    return part.with_steps(replace(alone, count=count, equivalents=equivalents))


def _distinct_flops(ingredients: Sequence[Ingredient]) -> float:
    """The FLOPs of a sample in all ingredients; those with the same mean over Z count once."""
    return sum({tuple(id(own) for _, own in part.parts): part.flops for part in ingredients}.values())


def _refuse_missing(laws: Sequence[Law], skipped: dict[str, Skipped]) -> None:
    """FieldfitError where a law that was asked for cannot be planned."""
    for law in laws:
        if str(law) in skipped:
            raise FieldfitError(f"The policy with {law} cannot be compared: {skipped[str(law)].reason}")


def recommend(survey: Survey, target: Target) -> Plan:
    """The best that the target allows, from a survey."""
    request, moments, costs = survey.request, survey.moments, survey.costs
    comparison = Comparison(survey.ingredients, survey.refined, moments, costs, target.unit, survey.n)

    def spent() -> float:
        return 0.0 if target.pilot_spent else survey.spent(target.unit)

    if survey.terms is not None:
        mixtures = [(comparison.placed(terms), Origin.ASKED) for terms in survey.terms]
    else:
        hurried = target.unit == "seconds" and not target.pilot_spent
        allowed = SEARCH_SHARE * target.limit if hurried else math.inf
        mixtures = comparison.usual(time.perf_counter() + allowed / 2)
        mixtures += comparison.joint(spent, target, [mixture for mixture, _ in mixtures])
    candidates = comparison.listed(mixtures)
    if survey.terms is None:
        candidates = thinned(candidates)
    gone = spent()
    candidates = [replace(policy, affordable=policy.cost <= target.limit - gone) for policy in candidates]
    # A penalty determines what the samples do not.
    penalised = request.precision is not None and bool(np.all(request.precision > 0))
    needed = 0 if penalised else request.model.n_parameters
    named = request.functionals is not None
    bounded = moments.full is not None and not (survey.weighted or named or moments.robust)
    # Without a penalty, no estimator has a smaller variance than maximum likelihood where the model is right.
    efficient = bounded and moments.criterion.penalty is None
    best, reason = choose(candidates, target, needed, 1.0 if efficient else 0.0)
    caution = ""
    if best.samples < ENOUGH_SAMPLES * needed:
        used = f"'{best.policy}' uses about {best.samples:.0f} of {survey.n:,} samples"
        if best.samples >= survey.n:
            used = f"there are {survey.n:,} samples"
        caution = (
            f"Caution: {used}, fewer than {ENOUGH_SAMPLES} for each of the {needed} parameters. Variances are those of "
            "large samples; the real error is probably larger."
        )
    return Plan(
        candidates=tuple(candidates),
        best_candidate=best,
        reason=reason,
        caution=caution,
        unit=target.unit,
        budget=target.limit,
        spent=gone,
        wanted_efficiency=target.efficiency,
        reference=survey.ingredients[moments.reference].name,
        relative="maximum likelihood" if moments.full is not None else survey.ingredients[moments.reference].name,
        kind=moments.kind,
        squared_error=moments.criterion.penalty is not None and not named,
        method=moments.method,
        n=survey.n,
        n_parameters=request.model.n_parameters,
        model_kind=request.model.kind,
        pilot_rows=survey.pilot.n,
        pilot_seconds=survey.seconds,
        evaluations=costs.evaluations,
        theta=survey.pilot.theta,
        curves=comparison.curves,
        mixtures=comparison.mixture_tables,
        reachable=partial(
            reachable_edge,
            comparison.searched,
            comparison.cost,
            comparison.freedom,
            [(policy.cost, policy.variance) for policy in candidates],
            comparison.exactly,
        ),
        again=partial(_again, survey),
        fitted=request.fitted,
        calibration_error=costs.rates.error,
        notes=survey.notes(),
        bounded=bounded,
    )


def _again(survey: Survey, target: Target) -> Plan:
    with one_blas_thread():
        return recommend(survey, replace(target, pilot_spent=True))
