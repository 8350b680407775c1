"""Data in pieces: folders of shards, many files, Dask collections. Each piece is one shard, read where it is held."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from fieldfit.data.dataset import Dataset
from fieldfit.data.parquet import SUFFIXES, is_parquet, parquet_columns
from fieldfit.data.regular import checked_file
from fieldfit.data.samples import Table
from fieldfit.models.base import Model
from fieldfit.shards.folder import INDEX, ShardFolder, open_folder
from fieldfit.shards.making import TextTable
from fieldfit.types import DataError, FloatArray
from fieldfit.words import counted

#: How the names of tables end.
_KINDS = (*SUFFIXES, ".csv", ".csv.gz", ".tsv", ".tsv.gz")


class Piece(Protocol):
    """The raw samples of one shard; ``path`` is their file, or empty, and ``smaller`` says how to make smaller pieces."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def smaller(self) -> str:
        """What to do where the piece does not fit into memory."""

    def load(self) -> object:
        """What a model's `read` takes."""


@dataclass(frozen=True)
class FilePiece:
    """A CSV, TSV or Parquet file."""

    path: str
    smaller: str = "Divide it with `fieldfit shard`"

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FilePiece:
        """A file by its absolute path: workers may run in other folders."""
        return cls(os.path.abspath(checked_file(path)))

    def load(self) -> object:
        """The path, which `read_table` reads."""
        return self.path

    def columns(self, sample_weight: str | None = None) -> tuple[str, ...] | None:
        """The names of the columns without that of the weights; None for a text file without rows."""
        if not is_parquet(self.path):
            first = next(TextTable(Path(self.path), sample_weight=sample_weight).blocks(1, None), None)
            return None if first is None else first.table.names
        names = parquet_columns(self.path)
        if sample_weight is not None and sample_weight not in names:
            raise DataError(
                f"There is no column {sample_weight!r:.80} in {self.path}. It has {', '.join(names[:10])}."
            )
        return tuple(name for name in names if name != sample_weight)


@dataclass(frozen=True)
class FolderPiece:
    """One shard of a folder."""

    folder: ShardFolder
    number: int

    @property
    def smaller(self) -> str:
        """A larger number of shards."""
        rows = self.folder.files[self.number].rows
        return f"Make shards of fewer rows (this one has {rows:,}; --rows of `fieldfit shard`)"

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
    smaller: str = "Use smaller partitions"

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

    @property
    def advice(self) -> str:
        """What to do where the memory does not suffice for the piece."""
        return (
            f"{self.piece.smaller}, use fewer variables or a policy with smaller components, or give it more memory."
        )

    def read(self) -> Dataset:
        """The samples; errors say which piece they are about."""
        try:
            return self.reading.samples(self.piece.load())
        except DataError as error:
            if self.piece.path and self.piece.path in str(error):
                raise
            raise type(error)(f"In {self.name}, whose rows are numbered from 0: {error}") from error

    def weights(self, dataset: Dataset) -> FloatArray | None:
        """Their weights."""
        return dataset.sample_weight


@dataclass(frozen=True)
class Pieces:
    """Data in pieces; ``folder`` is the folder of shards that they are from, if they are.

    ``sample_weight`` and ``weight_kind`` are those of a fit that gives none of its own.
    """

    pieces: tuple[Piece, ...]
    folder: ShardFolder | None = None
    sample_weight: str | None = None
    weight_kind: str = "importance"


@dataclass(frozen=True)
class TableFiles(Pieces):
    """Tables in the files that a pattern matches; ``names`` are the columns of the first that has rows."""

    names: tuple[str, ...] = ()

    @property
    def m(self) -> int:
        """The number of columns."""
        return len(self.names)

    @classmethod
    def matching(cls, pattern: str, sample_weight: str | None = None, weight_kind: str = "importance") -> TableFiles:
        """The files; only the first row of the first file that has one is read here."""
        pieces = tuple(map(FilePiece.of, matching(pattern)))
        names = next((columns for piece in pieces if (columns := piece.columns(sample_weight)) is not None), None)
        if names is None:
            raise DataError(
                f"No rows: {counted(len(pieces), 'files')} of {pattern} have no samples. Give at least one row."
            )
        return cls(pieces, sample_weight=sample_weight, weight_kind=weight_kind, names=names)


def as_pieces(data: object) -> Pieces | None:
    """Data that come in pieces, or None where a model's `read` takes them as they are."""
    if isinstance(data, Pieces):
        return data
    if isinstance(data, ShardFolder):
        folder = replace(data, path=data.path.absolute())  # workers may run in other folders
        return Pieces(tuple(FolderPiece(folder, number) for number in range(len(data.files))), data)
    if isinstance(data, str | os.PathLike):
        return _from_path(os.fspath(data))
    if isinstance(data, list | tuple) and data and all(isinstance(item, str | os.PathLike) for item in data):
        return Pieces(tuple(map(FilePiece.of, data)))
    if type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "to_delayed"):
        return Pieces(tuple(map(DaskPiece, _partitions(data))))
    return None


def advice_for_memory(data: object) -> str:
    """What to do where the memory does not suffice for a fit to these data."""
    fewer = "Use fewer variables, states or features, or a policy with smaller components, or give it more memory."
    if as_pieces(data) is not None:
        return f"The samples are in parts already, of which one at a time is needed. {fewer}"
    return f"{fewer} A large table can be fitted in parts: `fieldfit shard DATA --out FOLDER`, and fit the folder."


def _from_path(path: str) -> Pieces | None:
    if os.path.isdir(path):
        if os.path.exists(os.path.join(path, INDEX)):
            return as_pieces(open_folder(path))
        raise no_shards(path)
    if is_parquet(path) and os.path.exists(path):
        return Pieces((FilePiece.of(path),))
    if not glob.has_magic(path) or os.path.exists(path):
        return None
    return Pieces(tuple(map(FilePiece.of, matching(path))))


def no_shards(folder: str) -> DataError:
    """The error of a folder that `fieldfit shard` did not make."""
    return DataError(
        f"{folder} is a folder without {INDEX}. {pattern_of(folder)}, or make shards with `fieldfit shard`."
    )


def pattern_of(folder: str) -> str:
    """Advice for a folder where files are needed: the pattern of those that it has."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    kinds = [kind for kind in _KINDS if any(name.endswith(kind) for name in names)]
    if not kinds:
        return f"None of its files is a table ({', '.join(_KINDS)}). Give the files with the samples"
    return "Give its files: " + " or ".join(f"'{os.path.join(folder, '*' + kind)}'" for kind in kinds)


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
