"""From a model, data and a budget to a plan: pilot, moments, costs, candidates, the joint optimum, one recommendation.

All variances are for the sample at hand: a policy that uses a fifth of it has λ = 0.2 and pays for it in variance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fieldfit.models.base import Model
from fieldfit.models.field import FieldModel
from fieldfit.planner.calibration import Calibration, calibration
from fieldfit.planner.costs import FitCosts
from fieldfit.planner.evidence import Evidence, evidence_passes, gather
from fieldfit.planner.ingredients import Ingredient, build, n_samples, parse_mixture, possible_names
from fieldfit.planner.pilot import Pilot, evidence_rows, run_pilot
from fieldfit.planner.result import Candidate, Plan
from fieldfit.planner.search import Cost, Mixture, fill_budget, joint_optimum, rounded
from fieldfit.policies import Policy
from fieldfit.types import DataError, FieldfitError, FloatArray

#: Directions up to which all pairs of ingredients are searched.
_THOROUGH = 30
#: Variances closer than this (relative) are not worth a more complicated policy.
ENOUGH = 0.005
#: Shares of the dearest pure policy's cost at which the joint optimum is looked for, to draw the frontier.
_BUDGETS = (0.05, 0.15, 0.4, 0.8)
#: Seconds for the moments where the budget is not in seconds, and their share of it where it is.
_ALLOWANCE, _SHARE = 5.0, 0.15
#: Share of a budget in seconds that the search may take.
_SEARCH_SHARE = 0.05


_NO_EFFICIENCY = (
    "efficiency is relative to maximum likelihood, which is too wide to compute for this model. Give a budget in seconds "
    "or flops."
)


@dataclass(frozen=True)
class Target:
    """What is asked for: at most so many seconds or FLOPs, or at most so much variance relative to the MLE."""

    seconds: float | None = None
    flops: float | None = None
    efficiency: float | None = None

    @property
    def unit(self) -> str:
        """The cost that counts."""
        return "flops" if self.flops is not None else "seconds"

    @property
    def limit(self) -> float:
        """The budget, infinite where accuracy is asked for."""
        given = self.flops if self.flops is not None else self.seconds
        return math.inf if given is None else given


def make_plan(
    model: Model,
    dataset: Any,
    target: Target,
    *,
    policies: Sequence[Policy | str] | None = None,
    functionals: Sequence[str] | None = None,
    precision: FloatArray | None = None,
    random_state: int = 0,
    reading: float = 0.0,
) -> Plan:
    """The plan; ``precision`` is that of the penalty, for the pilot, ``reading`` the seconds that reading the data took."""
    from threadpoolctl import threadpool_limits

    rates = calibration()  # once for a machine: not a part of the budget
    # Many small factorisations: a pool of BLAS threads would cost more than it brings.
    with threadpool_limits(1, user_api="blas"):
        return _plan(model, dataset, target, policies, functionals, precision, random_state, reading, rates)


def _plan(
    model: Model,
    dataset: Any,
    target: Target,
    policies: Sequence[Policy | str] | None,
    functionals: Sequence[str] | None,
    precision: FloatArray | None,
    random_state: int,
    reading: float,
    rates: Calibration,
) -> Plan:
    began = time.perf_counter()
    n = n_samples(dataset)
    if n < 10:
        raise DataError(f"There are {n} samples; a plan needs at least 10 for its pilot.")
    if getattr(dataset, "sample_weight", None) is not None:
        raise DataError("The planner does not know sample weights; plan without them, or repeat the rows.")
    pilot = run_pilot(model, dataset, random_state, precision)
    asked = None if policies is None else [parse_mixture(policy) for policy in policies]
    if asked is not None and not asked:
        raise FieldfitError("policies is empty; give at least one, or leave it out.")
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
        raise FieldfitError(_NO_EFFICIENCY)
    evidence = gather(ingredients, model, rows, pilot.theta, functionals, random_state, simulated)
    costs = FitCosts(ingredients, n, pilot.evaluations, rates, reading)
    spent_now = partial(_spent, target, pilot, evidence, ingredients, began, reading)
    cost: Cost = costs.flops if target.unit == "flops" else costs.seconds
    if asked is not None:
        mixtures = [(_place(terms, ingredients, evidence, cost), "asked for") for terms in asked]
    else:
        mixtures = _usual(evidence, ingredients, cost)
        mixtures += _joint(evidence, ingredients, cost, spent_now, target, [own for own, _ in mixtures])
    spent = spent_now()
    left = target.limit - spent
    candidates = _candidates(mixtures, ingredients, evidence, costs, cost, left)
    if asked is None:
        candidates = _thinned(candidates)
    best, reason = choose(candidates, target, evidence.reference)
    return Plan(
        candidates=tuple(candidates),
        best_candidate=best,
        reason=reason,
        unit=target.unit,
        budget=target.limit,
        spent=spent,
        wanted_efficiency=target.efficiency,
        reference=evidence.reference,
        kind=evidence.kind,
        method=evidence.method.replace("samples at", "samples simulated at") if simulated else evidence.method,
        n=n,
        n_parameters=model.n_parameters,
        model_kind=model.kind,
        pilot_rows=pilot.n,
        pilot_seconds=time.perf_counter() - began,
        evaluations=pilot.evaluations,
        theta=pilot.theta,
        curves=partial(_curves, evidence, ingredients),
        calibration_error=rates.error,
        notes=tuple(_notes(pilot, evidence, refused, model)),
    )


def _spent(
    target: Target,
    pilot: Pilot,
    evidence: Evidence,
    ingredients: Sequence[Ingredient],
    began: float,
    reading: float,
) -> float:
    """What pilot and moments took, in the unit of the budget."""
    if target.unit == "seconds":
        return time.perf_counter() - began + reading
    first = next((one.flops for one in ingredients if one.name == "PL1"), ingredients[0].flops)
    compiled = {id(one.problem): one.flops for one in ingredients}
    return float(pilot.evaluations * pilot.n * first + evidence.evaluations * sum(compiled.values()))


def _place(
    terms: Sequence[tuple[str, float, float]], ingredients: Sequence[Ingredient], evidence: Evidence, cost: Cost
) -> Mixture:
    """The mixture that a policy's text says, as it is written."""
    place = {one.name: k for k, one in enumerate(ingredients)}
    lam, beta = np.zeros((2, len(ingredients)))
    for name, own_lam, own_beta in terms:
        lam[place[name]], beta[place[name]] = own_lam, own_beta
    return Mixture(lam, beta, evidence.criterion.value(lam, beta), cost(lam))


