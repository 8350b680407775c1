"""What a plan knows before it compares: a pilot, the ingredients with their costs, and their moments at the pilot's θ̂."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fieldfit.models.base import Model
from fieldfit.models.field import FieldModel
from fieldfit.planner.calibration import Calibration
from fieldfit.planner.costs import FitCosts
from fieldfit.planner.evidence import Evidence, evidence_passes, gather
from fieldfit.planner.ingredients import Ingredient, build, n_samples, possible_names
from fieldfit.planner.pilot import Pilot, evidence_rows, run_pilot
from fieldfit.planner.target import NO_EFFICIENCY, Target
from fieldfit.types import DataError, FieldfitError, FloatArray

#: Seconds for the moments where the budget is not in seconds, and their share of it where it is.
_ALLOWANCE, _SHARE = 5.0, 0.15

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
    began: float
    seconds: float  # from the beginning to the end of the survey

    def spent(self, unit: str) -> float:
        """What reading, pilot and moments took up to now, in the unit of a budget."""
        if unit == "seconds":
            return time.perf_counter() - self.began + self.costs.reading
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
        if "FL" in self.refused:
            notes.append(f"FL is out of reach: {self.refused['FL']}")
        notes += [why for name, why in self.refused.items() if name != "FL" and "left out" in why]
        if isinstance(self.model, FieldModel) and self.evidence.reference != "FL":
            notes.append(f"Variances are relative to {self.evidence.reference}, not to maximum likelihood.")
        return tuple(notes)


def make_survey(
    model: Model,
    dataset: Any,
    target: Target,
    asked: Sequence[Terms] | None,
    *,
    functionals: Sequence[str] | None,
    precision: FloatArray | None,
    random_state: int,
    reading: float,
    rates: Calibration,
) -> Survey:
    """Run the pilot and take the moments of the families that ``asked`` names, or of all that are worth a thought."""
    began = time.perf_counter()
    n = n_samples(dataset)
    if n < 10:
        raise DataError(f"There are {n} samples; a plan needs at least 10 for its pilot.")
    if getattr(dataset, "sample_weight", None) is not None:
        raise DataError("The planner does not know sample weights; plan without them, or repeat the rows.")
    pilot = run_pilot(model, dataset, random_state, precision)
    if asked is None:
        names = possible_names(model, model.structure(pilot.rows))
    else:
        names = list(dict.fromkeys(name for terms in asked for name, _, _ in terms))
    wanted = [*names, *(extra for extra in ("PL1", "FL") if asked is not None and extra not in names)]
    rows, simulated = evidence_rows(model, pilot, random_state)
    passes = evidence_passes(model, rows, None if functionals is None else len(functionals))
    allowance = math.inf if asked is not None else _ALLOWANCE if target.seconds is None else _SHARE * target.seconds
    ingredients, refused = build(
        wanted, model, dataset, rows, pilot.theta, precision=precision, passes=passes, allowance=allowance
    )
    missing = [name for name in names if name in refused and asked is not None]
    if missing:
        raise FieldfitError(f"The policy with {missing[0]} cannot be planned: {refused[missing[0]]}")
    if target.efficiency is not None and "FL" in refused:
        raise FieldfitError(NO_EFFICIENCY)
    evidence = gather(ingredients, model, rows, pilot.theta, functionals, random_state, simulated)
    costs = FitCosts(ingredients, n, pilot.evaluations, rates, reading)
    return Survey(
        model, n, pilot, ingredients, refused, evidence, costs, simulated, began, time.perf_counter() - began
    )
