"""What a fit keeps of its alignment, so that a loaded fit needs nothing but the file of the sequences.

The columns of the alignment are the names of the model's variables. The rest is the focus sequence with the numbers of its
residues, the width of the file and the identity threshold of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from fieldfit.data.alignments import Alignment
from fieldfit.types import DataError, IntArray
from fieldfit.words import counted


@dataclass(frozen=True)
class AlignmentRecord:
    """The alignment of a fit, without its sequences.

    ``identity`` is the threshold of the sequences' weights (None: all weights are 1), ``width`` the number of columns of
    the file, ``focus`` and ``place`` the name and the place of the focus sequence, ``positions`` (L,) the numbers of its
    residues. The last three are None without a focus sequence.
    """

    identity: float | None
    width: int
    focus: str | None = None
    place: int | None = None
    positions: IntArray | None = field(default=None, compare=False)

    @classmethod
    def of(cls, alignment: Alignment, identity: float | None) -> Self:
        """The record of an alignment whose sequences are weighted at this threshold."""
        width = int(alignment.columns.max()) + 1 if alignment.width is None else alignment.width
        if alignment.focus is None:
            return cls(identity, width)
        place = int(alignment.focus)
        return cls(identity, width, alignment.names[place], place, alignment.positions)

    def check(self, columns: Sequence[str], sequences: int) -> None:
        """Raise ValueError if no fit of ``sequences`` sequences with these columns has such a record."""
        if self.identity is not None and not 0 < self.identity <= 1:
            raise ValueError(f"the identity threshold is {self.identity}")
        if [str(number) for number in _numbers(columns)] != list(columns):
            raise ValueError("the variables are not columns of an alignment")
        if max(_numbers(columns)) >= self.width:
            raise ValueError(f"the alignment has {self.width} columns, fewer than the model's")
        if (self.focus is None) != (self.place is None) or (self.focus is None and self.positions is not None):
            raise ValueError("the focus sequence has no name or no place")
        if self.place is not None and self.place >= sequences:
            raise ValueError(f"the focus sequence is number {self.place} of {sequences}")
        positions = self.positions
        if positions is not None and (
            positions.shape != (len(columns),)
            or positions.dtype != np.int64
            or positions[0] < 0
            or (positions[1:] <= positions[:-1]).any()
        ):
            raise ValueError("the positions are not increasing numbers, one for each column")

    def completed(self, alignment: Alignment, columns: Sequence[str]) -> Alignment:
        """The columns of the fit of an alignment, with the fit's focus sequence and its numbers."""
        given = {str(number): place for place, number in enumerate(alignment.columns.tolist())}
        absent = [name for name in columns if name not in given]
        if absent:
            raise DataError(
                f"The alignment has {counted(len(given), 'columns')}, and the fit has the column {absent[0]}, which it "
                "does not have. Give the alignment that was fitted."
            )
        places = np.array([given[name] for name in columns])
        chosen = replace(
            alignment,
            codes=np.ascontiguousarray(alignment.codes[:, places]),
            columns=alignment.columns[places],
            positions=None if alignment.positions is None else alignment.positions[places],
        )
        if self.place is None:
            return chosen
        has = self.place < alignment.n and alignment.names[self.place] == self.focus
        if not has or alignment.focus not in (None, self.place):
            raise DataError(
                f"The fit has the focus sequence {self.focus!r:.80}, number {self.place} of its sequences "
                "(counted from 0), "
                "and this alignment has another one. Give the alignment that was fitted."
            )
        return replace(chosen, focus=self.place, positions=self.positions)


def _numbers(columns: Sequence[str]) -> list[int]:
    """The names of columns as numbers, which digits that other alphabets have are not."""
    return [int(name) if name.isascii() and name.isdigit() and len(name) < 19 else -1 for name in columns]
