"""Codes of a numeric matrix, in blocks that stay in the cache and without a Python loop over cells.

Whole numbers in a short range (all real tables of states) are looked up: code = table[column, value − lowest]. The
same index marks what occurs, when the states are to be inferred. Matrices here are of integers or floating-point
numbers; booleans come as 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fieldfit.data.labels import States
from fieldfit.types import Array, Int32Array, IntArray

_BLOCK_CELLS = 131_072
#: Entries of a table with one for each column and each value of the range.
MOST_ENTRIES = 8_000_000
_OUTSIDE_CODE = -2


def _blocks(matrix: Array) -> Iterator[tuple[slice, Array]]:
    rows = max(1, _BLOCK_CELLS // matrix.shape[1])
    for start in range(0, matrix.shape[0], rows):
        stop = min(start + rows, matrix.shape[0])
        yield slice(start, stop), matrix[start:stop]


def whole_range(matrix: Array) -> tuple[int, int] | None:
    """Lowest and highest value (NaN apart) if all are integers within ±2⁵³, else None; (0, 0) if all are NaN."""
    low, high = None, None
    for _, block in _blocks(matrix):
        if matrix.dtype.kind == "f":
            missing = np.isnan(block)
            if missing.any():
                block = block[~missing]
            if block.size == 0:
                continue
            if not np.isfinite(block).all() or (block != np.rint(block)).any():
                return None
        first, last = int(block.min()), int(block.max())
        low, high = (first, last) if low is None or high is None else (min(low, first), max(high, last))
    if low is None or high is None:
        return 0, 0
    return (low, high) if low > -(2**53) and high < 2**53 else None


def present_values(matrix: Array, low: int, high: int) -> list[IntArray]:
    """The sorted distinct integers of each column, all known to lie in low..high."""
    m, width = matrix.shape[1], high - low + 2
    seen = np.zeros(m * width, dtype=bool)
    for _, block in _blocks(matrix):
        seen[_flat_index(block, low, high)] = True
    return [np.flatnonzero(row[:-1]) + low for row in seen.reshape(m, width)]


def look_up(
    matrix: Array, states: Sequence[States], low: int, high: int
) -> tuple[Int32Array, tuple[int, int] | None]:
    """Codes (n, m), NaN as −1, for states that are integers in low..high; or the first cell outside its states.

    The codes are valid only where that cell is None.
    """
    n, m = matrix.shape
    width = high - low + 2
    table = np.full((m, width), _OUTSIDE_CODE, np.int32)
    table[:, -1] = -1
    if len(set(map(id, states))) == 1:  # one list for all columns: no loop over a million of them
        table[:, np.array(states[0], dtype=np.int64) - low] = np.arange(len(states[0]), dtype=np.int32)
    else:
        for row, column_states in zip(table, states, strict=True):
            row[np.array(column_states, dtype=np.int64) - low] = np.arange(len(column_states), dtype=np.int32)
    flat_table = table.reshape(-1)
    codes = np.empty((n, m), np.int32)
    for rows, block in _blocks(matrix):
        outside = _outside(block, low, high)
        if outside is None:
            np.take(flat_table, _flat_index(block, low, high), out=codes[rows], mode="clip")
            if codes[rows].min() != _OUTSIDE_CODE:
                continue
            outside = codes[rows] == _OUTSIDE_CODE
        row_in_block, column = np.unravel_index(int(np.argmax(outside)), block.shape)
        return codes, (rows.start + int(row_in_block), int(column))
    return codes, None


def _outside(block: Array, low: int, high: int) -> NDArray[np.bool_] | None:
    """Cells that are no integer in low..high and not NaN; None if there is no such cell."""
    if block.dtype.kind == "f":
        good = (block >= low) & (block <= high) & (block == np.rint(block)) | np.isnan(block)
        return None if good.all() else ~good
    if int(block.min()) >= low and int(block.max()) <= high:
        return None
    return (block < low) | (block > high)


def _flat_index(block: Array, low: int, high: int) -> IntArray:
    """Column · width + (value − low); the last place of each column's row is for NaN."""
    width = high - low + 2
    offsets = np.arange(block.shape[1], dtype=np.int64) * width - low
    if block.dtype.kind != "f":
        whole: IntArray = np.add(block, offsets, dtype=np.int64, casting="unsafe")
        return whole
    missing = np.isnan(block)
    if missing.any():
        block = np.where(missing, high + 1, block)
    return block.astype(np.int64) + offsets
