"""Blocks of sites as connected pieces, for the kernel of Potts blocks.

Sites of a block that no path inside the block joins are independent given the rest:

    log p(x_A | rest) = Σ over the connected pieces C of A of log p(x_C | rest)

so a block is the sum of its pieces, and a table is needed for each piece only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from fieldfit.models.pairwise_layout import BlockFamily, EdgeNumbers, sums_by
from fieldfit.policies.field_families import FieldFamily
from fieldfit.policies.selection import FamilySelection
from fieldfit.types import FloatArray, Int32Array, IntArray

#: Most entries of a piece's table, most sites of a block and most blocks of a family in the kernel.
LARGEST_BLOCK_TABLE, _MOST_SITES, _MOST_POTTS_BLOCKS = 1 << 16, 12, 2_000_000


#: Samples per configuration of the rest above which the general engine is faster.
_REPEATS = 4
#: Most samples × components in the general engine, which takes 1.3 kB for each.
_MOST_SHARED_ENTRIES = 1 << 18


def blocks_support(part: FamilySelection, q: int) -> bool:
    """Whether all components of this part are blocks given all the rest with small enough tables."""
    family = cast(FieldFamily, part.family)
    if family.size is None or not getattr(family, "conditions_on_rest", False) or not hasattr(family, "blocks"):
        return False
    if family.size > _MOST_POTTS_BLOCKS:
        return False
    size = _largest_block(part)
    return bool(size <= _MOST_SITES and q**size <= LARGEST_BLOCK_TABLE)


def blocks_are_worth_a_kernel(part: FamilySelection, q: int, m: int, n: int) -> bool:
    """Whether the kernel is the better choice for the blocks of n samples.

    It sums over the states of a block for each sample, or for each configuration of the block's neighbours where those of
    all blocks are few and all samples have all blocks. The general engine always does so once for each configuration of
    the rest (the full likelihood has one configuration), but stores an entry for each component of each sample.
    """
    k = _largest_block(part)
    if k == m:
        return False
    entries = n * cast(FieldFamily, part.family).size
    return bool(_REPEATS * q ** (m - k) > n or entries > _MOST_SHARED_ENTRIES)


def _largest_block(part: FamilySelection) -> int:
    """The number of sites of the largest block."""
    family = cast(FieldFamily, part.family)
    size = getattr(family, "block_size", None)
    if size is None:
        size = np.diff(family.blocks(np.arange(family.size))[0]).max(initial=1)
    return int(size)


@dataclass(frozen=True)
class BlockPieces:
    """Piece p has the sites ``members[pointer[p]:pointer[p+1]]`` and belongs to the component ``component[p]``."""

    pointer: IntArray
    members: Int32Array
    component: IntArray

    @classmethod
    def of(cls, family: BlockFamily, edge_number: EdgeNumbers) -> BlockPieces:
        """All pieces of all components of a family, component by component."""
        pointer, members = family.blocks(np.arange(family.size))
        sizes = np.diff(pointer)
        label = np.arange(len(members)) - np.repeat(pointer[:-1], sizes)
        for k in np.unique(sizes[sizes > 1]).tolist():
            these = pointer[:-1][sizes == k][:, None] + np.arange(k)
            label[these] = _labels(members[these], edge_number)
        component = np.repeat(np.arange(family.size), sizes)
        order = np.lexsort((members, label, component))
        key = component[order] * (sizes.max(initial=1) + 1) + label[order]
        first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        return cls(np.append(first, len(members)), members[order].astype(np.int32), component[order][first])

    def merged(self, beta: FloatArray) -> tuple[BlockPieces, FloatArray]:
        """Equal pieces as one, with the sum of their weights; ``beta`` is for each component."""
        sizes = np.diff(self.pointer)
        most = int(sizes.max(initial=1))
        rows = np.full((len(sizes), most), -1, dtype=np.int32)
        rows[np.arange(most) < sizes[:, None]] = self.members
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        pointer = np.concatenate(([0], np.cumsum((distinct >= 0).sum(axis=1)))).astype(np.int64)
        weights = sums_by(inverse.ravel(), beta[self.component], len(distinct))
        return BlockPieces(pointer, distinct[distinct >= 0], np.arange(len(distinct))), weights


def _labels(blocks: IntArray, edge_number: EdgeNumbers) -> IntArray:
    """For each site of each block (c, k), the smallest position of the sites connected to it inside the block."""
    count, k = blocks.shape
    label = np.tile(np.arange(k), (count, 1))
    high, low = np.tril_indices(k, -1)
    joined = edge_number(blocks[:, low], blocks[:, high]) >= 0
    for _ in range(k - 1):
        for pair, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            least = np.minimum(label[:, a], label[:, b])
            label[:, a] = np.where(joined[:, pair], least, label[:, a])
            label[:, b] = np.where(joined[:, pair], least, label[:, b])
    return label