def _usual(evidence: Evidence, ingredients: Sequence[Ingredient], cost: Cost) -> list[tuple[Mixture, str]]:
    """Pure policies, partitions, parts of the data, and mixtures with the best weights for their λ."""
    criterion = evidence.criterion
    found: list[tuple[Mixture, str]] = []
    unit = np.eye(len(ingredients))
    for place, one in enumerate(ingredients):
        if one.law == "whole":
            for share in (0.1, 0.2, 0.5):
                found.append((rounded(share * unit[place], unit[place], criterion, cost), "a part of the data"))
        else:
            why = "random partition" if one.law == "partition" else "everything selected"
            found.append((rounded(unit[place], unit[place], criterion, cost), why))
    single = [place for place, one in enumerate(ingredients) if one.law == "single"]
    for low, high in [(a, b) for k, a in enumerate(single) for b in single[k + 1 :]]:
        for share in (0.1, 0.3):
            lam = unit[low] + share * unit[high]
            found.append((_best_weights(criterion, cost, lam, low, high), "mixed, best weights"))
    return [(own, why) for own, why in found if math.isfinite(own.value)]


def _best_weights(criterion: Any, cost: Cost, lam: FloatArray, low: int, high: int) -> Mixture:
    """The best β of two families at given λ, by a bounded search over the share of the second."""
    from scipy.optimize import minimize_scalar

    size = np.trace(criterion.moments.J, axis1=1, axis2=2)
    unit = np.eye(len(lam))

    def beta(share: float) -> FloatArray:
        return np.asarray((1 - share) * unit[low] / size[low] + share * unit[high] / size[high])

    found = minimize_scalar(
        lambda share: criterion.value(lam, beta(float(share))), bounds=(0.001, 0.999), method="bounded",
        options={"xatol": 1e-4},
    )  # fmt: skip
    return rounded(lam, beta(float(found.x)), criterion, cost)


