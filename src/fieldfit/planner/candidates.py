"""The policies that a plan compares: pure, mixed, partitions, parts of the data, and joint optima under budgets."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fieldfit.planner.costs import FitCosts
from fieldfit.planner.evidence import Evidence
from fieldfit.planner.ingredients import Ingredient
from fieldfit.planner.result import Candidate
from fieldfit.planner.search import Cost, Mixture, fill_budget, joint_optimum, rounded
from fieldfit.planner.target import Target
from fieldfit.types import FloatArray

#: Directions up to which all pairs of ingredients are searched.
_THOROUGH = 30
#: Shares of the dearest pure policy's cost at which the joint optimum is looked for, to draw the frontier.
_BUDGETS = (0.05, 0.15, 0.4, 0.8)
#: Share of a budget in seconds that the search may take.
SEARCH_SHARE = 0.05


def placed(
    terms: Sequence[tuple[str, float, float]], ingredients: Sequence[Ingredient], evidence: Evidence, cost: Cost
) -> Mixture:
    """The mixture that a policy's text says, as it is written."""
    place = {one.name: k for k, one in enumerate(ingredients)}
    lam, beta = np.zeros((2, len(ingredients)))
    for name, own_lam, own_beta in terms:
        lam[place[name]], beta[place[name]] = own_lam, own_beta
    return Mixture(lam, beta, evidence.criterion.value(lam, beta), cost(lam))


def usual(
    evidence: Evidence, ingredients: Sequence[Ingredient], cost: Cost, deadline: float = math.inf
) -> list[tuple[Mixture, str]]:
    """Pure policies, partitions, parts of the data, and mixtures with the best weights for their λ.

    No more mixtures are looked at once the clock (`time.perf_counter`) has passed the deadline.
    """
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
        if one.name == "PL1" and one.law == "single":
            for share in (0.2, 0.5):
                found.append((rounded(share * unit[place], unit[place], criterion, cost), "one by one"))
    single = [place for place, one in enumerate(ingredients) if one.law == "single"]
    for low, high in [(a, b) for k, a in enumerate(single) for b in single[k + 1 :]]:
        for share in (0.1, 0.3):
            if time.perf_counter() > deadline:
                break
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


def curves(evidence: Evidence, ingredients: Sequence[Ingredient]) -> list[tuple[str, str, float, float]]:
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


def joint(
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
    hurried = target.seconds is not None and not target.paid
    allowed = SEARCH_SHARE * target.limit if hurried else math.inf
    ran = 0
    for share in _BUDGETS if small else _BUDGETS[1::2]:
        if time.perf_counter() - began < allowed / 2:
            add(share * dearest, "joint optimum", thorough=False)
            ran += 1
    each = (time.perf_counter() - began) / max(ran, 1)
    # All pairs take about eight times as long as those with the first ingredient.
    thorough = small and 8 * each < allowed
    left = target.limit - spent()
    if hurried:
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


def listed(
    mixtures: Sequence[tuple[Mixture, str]],
    ingredients: Sequence[Ingredient],
    evidence: Evidence,
    costs: FitCosts,
) -> list[Candidate]:
    """One candidate for each policy's text, by cost."""
    by_text: dict[str, Candidate] = {}
    for own, why in mixtures:
        used = [
            (one, float(lam), float(beta))
            for one, lam, beta in zip(ingredients, own.lam, own.beta, strict=True)
            if lam > 0 and beta > 0
        ]
        # All of the data is no part of it: the family itself is in the list.
        if any(one.law == "whole" and lam == 1.0 for one, lam, _ in used) and why != "asked for":
            continue
        text = " + ".join(one.text(lam, beta) for one, lam, beta in used)
        if text in by_text or not text:
            continue
        by_text[text] = Candidate(
            policy=text,
            cost=own.cost,
            seconds=costs.seconds(own.lam),
            flops=costs.flops(own.lam),
            operations=costs.operations(own.lam),
            evaluations=costs.steps(own.lam),
            variance=math.exp(min(own.value, 700.0)) if math.isfinite(own.value) else math.inf,
            error=evidence.error(own.lam, own.beta),
            affordable=False,
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


def thinned(candidates: list[Candidate]) -> list[Candidate]:
    """Without joint optima and fillings that lie behind the frontier: they say nothing."""
    shown = ("everything selected", "random partition", "a part of the data", "one by one", "mixed, best weights")
    most = 12 * min(own.variance for own in candidates)
    return [own for own in candidates if (own.on_frontier and own.variance <= most) or own.why in shown]
