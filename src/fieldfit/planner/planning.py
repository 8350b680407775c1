"""From a model, data and a budget to a plan: survey, candidates, the joint optimum, one recommendation.

All variances are for the sample at hand: a policy that uses a fifth of it has λ = 0.2 and pays for it in variance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fieldfit.models.base import Model
from fieldfit.planner.calibration import calibration
from fieldfit.planner.candidates import SEARCH_SHARE, curves, joint, listed, placed, thinned, usual
from fieldfit.planner.choice import choose
from fieldfit.planner.convergence import TOL
from fieldfit.planner.directions import Functionals
from fieldfit.planner.envelope import envelope
from fieldfit.planner.ingredients import parse_mixture
from fieldfit.planner.result import Plan
from fieldfit.planner.search import Cost
from fieldfit.planner.survey import Survey, Terms, make_survey
from fieldfit.planner.target import Target
from fieldfit.policies import Policy
from fieldfit.threads import one_blas_thread
from fieldfit.types import FieldfitError, FloatArray


def make_plan(
    model: Model,
    dataset: Any,
    target: Target,
    *,
    policies: Sequence[Policy | str] | Policy | str | None = None,
    functionals: Functionals | None = None,
    n_functionals: int | None = None,
    precision: FloatArray | None = None,
    random_state: int = 0,
    reading: float = 0.0,
    tol: float = TOL,
    began: float | None = None,
) -> Plan:
    """The plan. ``precision`` and ``tol`` are those of the fit to come.

    ``reading`` are the seconds that reading the data took, which every fit pays again, and ``began`` is when the clock
    (`time.perf_counter`) of the budget was started.
    """
    before = time.perf_counter()
    rates = calibration()  # once for a machine: not a part of the budget
    began = (before if began is None else began) + time.perf_counter() - before
    if isinstance(policies, str | Policy):
        policies = [policies]
    asked = None if policies is None else [parse_mixture(policy) for policy in policies]
    if asked is not None and not asked:
        raise FieldfitError("policies is empty; give at least one, or leave it out.")
    # Many small factorisations: a pool of BLAS threads would cost more than it brings.
    with one_blas_thread():
        survey = make_survey(
            model,
            dataset,
            target,
            asked,
            functionals=functionals,
            n_functionals=n_functionals,
            precision=precision,
            random_state=random_state,
            reading=reading,
            rates=rates,
            tol=tol,
            began=began,
        )
        return recommend(survey, asked, target)


def recommend(survey: Survey, asked: Sequence[Terms] | None, target: Target) -> Plan:
    """The best that the target allows, from a survey."""
    evidence, ingredients, costs = survey.evidence, survey.ingredients, survey.costs
    cost: Cost = costs.flops if target.unit == "flops" else costs.seconds

    def spent() -> float:
        return 0.0 if target.paid else survey.spent(target.unit)

    if asked is not None:
        mixtures = [(placed(terms, ingredients, evidence, cost), "asked for") for terms in asked]
    else:
        allowed = SEARCH_SHARE * target.limit if target.unit == "seconds" and not target.paid else math.inf
        mixtures = usual(evidence, ingredients, cost, time.perf_counter() + allowed / 2)
        mixtures += joint(evidence, ingredients, cost, spent, target, [own for own, _ in mixtures])
    candidates = listed(mixtures, ingredients, evidence, costs)
    if asked is None:
        candidates = thinned(candidates)
    gone = spent()
    candidates = [replace(own, affordable=own.cost <= target.limit - gone) for own in candidates]
    best, reason = choose(candidates, target, evidence.reference)
    return Plan(
        candidates=tuple(candidates),
        best_candidate=best,
        reason=reason,
        unit=target.unit,
        budget=target.limit,
        spent=gone,
        wanted_efficiency=target.efficiency,
        reference=evidence.reference,
        kind=evidence.kind,
        method=survey.method,
        n=survey.n,
        n_parameters=survey.model.n_parameters,
        model_kind=survey.model.kind,
        pilot_rows=survey.pilot.n,
        pilot_seconds=survey.seconds,
        evaluations=costs.evaluations,
        theta=survey.pilot.theta,
        curves=partial(curves, evidence, ingredients),
        reachable=partial(envelope, evidence, ingredients, cost, [(own.cost, own.variance) for own in candidates]),
        again=partial(_again, survey, asked),
        calibration_error=costs.rates.error,
        notes=survey.notes(),
        weighted=survey.weighted,
    )


def _again(survey: Survey, asked: Sequence[Terms] | None, target: Target) -> Plan:
    with one_blas_thread():
        return recommend(survey, asked, replace(target, paid=True))