def _curves(evidence: Evidence, ingredients: Sequence[Ingredient]) -> list[tuple[str, str, float, float]]:
    """Variance against λ for every family that is drawn one by one."""
    criterion = evidence.criterion
    unit = np.eye(len(ingredients))
    single = [place for place, one in enumerate(ingredients) if one.law == "single"]
    rows = []
    for high in single:
        name = ingredients[high].name
        for share in np.linspace(0.05, 1.0, 20).round(2):
            rows.append((name, f"λ*{name}", float(share), criterion.value(share * unit[high], unit[high])))
        if high == single[0]:
            continue
        low, first = single[0], ingredients[single[0]].name
        for share in np.linspace(0.05, 1.0, 20).round(2):
            lam = unit[low] + share * unit[high]
            rows.append((name, f"{first} + λ*{name}", float(share), criterion.value(lam, unit[low] + unit[high])))
            best = _best_weights(criterion, lambda _: 0.0, lam, low, high).value
            rows.append((name, f"{first} + λ*{name}, best weights", float(share), best))
    return [(name, policy, lam, math.exp(value)) for name, policy, lam, value in rows if math.isfinite(value)]


def _joint(
    evidence: Evidence,
    ingredients: Sequence[Ingredient],
    cost: Cost,
    spent: Callable[[], float],
    target: Target,
    known: Sequence[Mixture],
) -> list[tuple[Mixture, str]]:
    """Joint optima at the budget and at others below and above it, so that the frontier can be seen."""
    criterion = evidence.criterion
    partitions = [place for place, one in enumerate(ingredients) if one.law == "partition"]
    alone = [place for place, one in enumerate(ingredients) if one.law == "whole"]
    small = len(criterion.moments.J[0]) <= _THOROUGH
    found: list[tuple[Mixture, str]] = []

    def add(budget: float, why: str, *, thorough: bool) -> Mixture | None:
        best = joint_optimum(criterion, cost, budget, partitions, alone=alone, thorough=thorough)
        if best is not None:
            found.append((best, why))
        return best

    dearest = max(own.cost for own in known)
    began = time.perf_counter()
    allowed = math.inf if target.seconds is None else _SEARCH_SHARE * target.seconds
    for share in _BUDGETS if small else _BUDGETS[1::2]:
        if time.perf_counter() - began < allowed / 2:
            add(share * dearest, "joint optimum", thorough=False)
    each = (time.perf_counter() - began) / len(_BUDGETS)
    # All pairs take about eight times as long as those with the first ingredient.
    thorough = small and 8 * each < allowed
    left = target.limit - spent()
    if target.seconds is not None:
        left -= (16 if thorough else 3) * each + 0.02  # what this search will take itself
    if math.isfinite(left) and left > 0:
        add(left, "joint optimum at the budget", thorough=thorough)
        # What is left of the budget may buy a part of the data only.
        for place, one in enumerate(ingredients):
            own = fill_budget(place, criterion, cost, left, fixed=one.law == "partition")
            if own is not None:
                found.append((own, "as much as the budget allows"))
    if target.efficiency is not None:
        reached = [own for own, _ in found] + list(known)
        _cheapest(criterion, cost, math.log(target.efficiency), reached, partitions, alone, found)
    return found


def _cheapest(
    criterion: Any,
    cost: Cost,
    wanted: float,
    known: Sequence[Mixture],
    partitions: Sequence[int],
    alone: Sequence[int],
    found: list[tuple[Mixture, str]],
) -> None:
    """Bisect the budget whose joint optimum just reaches the variance that is wanted."""
    enough = [own.cost for own in known if own.value <= wanted]
    if not enough:
        return
    low, high = math.log(min(own.cost for own in known) / 50), math.log(min(enough))
    for _ in range(7):
        middle = (low + high) / 2
        best = joint_optimum(criterion, cost, math.exp(middle), partitions, alone=alone, thorough=False)
        if best is not None and best.value <= wanted:
            found.append((best, "cheapest that is accurate enough"))
            high = math.log(best.cost)
        else:
            low = middle


