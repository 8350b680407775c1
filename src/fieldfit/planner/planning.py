"""From a request to a plan: a survey of the ingredients, candidates, the joint optimum, one recommendation.

All variances are for the given sample: a policy that uses a fifth of it has λ = 0.2, and a larger variance.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fieldfit.models.work import clock
from fieldfit.planner.building import Builder, Skipped
from fieldfit.planner.calibration import Calibration, calibration
from fieldfit.planner.candidates import SEARCH_SHARE, Comparison, Origin, choose, thinned
from fieldfit.planner.costs import FitCosts
from fieldfit.planner.evidence import Evidence, can_enumerate, evidence_passes, gather
from fieldfit.planner.ingredients import Ingredient, Term, candidate_laws, split_policy
from fieldfit.planner.pilot import (
    ENOUGH_SAMPLES,
    PILOT_POLICY,
    SURVEY,
    SURVEY_FLOPS,
    Pilot,
    moment_rows,
    run_pilot,
)
from fieldfit.planner.request import NO_EFFICIENCY, Request, Target
from fieldfit.planner.result import Plan
from fieldfit.planner.search import reachable_edge
from fieldfit.policies import Policy
from fieldfit.threads import one_blas_thread
from fieldfit.types import DataError, FieldfitError

#: Fewest samples of a plan.
_FEWEST = 10
#: Seconds for the families beside the first where the budget is not in seconds.
_UNHURRIED = 10.0
#: Share of the survey's seconds for the solves; what comes after them takes the rest.
_SOLVES = 0.7
#: What everything is compared with, if it can be computed.
_FULL = Policy.parse("FL")


@dataclass(frozen=True)
class Survey:
    """All that recommendations for this model and these samples are made of, whatever the budget."""

    request: Request
    terms: tuple[tuple[Term, ...], ...] | None  # of the policies that were asked for
    pilot: Pilot
    ingredients: list[Ingredient]
    skipped: dict[str, Skipped]
    evidence: Evidence
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
        compiled = {id(part.problem): part.flops for part in self.ingredients}
        moments = self.evidence.evaluations * sum(compiled.values())
        return float(self.pilot.spent * self.pilot.n * first + moments)

    def notes(self) -> tuple[str, ...]:
        """What the reader of a plan should know besides."""
        notes = list(self.evidence.notes)
        if not self.pilot.converged:
            notes.append("The pilot was stopped early and extrapolated, so the number of evaluations is uncertain.")
        if self.evidence.criterion.penalty is not None:
            notes.append("The comparison includes the penalty: squared error when θ has the prior N(0, σ²).")
        if self.weighted:
            told = "The values of the pilot's samples are simulated, and weights are treated as independent of them."
            notes.append("Importance weights enter bread and meat." + (f" {told}" if self.simulated else ""))
        full = str(_FULL)
        for name, skipped in self.skipped.items():
            if skipped.for_time:
                notes.append(skipped.reason)
            elif name == full:
                notes.append(f"{name}: skipped. {skipped.reason}")
        if self.evidence.reference != full:
            notes.append(f"Variances are relative to {self.evidence.reference}, not to maximum likelihood.")
        return tuple(dict.fromkeys(notes))


def make_plan(request: Request) -> Plan:
    """The plan."""
    before = time.perf_counter()
    rates = calibration()  # once for a machine: not a part of the budget
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
    pilot = run_pilot(request)
    rows, simulated = moment_rows(model, pilot, request.random_state)
    terms = None
    if request.policies is None:
        laws = candidate_laws(model, model.structure(pilot.rows))
    else:
        terms = tuple(split_policy(policy) for policy in request.policies)
        named = (term.law for policy in terms for term in policy)
        laws = list(dict.fromkeys([*named, *PILOT_POLICY.laws, *_FULL.laws]))
    flops = math.inf if target.flops is None else SURVEY_FLOPS * target.flops
    plain = model.sample_flops(PILOT_POLICY.bind(model.structure(rows)), rows)
    flops -= pilot.spent * pilot.n * plain
    enumerated = can_enumerate(model, rows)
    if enumerated and math.isfinite(flops) and terms is None:
        passes = evidence_passes(model, rows, pilot.effort, request.n_functionals, enumerated=True)
        enumerated = passes * rows.n * plain <= flops / 2
    passes = evidence_passes(model, rows, pilot.effort, request.n_functionals, enumerated)
    now = time.perf_counter()
    end = math.inf if target.seconds is None else max(request.began + SURVEY * target.seconds, now)
    builder = Builder(
        request=request,
        rows=rows,
        pilot=pilot,
        passes=passes,
        deadline=clock() + _UNHURRIED if target.seconds is None else end,
        flops=flops,
    )
    ingredients = builder.build(laws)
    if terms is not None:
        _refuse_missing(terms, builder.skipped)
    if target.efficiency is not None and str(_FULL) in builder.skipped:
        raise FieldfitError(NO_EFFICIENCY)
    needed = 2.0 * model.n_parameters * rows.n * sum({id(part.problem): part.flops for part in ingredients}.values())
    evidence = gather(
        request,
        ingredients,
        pilot,
        rows,
        simulated=simulated,
        enumerated=enumerated,
        compare=needed <= builder.flops,
        deadline=now + _SOLVES * (end - now) if math.isfinite(end) else end,
    )
    costs = FitCosts(ingredients, dataset.n, dataset.n_copies, pilot.expected_evaluations, rates, request.reading)
    return Survey(
        request=request,
        terms=terms,
        pilot=pilot,
        ingredients=ingredients,
        skipped=builder.skipped,
        evidence=evidence,
        costs=costs,
        simulated=simulated,
        seconds=time.perf_counter() - request.began,
    )


def _refuse_missing(terms: tuple[tuple[Term, ...], ...], skipped: dict[str, Skipped]) -> None:
    """FieldfitError where a law that was asked for cannot be planned."""
    for term in (term for policy in terms for term in policy):
        if str(term.law) in skipped:
            raise FieldfitError(f"The policy with {term.law} cannot be compared: {skipped[str(term.law)].reason}")


def recommend(survey: Survey, target: Target) -> Plan:
    """The best that the target allows, from a survey."""
    request, evidence, costs = survey.request, survey.evidence, survey.costs
    cost = costs.flops if target.unit == "flops" else costs.seconds
    comparison = Comparison(survey.ingredients, evidence, costs, cost, survey.n)

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
    best, reason = choose(candidates, target, evidence.reference, needed)
    caution = ""
    if best.samples < ENOUGH_SAMPLES * needed:
        used = f"'{best.policy}' uses about {best.samples:.0f} of {survey.n:,} samples"
        if best.samples >= survey.n:
            used = f"there are {survey.n:,} samples"
        caution = (
            f"Caution: {used}, fewer than {ENOUGH_SAMPLES} for each of the {needed} parameters. Variances are those of "
            "large samples; the real error is probably larger."
        )
    named = request.functionals is not None
    return Plan(
        candidates=tuple(candidates),
        best_candidate=best,
        reason=reason,
        caution=caution,
        unit=target.unit,
        budget=target.limit,
        spent=gone,
        wanted_efficiency=target.efficiency,
        reference=evidence.reference,
        kind=evidence.kind,
        squared_error=evidence.criterion.penalty is not None and not named,
        method=evidence.method,
        n=survey.n,
        n_parameters=request.model.n_parameters,
        model_kind=request.model.kind,
        pilot_rows=survey.pilot.n,
        pilot_seconds=survey.seconds,
        evaluations=costs.evaluations,
        theta=survey.pilot.theta,
        curves=comparison.curves,
        reachable=partial(
            reachable_edge,
            evidence.criterion,
            cost,
            comparison.freedom,
            [(policy.cost, policy.variance) for policy in candidates],
        ),
        again=partial(_again, survey),
        calibration_error=costs.rates.error,
        notes=survey.notes(),
        bounded=evidence.reference == str(_FULL) and not (survey.weighted or named or evidence.robust),
    )


def _again(survey: Survey, target: Target) -> Plan:
    with one_blas_thread():
        return recommend(survey, replace(target, pilot_spent=True))
