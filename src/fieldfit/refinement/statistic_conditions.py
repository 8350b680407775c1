"""The sufficient statistics f(x) of a field in the place of moment conditions: their sums over samples do not depend on θ.

f(x) − E_θ f is the score of the full likelihood, so its mean and its meat over the data are those of f, wherever the
samples are held (`estimating`, `sharded_conditions`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.refinement.component_scores import BLOCK_NUMBERS
from fieldfit.refinement.conditions import Conditions, Sums
from fieldfit.types import FloatArray, Int32Array


class StatisticConditions(Conditions):
    """One condition for each parameter: its sufficient statistic. All belong to one component, the full likelihood."""

    def __init__(self, model: FieldModel) -> None:
        from scipy.sparse import eye_array

        self.model = model
        self.component = np.zeros(model.n_parameters, dtype=np.int64)
        self.distance = np.ones(model.n_parameters, dtype=np.int64)
        self.score_coefficients = eye_array(model.n_parameters, format="csr")

    def rows_per_block(self) -> int:
        """Samples in a block."""
        return max(1, BLOCK_NUMBERS // max(1, self.size))

    def value_blocks(
        self, codes: Int32Array, theta: FloatArray, *, single: bool = False
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Stream f as (samples, block (k, r))."""
        del theta, single
        for samples in self.row_blocks(len(codes)):
            yield samples, self.model.statistics(codes[samples])

    def summed(self, codes: Int32Array, weight: FloatArray | None = None, mask: FloatArray | None = None) -> Sums:
        """θ ↦ Σ_i w_i f_i (r,)."""
        del mask
        total = np.zeros(self.size)
        for samples, block in self.value_blocks(codes, total):
            total += block.sum(axis=0) if weight is None else weight[samples] @ block
        return lambda theta: total

    def derivative(
        self, codes: Int32Array, theta: FloatArray, weight: FloatArray | None = None, mask: FloatArray | None = None
    ) -> FloatArray:
        """0 (r, r): statistics do not depend on θ."""
        del codes, theta, weight, mask
        return np.zeros((self.size, self.size))
