"""From a request to a plan: a survey, candidates, the joint optimum, one recommendation."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np

from fieldfit.planner.calibration import calibration
from fieldfit.planner.candidates import choose, thinned
from fieldfit.planner.request import Request
from fieldfit.planner.result import Plan
from fieldfit.planner.survey import Survey
from fieldfit.planner.surveying import make_survey
from fieldfit.threads import one_blas_thread, use_threads
from fieldfit.types import DataError, FieldfitError
from fieldfit.variance.meat import ENOUGH_FOR_PARAMETER
from fieldfit.variance.separation import infinite_optimum

#: Fewest samples of a plan.
_FEWEST_PLANNED_SAMPLES = 10


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
