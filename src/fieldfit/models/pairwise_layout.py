"""Blocks of a binary pairwise field as flat arrays: what `kernels/pairwise.hpp` reads.

Samples that are the same in all variables have the same likelihoods. If that at least halves the work (few variables,
many samples), equal samples are merged and their weights added. Samples without selected components are left out, so
that a fit to a part of the data costs that part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.policies.selection import FamilySelection, check_components
from fieldfit.properties import cached_property, state_without
from fieldfit.types import Array, FloatArray, Int32Array, IntArray, Plain

S = TypeVar("S", bound=np.generic)

LARGEST_BLOCK = 12
#: Samples in a tile of bits.
TILE = 64
#: Share of selected samples above which dropping the others saves too little.
_WORTH_LEAVING_OUT = 0.9
NO_FLOATS: FloatArray = np.empty(0)
NO_INTS: IntArray = np.empty(0, dtype=np.int64)


def sums_by(index: IntArray, values: FloatArray, length: int) -> FloatArray:
    """out[j] = Σ of the values with index j. Unlike `numpy.bincount`, it returns floats for an empty input too."""
    if not len(index):
        return np.zeros(length)
    return np.bincount(index, values, length).astype(np.float64, copy=False)


class BlockFamily(Protocol):
    """A family with one list of blocks for all samples."""

    size: int
    conditions_on_rest: bool

    def blocks(self, indices: IntArray) -> tuple[IntArray, IntArray]:
        """The blocks A of these components: block i is ``members[indptr[i]:indptr[i+1]]``."""


@dataclass(frozen=True)
class Entries:
    """The listed (sample, component) pairs of one part. Without merging, entry i of the kernel is entry i here."""

    samples: IntArray
    kernel_entry: IntArray | None
    counts: FloatArray | None


@dataclass(frozen=True)
class Part:
    """Components of one family with blocks of one size; the fields that the kernel reads are columns of ``meta``."""

    family: int
    entries: Entries | None
    first_entry: int = 0


@dataclass(frozen=True, eq=False)
class Layout:
    """Samples, blocks and selection as the kernel's arrays.

    ``meta`` goes with the stored ``row_weight`` and ``entry_weight``, ``meta_weighted`` with those of `weights`; line i
    of both is part ``used[i]``.
    """

    n: int
    columns: NDArray[np.uint64]
    rows: NDArray[np.uint32]
    meta: IntArray
    meta_weighted: IntArray
    targets: Int32Array
    pairs: Int32Array
    beta: FloatArray
    indptr: IntArray
    entry_component: Int32Array
    parts: tuple[Part, ...]
    used: tuple[int, ...]
    masks: tuple[NDArray[np.bool_] | None, ...]
    inverse: IntArray | None
    row_weight: FloatArray
    entry_weight: FloatArray
    edge_number: EdgeNumbers

    def __getstate__(self) -> Plain:
        return state_without(self, "kernel")

    @cached_property
    def kernel(self) -> _kernels.PairwiseBlocks:
        """The layout in the kernel's form. All indices are checked here, once."""
        pointer, adjacent, adjacent_edge = self.edge_number.adjacency
        return _kernels.PairwiseBlocks(
            n=self.n,
            columns=self.columns,
            rows=self.rows,
            edges=self.edge_number.edges,
            adjacent_pointer=pointer,
            adjacent=adjacent,
            adjacent_edge=adjacent_edge,
            meta=self.meta,
            meta_weighted=self.meta_weighted,
            targets=self.targets,
            pairs=self.pairs,
            beta=self.beta,
            indptr=self.indptr,
            entry_component=self.entry_component,
            row_weight=self.row_weight,
            entry_weight=self.entry_weight,
        )

    def weights(self, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The kernel's row_weight (families × n) and entry_weight for these weights of the samples."""
        lines = [NO_FLOATS]
        for mask in self.masks:
            chosen = weight if mask is None else weight * mask
            lines.append(chosen if self.inverse is None else sums_by(self.inverse, chosen, self.n))
        entries = [NO_FLOATS]
        for part in self.parts:
            if part.entries is not None:
                entry_weights = weight[part.entries.samples]
                merged = part.entries.kernel_entry
                entries.append(
                    entry_weights
                    if merged is None
                    else sums_by(merged, entry_weights, len(cast(FloatArray, part.entries.counts)))
                )
        return np.concatenate(lines), np.concatenate(entries)

    def with_betas(self, betas: FloatArray) -> Layout:
        """The same with the weights of each family multiplied by β; families of weight 0 are left out."""
        every = range(len(self.parts))
        used = tuple(number for number in every if betas[self.parts[number].family] != 0) or tuple(every)[:1]
        beta = self.beta.copy()
        for number, part in enumerate(self.parts):
            first, length = self.meta[number, 4], self.meta[number, 1]
            beta[first : first + length] *= betas[part.family]
        lines = list(used)
        return replace(self, beta=beta, meta=self.meta[lines], meta_weighted=self.meta_weighted[lines], used=used)

    def by_sample(self, n_samples: int, row_out: FloatArray, entry_out: FloatArray) -> FloatArray:
        """Sums over the parts of the kernel's numbers for each sample (n_samples,)."""
        total = np.zeros(n_samples)
        for number, part in enumerate(self.parts[place] for place in self.used):
            if part.entries is None:
                line = row_out[number] if self.inverse is None else row_out[number][self.inverse]
                mask = self.masks[part.family]
                total += line if mask is None else line * mask
            else:
                merged, samples = part.entries.kernel_entry, part.entries.samples
                stop = part.first_entry + (
                    len(samples) if merged is None else len(cast(FloatArray, part.entries.counts))
                )
                entry_values = entry_out[part.first_entry : stop]
                total += sums_by(samples, entry_values if merged is None else entry_values[merged], n_samples)
        return total


def block_size(family: BlockFamily) -> int:
    """The number of variables in a block, or in the largest."""
    size: int | None = getattr(family, "block_size", None)
    return int(np.diff(family.blocks(np.arange(family.size))[0]).max(initial=0)) if size is None else size


class EdgeNumbers:
    """The number of the edge between two variables, or −1."""

    def __init__(self, m: int, edges: Int32Array) -> None:
        self.m = m
        self.edges = edges
        low, high = edges.min(axis=1).astype(np.int64), edges.max(axis=1).astype(np.int64)
        keys = low * m + high
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]

    @cached_property
    def adjacency(self) -> tuple[IntArray, Int32Array, Int32Array]:
        """The neighbours of each variable: (pointers, neighbours, numbers of the edges)."""
        end, other = self.edges.ravel(), self.edges[:, ::-1].ravel()
        order = np.argsort(end, kind="stable")
        pointers = np.concatenate(([0], np.cumsum(np.bincount(end, minlength=self.m))))
        return pointers, np.ascontiguousarray(other[order]), (order // 2).astype(np.int32)

    @property
    def repeated(self) -> int | None:
        """The number of an edge that occurs twice, or None."""
        same = np.flatnonzero(self.keys[1:] == self.keys[:-1])
        return int(self.order[same[0] + 1]) if len(same) else None

    def __call__(self, a: IntArray, b: IntArray) -> Int32Array:
        """The numbers of the edges (a, b)."""
        if not len(self.keys):
            return np.full(a.shape, -1, dtype=np.int32)
        keys = np.minimum(a, b) * self.m + np.maximum(a, b)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.order[at], -1).astype(np.int32)


