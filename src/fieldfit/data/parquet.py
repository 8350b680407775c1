"""Parquet files as data frames: whole, in blocks of rows, or their columns alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fieldfit.data.memory import beyond_memory
from fieldfit.data.rawtable import exact_frame
from fieldfit.data.regular import checked_file
from fieldfit.data.textfile import unopened
from fieldfit.types import DataError, FileAccessError
from fieldfit.words import counted

if TYPE_CHECKING:
    import pandas as pd
    from pyarrow import DataType
    from pyarrow.parquet import ParquetFile

#: How the names of Parquet files end.
SUFFIXES = (".parquet", ".pq")


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the name of a Parquet file."""
    return os.fspath(path).endswith(SUFFIXES)


def read_parquet(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The data frame of a file."""
    with _opened(path) as file:
        _refuse_large(os.fspath(path), file)
        return exact_frame(file.read().to_pandas)


def parquet_columns(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of the columns."""
    with _opened(path) as file:
        return tuple(map(str, file.schema_arrow.empty_table().to_pandas(use_threads=False).columns))


def parquet_blocks(path: str | os.PathLike[str], rows: Callable[[int], int]) -> Iterator[tuple[pd.DataFrame, float]]:
    """The data frame in blocks, of at most ``rows`` of the number of columns, and the share of the file's rows so far."""
    with _opened(path) as file:
        done = 0
        for batch in file.iter_batches(batch_size=rows(len(file.schema_arrow))):
            done += len(batch)
            yield exact_frame(batch.to_pandas), done / max(file.metadata.num_rows, 1)


def _refuse_large(path: str, file: ParquetFile) -> None:
    """Refuse a file whose rows do not fit into memory: some kilobytes of it may have millions of equal rows."""
    rows, schema = file.metadata.num_rows, file.schema_arrow
    # The values are there twice, as they are read and as a data frame; texts take an address at least.
    if needed := beyond_memory(2 * rows * sum(map(_bytes_of_value, schema.types))):
        raise DataError(
            f"{path} has {rows:,} rows of {counted(len(schema.types), 'columns')}. Reading them takes {needed}. "
            "Divide the rows into several files, and give a pattern for them, such as 'part-*.parquet'."
        )


def _bytes_of_value(kind: DataType) -> int:
    """The bytes of a value of this type, at least."""
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # its values have different lengths
        return 8


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[ParquetFile]:
    """A file, closed at the end of the block; what pyarrow cannot read in the block is a `DataError`."""
    shown = checked_file(path)
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        if error.name == "pyarrow":
            raise DataError("Parquet files need pyarrow. Install it with: pip install pyarrow") from error
        raise DataError(f"{shown} cannot be read: pyarrow cannot be imported ({error}).") from error
    try:
        with ParquetFile(shown) as file:
            yield file
    except (DataError, FileAccessError):
        raise
    except (FileNotFoundError, PermissionError) as error:
        raise unopened(shown, "opened", error) from error
    except (OSError, ValueError, ArrowException) as error:
        raise DataError(f"{shown} cannot be read as a Parquet file ({error}).") from error