def _candidates(
    mixtures: Sequence[tuple[Mixture, str]],
    ingredients: Sequence[Ingredient],
    evidence: Evidence,
    costs: FitCosts,
    cost: Cost,
    left: float,
) -> list[Candidate]:
    """One candidate for each policy's text, by cost."""
    by_text: dict[str, Candidate] = {}
    for own, why in mixtures:
        text = " + ".join(
            one.text(float(lam), float(beta))
            for one, lam, beta in zip(ingredients, own.lam, own.beta, strict=True)
            if lam > 0 and beta > 0
        )
        if text in by_text or not text:
            continue
        by_text[text] = Candidate(
            policy=text,
            cost=own.cost,
            seconds=costs.seconds(own.lam),
            flops=costs.flops(own.lam),
            operations=costs.operations(own.lam),
            variance=math.exp(min(own.value, 700.0)) if math.isfinite(own.value) else math.inf,
            error=evidence.error(own.lam, own.beta),
            affordable=own.cost <= left,
            why=why,
        )
    found = sorted(by_text.values(), key=lambda own: (own.cost, own.variance))
    least = math.inf
    marked = []
    for one in found:
        on = one.variance < least * (1 - 1e-9)
        least = min(least, one.variance)
        marked.append(one.marked(on))
    return marked


def _thinned(candidates: list[Candidate]) -> list[Candidate]:
    """Without joint optima and fillings that lie behind the frontier: they say nothing."""
    shown = ("everything selected", "random partition", "a part of the data", "mixed, best weights")
    most = 12 * min(own.variance for own in candidates)
    return [own for own in candidates if (own.on_frontier and own.variance <= most) or own.why in shown]


def choose(candidates: Sequence[Candidate], target: Target, reference: str) -> tuple[Candidate, str]:
    """The recommendation and why."""
    usable = [own for own in candidates if math.isfinite(own.variance)]
    if not usable:
        raise FieldfitError("None of the policies determines the parameters. Add PL1, which covers all variables.")
    if target.efficiency is not None:
        if reference != "FL":
            raise FieldfitError(_NO_EFFICIENCY)
        good = [own for own in usable if own.variance <= target.efficiency * (1 + 1e-9)]
        if not good:
            best = min(usable, key=lambda own: own.variance)
            return best, f"nothing reaches {target.efficiency:g} times the variance of maximum likelihood"
        return min(good, key=lambda own: own.cost), "the cheapest that is accurate enough"
    affordable = [own for own in usable if own.affordable]
    if not affordable:
        near = [own for own in usable if own.cost <= 0.1 * target.limit]
        if near:
            best = min(near, key=lambda own: own.variance)
            return best, "the pilot has used up the budget, and this takes less than a tenth of it more"
        return min(usable, key=lambda own: own.cost), "the budget is too small for any of them: the cheapest"
    leading = min(affordable, key=lambda own: own.variance)
    least = leading.variance
    # Within half a percent of the best, or what the pilot's sample can tell apart: fewer terms first, then the cheaper.
    close = [
        own for own in affordable if own.variance <= least * (1 + max(ENOUGH, 2 * max(own.error, leading.error)))
    ]
    return min(close, key=lambda own: (own.policy.count("+"), own.cost)), "the most accurate that the budget allows"


def _notes(pilot: Pilot, evidence: Evidence, refused: dict[str, str], model: Model) -> list[str]:
    notes = list(evidence.notes)
    if not pilot.converged:
        notes.append("The pilot did not converge: the number of evaluations is a guess.")
    if "FL" in refused:
        notes.append(f"FL is out of reach: {refused['FL']}")
    notes += [why for name, why in refused.items() if name != "FL" and "left out" in why]
    if isinstance(model, FieldModel) and evidence.reference != "FL":
        notes.append(f"Variances are relative to {evidence.reference}, not to maximum likelihood.")
    return notes


__all__ = ["ENOUGH", "Target", "choose", "make_plan"]
