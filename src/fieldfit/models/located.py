"""The score of a sample as a sum of located terms, from which its variance is estimated if there is only one sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.types import FloatArray, IntArray


@dataclass(frozen=True)
class LocatedScores:
    """``terms`` (terms, r) of the scores, with the variable (``sites``) and the sample (``samples``) of each term.

    The terms of a sample add up to its score ψ.
    """

    terms: FloatArray
    sites: IntArray
    samples: IntArray

    @classmethod
    def join(cls, parts: Sequence[LocatedScores]) -> LocatedScores:
        """The terms of all parts."""
        return cls(
            np.concatenate([part.terms for part in parts]),
            np.concatenate([part.sites for part in parts]),
            np.concatenate([part.samples for part in parts]),
        )

    def fields(self, m: int) -> Iterator[FloatArray]:
        """The sums of the terms by site (m, r), for each sample."""
        for sample in np.unique(self.samples).tolist():
            here = self.samples == sample
            columns = [np.bincount(self.sites[here], column, m) for column in self.terms[here].T]
            yield np.stack(columns, axis=1)
