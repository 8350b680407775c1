"""Moment conditions of a fit's own samples: means, derivatives and estimating functions with the drawn Z and weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fieldfit.refinement.conditions import Conditions, Sums
from fieldfit.types import FloatArray, Int32Array, IntArray


@dataclass(frozen=True)
class SampleConditions:
    """Conditions with samples ``codes`` (n, m), the drawn Z ``mask`` (n, components) and weights of the samples.

    ``compiled`` are their sums, where something faster than the conditions themselves has them.
    """

    conditions: Conditions
    codes: Int32Array
    mask: FloatArray | None = None
    weight: FloatArray | None = None
    compiled: Sums | None = None

    @property
    def total(self) -> float:
        """The number of samples, or the sum of their weights."""
        return float(len(self.codes) if self.weight is None else self.weight.sum())

    def mean(self, theta: FloatArray) -> FloatArray:
        """ḡ(θ) (p,)."""
        return self._sums(theta) / self.total

    @cached_property
    def _sums(self) -> Sums:
        return self.compiled or self.conditions.summed(self.codes, self.weight, self.mask)

    def derivative(self, theta: FloatArray) -> FloatArray:
        """∂ḡ/∂θ (p, n_parameters)."""
        return self.conditions.derivative(self.codes, theta, self.weight, self.mask) / self.total

    def scores(self, theta: FloatArray, matrix: Any) -> Iterator[tuple[slice, FloatArray]]:
        """Stream A g_i, without the sample's weight, as (samples, block (k, rows of A)), in the precision of A."""
        single = matrix.dtype == np.float32
        for samples, block in self.conditions.value_blocks(self.codes, theta, single=single):
            if self.mask is not None:
                block = block * self.mask[samples][:, self.conditions.component]
            yield samples, block @ matrix.T

    def covariance(self, theta: FloatArray, matrix: Any) -> FloatArray:
        """The mean of A g_i g_iᵀ Aᵀ over the samples (rows of A, rows of A)."""
        total = np.zeros((matrix.shape[0], matrix.shape[0]))
        for samples, block in self.scores(theta, matrix):
            weighted = block if self.weight is None else block * self.weight[samples, None]
            total += weighted.T @ block
        return total / self.total

    def some(self, most: int) -> SampleConditions:
        """At most this number of the samples, evenly spread."""
        n = len(self.codes)
        return self if n <= most else self.subset(np.linspace(0, n - 1, most).astype(np.int64))

    def subset(self, rows: IntArray) -> SampleConditions:
        """Some of the samples."""
        return SampleConditions(
            self.conditions,
            np.ascontiguousarray(self.codes[rows]),
            None if self.mask is None else self.mask[rows],
            None if self.weight is None else self.weight[rows],
        )
