"""How many copies of each sample have each value of Z.

A sample that stands for c copies has a Z for each of them. Where Z can take P < c values, with probabilities p, the numbers
of copies that have each value are Multinomial(c, p): the law is that of c single draws, and time and memory depend on P in
place of c. Copies of other samples are drawn one by one. Random numbers depend on the seed and the number of the sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.policies.patterns import Patterns
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.types import BoolArray, IntArray

#: Most values of Z that are listed, and most entries of their tables.
MOST_PATTERNS, _MOST_ENTRIES = 1 << 20, 1 << 28
#: Copies of a sample up to which single draws cost little.
_FEW = 16
#: The last word of the counter of random numbers, which no single draw uses.
_COUNTS = 0xC0


@dataclass(frozen=True)
class DrawnCounts:
    """Samples with one Z each, and the numbers of copies that have it.

    ``rows`` (k,) are the numbers of the samples in order, some of them several times, and ``counts`` (k,) their copies.
    The Z is number ``pattern`` (k,) in number ``table`` (k,) of ``tables``; that is −1 for a copy that is drawn alone.
    """

    rows: IntArray
    counts: IntArray
    table: IntArray
    pattern: IntArray
    tables: tuple[Patterns, ...]

    def selection(self, bound: BoundPolicy, seed: int) -> Selection:
        """Z of these samples; ``bound`` is the policy bound to them."""
        n, alone = len(self.rows), self.table < 0
        first = np.cumsum([0, *(len(table.probability) for table in self.tables)])
        # A line of all tables one below the other, and below them of the samples themselves.
        lines = np.where(alone, first[-1] + np.arange(n), first[self.table] + self.pattern)
        single = bound.draw(seed, 0, n) if alone.any() else None
        parts = []
        for place, (family, beta) in enumerate(zip(bound.families, bound.betas, strict=True)):
            part = None if single is None else single.parts[place]
            tables = [table.selected[place] for table in self.tables]
            if self.tables[0].whole[place]:
                rows = np.concatenate([table[:, 0] for table in tables] + ([] if part is None else [part.any_row(n)]))
                taken = rows[lines]
                parts.append(FamilySelection(family, beta, rows=None if taken.all() else taken))
                continue
            numbers = [np.count_nonzero(table, axis=1) for table in tables]
            indices = [np.nonzero(table)[1] for table in tables]
            if part is not None and part.indptr is not None and part.indices is not None:
                numbers.append(np.diff(part.indptr))
                indices.append(part.indices)
            indptr = np.concatenate([[0], np.cumsum(np.concatenate(numbers))]).astype(np.int64)
            listed = FamilySelection(family, beta, indptr=indptr, indices=np.concatenate(indices).astype(np.int64))
            parts.append(listed.subset(lines, family))
        return Selection(n, tuple(parts))


def draw_counts(bound: BoundPolicy, copies: IntArray, seed: int) -> DrawnCounts | None:
    """The numbers of the ``copies`` (n,) of each sample that have each Z; None where single draws are as few."""
    sizes = np.stack([family.sizes(0, len(copies)) for family in bound.families], axis=1)
    kinds, kind = np.unique(sizes, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    number = np.array([_listed(bound, tuple(each)) for each in kinds.tolist()])
    many: BoolArray = copies > np.maximum(number[kind], _FEW)
    if not many.any():
        return None
    used, kind_used = np.unique(kind[many], return_inverse=True)
    tables = tuple(bound.patterns(tuple(kinds[each].tolist())).likeliest_first() for each in used.tolist())
    samples = np.flatnonzero(many)
    numbers, drawn = [], []
    for row, place in zip(samples.tolist(), kind_used.reshape(-1).tolist(), strict=True):
        probability = tables[place].probability
        random = np.random.Generator(np.random.Philox(key=[seed, 0], counter=[0, 0, row, _COUNTS]))
        each = random.multinomial(copies[row], probability / probability.sum())
        numbers.append(np.flatnonzero(each))
        drawn.append(each[numbers[-1]])
    entries = copies.copy()
    entries[samples] = [len(each) for each in numbers]
    rows = np.repeat(np.arange(len(copies)), entries)
    counts, table, pattern = np.ones_like(rows), np.full_like(rows, -1), np.zeros_like(rows)
    here = many[rows]
    counts[here], pattern[here] = np.concatenate(drawn), np.concatenate(numbers)
    table[here] = np.repeat(kind_used.reshape(-1), entries[samples])
    return DrawnCounts(rows, counts, table, pattern, tables)


def _listed(bound: BoundPolicy, sizes: tuple[int, ...]) -> float:
    """The number of values of Z, infinite where they are too many to list."""
    number = bound.n_patterns(sizes)
    return number if number <= MOST_PATTERNS and number * max(sum(sizes), 1) <= _MOST_ENTRIES else np.inf
