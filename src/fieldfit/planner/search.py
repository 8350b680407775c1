"""The best mixtures (λ, β) of ingredients: at given λ, under a budget, and at every cost.

Under a budget it is sequential quadratic programming on the variance.

The variables are λ_f and the shares b_f = β_f tr J_f of a few ingredients (β's scale does not matter: Σ b_f = 1), the
constraint is cost(λ) ≤ budget. A family that is always selected costs less than one that is drawn with λ close to 1, and
one that is left out costs nothing, so the search runs over small sets of ingredients with some of them fixed at λ = 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldfit.optim.simplex import minimise_on_simplex
from fieldfit.planner.ingredients import Ingredient
from fieldfit.policies.laws.base import Noise
from fieldfit.types import FloatArray
from fieldfit.variance.criterion import Criterion

Cost = Callable[[FloatArray], float]

#: (cost, variance), costs increasing and variances not.
Edge = list[tuple[float, float]]

#: Smallest λ of a mixture, and smallest share of the information that keeps an ingredient in it.
_LEAST_LAM, _LEAST_SHARE = 1e-4, 2e-3
#: Fewest and most costs at which the edge of what can be reached is computed, and how many optimisations of a criterion of
#: few directions that may take in all: about two seconds.
_LEAST_COSTS, _MOST_COSTS, _EDGE_OPTIMISATIONS = 3, 33, 600
#: Directions from which on an optimisation takes twice as long as with few.
_FEW_DIRECTIONS = 40


@dataclass(frozen=True)
class Freedom:
    """Which ingredients have no free λ (``fixed``), and which are parts of the data and are not mixed (``alone``)."""

    fixed: frozenset[int]
    alone: frozenset[int]

    @classmethod
    def of(cls, ingredients: Sequence[Ingredient]) -> Freedom:
        """As the laws say."""
        noises = [part.noise for part in ingredients]
        return cls(
            frozenset(place for place, noise in enumerate(noises) if noise is Noise.FIXED),
            frozenset(place for place, noise in enumerate(noises) if noise is Noise.TOGETHER),
        )


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


def best_weights(lam: FloatArray, criterion: Criterion, cost: Cost) -> Mixture:
    """The mixture with these λ and the best β for them."""
    used = np.flatnonzero(lam)
    over_weights = criterion.subset(list(used)).over_weights(lam[used])
    beta = np.zeros_like(lam)
    beta[used], _ = minimise_on_simplex(over_weights.value, over_weights.value_grad, over_weights.information)
    return rounded(lam, beta, criterion, cost)


def fill_budget(place: int, criterion: Criterion, cost: Cost, budget: float, freedom: Freedom) -> Mixture | None:
    """One ingredient with the largest λ that the budget allows; None where not even a small one is affordable."""
    unit = np.eye(criterion.moments.count)[place]
    if cost(unit) <= budget:
        return rounded(unit, unit, criterion, cost)
    if place in freedom.fixed or cost(_LEAST_LAM * unit) > budget:
        return None
    low, high = _LEAST_LAM, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle * unit) <= budget else (low, middle)
    filled = rounded(low * unit, unit, criterion, cost)
    return filled if math.isfinite(filled.value) and filled.cost <= budget else None


def best_mixture(
    criterion: Criterion, cost: Cost, budget: float, members: Sequence[int], always: Iterable[int]
) -> Mixture | None:
    """The best mixture of ``members`` whose cost is at most ``budget``; those in ``always`` have λ = 1."""
    from scipy.optimize import minimize

    count = criterion.moments.count
    members = list(members)
    few = criterion.subset(members)
    within = [members.index(f) for f in members if f not in set(always)]
    free = [f for f in members if f not in set(always)]
    size = criterion.information
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
    solution = solver(
        value_grad, start, jac=True, method="SLSQP", bounds=bounds, constraints=constraints,
        options={"ftol": 1e-8, "maxiter": 40},
    )  # fmt: skip
    candidates = []
    for z in (np.asarray(solution.x, dtype=np.float64), start):
        if not np.isfinite(z).all():
            continue
        lam, beta = unpack(z)
        share = beta * lam * size
        keep = share > _LEAST_SHARE * share.sum()
        mixture = rounded(np.where(keep, lam, 0.0), np.where(keep, beta, 0.0), criterion, cost)
        if math.isfinite(mixture.value) and mixture.cost <= budget * (1 + 1e-9):
            candidates.append(mixture)
    return min(candidates, key=lambda mixture: mixture.value, default=None)


def joint_optimum(
    criterion: Criterion, cost: Cost, budget: float, freedom: Freedom, *, thorough: bool
) -> Mixture | None:
    """The best of single ingredients, pairs and (if ``thorough``) triples of them under the budget."""
    count, fixed = criterion.moments.count, freedom.fixed
    mixtures: list[Mixture | None] = [fill_budget(place, criterion, cost, budget, freedom) for place in range(count)]
    mixed = [place for place in range(count) if place not in freedom.alone]
    groups: list[tuple[int, ...]] = list(itertools.combinations(mixed, 2))
    if not thorough:
        groups = [pair for pair in groups if 0 in pair]
    for group in groups:
        always = fixed & set(group)
        loose = [place for place in group if place not in always]
        choices = [
            always | set(chosen) for size in range(len(loose) + 1) for chosen in itertools.combinations(loose, size)
        ]
        for choice in choices if thorough else choices[:2]:
            mixtures.append(best_mixture(criterion, cost, budget, group, choice))
    best = _least(mixtures)
    if best is not None and thorough:
        # Every third ingredient beside the best pair.
        pair = np.flatnonzero(best.lam > 0).tolist()
        for more in mixed:
            if more not in pair and not set(pair) & freedom.alone and len(pair) < 3:
                always = (fixed & {*pair, more}) | {place for place in pair if best.lam[place] == 1.0}
                mixtures.append(best_mixture(criterion, cost, budget, [*pair, more], always))
    return _least(mixtures)


def _least(mixtures: Sequence[Mixture | None]) -> Mixture | None:
    known = [mixture for mixture in mixtures if mixture is not None]
    return min(known, key=lambda mixture: mixture.value, default=None)


def reachable_edge(
    criterion: Criterion, cost: Cost, freedom: Freedom, known: Edge, exactly: Callable[[Mixture], Mixture]
) -> Edge:
    """The least variance that any mixture has at each cost, from half of the cheapest of ``known`` to the most expensive.

    ``exactly`` gives what a search with this criterion finds its variance.

    A plan compares a few dozen policies; between their costs there are others, so the edge comes from joint optima at many
    costs. It is computed when a picture is drawn, not while the budget is running, and with the same effort on any machine.
    """
    known = [(price, variance) for price, variance in known if price > 0 and math.isfinite(variance)]
    if not known:
        return []
    prices = [price for price, _ in known]
    points = list(known)
    for budget in np.geomspace(min(prices) / 2, max(prices), edge_costs(criterion)).tolist():
        best = joint_optimum(criterion, cost, budget, freedom, thorough=False)
        value = math.inf if best is None else exactly(best).value
        if math.isfinite(value):
            points.append((budget, math.exp(value)))
    least = math.inf
    edge: Edge = []
    for price, variance in sorted(points):
        least = min(least, variance)
        if edge and edge[-1][0] == price:
            edge.pop()
        edge.append((price, least))
    return edge


def edge_costs(criterion: Criterion) -> int:
    """At how many costs the edge is computed: fewer where a joint optimum takes longer.

    A joint optimum makes two optimisations for each ingredient beside the first. Each inverts matrices over the directions;
    where the moments are diagonals there are none.
    """
    matrices = criterion.moments.J.ndim > 2
    size = 1 + (criterion.rank / _FEW_DIRECTIONS) ** 3 if matrices else 1.0
    work = 2 * max(criterion.moments.count - 1, 1) * size
    return int(np.clip(_EDGE_OPTIMISATIONS / work, _LEAST_COSTS, _MOST_COSTS))


def least_at(edge: Edge, cost: float) -> float:
    """The least variance at this cost; infinite below the cheapest."""
    within = [variance for price, variance in edge if price <= cost * (1 + 1e-12)]
    return within[-1] if within else math.inf
