"""Products of two codes of a sample: x_k x_l for binary codes c and x = (c, 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels

if TYPE_CHECKING:
    from scipy.sparse import csc_array


class CodePairs:
    """A number for each product: k < l, then each variable alone (x_k x_k = x_k x_constant), then the constant.

    ``upper`` are the pairs k < l, and ``place`` (m + 1, m + 1) has the number of each product.
    """

    def __init__(self, n_variables: int) -> None:
        m = n_variables
        self.n_variables = m
        self.upper = np.triu_indices(m, 1)
        first_alone = len(self.upper[0])
        self.count = first_alone + m + 1
        self.place = np.zeros((m + 1, m + 1), dtype=np.int64)
        self.place[self.upper] = np.arange(first_alone)
        self.place += self.place.T
        alone = first_alone + np.arange(m + 1)
        self.place[np.diag_indices(m + 1)] = self.place[m] = self.place[:, m] = alone

    def products(self, codes: NDArray[np.uint8]) -> csc_array:
        """The products (n, count) of codes (n, m) with few ones, as a sparse matrix."""
        from scipy.sparse import csc_array

        n, m = codes.shape
        ones = np.count_nonzero(codes, axis=1)
        listed = int((ones * (ones + 1)).sum()) // 2
        indptr, rows = np.empty(self.count + 1, dtype=np.int32), np.empty(listed + n, dtype=np.int32)
        place = np.ascontiguousarray(self.place[:m, :m])
        _kernels.list_code_pairs(codes=codes, place=place, indptr=indptr[:-1], rows=rows[:listed])
        indptr[-1] = len(rows)  # the constant is in all samples
        rows[listed:] = np.arange(n)
        return csc_array((np.ones(len(rows)), rows, indptr), shape=(n, self.count))
