"""Sums over shards in a fixed order: a binary tree over their numbers, in which any part can be added up anywhere.

The node (low, high) is the sum of the shards low..high. It is split at low + the largest power of two below its size, so
the root (0, n) has one shape for each n. Who adds up which node does not matter: each node is the sum of its two halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fieldfit.types import IntArray

#: What a shard answers: arrays to be added up, or None for a question that it cannot answer.
Answer = tuple[NDArray[np.float64], ...] | None
#: The sums of some nodes (low, high).
Nodes = dict[tuple[int, int], Answer]


def middle(low: int, high: int) -> int:
    """Where the node (low, high) is split."""
    return low + (1 << ((high - low - 1).bit_length() - 1))


def partial_sums(shards: Sequence[int], size: int, leaf: Callable[[int], Answer]) -> Nodes:
    """The sums of the largest nodes of the tree over ``size`` shards whose shards are all among ``shards``."""
    here = np.zeros(size + 1, dtype=np.int64)
    here[1:][list(shards)] = 1
    before: IntArray = np.cumsum(here)
    node_sums: Nodes = {}

    def whole(low: int, high: int) -> Answer:
        if high - low == 1:
            return leaf(low)
        cut = middle(low, high)
        return added(whole(low, cut), whole(cut, high))

    def visit(low: int, high: int) -> None:
        inside = int(before[high] - before[low])
        if inside == high - low:
            node_sums[low, high] = whole(low, high)
        elif inside:
            cut = middle(low, high)
            visit(low, cut)
            visit(cut, high)

    visit(0, size)
    return node_sums


def merged(parts: Iterable[Mapping[tuple[int, int], Answer]], size: int) -> Nodes:
    """The nodes of several parts, with both halves of a node replaced by their sum."""
    known: Nodes = {}
    for part in parts:
        known.update(part)

    def visit(low: int, high: int) -> None:
        if (low, high) in known or high - low == 1:
            return
        cut = middle(low, high)
        visit(low, cut)
        visit(cut, high)
        if (low, cut) in known and (cut, high) in known:
            known[low, high] = added(known.pop((low, cut)), known.pop((cut, high)))

    visit(0, size)
    return known


def added(first: Answer, second: Answer) -> Answer:
    """The sum of two answers; None where one of them is none."""
    if first is None or second is None:
        return None
    return tuple(a + b for a, b in zip(first, second, strict=True))
