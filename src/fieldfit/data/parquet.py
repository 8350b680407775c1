"""Parquet files as data frames: whole, in blocks of rows, or their columns alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fieldfit.data.rawtable import exact_frame
from fieldfit.data.regular import checked_file
from fieldfit.data.textfile import unopened
from fieldfit.types import DataError, FileAccessError

if TYPE_CHECKING:
    import pandas as pd
    from pyarrow.parquet import ParquetFile

#: How the names of Parquet files end.
SUFFIXES = (".parquet", ".pq")


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the name of a Parquet file."""
    return os.fspath(path).endswith(SUFFIXES)


def read_parquet(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The data frame of a file."""
    with _opened(path) as file:
        return exact_frame(file.read().to_pandas)


def parquet_columns(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of the columns."""
    with _opened(path) as file:
        return tuple(map(str, file.schema_arrow.empty_table().to_pandas().columns))


def parquet_blocks(path: str | os.PathLike[str], rows: int) -> Iterator[pd.DataFrame]:
    """The data frame in blocks of at most ``rows`` rows."""
    with _opened(path) as file:
        for batch in file.iter_batches(batch_size=rows):
            yield exact_frame(batch.to_pandas)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[ParquetFile]:
    """A file, closed at the end of the block; what pyarrow cannot read in the block is a `DataError`."""
    shown = checked_file(path)
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise DataError("Parquet files need pyarrow. Install it with: pip install pyarrow") from error
    try:
        with ParquetFile(shown) as file:
            yield file
    except (DataError, FileAccessError):
        raise
    except (FileNotFoundError, PermissionError) as error:
        raise unopened(shown, "opened", error) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{shown} cannot be read as a Parquet file ({error}).") from error
