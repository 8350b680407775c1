"""Tuples of codes as single integers: a bigram of words is a key, and a table of keys is a set of features.

The key of (c_1, …, c_q) with radices (R_1, …, R_q) is the mixed-radix number ((c_1·R_2 + c_2)·R_3 + …). Where that
would overflow, the number so far is replaced by its rank among those seen in training, and the product continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.types import Int32Array, IntArray

_LARGEST_KEY = 1 << 62
_LARGEST_KEY_TABLE = 1 << 22


@dataclass(frozen=True, eq=False)
class KeySpace:
    """The tuples seen in training, with codes 0..len−1 in ascending order of their keys.

    ``ranks[j]`` holds the sorted partial keys that were replaced by their rank before position j was appended. The
    kernels look tuples up (`fieldfit._kernels.TemplateEncoder`).
    """

    radices: tuple[int, ...]
    ranks: dict[int, IntArray]
    keys: IntArray

    def __len__(self) -> int:
        return len(self.keys)

    def check(self, radices: Sequence[int]) -> None:
        """Raise ValueError if the keys, perhaps from a file, are not those of tuples with these radices."""
        if list(self.radices) != list(radices):
            raise ValueError(f"a template has the radices {list(self.radices)!r:.60}, not {list(radices)!r:.60}")
        if not set(self.ranks) <= set(range(1, len(radices))):
            raise ValueError(f"a template of {len(radices)} values has ranks at {sorted(self.ranks)!r:.60}")
        limit = radices[0]
        for position in range(1, len(radices)):
            if position in self.ranks:
                _check_ascending(self.ranks[position], limit)
                limit = len(self.ranks[position])
            limit *= radices[position]
        _check_ascending(self.keys, limit)

    def decode(self, codes: IntArray) -> list[IntArray]:
        """The parts of the tuples with these codes, position by position."""
        keys = self.keys[codes]
        parts: list[IntArray] = []
        for position in range(len(self.radices) - 1, 0, -1):
            keys, part = np.divmod(keys, self.radices[position])
            parts.append(part)
            if position in self.ranks:
                keys = self.ranks[position][keys]
        parts.append(keys)
        return parts[::-1]


def _check_ascending(keys: IntArray, limit: int) -> None:
    """Raise ValueError if these are not different integers from 0 to ``limit`` - 1 in ascending order."""
    if keys.dtype != np.int64 or keys.ndim != 1:
        raise ValueError(f"the keys of a template are {keys.dtype} of shape {keys.shape}, not a list of int64")
    if len(keys) and not (keys[0] >= 0 and keys[-1] < limit and (keys[1:] > keys[:-1]).all()):
        raise ValueError(f"the keys of a template are not ascending integers from 0 to {limit - 1}")


def learn_keys(
    parts: Sequence[Int32Array], radices: Sequence[int], min_count: int = 1
) -> tuple[KeySpace, Int32Array]:
    """The space of the tuples that occur at least ``min_count`` times, and the code of each tuple (−1 where none)."""
    ranks: dict[int, IntArray] = {}
    keys = _fold(parts, radices, ranks)
    present = keys >= 0
    whole = bool(present.all())
    kept = keys if whole else keys[present]
    size = int(kept.max()) + 1 if len(kept) else 0
    if size <= _LARGEST_KEY_TABLE:
        counts = np.bincount(kept, minlength=size)
        seen = np.flatnonzero(counts)
        rank_of = np.zeros(size, dtype=np.int32)
        rank_of[seen] = np.arange(len(seen), dtype=np.int32)
        codes, counts = rank_of[kept], counts[seen]
    else:
        seen, inverse, counts = np.unique(kept, return_inverse=True, return_counts=True)
        codes = inverse.astype(np.int32)
    if min_count > 1:
        frequent = counts >= min_count
        table = np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)
        codes, seen = table[codes], seen[frequent]
    if not whole:
        spread = np.full(len(keys), -1, dtype=np.int32)
        spread[present] = codes
        codes = spread
    return KeySpace(tuple(radices), ranks, seen), codes


def _fold(parts: Sequence[Int32Array], radices: Sequence[int], ranks: dict[int, IntArray]) -> IntArray:
    """The key of each tuple, −1 where a part is negative; fills ``ranks`` where the product overflows."""
    keys = parts[0].astype(np.int64)
    absent = parts[0] < 0
    size = radices[0]
    for position in range(1, len(parts)):
        radix, part = radices[position], parts[position]
        if size * radix > _LARGEST_KEY:
            ranks[position] = np.unique(keys[~absent])
            keys = np.searchsorted(ranks[position], keys)
            size = len(ranks[position])
        keys = keys * radix + part
        absent |= part < 0
        size *= radix
    keys[absent] = -1
    return keys
