"""Data in pieces: folders of shards, many files, Dask collections. Each piece is one shard, read where it is held."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fieldfit.data.dataset import Dataset
from fieldfit.data.memory import beyond_memory
from fieldfit.data.rawtable import exact_frame
from fieldfit.data.regular import checked_file
from fieldfit.data.samples import Table
from fieldfit.models.base import Model
from fieldfit.shards.folder import INDEX, ShardFolder, open_folder
from fieldfit.shards.making import TextTable
from fieldfit.types import DataError, FloatArray
from fieldfit.words import counted

if TYPE_CHECKING:
    import pandas as pd
    from pyarrow import DataType
    from pyarrow.parquet import ParquetFile

_PARQUET = (".parquet", ".pq")


class Piece(Protocol):
    """The raw samples of one shard; ``path`` is their file, or empty."""

    @property
    def path(self) -> str:
        """The file."""

    def load(self) -> object:
        """What a model's `read` takes."""


@dataclass(frozen=True)
class FilePiece:
    """A CSV, TSV or Parquet file."""

    path: str

    def load(self) -> object:
        """The path of a text file, or the table of a Parquet file."""
        return _parquet(self.path) if self.path.endswith(_PARQUET) else self.path

    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns; None for a text file without rows."""
        if self.path.endswith(_PARQUET):
            return tuple(map(str, _parquet(self.path, rows=False).columns))
        first = next(TextTable(Path(self.path)).blocks(1, None), None)
        return None if first is None else first.names


def _parquet(path: str, *, rows: bool = True) -> pd.DataFrame:
    """The data frame of a file; without ``rows`` its columns only."""
    try:
        from pyarrow.parquet import ParquetFile, read_schema

        if not rows:
            columns: pd.DataFrame = read_schema(path).empty_table().to_pandas()
            return columns
        with ParquetFile(path) as file:
            _refuse_large(path, file)
            return exact_frame(file.read().to_pandas)
    except ImportError as error:
        raise DataError("Parquet files need pyarrow. Install it with: pip install pyarrow") from error
    except DataError:
        raise
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a Parquet file ({error}).") from error


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


@dataclass(frozen=True)
class FolderPiece:
    """One shard of a folder."""

    folder: ShardFolder
    number: int

    @property
    def path(self) -> str:
        """The file of the shard."""
        return str(self.folder.path / self.folder.files[self.number].name)

    def load(self) -> Table:
        """The coded samples."""
        return self.folder.read(self.number)


@dataclass(frozen=True)
class DaskPiece:
    """One partition of a Dask collection, computed on the worker that holds the shard."""

    partition: object
    path: str = ""

    def load(self) -> object:
        """A data frame or an array."""
        import dask

        (value,) = dask.compute(self.partition, scheduler="synchronous")
        return value.result() if hasattr(value, "result") and hasattr(value, "key") else value


@dataclass(frozen=True)
class Reading:
    """How pieces become samples of a model: its states, the column of the weights, and whether counts become copies."""

    model: Model
    sample_weight: str | None
    weight_kind: str
    copies: bool

    def samples(self, raw: object) -> Dataset:
        """The samples of one piece. A column may be missing everywhere in a piece, though not in all of them."""
        dataset = self.model.read_piece(raw, sample_weight=self.sample_weight, weight_kind=self.weight_kind)
        return dataset.copies() if self.copies else dataset


@dataclass(frozen=True)
class PieceSource:
    """A piece as the source of a shard; ``number`` is that of the piece among all, from 0."""

    piece: Piece
    reading: Reading
    number: int

    @property
    def name(self) -> str:
        """How messages call the piece."""
        return f"part {self.number + 1} of the data" + (f" ({self.piece.path})" if self.piece.path else "")

    def read(self) -> Dataset:
        """The samples; errors say which piece they are about."""
        try:
            return self.reading.samples(self.piece.load())
        except MemoryError as error:
            raise DataError(
                f"There is not enough memory to read {self.name}. Divide the data into more parts."
            ) from error
        except DataError as error:
            if self.piece.path and self.piece.path in str(error):
                raise
            raise type(error)(f"In {self.name}, whose rows are numbered from 0: {error}") from error

    def weights(self, dataset: Dataset) -> FloatArray | None:
        """Their weights."""
        return dataset.sample_weight


@dataclass(frozen=True)
class Pieces:
    """Data in pieces; ``folder`` is the folder of shards that they are from, if they are."""

    pieces: tuple[Piece, ...]
    folder: ShardFolder | None = None


@dataclass(frozen=True)
class TableFiles(Pieces):
    """Tables in the files that a pattern matches; ``names`` are the columns of the first that has rows."""

    names: tuple[str, ...] = ()

    @property
    def m(self) -> int:
        """The number of columns."""
        return len(self.names)

    @classmethod
    def matching(cls, pattern: str) -> TableFiles:
        """The files; only the first row of the first file that has one is read here."""
        pieces = tuple(map(FilePiece, matching(pattern)))
        names = next((columns for piece in pieces if (columns := piece.columns()) is not None), None)
        if names is None:
            raise DataError(
                f"No rows: {counted(len(pieces), 'files')} of {pattern} have no samples. Give at least one row."
            )
        return cls(pieces, names=names)


def as_pieces(data: object) -> Pieces | None:
    """Data that come in pieces, or None where a model's `read` takes them as they are."""
    if isinstance(data, Pieces):
        return data
    if isinstance(data, ShardFolder):
        return Pieces(tuple(FolderPiece(data, number) for number in range(len(data.files))), data)
    if isinstance(data, str | os.PathLike):
        return _from_path(os.fspath(data))
    if isinstance(data, list | tuple) and data and all(isinstance(item, str | os.PathLike) for item in data):
        return Pieces(tuple(FilePiece(checked_file(item)) for item in data))
    if type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "to_delayed"):
        return Pieces(tuple(map(DaskPiece, _partitions(data))))
    return None


def _from_path(path: str) -> Pieces | None:
    if os.path.isdir(path):
        if os.path.exists(os.path.join(path, INDEX)):
            return as_pieces(open_folder(path))
        raise DataError(
            f"{path} is a folder without {INDEX}. Make shards with `fieldfit shard`, or give '{path}/*.csv'."
        )
    if path.endswith(_PARQUET) and os.path.exists(path):
        return Pieces((FilePiece(checked_file(path)),))
    if not glob.has_magic(path) or os.path.exists(path):
        return None
    return Pieces(tuple(map(FilePiece, matching(path))))


def matching(pattern: str) -> list[str]:
    """The files that a pattern matches, in the order of their names."""
    paths = sorted(glob.glob(pattern))
    if not paths:
        raise DataError(f"No file matches {pattern}. Check the pattern.")
    return [checked_file(path) for path in paths]


def _partitions(collection: Any) -> Sequence[Any]:
    """The partitions of a Dask data frame, or the row blocks of a Dask array."""
    if hasattr(collection, "numblocks"):
        if collection.ndim != 2:
            raise DataError(f"The Dask array has {collection.ndim} dimensions, and a table has two.")
        if collection.numblocks[1] > 1:
            collection = collection.rechunk({1: -1})
        return list(collection.to_delayed().ravel())
    return list(collection.to_delayed())
