"""The drawn Z: which components are selected for which samples, grouped by sample.

A selection is frozen and holds one `FamilySelection` for each term of the policy. Each is stored in the smallest form
that can say it: everything, whole rows, or a sparse list. Nothing of size samples × components is ever made.

Random numbers are keyed by (seed, stream, absolute row) and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from fieldfit import _kernels
from fieldfit.policies.structure import BoundFamily
from fieldfit.threads import get_threads
from fieldfit.types import BoolArray, FloatArray, IntArray, Plain, PolicyError
from fieldfit.words import counted

#: Pairs of sample and component that are listed: 8 GB of numbers.
_MOST_LISTED = 2**30
#: Variables and pairs of variables in the blocks that are listed: 4 GB, and two or three times that while they are made.
_MOST_IN_BLOCKS = 2**29


@dataclass(frozen=True)
class FamilySelection:
    """The selected components of one family.

    - everything: ``rows`` and ``indptr`` are None;
    - whole rows: ``rows`` is a mask over samples, a selected sample has all components of the family;
    - sparse: sample i has the components ``indices[indptr[i]:indptr[i+1]]``, in increasing order.

    ``beta`` is one weight for the family, or one for each component. ``start`` is the number of the first sample in
    the structure: sample i here is sample start + i there.
    """

    family: BoundFamily
    beta: float | FloatArray
    rows: BoolArray | None = None
    indptr: IntArray | None = None
    indices: IntArray | None = None
    start: int = 0

    @property
    def everything(self) -> bool:
        """Whether every component is selected for every sample."""
        return self.rows is None and self.indptr is None

    def count(self, n: int) -> int:
        """How many (sample, component) pairs are selected."""
        if self.indices is not None:
            return len(self.indices)
        sizes = self.family.sizes(self.start, self.start + n)
        return int(sizes.sum() if self.rows is None else sizes[self.rows].sum())

    def any_row(self, n: int) -> BoolArray:
        """Which samples have at least one component selected (n,)."""
        if self.indptr is not None:
            return np.diff(self.indptr) > 0
        return np.ones(n, dtype=bool) if self.rows is None else self.rows

    def between(self, start: int, stop: int) -> FamilySelection:
        """The samples start..stop."""
        rows, indptr, indices = self.rows, self.indptr, self.indices
        if indptr is not None and indices is not None:
            indices = indices[indptr[start] : indptr[stop]]
            indptr = indptr[start : stop + 1] - indptr[start]
        rows = None if rows is None else rows[start:stop]
        return replace(self, rows=rows, indptr=indptr, indices=indices, start=self.start + start)

    def subset(self, rows: IntArray, family: BoundFamily) -> FamilySelection:
        """The samples ``rows``; ``family`` is the same family, bound to these samples."""
        if self.indptr is None or self.indices is None:
            return FamilySelection(family, self.beta, rows=None if self.rows is None else self.rows[rows])
        counts = np.diff(self.indptr)[rows]
        pointer = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        taken = np.repeat(self.indptr[:-1][rows] - pointer[:-1], counts) + np.arange(pointer[-1])
        return FamilySelection(family, self.beta, indptr=pointer, indices=self.indices[taken])

    def component_rows(self, n: int) -> tuple[IntArray, IntArray]:
        """The same selection grouped by component: (indptr over components, samples in increasing order).

        Only for families with one list of components for all samples.
        """
        size = self.family.size
        if size is None:
            raise TypeError("The components of this family differ between samples.")
        if size > _MOST_LISTED:
            _refuse(self.family, size, "", _MOST_LISTED)
        if self.indices is None or self.indptr is None:
            check_components(self.family, size)
            chosen = np.arange(n) if self.rows is None else np.flatnonzero(self.rows)
            if size * len(chosen) > _MOST_LISTED:
                _refuse(
                    self.family, size, f" for each of {counted(len(chosen), 'samples')}", _MOST_LISTED // len(chosen)
                )
            return np.arange(size + 1) * len(chosen), np.tile(chosen, size)
        from scipy.sparse import csr_matrix

        # Transposing a sparse matrix is a counting sort: linear in what is selected.
        by_sample = csr_matrix((np.ones(len(self.indices), np.int8), self.indices, self.indptr), shape=(n, size))
        by_component = by_sample.tocsc()
        return by_component.indptr.astype(np.int64), by_component.indices.astype(np.int64)


def check_components(family: BoundFamily, count: int) -> None:
    """Refuse more components of a family than memory has room for, before arrays of them are made."""
    k: int = getattr(family, "block_size", None) or 1
    most = _MOST_IN_BLOCKS // (k * (k + 1) // 2)
    if count > most:
        _refuse(family, count, "", most)


def _refuse(family: BoundFamily, count: float, samples: str, most: int) -> NoReturn:
    raise PolicyError(
        f"{family.name} has {count:.2e} components{samples}; a fit takes at most {most:,} of them. Use smaller blocks, or "
        "connected ones, such as PL3(connected)."
    )


@dataclass(frozen=True)
class Selection:
    """The selected components of ``n`` samples, a `FamilySelection` for each family of the bound policy.

    ``start`` is the number of the first sample in the structure.
    """

    n: int
    parts: tuple[FamilySelection, ...]
    start: int = 0

    def count(self) -> int:
        """How many (sample, component) pairs are selected in all."""
        return sum(part.count(self.n) for part in self.parts)

    def between(self, start: int, stop: int) -> Selection:
        """The samples start..stop."""
        parts = tuple(part.between(start, stop) for part in self.parts)
        return Selection(stop - start, parts, self.start + start)

    def subset(self, rows: IntArray, families: Sequence[BoundFamily]) -> Selection:
        """The samples ``rows``; ``families`` are those of the parts, bound to these samples."""
        parts = tuple(part.subset(rows, family) for part, family in zip(self.parts, families, strict=True))
        return Selection(len(rows), parts)


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
    expected = largest * float(sizes.sum())
    if expected > _MOST_LISTED:
        _refuse(family, expected, f" selected in {counted(stop - start, 'samples')}", _MOST_LISTED)
    threads = get_threads(10 * expected)
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