def distinct_rows(codes: NDArray[np.uint8], most: float = 0.5) -> tuple[NDArray[np.uint8], IntArray | None]:
    """The distinct rows and the number of each row among them, or the rows and None if more than ``most`` are distinct."""
    n, m = codes.shape
    if m > 62 or n < 2 * TILE:
        return codes, None
    bits = np.zeros((n, 8), dtype=np.uint8)
    bits[:, : -(-m // 8)] = np.packbits(codes, axis=1, bitorder="little")
    keys = bits.view("<i8")[:, 0].astype(np.int64, copy=False)
    if m <= 16 and 2 << m <= n:
        present = np.bincount(keys, minlength=1 << m) > 0
        first = np.flatnonzero(present)
        numbers = np.cumsum(present) - 1
        return ((first[:, None] >> np.arange(m)) & 1).astype(np.uint8), numbers[keys]
    distinct, inverse = np.unique(keys, return_inverse=True)
    if len(distinct) > most * n:
        return codes, None
    return ((distinct[:, None] >> np.arange(m)) & 1).astype(np.uint8), inverse


def selected_rows(
    codes: NDArray[np.uint8], parts: Sequence[FamilySelection]
) -> tuple[NDArray[np.uint8], IntArray | None]:
    """`distinct_rows` of the samples with selected components; all others are mapped to row 0, with weight 0."""
    active = np.zeros(len(codes), dtype=bool)
    for part in parts:
        active |= part.any_row(len(codes))
    count = int(active.sum())
    if count == 0 or count > _WORTH_LEAVING_OUT * len(codes):
        return distinct_rows(codes)
    distinct, inverse = distinct_rows(np.ascontiguousarray(codes[active]))
    numbers = np.zeros(len(codes), dtype=np.int64)
    numbers[active] = np.arange(count) if inverse is None else inverse
    return distinct, numbers


def pack_bits(codes: NDArray[np.uint8], dense: bool) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """The bits of each variable by tiles of 64 samples (tiles, m) and, for dense, of each sample (samples, words)."""
    n, m = codes.shape
    tiles = -(-n // TILE)
    by_variable = np.zeros((m, tiles * 8), dtype=np.uint8)
    by_variable[:, : -(-n // 8)] = np.packbits(np.ascontiguousarray(codes.T), axis=1, bitorder="little")
    columns = np.ascontiguousarray(by_variable.view(np.uint64).T)
    if not dense:
        return columns, np.empty((0, 0), dtype=np.uint32)
    rows = np.zeros((tiles * TILE, -(-m // 32) * 4), dtype=np.uint8)
    rows[:n, : -(-m // 8)] = np.packbits(codes, axis=1, bitorder="little")
    return columns, rows.view(np.uint32)


def lay_out(
    codes: NDArray[np.uint8],
    parts: Sequence[FamilySelection],
    betas: Sequence[float | FloatArray],
    edge_number: EdgeNumbers,
    *,
    dense: bool,
    merge: bool,
) -> Layout:
    """Flatten the samples and the selected components; ``betas`` replace those of the parts."""
    distinct, inverse = selected_rows(codes, parts) if merge else (codes, None)
    n = len(distinct)
    columns, rows = pack_bits(distinct, dense)
    targets, pairs, components = Joined(np.int32), Joined(np.int32), Joined(np.int32)
    beta, indptr = Joined(np.float64), Joined(np.int64)
    meta: list[list[int]] = []
    layout_parts: list[Part] = []
    for f, (part, weight) in enumerate(zip(parts, betas, strict=True)):
        for piece in _pieces(part, weight, edge_number, len(codes), n, inverse):
            entry = components.add(piece.components)
            listed = piece.entries is not None
            meta.append(
                [
                    *(piece.size, len(piece.beta), targets.add(piece.blocks), pairs.add(piece.edges)),
                    *(beta.add(piece.beta), int(listed), f * n, indptr.add(piece.indptr), entry, entry),
                ]
            )
            layout_parts.append(Part(f, piece.entries, entry))
    masks = tuple(part.rows for part in parts)
    meta_weighted = np.array(meta, dtype=np.int64).reshape(-1, 10)
    plain = meta_weighted.copy()
    if inverse is None:
        plain[[masks[part.family] is None for part in layout_parts], 6] = -1
        plain[:, 9] = -1
    layout = Layout(
        n=n,
        columns=columns,
        rows=rows,
        meta=plain,
        meta_weighted=meta_weighted,
        targets=targets.array(),
        pairs=pairs.array(),
        beta=beta.array(),
        indptr=indptr.array(),
        entry_component=components.array(),
        parts=tuple(layout_parts),
        used=tuple(range(len(layout_parts))),
        masks=masks,
        inverse=inverse,
        row_weight=NO_FLOATS,
        entry_weight=NO_FLOATS,
        edge_number=edge_number,
    )
    if inverse is None and all(mask is None for mask in masks):
        return layout
    row_weight, entry_weight = layout.weights(np.ones(len(codes)))
    return replace(layout, row_weight=row_weight, entry_weight=entry_weight)


class Joined(Generic[S]):
    """Arrays that become one."""

    def __init__(self, dtype: type[S]) -> None:
        self._dtype = dtype
        self._arrays: list[NDArray[S]] = [np.empty(0, dtype=dtype)]
        self._size = 0

    def add(self, array: Array) -> int:
        """Add an array, and return the place at which it begins."""
        self._arrays.append(array.ravel().astype(self._dtype, copy=False))
        self._size += array.size
        return self._size - array.size

    def array(self) -> NDArray[S]:
        """All of them."""
        return np.concatenate(self._arrays)


class _Piece(NamedTuple):
    """Blocks of one size of a family; blocks of one variable for all samples are given by their weights alone."""

    size: int
    blocks: IntArray
    edges: Int32Array
    beta: FloatArray
    entries: Entries | None
    indptr: IntArray
    components: IntArray


def _pieces(
    part: FamilySelection,
    weight: float | FloatArray,
    edge_number: EdgeNumbers,
    n_samples: int,
    n: int,
    inverse: IntArray | None,
) -> Iterator[_Piece]:
    """The blocks of a family by their sizes; with ``inverse``, its ``n_samples`` samples are merged to ``n``."""
    family = cast(BlockFamily, part.family)
    listed = part.indices is not None and part.indptr is not None
    if not listed:
        check_components(part.family, family.size)
    used = np.unique(cast(IntArray, part.indices)) if listed else np.arange(family.size)
    check_components(part.family, len(used))
    pointer, members = family.blocks(used)
    sizes = np.diff(pointer)
    weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), family.size)[used]
    for k in np.flatnonzero(np.bincount(sizes)).tolist():
        these = np.flatnonzero(sizes == k)
        blocks, beta = members[pointer[these][:, None] + np.arange(k)], weights[these]
        entries, indptr, component = None, NO_INTS, NO_INTS
        if listed:
            sample_of = np.repeat(np.arange(n_samples), np.diff(cast(IntArray, part.indptr)))
            number = np.full(len(used), -1, dtype=np.int64)
            number[these] = np.arange(len(these))
            component = number[np.searchsorted(used, cast(IntArray, part.indices))]
            entries, row, component = merge_entries(
                sample_of[component >= 0], component[component >= 0], len(these), inverse
            )
            indptr = np.searchsorted(row, np.arange(n + 1))
        elif k == 1:
            blocks, beta = blocks[:0], sums_by(blocks[:, 0], beta, edge_number.m)
        high, low = np.tril_indices(k, -1)
        edges = edge_number(blocks[:, low], blocks[:, high])
        yield _Piece(k, blocks, edges, beta, entries, indptr, component)


def merge_entries(
    samples: IntArray, components: IntArray, n_components: int, inverse: IntArray | None
) -> tuple[Entries, IntArray, IntArray]:
    """The entries, and the kernel's row and component of each, sorted by row."""
    if inverse is None:
        return Entries(samples, None, None), samples, components
    keys, kernel_entry, counts = np.unique(
        inverse[samples] * n_components + components, return_inverse=True, return_counts=True
    )
    return Entries(samples, kernel_entry, counts.astype(np.float64)), keys // n_components, keys % n_components
