"""Sequences in pieces: the lengths of all, and the weights that occur in any piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.data.dataset import Dataset
from fieldfit.data.outline import Outline
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_layout import ChainLayout, largest_values, powers_of_two
from fieldfit.types import DataError, FloatArray, Int32Array, IntArray


@dataclass(frozen=True)
class SequenceOutline(Outline):
    """Lengths of the sequences of one piece, whether a label is known, the weights that occur, and the largest values.

    ``layout`` is None for models whose weights do not depend on what occurs.
    """

    lengths: IntArray
    labelled: bool
    layout: ChainLayout | None
    largest: FloatArray | None

    @classmethod
    def of(cls, sequences: Sequences, layout: ChainLayout | None) -> SequenceOutline:
        """The outline of sequences, with the weights that they show."""
        labelled = bool(sequences.n_tokens) and int(sequences.labels.max()) >= 0
        return cls(sequences.lengths, labelled, layout, largest_values(sequences))

    def joined(self, outlines: Sequence[Self]) -> KnownSequences:
        """The lengths of all sequences and the weights that occur in any."""
        if not any(outline.labelled for outline in outlines):
            raise DataError("No token of any piece has a known label, so the model cannot be fitted. Give labels.")
        layouts = [outline.layout for outline in outlines if outline.layout is not None]
        largest = [outline.largest for outline in outlines if outline.largest is not None]
        sizes = powers_of_two(np.max(largest, axis=0)) if len(largest) == len(outlines) else None
        layout = None if not layouts else replace(joined_layouts(layouts), sizes=sizes)
        return KnownSequences(lengths=np.concatenate([outline.lengths for outline in outlines]), layout=layout)


@dataclass(frozen=True, eq=False, kw_only=True)
class KnownSequences(Dataset):
    """What is known of sequences that are in pieces."""

    in_pieces: ClassVar[bool] = True

    lengths: IntArray
    layout: ChainLayout | None

    @property
    def n(self) -> int:
        """The number of sequences."""
        return len(self.lengths)

    @property
    def has_missing(self) -> bool:
        """Not known here; see `ShardedDataset`."""
        return False

    def subset(self, rows: ArrayLike) -> NoReturn:
        """Raise an error: the sequences are in the shards."""
        raise DataError(
            "This needs single sequences, and they are on the workers or on disk. Read them into this process first."
        )


def joined_layouts(layouts: Sequence[ChainLayout]) -> ChainLayout:
    """The layout with every weight that occurs in any of these layouts of one model."""
    first = layouts[0]
    K = first.n_labels
    pair_ptr, pair_labels = _joined_rows([(layout.pair_ptr, layout.pair_labels) for layout in layouts], K)
    column_ptr, column_pairs = _joined_rows([(layout.column_ptr, layout.column_pairs) for layout in layouts], K * K)
    transitions = np.unique(np.concatenate([layout.transition_pairs for layout in layouts]))
    triples = [layout.triples for layout in layouts if layout.triples is not None]
    return replace(
        first,
        transition_pairs=transitions,
        pair_ptr=pair_ptr,
        pair_labels=None if pair_labels is None else pair_labels.astype(np.int32),
        column_ptr=column_ptr,
        column_pairs=column_pairs,
        sizes=None,
        triples=np.unique(np.concatenate(triples)) if triples else None,
    )


def _joined_rows(
    rows: Sequence[tuple[IntArray | None, IntArray | Int32Array | None]], size: int
) -> tuple[IntArray | None, IntArray | None]:
    """The union of rows of numbers below ``size``, each as pointer and numbers in ascending order."""
    keys: IntArray | None = None
    count = 0
    for pointer, numbers in rows:
        if pointer is None or numbers is None:
            return None, None
        count = len(pointer) - 1
        mine = np.repeat(np.arange(count), np.diff(pointer)) * np.int64(size) + numbers
        keys = mine if keys is None else np.union1d(keys, mine)
    assert keys is not None
    features, values = np.divmod(keys, size)
    joined = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(features, minlength=count), out=joined[1:])
    return joined, values
