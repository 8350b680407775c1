"""Elimination orders: which free variable to sum out next, so that the largest table stays small.

Summing out a variable joins all its neighbours in one table. Min-fill takes the variable whose elimination adds the
fewest new edges; min-weight the one whose table is smallest. Both are run and the cheaper order is kept.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.types import WidthError

#: Largest table (entries) that an exact sum may need. 2^22 doubles are 32 MB.
LARGEST_TABLE = 1 << 22


@dataclass(frozen=True)
class EliminationOrder:
    """Variables in the order in which they are summed out, each with the separator that it leaves behind."""

    variables: tuple[int, ...]
    separators: tuple[tuple[int, ...], ...]
    cost: int  # entries of all tables together
    width: int  # variables in the largest table, less one: the width of this order


class _Graph:
    """The free variables' graph while variables are being eliminated."""

    def __init__(self, graph: FactorGraph, free: frozenset[int]) -> None:
        self.cardinalities = graph.cardinalities
        self.around = {v: {u for u in graph.neighbours[v] if u in free} for v in free}

    def table(self, variable: int) -> int:
        return math.prod(self.cardinalities[u] for u in self.around[variable]) * self.cardinalities[variable]

    def fill(self, variable: int) -> int:
        around = self.around[variable]
        missing = sum(len(around) - 1 - len(around & self.around[u]) for u in around)
        return missing // 2

    def eliminate(self, variable: int) -> set[int]:
        """Join the neighbours, drop the variable; return the variables whose scores may have changed."""
        around = self.around.pop(variable)
        touched = set(around)
        for u in around:
            new = around - self.around[u] - {u}
            self.around[u] |= new
            self.around[u].discard(variable)
            if new:
                touched |= self.around[u]
        return touched


Score = Callable[[_Graph, int], tuple[int, int]]


def _min_fill(graph: _Graph, variable: int) -> tuple[int, int]:
    return graph.fill(variable), graph.table(variable)


def _min_weight(graph: _Graph, variable: int) -> tuple[int, int]:
    return graph.table(variable), graph.fill(variable)


def _greedy(graph: FactorGraph, free: frozenset[int], score: Score, limit: int) -> EliminationOrder | int:
    """The greedy order under ``score``, or the width at which it passed the limit."""
    remaining = _Graph(graph, free)
    current = {v: score(remaining, v) for v in free}
    heap = [(current[v], v) for v in free]
    heapq.heapify(heap)
    variables, separators, cost, width = [], [], 0, 0
    while heap:
        value, variable = heapq.heappop(heap)
        if current.get(variable) != value:
            continue
        del current[variable]
        size = remaining.table(variable)
        separator = tuple(sorted(remaining.around[variable]))
        if size > limit:
            return len(separator)
        cost += size
        width = max(width, len(separator))
        variables.append(variable)
        separators.append(separator)
        for u in remaining.eliminate(variable):
            new = score(remaining, u)
            if new != current[u]:
                current[u] = new
                heapq.heappush(heap, (new, u))
    return EliminationOrder(tuple(variables), tuple(separators), cost, width)


def elimination_order(
    graph: FactorGraph, free: frozenset[int], *, name: str, largest_table: int = LARGEST_TABLE
) -> EliminationOrder:
    """The cheaper of the min-fill and min-weight orders of the ``free`` variables, others being clamped.

    Raises `WidthError`, before anything is computed, where a table would have more than ``largest_table`` entries;
    ``name`` says what the sum is for.
    """
    attempts = [_greedy(graph, free, score, largest_table) for score in (_min_fill, _min_weight)]
    orders = [order for order in attempts if isinstance(order, EliminationOrder)]
    if not orders:
        width = min(order for order in attempts if isinstance(order, int))
        raise WidthError(
            f"{name} sums over {len(free)} variables with a width of at least {width}: one table would have more "
            f"than {largest_table:,} entries. Use smaller blocks (PL1, PL2, Partition(2)), condition on more "
            f"variables, or raise the limit with largest_table if the memory allows it."
        )
    return min(orders, key=lambda order: order.cost)
