"""All values that Z can take in one sample, with their probabilities: the *patterns* of a law or a policy.

Laws with few patterns list them. Laws that are independent of each other have all pairs of patterns, with the products of
the probabilities. Families that are selected whole or not at all have one column, so that patterns stay small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from fieldfit.types import BoolArray, FloatArray

#: Components up to which the subsets of a family are counted.
_MOST_BITS = 62


@dataclass(frozen=True)
class Patterns:
    """P patterns of Z of one sample.

    ``probability`` (P,) is positive and adds up to 1. ``selected`` has a table (P, size) for each family, or (P, 1) where
    ``whole`` says that the family is selected whole or not at all.
    """

    probability: FloatArray
    selected: tuple[BoolArray, ...]
    whole: tuple[bool, ...]

    def with_independent(self, other: Patterns) -> Patterns:
        """The patterns of both, which are independent."""
        mine, others = len(self.probability), len(other.probability)
        return Patterns(
            np.outer(self.probability, other.probability).ravel(),
            (
                *(np.repeat(table, others, axis=0) for table in self.selected),
                *(np.tile(table, (mine, 1)) for table in other.selected),
            ),
            self.whole + other.whole,
        )

    def below(self, other: Patterns) -> Patterns:
        """The patterns of both for the same families, which exclude each other."""
        pairs = zip(self.selected, other.selected, strict=True)
        return Patterns(
            np.concatenate([self.probability, other.probability]), tuple(map(np.concatenate, pairs)), self.whole
        )

    def possible(self) -> Patterns:
        """Those of positive probability."""
        used = self.probability > 0
        return Patterns(self.probability[used], tuple(table[used] for table in self.selected), self.whole)

    def likeliest_first(self) -> Patterns:
        """The same in the order of their probabilities, from the largest."""
        order = np.argsort(-self.probability, kind="stable")
        return Patterns(self.probability[order], tuple(table[order] for table in self.selected), self.whole)

    def scaled(self, factor: float) -> Patterns:
        """Part of a law: the probabilities times ``factor``."""
        return Patterns(self.probability * factor, self.selected, self.whole)


def joint_patterns(parts: Sequence[Patterns]) -> Patterns:
    """The patterns of independent laws together."""
    return reduce(Patterns.with_independent, parts)


def whole_or_nothing(probability: float) -> Patterns:
    """A family that is selected whole with this probability."""
    pair = Patterns(np.array([1 - probability, probability]), (np.array([[False], [True]]),), (True,))
    return pair.possible()


def bernoulli(lam: FloatArray) -> Patterns:
    """Components that are selected independently of each other, with the probabilities λ (size,)."""
    subsets = all_subsets(int(np.count_nonzero((lam > 0) & (lam < 1))))
    table = np.tile(lam == 1, (len(subsets), 1))
    table[:, (lam > 0) & (lam < 1)] = subsets
    return Patterns(np.where(table, lam, 1 - lam).prod(axis=1), (table,), (False,))


def all_subsets(size: int) -> BoolArray:
    """The subsets of ``size`` things (2^size, size)."""
    subsets: BoolArray = (np.arange(2**size)[:, None] >> np.arange(size)) & 1 == 1
    return subsets


def number_of_subsets(size: int) -> float:
    """2^size; infinite where that is more than any limit."""
    return 2.0**size if size <= _MOST_BITS else np.inf
