"""What a plan knows before it compares: a pilot, the ingredients with their costs, and their moments at the pilot's θ̂."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fieldfit.models.base import Model
from fieldfit.models.field import FieldModel
from fieldfit.models.work import clock
from fieldfit.planner.building import Builder
from fieldfit.planner.calibration import Calibration
from fieldfit.planner.costs import FitCosts
from fieldfit.planner.directions import Functionals
from fieldfit.planner.effort import SURVEY, UNHURRIED
from fieldfit.planner.evidence import Evidence, Penalty, evidence_passes, gather
from fieldfit.planner.ingredients import Ingredient, possible_names
from fieldfit.planner.pilot import Pilot, moment_rows, run_pilot
from fieldfit.planner.target import NO_EFFICIENCY, Target
from fieldfit.planner.weighting import importance, n_copies, n_samples
from fieldfit.types import DataError, FieldfitError, FloatArray

_FEWEST = 10
#: (name, λ, β) of each term of a policy.
Terms = Sequence[tuple[str, float, float]]


@dataclass(frozen=True)
class Survey:
    """All that recommendations for this model and these samples are made of, whatever the budget."""

    model: Model
    n: int
    pilot: Pilot
    ingredients: list[Ingredient]
    refused: dict[str, str]
    evidence: Evidence
    costs: FitCosts
    simulated: bool  # the samples of the moments were drawn from the model
    weighted: bool  # by importance
    began: float
    seconds: float  # from the beginning to the end of the survey

    def spent(self, unit: str) -> float:
        """What reading, pilot and moments took up to now, in the unit of a budget."""
        if unit == "seconds":
            return time.perf_counter() - self.began
        first = next((one.flops for one in self.ingredients if one.name == "PL1"), self.ingredients[0].flops)
        compiled = {id(one.problem): one.flops for one in self.ingredients}
        moments = self.evidence.evaluations * sum(compiled.values())
        return float(self.pilot.evaluations * self.pilot.n * first + moments)

    @property
    def method(self) -> str:
        """How expectations were taken."""
        found = self.evidence.method
        return found.replace("samples at", "samples simulated at") if self.simulated else found

    def notes(self) -> tuple[str, ...]:
        """What the reader of a plan should know besides."""
        notes = list(self.evidence.notes)
        if not self.pilot.converged:
            notes.append("The pilot did not converge: the number of evaluations is a guess.")
        if self.evidence.criterion.penalty is not None:
            notes.append("The penalty is in the comparison: squared error where θ has its prior N(0, σ²).")
        if self.weighted:
            told = "The values of the pilot's samples are drawn anew, and weights are taken as independent of them."
            notes.append("Importance weights are in bread and meat." + (f" {told}" if self.simulated else ""))
        if "FL" in self.refused:
            notes.append(f"FL is out of reach: {self.refused['FL']}")
        notes += [why for name, why in self.refused.items() if name != "FL" and "left out" in why]
        if isinstance(self.model, FieldModel) and self.evidence.reference != "FL":
            notes.append(f"Variances are relative to {self.evidence.reference}, not to maximum likelihood.")
        return tuple(notes)


def check_enough(dataset: Any) -> None:
    """Refuse samples that are too few for a pilot."""
    copies = n_copies(dataset)
    if copies < _FEWEST:
        raise DataError(f"There are {copies} samples; a plan needs at least {_FEWEST} for its pilot.")


def make_survey(
    model: Model,
    dataset: Any,
    target: Target,
    asked: Sequence[Terms] | None,
    *,
    functionals: Functionals | None,
    n_functionals: int | None,
    precision: FloatArray | None,
    random_state: int,
    reading: float,
    rates: Calibration,
    tol: float,
    began: float,
) -> Survey:
    """Run the pilot and take the moments of the families that ``asked`` names, or of all that are worth a thought.

    Where the budget is in seconds, all of it takes about a fifth of them: what was asked for is never left out, but its
    fits and solves are cut short.
    """
    n = n_samples(dataset)
    check_enough(dataset)
    pilot = run_pilot(
        model,
        dataset,
        random_state,
        precision,
        seconds=target.seconds,
        flops=target.flops,
        directions=n_functionals,
        tol=tol,
    )
    if asked is None:
        names = possible_names(model, model.structure(pilot.rows))
    else:
        names = list(dict.fromkeys(name for terms in asked for name, _, _ in terms))
    wanted = [*names, *(extra for extra in ("PL1", "FL") if asked is not None and extra not in names)]
    rows, simulated = moment_rows(model, pilot, random_state)
    passes = evidence_passes(model, rows, pilot.effort, n_functionals)
    now = time.perf_counter()
    end = math.inf if target.seconds is None else max(began + SURVEY * target.seconds, now)
    builder = Builder(
        model=model,
        dataset=dataset,
        rows=rows,
        pilot=pilot,
        precision=precision,
        passes=passes,
        deadline=clock() + UNHURRIED if target.seconds is None else end,
        asked=asked is not None,
        hurried=target.seconds is not None,
        tol=tol,
    )
    ingredients, refused = builder.build(wanted), builder.refused
    missing = [name for name in names if name in refused and asked is not None]
    if missing:
        raise FieldfitError(f"The policy with {missing[0]} cannot be planned: {refused[missing[0]]}")
    if target.efficiency is not None and "FL" in refused:
        raise FieldfitError(NO_EFFICIENCY)
    evidence = gather(
        ingredients,
        model,
        rows,
        pilot.theta,
        pilot.effort,
        functionals=functionals,
        penalty=Penalty.of(precision, dataset),
        random_state=random_state,
        simulated=simulated,
        deadline=now + 0.7 * (end - now) if math.isfinite(end) else end,  # what comes after the solves takes the rest
    )
    costs = FitCosts(ingredients, n, n_copies(dataset), pilot.expected_evaluations, rates, reading)
    return Survey(
        model,
        n_copies(dataset),
        pilot,
        ingredients,
        refused,
        evidence,
        costs,
        simulated,
        importance(rows) is not None,
        began,
        time.perf_counter() - began,
    )
