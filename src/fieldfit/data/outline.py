"""What must be known of samples in pieces before a fit: each piece gives an outline, and the outlines give a small dataset.

That dataset stands for all samples where a model is completed, a policy is bound, and constant columns are refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.data.labels import States
from fieldfit.data.samples import Table
from fieldfit.types import DataError, Int32Array


class Outline(ABC):
    """What is known of one piece."""

    @abstractmethod
    def joined(self, outlines: Sequence[Self]) -> Dataset:
        """The dataset that stands for all pieces; this outline is the first of ``outlines``."""


@dataclass(frozen=True)
class TableOutline(Outline):
    """Columns of a table.

    ``lowest`` and ``highest`` (m,) are the codes of the states that samples of positive weight show; a column without a
    value has a highest code of −1.
    """

    names: tuple[str, ...]
    states: tuple[States, ...]
    lowest: Int32Array
    highest: Int32Array

    @classmethod
    def of(cls, table: Table) -> TableOutline:
        """The outline of a table."""
        codes = table.codes
        if table.sample_weight is not None and not (table.sample_weight > 0).all():
            codes = codes[table.sample_weight > 0]
        highest = codes.max(axis=0, initial=-1)
        lowest = np.where(codes < 0, np.iinfo(np.int32).max, codes).min(axis=0, initial=np.iinfo(np.int32).max)
        return cls(table.names, table.states, lowest.astype(np.int32), highest.astype(np.int32))

    def joined(self, outlines: Sequence[Self]) -> Table:
        """Two rows with the lowest and the highest state of each column."""
        for number, outline in enumerate(outlines):
            if outline.names != self.names:
                pairs = zip(self.names, outline.names, strict=True)
                first, other = next((name, other) for name, other in pairs if name != other)
                raise DataError(
                    f"Part {number + 1} of the data has the column {other!r:.80} where part 1 has "
                    f"{first!r:.80}. All parts need "
                    "the same columns in the same order."
                )
        highest = np.max([outline.highest for outline in outlines], axis=0)
        if (highest < 0).any():
            column = self.names[int(np.argmin(highest))]
            raise DataError(
                f"Missing everywhere: no piece has a value in the column {column!r:.80}. Leave such columns out."
            )
        lowest = np.minimum(np.min([outline.lowest for outline in outlines], axis=0), highest)
        return Table(np.ascontiguousarray([lowest, highest], dtype=np.int32), self.names, self.states)
