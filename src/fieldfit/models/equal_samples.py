"""Samples that share all their scores: equal in every variable, with the same selected components."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fieldfit.policies.selection import FamilySelection
from fieldfit.types import Array, IntArray


def equal_samples(codes: Array, parts: Sequence[FamilySelection]) -> tuple[IntArray, IntArray] | None:
    """The first sample of each class (classes,) and the class of each sample (n,).

    ``codes`` (n, m) are integers of at least −1. None if there are more than half as many classes as samples, or if
    components are selected one by one, so that samples seldom share them.
    """
    n, m = codes.shape
    if n == 0 or any(part.indices is not None for part in parts):
        return None
    shifted = codes.astype(np.int64) + 1
    columns = [shifted[:, j] for j in range(m)]
    columns += [part.rows.astype(np.int64) for part in parts if part.rows is not None]
    key, count = np.zeros(n, dtype=np.int64), 1
    for column in columns:
        size = int(column.max()) + 1
        if count * size > 2**62:
            # Class numbers replace their keys: there are at most n of them.
            distinct, key = np.unique(key, return_inverse=True)
            count = len(distinct)
            if 2 * count > n:
                return None
        key, count = key * size + column, count * size
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return (first, number) if 2 * len(first) <= n else None
