"""Elimination orders: which free variable to sum out next, so that the largest table stays small.

Summing out a variable joins all its neighbours in one table. Min-fill takes the variable whose elimination adds the
fewest new edges; min-weight the one whose table is smallest. Where the cheaper of the two is still expensive, many more
orders are tried (kernels/elimination_order.hpp) and the cheapest is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fieldfit import _kernels
from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.types import WidthError

#: Largest table (entries) that an exact sum may need. 2^22 doubles are 32 MB.
LARGEST_TABLE = 1 << 22
#: Entries of all tables up to which no better order than the greedy ones is searched.
ENOUGH = 1 << 16


@dataclass(frozen=True)
class EliminationOrder:
    """Variables in the order in which they are summed out, each with the separator that it leaves behind."""

    variables: tuple[int, ...]
    separators: tuple[tuple[int, ...], ...]  # of variables, the one that is summed out next first
    cost: int  # entries of all tables together
    width: int  # variables in the largest table, less one: the width of this order


def _separators(variables: list[int], around: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    """The later neighbours of each variable, those that earlier eliminations have joined to it included."""
    place = {variable: index for index, variable in enumerate(variables)}
    inherited: list[set[int]] = [set() for _ in variables]
    result = []
    for index, variable in enumerate(variables):
        later = inherited[index]
        later.update(place[u] for u in around[variable] if place[u] > index)
        later.discard(index)
        separator = sorted(later)
        if separator:
            inherited[separator[0]] |= later
        inherited[index] = set()
        result.append(tuple(variables[p] for p in separator))
    return tuple(result)


def elimination_order(
    graph: FactorGraph, free: frozenset[int], *, name: str, largest_table: int = LARGEST_TABLE
) -> EliminationOrder:
    """The cheapest order found of the ``free`` variables, others being clamped.

    Raises `WidthError`, before anything is computed, where a table would have more than ``largest_table`` entries;
    ``name`` says what the sum is for.
    """
    chosen = sorted(free)
    local = {variable: index for index, variable in enumerate(chosen)}
    around = [[local[u] for u in graph.neighbours[v] if u in local] for v in chosen]
    cards = [graph.cardinalities[v] for v in chosen]
    order = np.empty(len(chosen), dtype=np.int32)
    tried, least_width = _kernels.elimination_order(
        np.array(cards, dtype=np.int32),
        np.concatenate(([0], np.cumsum([len(line) for line in around]))).astype(np.int64),
        np.array([u for line in around for u in line], dtype=np.int32),
        limit=float(largest_table),
        enough=float(ENOUGH),
        order=order,
    )
    advice = (
        "Use smaller blocks (PL1, PL2, Partition(2)), the likelihood by simulation from a first estimate "
        "('PL1 >> FL~20000'), or condition on more variables; or make the model with a larger largest_table, if the "
        "memory allows it."
    )
    if chosen and not tried:
        raise WidthError(
            f"{name} sums over {len(free)} variables with a width of at least {least_width}: one table would have more "
            f"than {largest_table:,} entries. {advice}"
        )
    variables = order.tolist()
    separators = _separators(variables, around)
    tables = [
        cards[variable] * math.prod(cards[u] for u in separator)
        for variable, separator in zip(variables, separators, strict=True)
    ]
    width = max((len(separator) for separator in separators), default=0)
    if max(tables, default=0) > largest_table:
        raise WidthError(
            f"{name} sums over {len(free)} variables. The best of the {tried} elimination orders that were tried has a "
            f"width of {width}, and one of its tables {_entries(max(tables))} entries, where the limit is "
            f"{largest_table:,}. {advice}"
        )
    return EliminationOrder(
        tuple(chosen[v] for v in variables),
        tuple(tuple(chosen[u] for u in separator) for separator in separators),
        sum(tables),
        width,
    )


def _entries(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"about 2^{math.log2(count):.0f}"
