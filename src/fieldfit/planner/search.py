"""The best mixtures (λ, β) of ingredients: at given λ, under a budget, and at every cost.

Under a budget it is sequential quadratic programming on the variance.

The variables are λ_f and the shares b_f = β_f tr J_f of a few ingredients (β's scale does not matter: Σ b_f = 1), the
constraint is cost(λ) ≤ budget. A family that is always selected costs less than one that is drawn with λ close to 1, and
one that is left out costs nothing, so the search runs over small sets of ingredients with some of them fixed at λ = 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fieldfit.asymptotics.criterion import Criterion
from fieldfit.optim.simplex import minimise_on_simplex
from fieldfit.types import FloatArray

#: (cost, variance), costs increasing and variances not.
Edge = list[tuple[float, float]]

#: Smallest λ of a mixture, and smallest share of the information that keeps an ingredient in it.
_LEAST_LAM, _LEAST_SHARE = 1e-4, 2e-3
#: Fewest and most costs at which the edge of what can be reached is computed, and how many optimisations of a criterion of
#: few directions that may take in all: about two seconds.
_LEAST_COSTS, _MOST_COSTS, _EDGE_OPTIMISATIONS = 3, 33, 600
#: Directions from which on an optimisation takes twice as long as with few.
_FEW_DIRECTIONS = 40


#: Bisections of λ, which is written with four digits.
_BISECTIONS = 16


@dataclass(frozen=True)
class Mixture:
    """λ and β of all ingredients (0 for those left out), log C, and the cost."""

    lam: FloatArray
    beta: FloatArray
    value: float
    cost: float


@dataclass(frozen=True)
class _Group:
    """Ingredients that are mixed; the variables z are λ of the ``free`` ones among them, and the shares b of all.

    ``size`` is the information of each of them, and ``count`` the number of all ingredients.
    """

    members: list[int]
    free: list[int]
    size: FloatArray
    count: int

    def start(self, share: float) -> FloatArray:
        """The variables with one λ and equal shares."""
        n = len(self.members)
        return np.concatenate([np.full(len(self.free), share), np.full(n, 1.0 / n)])

    def mixture(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """λ and β of all ingredients."""
        lam, beta, shares = np.zeros(self.count), np.zeros(self.count), np.ones(len(self.members))
        shares[self.free] = np.clip(z[: len(self.free)], 0.0, 1.0)
        lam[self.members], beta[self.members] = shares, np.maximum(z[len(self.free) :], 0.0) / self.size
        return lam, beta


@dataclass(frozen=True)
class Search:
    """Finds mixtures by ``criterion``, or by one near it (``quick``) where that takes long to evaluate.

    ``cost`` is a function of λ. Ingredients in ``fixed`` have no free λ, those in ``alone`` are parts of the data and are
    not mixed.
    """

    criterion: Criterion
    quick: Criterion
    cost: Callable[[FloatArray], float]
    fixed: frozenset[int]
    alone: frozenset[int]

    def written(self, lam: FloatArray, beta: FloatArray, criterion: Criterion | None = None) -> Mixture:
        """λ rounded down to four digits, β to three of its largest: what is written is what is judged."""
        lam = np.where(lam >= 1 - 5e-5, 1.0, np.floor(lam * 1e4 + 1e-6) / 1e4)
        used = (lam > 0) & (beta > 0)
        lam, beta = np.where(used, lam, 0.0), np.where(used, beta, 0.0)
        top = beta.max(initial=0.0)
        if top > 0:
            beta = np.array([float(f"{b:.3g}") for b in beta / top])
        return Mixture(lam, beta, (criterion or self.criterion).value(lam, beta), self.cost(lam))

    def best_weights(self, lam: FloatArray) -> Mixture:
        """The mixture with these λ and the best β for them."""
        used = np.flatnonzero(lam)
        over_weights = self.quick.subset(list(used)).over_weights(lam[used])
        beta = np.zeros_like(lam)
        beta[used], _ = minimise_on_simplex(over_weights.value, over_weights.value_grad, over_weights.information)
        return self.written(lam, beta)

    def _largest(self, lam: Callable[[float], FloatArray], budget: float) -> float | None:
        """The largest number whose λ the budget allows; None where not even a small one is affordable."""
        if self.cost(lam(1.0)) <= budget:
            return 1.0
        if self.cost(lam(_LEAST_LAM)) > budget:
            return None
        low, high = _LEAST_LAM, 1.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.cost(lam(middle)) <= budget else (low, middle)
        return low

    def filled(self, place: int, budget: float, criterion: Criterion | None = None) -> Mixture | None:
        """One ingredient with the largest λ that the budget allows."""
        unit = np.eye(self.criterion.moments.count)[place]
        share = self._largest(lambda number: number * unit, budget)
        if share is None or (share < 1 and place in self.fixed):
            return None
        mixture = self.written(share * unit, unit, criterion)
        affordable = math.isfinite(mixture.value) and mixture.cost <= budget
        return mixture if share == 1.0 or affordable else None

    def best_of(self, members: Sequence[int], always: Collection[int], budget: float) -> Mixture | None:
        """The best mixture of ``members`` within the budget; those in ``always`` have λ = 1."""
        size = self.quick.information[list(members)]
        if np.any(size <= 0):
            return None
        free = [place for place, member in enumerate(members) if member not in always]
        group = _Group(list(members), free, size, self.criterion.moments.count)
        share = self._largest(lambda number: group.mixture(group.start(number))[0], budget)
        if share is None:
            return None
        start = group.start(share)
        return _least([self._kept(group, z, budget) for z in (self._descended(group, start, budget), start)])

    def _descended(self, group: _Group, start: FloatArray, budget: float) -> FloatArray:
        """The variables of a group after sequential quadratic programming from ``start``."""
        from scipy.optimize import minimize

        members, count, few = group.members, len(group.free), self.quick.subset(group.members)

        def value_grad(z: FloatArray) -> tuple[float, FloatArray]:
            lam, beta = group.mixture(z)
            value, by_lam, by_beta = few.value_grad(lam[members], beta[members])
            if not math.isfinite(value):
                return 1e6, np.zeros(len(z))  # a wall that the line search can step back from
            return value, np.concatenate([by_lam[group.free], by_beta / group.size])

        def left(z: FloatArray) -> float:
            return 1.0 - self.cost(group.mixture(z)[0]) / budget

        def left_slope(z: FloatArray) -> FloatArray:
            slope, step = np.zeros(len(z)), 1e-5
            for k in range(count):
                # Inside (0, 1): at λ = 1 the cost jumps down, because nothing has to be drawn.
                above, below = z.copy(), z.copy()
                middle = min(max(z[k], 2 * step), 1 - 2 * step)
                above[k], below[k] = middle + step, middle - step
                slope[k] = (left(above) - left(below)) / (2 * step)
            return slope

        shares = np.concatenate([np.zeros(count), np.ones(len(members))])
        constraints: list[Any] = [{"type": "eq", "fun": lambda z: float(shares @ z - 1.0), "jac": lambda z: shares}]
        if count and math.isfinite(budget):
            constraints.append({"type": "ineq", "fun": left, "jac": left_slope})
        bounds = [(_LEAST_LAM, 1.0)] * count + [(0.0, 1.0)] * len(members)
        solution = minimize(
            value_grad, start, jac=True, method="SLSQP", bounds=bounds, constraints=constraints,
            options={"ftol": 1e-8, "maxiter": 40},
        )  # fmt: skip
        return np.asarray(solution.x, dtype=np.float64)

    def _kept(self, group: _Group, z: FloatArray, budget: float) -> Mixture | None:
        """The mixture without ingredients of hardly any information; None where it is not within the budget."""
        if not np.isfinite(z).all():
            return None
        lam, beta = group.mixture(z)
        shares = beta * lam * self.quick.information
        keep = shares > _LEAST_SHARE * shares.sum()
        mixture = self.written(np.where(keep, lam, 0.0), np.where(keep, beta, 0.0), self.quick)
        return mixture if math.isfinite(mixture.value) and mixture.cost <= budget * (1 + 1e-9) else None

    def joint(self, budget: float, *, thorough: bool) -> Mixture | None:
        """The best of single ingredients, pairs and (if ``thorough``) triples of them under the budget."""
        count = self.criterion.moments.count
        mixtures = [self.filled(place, budget, self.quick) for place in range(count)]
        mixed = [place for place in range(count) if place not in self.alone]
        for pair in itertools.combinations(mixed, 2):
            if not thorough and 0 not in pair:
                continue
            always = self.fixed & set(pair)
            loose = [place for place in pair if place not in always]
            choices = [always.union(more) for k in range(len(loose) + 1) for more in itertools.combinations(loose, k)]
            mixtures += [self.best_of(pair, choice, budget) for choice in (choices if thorough else choices[:2])]
        best = _least(mixtures)
        if best is not None and thorough:
            # Every third ingredient beside the best pair.
            used = np.flatnonzero(best.lam > 0).tolist()
            for more in mixed:
                if more not in used and not self.alone.intersection(used) and len(used) < 3:
                    always = self.fixed & {*used, more} | {place for place in used if best.lam[place] == 1.0}
                    mixtures.append(self.best_of([*used, more], always, budget))
            best = _least(mixtures)
        if best is None or self.quick is self.criterion:
            return best
        return replace(best, value=self.criterion.value(best.lam, best.beta))

    def edge(self, known: Edge) -> Edge:
        """The least variance of any mixture at each cost, from half of the cheapest of ``known`` to the most expensive.

        A plan compares a few dozen policies; between their costs there are others, so the edge comes from joint optima at
        many costs. It is computed when a picture is drawn, not while the budget is running, and with the same effort on any
        machine.
        """
        points = [(price, variance) for price, variance in known if price > 0 and math.isfinite(variance)]
        if not points:
            return []
        prices = [price for price, _ in points]
        for budget in np.geomspace(min(prices) / 2, max(prices), edge_costs(self.quick)).tolist():
            best = self.joint(budget, thorough=False)
            if best is not None and math.isfinite(best.value):
                points.append((budget, math.exp(best.value)))
        least: dict[float, float] = {}
        for price, variance in sorted(points):
            least[price] = min([variance, *list(least.values())[-1:]])
        return list(least.items())


def _least(mixtures: Sequence[Mixture | None]) -> Mixture | None:
    known = [mixture for mixture in mixtures if mixture is not None]
    return min(known, key=lambda mixture: mixture.value, default=None)


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
