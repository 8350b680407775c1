"""Lists of numbers of different lengths as two flat arrays: the scopes of factors, the neighbours of variables.

It reads as a tuple of tuples; only the lists that are accessed become tuples, so that millions of them cost two arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import overload

import numpy as np

from fieldfit.types import IntArray


class Ragged(Sequence[tuple[int, ...]]):
    """List i is ``members[indptr[i]:indptr[i + 1]]``."""

    def __init__(self, indptr: IntArray, members: IntArray) -> None:
        self.indptr = indptr
        self.members = members

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Ragged:
        """From any sequence of sequences."""
        if isinstance(lists, Ragged):
            return lists
        lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        return cls(indptr, np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=int(indptr[-1])))

    @classmethod
    def grouped(cls, owner: IntArray, members: IntArray, size: int) -> Ragged:
        """Member i belongs to list ``owner[i]`` of ``size`` lists; within a list the order stays."""
        order = np.argsort(owner, kind="stable")
        indptr = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=size)))).astype(np.int64)
        return cls(indptr, members[order])

    @property
    def lengths(self) -> IntArray:
        """The length of each list."""
        return np.diff(self.indptr)

    @property
    def owner(self) -> IntArray:
        """The list of each member."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def padded(self, fill: int) -> IntArray:
        """A matrix (lists, longest list), short lists filled up with ``fill``."""
        width = max(int(self.lengths.max(initial=0)), 1 if not len(self) else 0)
        if len(self.members) == len(self) * width:
            return self.members.reshape(len(self), width)
        result = np.full((len(self), width), fill, dtype=np.int64)
        result[np.arange(width) < self.lengths[:, None]] = self.members
        return result

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"There are {len(self)} lists; got {index}.")
        return tuple(self.members[self.indptr[place] : self.indptr[place + 1]].tolist())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        members, indptr = self.members.tolist(), self.indptr.tolist()
        return (tuple(members[start:stop]) for start, stop in pairwise(indptr))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ragged):
            return NotImplemented
        return np.array_equal(self.indptr, other.indptr) and np.array_equal(self.members, other.members)

    def __hash__(self) -> int:
        return hash((self.indptr.tobytes(), self.members.tobytes()))
