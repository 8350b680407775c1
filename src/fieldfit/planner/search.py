"""The joint optimum over (λ, β) under a budget, by sequential quadratic programming on the exact variance.

The variables are λ_f and the shares b_f = β_f tr J_f of a few ingredients (β's scale does not matter: Σ b_f = 1), the
constraint is cost(λ) ≤ budget. A family that is always selected costs less than one that is drawn with λ close to 1, and
one that is left out costs nothing, so the search runs over small sets of ingredients with some of them fixed at λ = 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fieldfit.planner.criterion import Criterion
from fieldfit.types import FloatArray

Cost = Callable[[FloatArray], float]

_LEAST_LAM = 1e-4
_LEAST_SHARE = 2e-3


@dataclass(frozen=True)
class Mixture:
    """λ and β of all ingredients (0 for those left out), log C, and the cost."""

    lam: FloatArray
    beta: FloatArray
    value: float
    cost: float


def rounded(lam: FloatArray, beta: FloatArray, criterion: Criterion, cost: Cost) -> Mixture:
    """λ rounded down to four digits, β to three of its largest: what is written is what is judged."""
    lam = np.where(lam >= 1 - 5e-5, 1.0, np.floor(lam * 1e4 + 1e-6) / 1e4)
    used = (lam > 0) & (beta > 0)
    lam, beta = np.where(used, lam, 0.0), np.where(used, beta, 0.0)
    top = beta.max(initial=0.0)
    if top > 0:
        beta = np.array([float(f"{b:.3g}") for b in beta / top])
    return Mixture(lam, beta, criterion.value(lam, beta), cost(lam))


def fill_budget(place: int, criterion: Criterion, cost: Cost, budget: float, *, fixed: bool) -> Mixture | None:
    """One ingredient with the largest λ that the budget allows; None where not even a small one is affordable."""
    count = len(criterion.moments.names)
    unit = np.eye(count)[place]
    if cost(unit) <= budget:
        return rounded(unit, unit, criterion, cost)
    if fixed or cost(_LEAST_LAM * unit) > budget:
        return None
    low, high = _LEAST_LAM, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle * unit) <= budget else (low, middle)
    found = rounded(low * unit, unit, criterion, cost)
    return found if math.isfinite(found.value) and found.cost <= budget else None


def optimise(
    criterion: Criterion, cost: Cost, budget: float, members: Sequence[int], always: Iterable[int]
) -> Mixture | None:
    """The best mixture of ``members`` whose cost is at most ``budget``; those in ``always`` have λ = 1."""
    from scipy.optimize import minimize

    count = len(criterion.moments.names)
    members = list(members)
    few = replace(criterion, moments=criterion.moments.subset(members))
    within = [members.index(f) for f in members if f not in set(always)]
    free = [f for f in members if f not in set(always)]
    size = np.trace(criterion.moments.J, axis1=1, axis2=2)
    if any(size[f] <= 0 for f in members):
        return None

    def unpack(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        lam, beta = np.zeros(count), np.zeros(count)
        lam[members] = 1.0
        lam[free] = np.clip(z[: len(free)], 0.0, 1.0)
        beta[members] = np.maximum(z[len(free) :], 0.0) / size[members]
        return lam, beta

    start = np.concatenate([np.ones(len(free)), np.full(len(members), 1.0 / len(members))])
    if cost(unpack(start)[0]) > budget:
        if not free:
            return None
        low, high = _LEAST_LAM, 1.0
        for _ in range(25):
            middle = (low + high) / 2
            start[: len(free)] = middle
            low, high = (middle, high) if cost(unpack(start)[0]) <= budget else (low, middle)
        start[: len(free)] = low
        if cost(unpack(start)[0]) > budget:
            return None

    def value_grad(z: FloatArray) -> tuple[float, FloatArray]:
        lam, beta = unpack(z)
        value, by_lam, by_beta = few.value_grad(lam[members], beta[members])
        if not math.isfinite(value):
            return 1e6, np.zeros(len(z))  # a wall that the line search can step back from
        return value, np.concatenate([by_lam[within], by_beta / size[members]])

    def left(z: FloatArray) -> float:
        return 1.0 - cost(unpack(z)[0]) / budget

    def left_slope(z: FloatArray) -> FloatArray:
        slope = np.zeros(len(z))
        for k in range(len(free)):
            step = np.zeros(len(z))
            # Inside (0, 1): at λ = 1 the cost jumps down, because nothing has to be drawn.
            middle = min(max(z[k], 2e-5), 1 - 2e-5)
            step[k] = 1e-5
            base = z.copy()
            base[k] = middle
            slope[k] = (left(base + step) - left(base - step)) / 2e-5
        return slope

    constraints: list[Any] = [
        {
            "type": "eq",
            "fun": lambda z: float(np.sum(z[len(free) :]) - 1.0),
            "jac": lambda z: np.concatenate([np.zeros(len(free)), np.ones(len(members))]),
        }
    ]
    if free and math.isfinite(budget):
        constraints.append({"type": "ineq", "fun": left, "jac": left_slope})
    bounds = [(_LEAST_LAM, 1.0)] * len(free) + [(0.0, 1.0)] * len(members)
    solver: Any = minimize
    found = solver(
        value_grad, start, jac=True, method="SLSQP", bounds=bounds, constraints=constraints,
        options={"ftol": 1e-8, "maxiter": 40},
    )  # fmt: skip
    candidates = []
    for z in (np.asarray(found.x, dtype=np.float64), start):
        if not np.isfinite(z).all():
            continue
        lam, beta = unpack(z)
        share = beta * lam * size
        keep = share > _LEAST_SHARE * share.sum()
        mixture = rounded(np.where(keep, lam, 0.0), np.where(keep, beta, 0.0), criterion, cost)
        if math.isfinite(mixture.value) and mixture.cost <= budget * (1 + 1e-9):
            candidates.append(mixture)
    return min(candidates, key=lambda own: own.value, default=None)


def joint_optimum(
    criterion: Criterion,
    cost: Cost,
    budget: float,
    partitions: Sequence[int],
    *,
    alone: Sequence[int] = (),
    thorough: bool,
) -> Mixture | None:
    """The best of single ingredients, pairs and (where it is cheap) triples of them under the budget.

    ``partitions`` have no λ; those in ``alone`` (a part of the data) are not mixed with others.
    """
    count = len(criterion.moments.names)
    fixed = set(partitions)
    found: list[Mixture | None] = [
        fill_budget(place, criterion, cost, budget, fixed=place in fixed) for place in range(count)
    ]
    mixed = [place for place in range(count) if place not in set(alone)]
    groups: list[tuple[int, ...]] = list(itertools.combinations(mixed, 2))
    if not thorough:
        groups = [pair for pair in groups if 0 in pair]
    for group in groups:
        always = fixed & set(group)
        loose = [place for place in group if place not in always]
        choices = [always | set(own) for size in range(len(loose) + 1) for own in itertools.combinations(loose, size)]
        for own in choices if thorough else choices[:2]:
            found.append(optimise(criterion, cost, budget, group, own))
    best = sorted((own for own in found if own is not None), key=lambda own: own.value)
    if best and thorough:
        # Every third ingredient beside the best pair.
        pair = np.flatnonzero(best[0].lam > 0).tolist()
        for more in mixed:
            if more not in pair and not set(pair) & set(alone) and len(pair) < 3:
                always = (fixed & {*pair, more}) | {f for f in pair if best[0].lam[f] == 1.0}
                found.append(optimise(criterion, cost, budget, [*pair, more], always))
    return min((own for own in found if own is not None), key=lambda own: own.value, default=None)
