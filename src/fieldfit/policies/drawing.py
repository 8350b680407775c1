"""Draws that several laws share, with random numbers keyed by (seed, stream, absolute row) and nothing else."""

from __future__ import annotations

import numpy as np

from fieldfit import _kernels
from fieldfit.policies.selection import FamilySelection
from fieldfit.policies.structure import BoundFamily
from fieldfit.threads import get_threads
from fieldfit.types import BoolArray, FloatArray, IntArray, Plain

Weight = float | FloatArray
_NO_NUMBERS = np.empty(0, dtype=np.float64)
#: Numbers that are in memory at a time.
NUMBERS_AT_A_TIME = 4_000_000
_NO_MASK = np.empty(0, dtype=np.uint8)


def row_uniforms(seed: int, stream: int, start: int, stop: int, width: int) -> FloatArray:
    """Uniform numbers (stop − start, width), the same for a row in any range."""
    out = np.empty((stop - start, width))
    _kernels.uniforms(seed, stream, np.arange(start, stop, dtype=np.int64), out)
    return out


def nothing(family: BoundFamily, beta: Weight, start: int, stop: int) -> FamilySelection:
    """No component in any sample."""
    indptr = np.zeros(stop - start + 1, dtype=np.int64)
    return FamilySelection(family, beta, indptr=indptr, indices=np.empty(0, dtype=np.int64), start=start)


def one_for_each(
    family: BoundFamily, beta: Weight, rows: BoolArray, indices: IntArray, start: int
) -> FamilySelection:
    """One component in each of the samples ``rows``; ``indices`` has one entry for each of these."""
    indptr = np.concatenate(([0], np.cumsum(rows, dtype=np.int64)))
    return FamilySelection(family, beta, indptr=indptr, indices=indices, start=start)


def draw_bernoulli(
    family: BoundFamily,
    beta: Weight,
    lam: float | FloatArray,
    seed: int,
    stream: int,
    start: int,
    stop: int,
    active: BoolArray | None,
) -> FamilySelection:
    """Every component with its own λ: time and memory proportional to what is selected.

    Where λ differs between components, candidates come with the largest λ and stay with probability λ_j / max λ.
    """
    largest = float(np.max(lam))
    keep = _NO_NUMBERS if isinstance(lam, float) else np.ascontiguousarray(lam / largest)
    mask = _NO_MASK if active is None else active.astype(np.uint8)
    sizes = np.ascontiguousarray(family.sizes(start, stop), dtype=np.int64)
    threads = get_threads(10 * largest * float(sizes.sum()))
    indptr = np.zeros(stop - start + 1, dtype=np.int64)
    draws: Plain = {
        "seed": seed, "stream": stream, "first_row": start, "sizes": sizes, "lam": largest, "keep": keep, "active": mask,
        "n_threads": threads,
    }  # fmt: skip
    # Two passes over the same random numbers: the second pass writes into an array of exactly the right length.
    _kernels.bernoulli_count(**draws, counts=indptr[1:])
    np.cumsum(indptr, out=indptr)
    indices = np.empty(int(indptr[-1]), dtype=np.int64)
    _kernels.bernoulli_fill(**draws, indptr=indptr, indices=indices)
    return FamilySelection(family, beta, indptr=indptr, indices=indices, start=start)


def draw_nested(
    family: BoundFamily,
    beta: Weight,
    lam: float | FloatArray,
    seed: int,
    stream: int,
    start: int,
    stop: int,
    active: BoolArray | None,
) -> FamilySelection:
    """Z_j = 1[u_j < λ_j] with one number u_j for each component: draws at a smaller λ are part of those at a larger.

    Time is proportional to the number of components.
    """
    sizes = family.sizes(start, stop)
    width = int(sizes.max(initial=0))
    step = max(1, NUMBERS_AT_A_TIME // max(width, 1))
    counts, indices = [np.zeros(1, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    place = np.arange(width)
    for first in range(0, stop - start, step):
        some = slice(first, min(first + step, stop - start))
        chosen = row_uniforms(seed, stream, start + some.start, start + some.stop, width) < lam
        chosen &= place < sizes[some, None]
        if active is not None:
            chosen &= active[some, None]
        counts.append(chosen.sum(axis=1))
        indices.append(np.nonzero(chosen)[1])
    indptr = np.cumsum(np.concatenate(counts))
    return FamilySelection(family, beta, indptr=indptr, indices=np.concatenate(indices), start=start)
