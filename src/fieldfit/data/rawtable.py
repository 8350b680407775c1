"""A table before its values are coded: where it came from, its columns, and how to say where a cell is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldfit.arguments import is_masked
from fieldfit.data.labels import BadValueError, RawColumn, raw_column
from fieldfit.types import Array, DataError

if TYPE_CHECKING:
    import pandas as pd


ADVICE = "Give a NumPy array, a list of rows, a pandas, polars or pyarrow table, or the path of a CSV, TSV or Parquet file."


@dataclass(frozen=True, eq=False)
class RawTable:
    """Either a numeric `matrix` (n, m) or a list of m `columns`. `boolean`: the matrix's 0 and 1 are truth values.

    `named`: the names are the source's own, not made up for columns without names.
    """

    names: list[str]
    n: int
    matrix: Array | None = None
    columns: list[RawColumn] | None = None
    lines: Sequence[int] | None = None
    path: str | None = None
    boolean: bool = False
    named: bool = False

    @property
    def m(self) -> int:
        """Number of columns."""
        return self.matrix.shape[1] if self.matrix is not None else len(self.columns or ())

    @property
    def source(self) -> str:
        """How messages call the table."""
        return self.path or "the table"

    def place(self, row: int) -> str:
        """Position of a row as text."""
        if self.lines is not None:
            return f"line {self.lines[row]} of {self.path}"
        return f"row {row} (counting from 0)"

    def column(self, j: int) -> RawColumn:
        """Column j by its distinct values, sorted where the source is numeric."""
        if self.columns is not None:
            return self.columns[j]
        assert self.matrix is not None
        values, indices = np.unique(self.matrix[:, j], return_inverse=True)
        return RawColumn(indices.astype(np.int32).reshape(-1), values.tolist())

    def select(self, positions: list[int], names: list[str]) -> RawTable:
        """The columns at `positions`, in that order, under new names."""
        matrix = self.matrix
        if matrix is not None and positions != list(range(self.m)):
            matrix = matrix[:, positions]
        columns = None if self.columns is None else [self.columns[j] for j in positions]
        return RawTable(names, self.n, matrix, columns, self.lines, self.path, self.boolean, self.named)


def default_names(m: int) -> list[str]:
    """x0, x1, …: columns count from 0, like everything else in Python."""
    return [f"x{j}" for j in range(m)]


def raw_array(array: Array) -> RawTable:
    """A NumPy array (n, m) of integers, floating-point numbers (NaN is missing), booleans, texts or objects."""
    if array.ndim != 2:
        raise DataError(
            f"The data have {array.ndim} dimension{'s' * (array.ndim != 1)}, and a table has two: one row for each "
            "sample, one column for each variable. Use X.reshape(-1, 1) for a single variable, X.reshape(1, -1) for "
            "a single sample."
        )
    if is_masked(array):
        values = np.array(np.ma.getdata(array), dtype=object)
        values[np.ma.getmaskarray(array)] = None
        return raw_array(values)
    names = default_names(array.shape[1])
    kind = array.dtype.kind
    if kind == "b":
        return RawTable(names, len(array), matrix=array.view(np.uint8), boolean=True)
    if kind in "iuf":
        return RawTable(names, len(array), matrix=array)
    if kind not in "OUS" and kind != "T":
        raise DataError(f"The data have dtype {array.dtype}, which has no discrete states. {ADVICE}")
    columns = [_checked_column(array[:, j].tolist(), len(array), name) for j, name in enumerate(names)]
    return RawTable(names, len(array), columns=columns)


def raw_rows(rows: Sequence[Any]) -> RawTable:
    """A list of rows of equal length."""
    if len(rows) == 0:
        return RawTable([], 0, columns=[])
    for i, row in enumerate(rows):
        if (
            (is_masked(row) and not row.ndim)
            or isinstance(row, str | bytes | dict)
            or not hasattr(row, "__len__")
            or not hasattr(row, "__iter__")
        ):
            raise DataError(f"Row {i} (counting from 0) is {row!r:.80}, not a list of values. {ADVICE}")
        if len(row) != len(rows[0]):
            raise DataError(
                f"Row {i} (counting from 0) has {len(row)} values, and row 0 has {len(rows[0])}. Every row must have "
                "the same number; a missing value is None or NaN."
            )
    names = default_names(len(rows[0]))
    cells = list(zip(*rows, strict=True))
    columns = [_checked_column(cells[j], len(rows), name) for j, name in enumerate(names)]
    return RawTable(names, len(rows), columns=columns)


def raw_frame(frame: pd.DataFrame) -> RawTable:
    """A pandas DataFrame: NumPy, categorical, nullable and text columns."""
    names = [str(name) for name in frame.columns]
    named = any(isinstance(name, str) for name in frame.columns)  # pandas numbers the columns of an array
    if frame.shape[1] and all(isinstance(dtype, np.dtype) and dtype.kind in "iufb" for dtype in frame.dtypes):
        matrix = frame.to_numpy()
        if matrix.dtype.kind in "iufb":
            table = raw_array(matrix)
            return RawTable(names, table.n, matrix=table.matrix, boolean=table.boolean, named=named)
    columns = [_frame_column(frame.iloc[:, j], name) for j, name in enumerate(names)]
    return RawTable(names, frame.shape[0], columns=columns, named=named)


def exact_frame(to_pandas: Callable[..., pd.DataFrame]) -> pd.DataFrame:
    """The data frame of an Arrow table. ``to_pandas`` converts it, with pyarrow's options.

    pyarrow makes floating-point numbers of integers beside missing values, which rounds those beyond 2^53. Where there
    are such numbers, these columns become objects; not everywhere, because that takes six times as long.
    """
    frame = to_pandas()
    if (frame.select_dtypes("float64").abs() >= 2**53).to_numpy().any():
        return to_pandas(integer_object_nulls=True)
    return frame


def _frame_column(series: pd.Series, name: str) -> RawColumn:
    if hasattr(series.dtype, "categories") and hasattr(series, "cat"):
        codes = series.cat.codes.to_numpy().astype(np.int32)
        return RawColumn(codes, tuple(series.cat.categories.tolist()), ordered=True)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufb":
        values, indices = np.unique(series.to_numpy(), return_inverse=True)
        return RawColumn(indices.astype(np.int32), values.tolist())
    return _checked_column(series.tolist(), len(series), name)


def _checked_column(cells: Sequence[object], n: int, name: str) -> RawColumn:
    try:
        return raw_column(cells, n)
    except BadValueError as bad:
        raise DataError(
            f"The value {bad.value!r:.80} in row {bad.position} (counting from 0), column {name!r:.80}, is {bad.reason}. "
            "Replace it by one of these, or by None where it is missing."
        ) from bad
