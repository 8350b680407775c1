"""What the two kernels of Potts fields have in common: sums over samples and numbers for each sample, by a mode."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self

import numpy as np

from fieldfit.models.pairwise_layout import NO_FLOATS
from fieldfit.models.potts_tables import PottsTables
from fieldfit.models.problem import Problem
from fieldfit.policies.selection import FamilySelection
from fieldfit.types import Array, DataError, FloatArray

GRADIENT, HESSIAN, DIAGONAL, VALUES, PRODUCTS, RESIDUALS = range(6)
#: Most entries of the edges' tables in a block of scores.
_MOST_TABLE_NUMBERS = 4_000_000


class PottsSums(Problem):
    """A Potts field compiled with complete samples.

    Parameters
    ----------
    codes : (n, m) states from 0 to q − 1; nothing is missing
    tables : how θ becomes couplings and fields
    parts : the selected components
    """

    def __init__(self, codes: Array, tables: PottsTables, parts: Sequence[FamilySelection]) -> None:
        self.tables = tables
        self.n_samples, self.n_variables = codes.shape
        self.n_parameters = tables.n_parameters
        self.n_families = len(parts)
        if codes.min(initial=0) < 0:
            raise DataError("A sample has a missing value; the Potts kernel needs complete samples.")
        self._betas = np.array([1.0 if np.ndim(part.beta) else float(part.beta) for part in parts])

    @property
    def betas(self) -> FloatArray:
        """The weight β of each family; 1 if each component has a weight."""
        return self._betas

    def with_betas(self, betas: FloatArray) -> Self:
        """The same samples and components with other weights of the families."""
        other = copy(self)
        other._betas = np.asarray(betas, dtype=np.float64)
        return other

    @abstractmethod
    def _sums(
        self, mode: int, theta: FloatArray, v: FloatArray | None, row_weight: FloatArray | None
    ) -> tuple[float, FloatArray]:
        """The value, and the sums of the mode for each parameter."""

    @abstractmethod
    def _by_sample(self, mode: int, theta: FloatArray, v: FloatArray | None) -> FloatArray:
        """The number of the mode for each sample."""

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient."""
        return self._sums(GRADIENT, theta, None, row_weight)

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) v."""
        return self._sums(HESSIAN, theta, v, row_weight)[1]

    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sample."""
        return self._by_sample(VALUES, theta, None)

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sample."""
        return self._by_sample(PRODUCTS, theta, v)

    @property
    def block_rows(self) -> int:
        """Samples in a block of scores. The tables of the edges may be far larger than the scores."""
        return max(1, min(super().block_rows, _MOST_TABLE_NUMBERS // max(1, self.tables.n_entries)))

    def score_blocks(self, theta: FloatArray, rows: int | None = None) -> Iterator[tuple[int, FloatArray]]:
        """Stream the scores as (first sample, block)."""
        return super().score_blocks(theta, self.block_rows if rows is None else rows)

    def _tables_of(
        self, theta: FloatArray, v: FloatArray | None
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Couplings and fields of θ and of a direction v; empty without one."""
        return *self.tables.to_tables(theta), *((NO_FLOATS, NO_FLOATS) if v is None else self.tables.to_tables(v))

    def _checked_weight(self, row_weight: FloatArray | None) -> FloatArray:
        """The weights of the samples, empty if all are 1."""
        if row_weight is None:
            return NO_FLOATS
        weight = np.ascontiguousarray(row_weight, dtype=np.float64)
        if weight.shape != (self.n_samples,):
            raise DataError(f"row_weight must have the shape ({self.n_samples},); it has {weight.shape}.")
        return weight
