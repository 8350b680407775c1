"""Families on sequences: FL is a whole sequence, PLk its windows of k tokens given the labels beside them.

A sequence of T > k tokens has the windows [a, a + k) for a = 0..T − k, one of T ≤ k tokens is one window, an empty one
has none. Labels are the variables of a component; what the model says of the observations (given in a CRF, modelled in
a Boltzmann chain) goes with their labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.policies.families import Family, Full, PseudoLikelihood
from fieldfit.policies.structure import Component
from fieldfit.types import IntArray, PolicyError


@dataclass(frozen=True, eq=False)
class WindowFamily:
    """Windows of ``width`` tokens of each sequence; ``width`` 0 is the whole sequence."""

    name: str
    width: int
    lengths: IntArray

    @property
    def size(self) -> int | None:
        """None: the number of windows depends on the sequence."""
        return None

    def sizes(self, start: int, stop: int) -> IntArray:
        """The number of windows of each of the sequences start..stop."""
        lengths = self.lengths[start:stop]
        if self.width == 0:
            return np.minimum(lengths, 1)
        return np.where(lengths > self.width, lengths - self.width + 1, np.minimum(lengths, 1))

    @property
    def mean_size(self) -> float:
        """The mean number of windows of a sequence, 1 where there are none."""
        total = float(self.sizes(0, len(self.lengths)).sum())
        return total / len(self.lengths) if total else 1.0

    def component(self, index: int, row: int = 0) -> Component:
        """The window that starts at token ``index``, given the labels on its two sides."""
        length = int(self.lengths[row])
        if not 0 <= index < int(self.sizes(row, row + 1)[0]):
            raise PolicyError(f"{self.name} has no window {index} in sequence {row}, which has {length} tokens.")
        width = length if self.width == 0 else min(self.width, length)
        target = tuple(range(index, index + width))
        return Component(target, tuple(t for t in (index - 1, index + width) if 0 <= t < length))


class SequenceStructure:
    """Sequences of labels as a policy sees them: their lengths (n_sequences,)."""

    def __init__(self, lengths: IntArray) -> None:
        self.lengths = np.ascontiguousarray(lengths, dtype=np.int64)
        if self.lengths.ndim != 1 or (self.lengths < 0).any():
            raise PolicyError("The lengths of sequences must be a list of integers of at least 0.")

    def bind_family(self, family: Family) -> WindowFamily:
        """FL or PLk over these sequences; a window is always connected."""
        if isinstance(family, Full):
            return WindowFamily(str(family), 0, self.lengths)
        if isinstance(family, PseudoLikelihood):
            return WindowFamily(str(family), family.k, self.lengths)
        raise PolicyError(f"{family} names variables by number, which sequences do not have: use FL, PL1, PL2, ...")
