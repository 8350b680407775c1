"""The least variance that any mixture of the ingredients has at each cost: the edge of what can be reached.

A plan compares a few dozen policies; between their costs there are others, so the edge is drawn from joint optima at many
costs. It is found when a picture is drawn, not while the budget is running.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from fieldfit.planner.evidence import Evidence
from fieldfit.planner.ingredients import Ingredient
from fieldfit.planner.search import Cost, joint_optimum

#: Costs at which the optimum is looked for, and the seconds after which no more are.
_COSTS, _SECONDS = 33, 2.0

#: (cost, variance), costs increasing and variances not.
Edge = list[tuple[float, float]]


def envelope(evidence: Evidence, ingredients: Sequence[Ingredient], cost: Cost, known: Edge) -> Edge:
    """Costs from half of the cheapest of ``known`` to the dearest, each with the least variance that it buys."""
    known = [(price, variance) for price, variance in known if price > 0 and math.isfinite(variance)]
    if not known:
        return []
    prices = [price for price, _ in known]
    criterion = evidence.criterion
    partitions = [place for place, one in enumerate(ingredients) if one.law == "partition"]
    alone = [place for place, one in enumerate(ingredients) if one.law == "whole"]
    began = time.perf_counter()
    found = list(known)
    budgets = np.geomspace(min(prices) / 2, max(prices), _COSTS)
    for place in _coarse_first(_COSTS):
        if time.perf_counter() - began > _SECONDS:
            break
        budget = float(budgets[place])
        best = joint_optimum(criterion, cost, budget, partitions, alone=alone, thorough=False)
        if best is not None and math.isfinite(best.value):
            found.append((budget, math.exp(best.value)))
    least = math.inf
    edge: Edge = []
    for price, variance in sorted(found):
        least = min(least, variance)
        if edge and edge[-1][0] == price:
            edge.pop()
        edge.append((price, least))
    return edge


def _coarse_first(count: int) -> list[int]:
    """0 … count − 1 with ever smaller steps: whenever time is up, what is known covers the whole range."""
    order: list[int] = []
    step = 1 << (count - 1).bit_length()
    while step:
        order += [place for place in range(0, count, step) if place not in order]
        step //= 2
    return order


def least_at(edge: Edge, cost: float) -> float:
    """The least variance at this cost; infinite below the cheapest."""
    within = [variance for price, variance in edge if price <= cost * (1 + 1e-12)]
    return within[-1] if within else math.inf
