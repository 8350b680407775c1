"""The work of blocks given all the rest in a binary pairwise field (`kernels/pairwise.hpp`), by kind.

| kind           | one for each                                                                           |
|----------------|----------------------------------------------------------------------------------------|
| call           | evaluation                                                                             |
| sums           | entry of the matrices and gradients that a call clears and adds up, one set for a task |
| dense, edge    | sample × m² (rounded up to whole panels), sample × 2·edges: the local fields           |
| panel          | sample × m, where the local fields are a matrix product                                |
| single         | sample × variable: PL1 drawn whole                                                     |
| flipK          | block of K variables × 2^K states: PLK drawn whole                                     |
| entryK         | drawn block of K variables                                                             |
| expand         | sample × m: exponentials that blocks of two and more share                             |
| transpose      | sample × m, where blocks are drawn one by one                                          |
| scattered      | drawn block whose list of members is not in the cache                                  |
| setup_call     | compiling                                                                              |
| setup_pack     | sample × m that is packed into bits                                                    |
| setup_sort     | sample × log₂(samples): finding equal samples by sorting                               |
| setup_edge     | edge × log₂(edges): numbering                                                          |
| setup_block    | member of a block that is used at all                                                  |
| setup_sample   | sample for which something is drawn                                                    |
| setup_entry    | drawn block                                                                            |
| setup_search   | drawn block × log₂(blocks that are used at all): finding each among them               |
| setup_shuffle  | member of a drawn block of a partition                                                 |
| setup_merge    | drawn block, where equal samples are merged                                            |

Samples that are equal in all variables are seen once: expected numbers of distinct values, Σ_p 1 − (1 − q)^c for a value p
that c samples have and each uses with probability q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fieldfit.models.pairwise import PairwiseProblem
from fieldfit.models.pairwise_layout import TILE, distinct_rows
from fieldfit.models.work import Work, whole
from fieldfit.policies.laws.base import Share
from fieldfit.policies.structure import BoundFamily
from fieldfit.types import Array, FloatArray

#: The kernel's samples in a chunk, fewest and most tasks, and most numbers in all tasks together.
_KERNEL_CHUNK_SAMPLES, _FEWEST_TASKS, _MOST_TASKS, _MOST_TASK_NUMBERS = 512, 8, 32, 1 << 21
#: Bytes of the lists of members above which most of them are not in the cache.
_CACHE = 1e6
#: Most blocks whose sizes are counted one by one.
_MOST_COUNTED_BLOCKS = 1_000


@dataclass(frozen=True)
class PairwiseWork:
    """Blocks of k variables. ``repeats`` (distinct samples,), or None where equal samples are not merged."""

    n: int
    m: int
    n_edges: int
    dense: bool
    k: int
    components: int
    repeats: FloatArray | None

    @classmethod
    def of(cls, problem: PairwiseProblem, family: BoundFamily, codes: Array) -> PairwiseWork:
        """The work of a family of blocks on all samples ``codes`` (n, m). Blocks of several sizes count as the largest."""
        distinct, inverse = distinct_rows(codes.astype(np.uint8))
        repeats = None if inverse is None else np.bincount(inverse, minlength=len(distinct)).astype(float)
        size, k = int(family.size or 1), getattr(family, "block_size", 1)
        if k is None:
            k = max(len(family.component(j).target) for j in range(min(size, _MOST_COUNTED_BLOCKS)))
        return cls(len(codes), codes.shape[1], len(problem.field.edges), problem.dense, k, size, repeats)

    def work(self, share: Share) -> Work:
        """Rows for the local fields, blocks for the states."""
        lam, drawn = share.lam, share.any_drawn
        rows = self._distinct(drawn)
        lanes = whole(rows, TILE)
        result: Work = {"call": 1.0, **self._tasks(lanes), **self._setup(drawn)}
        if self.dense:
            # The kernel's matrix has whole panels of columns and whole words of rows.
            result["panel"] = lanes * whole(self.m, 16)
            result["dense"] = lanes * whole(self.m, 16) * whole(self.m, 32)
        else:
            result["edge"] = lanes * 2.0 * self.n_edges
        if share.together or lam >= 1.0:
            if self.k == 1:
                result["single"] = lanes * self.m
            else:
                result[f"flip{min(self.k, 4)}"] = lanes * self.components * 2.0**self.k
                result["expand"] = lanes * self.m
            return result
        entries = self._distinct(lam) * self.components
        members = 4.0 * self.k * (self.k + 1) / 2 * min(self.components, entries)
        result[f"entry{min(self.k, 4)}"] = entries * 2.0 ** max(self.k - 4, 0)
        result["transpose"] = lanes * self.m
        result["scattered"] = entries * members / (members + _CACHE)
        listed = self.n * lam * self.components
        result["setup_sample"] = float(self.n)
        result["setup_entry"] = listed
        result["setup_shuffle"] = listed * self.k if share.shuffled else 0.0
        result["setup_merge"] = 0.0 if self.repeats is None else listed
        used = min(listed, self.components)
        result["setup_search"] = listed * math.log2(used + 1)
        result["setup_block"] = used * self.k
        return result

    def _setup(self, drawn: float) -> Work:
        active = self.n * drawn
        sorted_rows = 0.0
        if active >= 2 * TILE and self.m <= 62 and not (self.m <= 16 and 2 << self.m <= active):
            sorted_rows = active * math.log2(active)
        return {
            "setup_call": 1.0,
            "setup_pack": self.n * self.m * (0.5 + 0.5 * drawn),
            "setup_sort": sorted_rows,
            "setup_edge": self.n_edges * math.log2(self.n_edges + 2),
            "setup_block": float(self.components * self.k) if self.k > 1 else 0.0,
        }

    def _tasks(self, lanes: float) -> Work:
        matrix = whole(self.m, 16) * whole(self.m, 32) if self.dense else 0.0
        held = whole(self.n_edges + self.m, 8) + matrix
        chunks = max(1.0, math.ceil(lanes / _KERNEL_CHUNK_SAMPLES))
        most = min(max(_MOST_TASK_NUMBERS // held, _FEWEST_TASKS), _MOST_TASKS)
        tasks = math.ceil(chunks / math.ceil(chunks / most))
        return {"pairwise_tasks": float(tasks), "sums": 2 * tasks * held + matrix}

    def _distinct(self, probability: float) -> float:
        """Distinct samples that are selected."""
        if self.repeats is None:
            return self.n * probability
        return float(np.sum(1 - (1 - probability) ** self.repeats))
