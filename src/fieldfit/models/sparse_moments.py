"""Σ_i ψ_i ψ_iᵀ of a dense binary field under PL1, for samples with mostly zeros.

The score of the edge (a, b) is e_a c_b + e_b c_a, with codes c and residuals e = c − E[c | the rest]. Its products with the
score of (c, d) are four terms such as Σ_i e_a e_c c_b c_d. For each pair of variables (b, d) they are the entries of one
matrix Σ e eᵀ over the samples in which both codes are 1. With k ones in a sample of m variables that takes about k² m² / 2
multiplications, instead of m⁴ / 4 for the product of all scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.models.code_pairs import CodePairs
from fieldfit.threads import get_threads
from fieldfit.types import FloatArray, Int32Array

#: Cost of a multiplication in many small products, relative to a large product.
_SMALL_PRODUCT_COST = 6.0
#: Widths that the kernel of the sums takes are multiples of this.
_TILE = 8
#: Number of residuals that are collected before they are summed.
_WAITING_RESIDUALS = 1 << 21


def is_sparse(codes: NDArray[np.uint8], n_edges: int) -> bool:
    """Whether the sums over pairs of variables take less time than the product of all scores, and as little memory."""
    n, m = codes.shape
    ones = np.count_nonzero(codes, axis=1).astype(np.float64)
    size = n_edges + m
    few = _SMALL_PRODUCT_COST * float((ones * (ones + 1)).sum()) / 2 * m**2 < n * size**2
    return bool(few and (m + 1) ** 4 <= 8 * size**2)


class PairSums:
    """The sums Σ_i w_i c_b c_d e eᵀ for all pairs (b, d) of variables, and without codes."""

    def __init__(self, n_variables: int):
        self._pairs = CodePairs(n_variables)
        self._waiting: list[tuple[NDArray[np.uint8], FloatArray]] = []
        # The last code is the constant 1, whose residual is 0: the bias of a variable is its edge to the constant.
        self._width = -(-(n_variables + 1) // _TILE) * _TILE
        self._sums = np.zeros((self._pairs.count, self._width, self._width))

    def add(self, codes: NDArray[np.uint8], residual: FloatArray) -> None:
        """Add samples: codes and residuals (n, m), the residuals times the root of the weight."""
        self._waiting.append((codes, residual))
        if sum(part.size for part, _ in self._waiting) >= _WAITING_RESIDUALS:
            self._flush()

    def _flush(self) -> None:
        codes = np.concatenate([part for part, _ in self._waiting])
        padded = np.zeros((len(codes), self._width))
        np.concatenate([part for _, part in self._waiting], out=padded[:, : codes.shape[1]])
        self._waiting = []
        products = self._pairs.products(codes)
        _kernels.row_grams(
            x=padded,
            indptr=products.indptr,
            rows=products.indices,
            out=self._sums.ravel(),
            n_threads=get_threads(),
        )

    def matrix(self, edges: Int32Array) -> FloatArray:
        """Σ_i w_i ψ_i ψ_iᵀ over the edges and then the biases."""
        if self._waiting:
            self._flush()
        m, place = self._pairs.n_variables, self._pairs.place
        a = np.concatenate([edges[:, 0], np.arange(m)])
        b = np.concatenate([edges[:, 1], np.full(m, m)])
        forth, back = a * self._width + b, b * self._width + a
        result = np.empty((len(a), len(a)))
        for p in np.unique(a).tolist():
            rows = np.flatnonzero(a == p)
            q = b[rows]
            # The terms of (p, q) with (u, v), of which those with (v, u) are the other half.
            half = self._sums[place[q], p]
            half += self._sums[place[p]][:, q].transpose(1, 0, 2)
            flat = half.reshape(len(rows), -1)
            result[rows] = flat.take(forth, axis=1) + flat.take(back, axis=1)
        return result
