"""Families bound to a field: the same components in every sample.

Two forms: all k-subsets, numbered and never listed; and explicit lists. A part of either is a third.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from fieldfit import _kernels
from fieldfit.policies.structure import Component, FieldStructure
from fieldfit.policies.text import format_set
from fieldfit.threads import get_threads
from fieldfit.types import IntArray, PolicyError

_MOST_LISTED_BLOCKS = 10_000_000


class FieldFamily(ABC):
    """Components over the variables of a field, the same for every sample.

    ``block_size`` is the number of variables in A where all components have the same, else None;
    ``conditions_on_rest`` says that B is everything outside A, so that only the blocks matter.
    """

    name: str
    size: int
    block_size: int | None
    conditions_on_rest: bool

    def sizes(self, start: int, stop: int) -> IntArray:
        """The number of components of each of the samples start..stop: always the same."""
        return np.full(stop - start, self.size, dtype=np.int64)

    @property
    def mean_size(self) -> float:
        """The number of components, the same in every sample."""
        return float(self.size)

    def targets(self, indices: IntArray) -> IntArray | None:
        """The blocks A of these components (len(indices), block_size), sorted; None if their sizes differ."""
        return None

    @abstractmethod
    def blocks(self, indices: IntArray) -> tuple[IntArray, IntArray]:
        """The same for any sizes: block i is ``members[indptr[i]:indptr[i+1]]``; returns (indptr, members)."""

    @abstractmethod
    def component(self, index: int, row: int = 0) -> Component:
        """The component with this number (the same in every row)."""

    def _check(self, indices: IntArray) -> IntArray:
        indices = np.ascontiguousarray(indices, dtype=np.int64)
        wrong = np.flatnonzero((indices < 0) | (indices >= self.size))
        if len(wrong):
            raise PolicyError(
                f"{self.name} has the components 0 to {self.size - 1}; there is no component {indices[wrong[0]]}."
            )
        return indices


class SubsetsFamily(FieldFamily):
    """All k-subsets of the free variables in lexicographic order, each given everything else."""

    conditions_on_rest = True

    def __init__(self, structure: FieldStructure, k: int) -> None:
        self.name = f"PL{k}"
        self.structure = structure
        self.block_size: int = k
        self.free = np.array(structure.free, dtype=np.int64)
        m = len(self.free)
        if k > m:
            raise PolicyError(f"PL{k} needs blocks of {k} variables; the model has {m} that are not conditioned on.")
        self.size = math.comb(m, k)
        if self.size >= 2**63 - 1:
            raise PolicyError(
                f"PL{k} on {m} variables has {self.size:.2e} components, more than can be numbered; "
                f"use PL{k}(connected) or a smaller k."
            )

    def targets(self, indices: IntArray) -> IntArray:
        """The blocks A (len(indices), k), sorted: the numbers are turned into subsets without a list of them."""
        indices = self._check(indices)
        positions = np.empty((len(indices), self.block_size), dtype=np.int64)
        _kernels.unrank_subsets(
            indices, len(self.free), self.block_size, out=positions, n_threads=get_threads(10 * positions.size)
        )
        return positions if len(self.free) == self.structure.n_variables else self.free[positions]

    def ranks(self, blocks: IntArray) -> IntArray:
        """The numbers of these blocks (n, k), given as increasing positions among the free variables."""
        out = np.empty(len(blocks), dtype=np.int64)
        _kernels.rank_subsets(
            np.ascontiguousarray(blocks, dtype=np.int64),
            len(self.free),
            out=out,
            n_threads=get_threads(10 * blocks.size),
        )
        return out

    def blocks(self, indices: IntArray) -> tuple[IntArray, IntArray]:
        """The blocks A as (indptr, members)."""
        members = self.targets(indices)
        return np.arange(len(members) + 1) * self.block_size, members.ravel()

    def component(self, index: int, row: int = 0) -> Component:
        """The block with this number, given everything else."""
        target = tuple(self.targets(np.array([index]))[0].tolist())
        return Component(target, self.structure.rest(target))


class ListedFamily(FieldFamily):
    """An explicit list of blocks, each given everything else or given sets of their own.

    ``block_indptr`` and ``block_indices`` hold the blocks A in one flat array, each sorted.
    """

    def __init__(
        self,
        name: str,
        structure: FieldStructure,
        blocks: tuple[tuple[int, ...], ...],
        givens: tuple[tuple[int, ...], ...] | None = None,
    ) -> None:
        self.name = name
        self.structure = structure
        observed = frozenset(structure.observed)
        for block in blocks:
            for v in block:
                if v >= structure.n_variables:
                    raise PolicyError(
                        f"{name} names variable {v}; the model has the variables 0 to {structure.n_variables - 1}."
                    )
                if v in observed:
                    raise PolicyError(
                        f"{name} has variable {v} in a block, but the model conditions on it: leave it out."
                    )
            if not block:
                raise PolicyError(f"{name} has an empty block: the model conditions on every variable.")
        self.size = len(blocks)
        lengths = np.array([len(block) for block in blocks], dtype=np.int64)
        self.block_indptr: IntArray = np.concatenate(([0], np.cumsum(lengths)))
        self.block_indices: IntArray = np.array([v for block in blocks for v in sorted(block)], dtype=np.int64)
        self.block_size = int(lengths[0]) if (lengths == lengths[0]).all() else None
        self.givens: tuple[tuple[int, ...], ...] | None = None
        if givens is not None:
            for given in givens:
                for v in given:
                    if v >= structure.n_variables:
                        raise PolicyError(
                            f"{name} names variable {v} in {format_set(given)}; the model has the "
                            f"variables 0 to {structure.n_variables - 1}."
                        )
            self.givens = tuple(tuple(sorted(observed.union(given))) for given in givens)
        self.conditions_on_rest = self.givens is None or all(
            len(block) + len(given) == structure.n_variables for block, given in zip(blocks, self.givens, strict=True)
        )

    def targets(self, indices: IntArray) -> IntArray | None:
        """The blocks A (len(indices), block_size), sorted; None if their sizes differ."""
        indices = self._check(indices)
        if self.block_size is None:
            return None
        return self.block_indices.reshape(self.size, self.block_size)[indices]

    def blocks(self, indices: IntArray) -> tuple[IntArray, IntArray]:
        """The blocks A as (indptr, members)."""
        indices = self._check(indices)
        begin, lengths = self.block_indptr[indices], np.diff(self.block_indptr)[indices]
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        return indptr, self.block_indices[np.repeat(begin - indptr[:-1], lengths) + np.arange(indptr[-1])]

    def component(self, index: int, row: int = 0) -> Component:
        """The pair with this number."""
        self._check(np.array([index]))
        target = tuple(self.block_indices[self.block_indptr[index] : self.block_indptr[index + 1]].tolist())
        return Component(target, self.structure.rest(target) if self.givens is None else self.givens[index])


class PickedFamily(FieldFamily):
    """Some components of another family, in the order of ``picks``."""

    def __init__(self, name: str, family: FieldFamily, picks: tuple[int, ...] | range) -> None:
        self.name = name
        self.family = family
        self.size = len(picks)
        largest = picks[-1] if isinstance(picks, range) else max(picks)
        if largest >= family.size:
            raise PolicyError(
                f"{name} has component {largest}, but {family.name} has the components 0 to {family.size - 1}."
            )
        self.picks: IntArray = np.array(picks, dtype=np.int64)
        self.block_size = family.block_size
        self.conditions_on_rest = family.conditions_on_rest

    def targets(self, indices: IntArray) -> IntArray | None:
        """The blocks A (len(indices), block_size), sorted; None if their sizes differ."""
        return self.family.targets(self.picks[self._check(indices)])

    def blocks(self, indices: IntArray) -> tuple[IntArray, IntArray]:
        """The blocks A as (indptr, members)."""
        return self.family.blocks(self.picks[self._check(indices)])

    def component(self, index: int, row: int = 0) -> Component:
        """The component with this number among those picked."""
        return self.family.component(int(self.picks[self._check(np.array([index]))][0]))


def connected_subsets(structure: FieldStructure, k: int, name: str) -> tuple[tuple[int, ...], ...]:
    """All sets of k free variables that are connected in the graph, in lexicographic order.

    Each set is grown once, from its smallest member: a vertex joins only if it is a neighbour of the set that was not
    one before the last vertex joined (exclusive neighbourhoods), so the cost is proportional to what is found.
    """
    free = set(structure.free)
    if k > len(free):
        raise PolicyError(f"{name} needs blocks of {k} variables; the model has {len(free)} not conditioned on.")
    neighbours = {v: [w for w in structure.neighbours[v] if w in free] for v in free}
    blocks: list[tuple[int, ...]] = []
    for root in sorted(free):
        # (members, candidates that may still join, members and all their neighbours)
        stack: list[tuple[tuple[int, ...], list[int], set[int]]] = [
            ((root,), [w for w in neighbours[root] if w > root], {root, *neighbours[root]})
        ]
        while stack:
            members, candidates, seen = stack.pop()
            if k == 1:
                blocks.append(members)
                continue
            if len(members) == k - 1:
                blocks.extend(tuple(sorted((*members, w))) for w in candidates)
                if len(blocks) > _MOST_LISTED_BLOCKS:
                    raise PolicyError(
                        f"{name} has more than {_MOST_LISTED_BLOCKS} components on this graph: use a smaller k."
                    )
                continue
            for position, w in enumerate(candidates):
                fresh = [u for u in neighbours[w] if u > root and u not in seen]
                stack.append(((*members, w), candidates[position + 1 :] + fresh, seen.union(neighbours[w])))
    if not blocks:
        raise PolicyError(f"{name} has no component: the graph has no connected set of {k} variables.")
    return tuple(sorted(blocks))
