"""Make a folder of shards from files that may be larger than memory: in blocks of rows, in two passes.

The first pass finds the states of each column, unless they are given; the second writes the shards. A block has at most
about 260,000 values, whatever the number of rows in a shard: a value of a block takes about 50 bytes, and one of a shard
5 bytes.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from fieldfit.data.delimited import DelimitedText, delimiter_of, is_header
from fieldfit.data.labels import States
from fieldfit.data.memory import told_lack
from fieldfit.data.parquet import is_parquet, parquet_blocks
from fieldfit.data.samples import Table
from fieldfit.data.table import read_table
from fieldfit.data.textfile import bytes_read, lines_of, opened_stream
from fieldfit.shards.folder import ShardFolder, write_folder
from fieldfit.steps import Step, steps
from fieldfit.types import DataError, FieldfitError

#: Characters of the first lines that decide on separator and header.
_FIRST = 1 << 16
#: Values of a block at most, and its least number of rows, because each column of a block costs time.
_BLOCK_VALUES, _BLOCK_ROWS = 1 << 18, 16


@dataclass(frozen=True)
class TableBlock:
    """Some rows of a file, and how many of its bytes have been read."""

    table: Table
    bytes_read: int


@dataclass(frozen=True)
class TableFile(ABC):
    """A file with a table and how it is read; the options are those of `read_table`."""

    path: Path
    states: Sequence[object] | None = None
    columns: Sequence[str] | None = None
    leave_out: Sequence[str] = ()
    header: bool | None = None
    sample_weight: str | None = None
    weight_kind: str = "importance"

    @abstractmethod
    def blocks(self, rows: int, states: Sequence[object] | None) -> Iterator[TableBlock]:
        """The table in blocks of at most ``rows`` rows, each read by the reader of whole tables."""

    @property
    def size(self) -> int:
        """The bytes of the file; 0 where there is none."""
        return self.path.stat().st_size if self.path.exists() else 0

    def _table(self, start: int, block: object, header: bool | None, states: Sequence[object] | None) -> Table:
        """A block of rows; ``start`` is the number of the first."""
        try:
            return read_table(
                block,
                states=states,
                columns=self.columns,
                leave_out=self.leave_out,
                header=header,
                sample_weight=self.sample_weight,
                weight_kind=self.weight_kind,
                part=True,
            )
        except DataError as error:
            raise DataError(
                f"In the block of {self.path} that begins with row {start} (counting from 0): {error}"
            ) from error


class ParquetTable(TableFile):
    """A Parquet file, whose columns always have names."""

    def blocks(self, rows: int, states: Sequence[object] | None) -> Iterator[TableBlock]:
        """The table in blocks of at most ``rows`` rows, each read by the reader of whole tables."""
        start = 0
        for frame, share in parquet_blocks(self.path, partial(_rows_of_block, rows)):
            yield TableBlock(self._table(start, frame, None, states), int(share * self.size))
            start += len(frame)


class TextTable(TableFile):
    """A CSV or TSV file."""

    def blocks(self, rows: int, states: Sequence[object] | None) -> Iterator[TableBlock]:
        """The table in blocks of at most ``rows`` rows, each read by the reader of whole tables."""
        with opened_stream(self.path) as stream:
            lines = _decoded(lines_of(stream, str(self.path)), self.path)
            beginning: list[str] = []
            length = 0
            while length < _FIRST and (line := next(lines, None)) is not None:
                beginning.append(line)
                length += len(line)
            first_text = "".join(beginning)
            if "\0" in first_text:
                raise DataError(f"{self.path} is not a text file: it has a zero byte. Save it as UTF-8 text.")
            delimiter = delimiter_of(str(self.path), first_text)
            reader = csv.reader(itertools.chain(beginning, lines), delimiter=delimiter, strict=True)
            try:
                header = self._names(first_text, delimiter)
                if header is not None:
                    next((row for row in reader if row), None)
                for start, block in _batches(reader, rows):
                    table = self._table(start, _as_text(header, block), header is not None, states)
                    yield TableBlock(table, bytes_read(stream))
            except csv.Error as error:
                raise DataError(
                    f"Line {reader.line_num} of {self.path} cannot be read ({error}). Check the quotation marks there."
                ) from error

    def _names(self, first_text: str, delimiter: str) -> list[str] | None:
        """The names in line 1, or None where it has values."""
        lines = first_text.splitlines()
        sample = [row for row in csv.reader(lines[:-1] if len(lines) > 1 else lines, delimiter=delimiter) if row]
        if not sample:
            raise DataError(f"{self.path} is empty. Give a file with one line for each sample.")
        first, rest = sample[0], [row for row in sample[1:] if len(row) == len(sample[0])]
        lists = self.states or ()
        known = frozenset(str(label) for label in lists if not isinstance(label, list | tuple))
        expected = [*(self.columns or ()), *self.leave_out, *([self.sample_weight] if self.sample_weight else [])]
        return first if is_header(str(self.path), first, rest, self.header, expected, known) else None


def table_files(paths: Iterable[str | os.PathLike[str]], **options: Any) -> tuple[TableFile, ...]:
    """The tables of some files, read with the same options: Parquet files by their names, text files otherwise."""
    return tuple((ParquetTable if is_parquet(path) else TextTable)(Path(path), **options) for path in paths)


def make_shards(source: TableFile | Sequence[TableFile], folder: str | os.PathLike[str], rows: int) -> ShardFolder:
    """Write the shards of one file or several, at most ``rows`` rows in each. No shard has rows of two files."""
    if rows < 1:
        raise FieldfitError(f"A shard has {rows} rows; it must have at least 1.")
    files = [source] if isinstance(source, TableFile) else list(source)
    if files[0].states is None:
        with _passing("states of the columns", files) as step:
            states = _all_states(files, rows, step)
    else:
        first = next(_tables(files, 1, files[0].states), None)
        states = [] if first is None else list(first[1].states)
    if not states:
        shown = f"{files[0].path} has" if len(files) == 1 else f"{len(files)} files have"
        raise DataError(f"No rows: {shown} no samples. Give at least one row.")
    with (
        _passing("shards", files) as step,
        told_lack(lambda: "Use fewer rows for each shard (--rows), or more memory."),
    ):
        return write_folder(folder, _counting(files, rows, states, step), states)


def _passing(title: str, files: Sequence[TableFile]) -> AbstractContextManager[Step]:
    """The progress of one pass over all files, in bytes."""
    return steps(title, sum(file.size for file in files), in_megabytes=True)


def _counting(files: Sequence[TableFile], rows: int, states: Sequence[object], step: Step) -> Iterator[Table]:
    """The shards of all files. A block whose weights are all 0 comes without rows, and samples must count somewhere."""
    by_file = groupby(_tables(files, rows, states, step), itemgetter(0))
    shards = (shard for _, pairs in by_file for shard in _joined(map(itemgetter(1), pairs), rows))
    first = next(shards, None)
    if first is None:
        raise DataError(
            f"The weights in the column {files[0].sample_weight!r:.80} are all 0, so no sample counts. Give at least one "
            "positive weight."
        )
    yield first
    yield from shards


def _joined(tables: Iterable[Table], rows: int) -> Iterator[Table]:
    """Tables of exactly ``rows`` rows, and the rest."""
    parts: list[Table] = []
    count = 0
    for table in tables:
        start = 0
        while start < table.n:
            stop = min(table.n, start + rows - count)
            parts.append(table if stop - start == table.n else table.subset(np.arange(start, stop)))
            start, count = stop, count + stop - start
            if count == rows:
                yield _one(parts)
                parts, count = [], 0
    if parts:
        yield _one(parts)


def _one(parts: Sequence[Table]) -> Table:
    """Blocks of one file as one table."""
    weights = [part.sample_weight for part in parts if part.sample_weight is not None]
    return replace(
        parts[0],
        codes=np.concatenate([part.codes for part in parts]),
        sample_weight=np.concatenate(weights) if weights else None,
    )


def _tables(
    files: Sequence[TableFile], rows: int, states: Sequence[object] | None, step: Step = lambda count=1: None
) -> Iterator[tuple[TableFile, Table]]:
    """The blocks of all files, whose columns must agree; ``step`` counts the bytes that have been read."""
    first: tuple[TableFile, Table] | None = None
    for file in files:
        done = 0
        for block in file.blocks(rows, states):
            table = block.table
            step(block.bytes_read - done)
            done = block.bytes_read
            before, known = first = first or (file, table)
            if before is file and len(known.names) != len(table.names):
                raise DataError(
                    f"{file.path} has rows of {known.m} and rows of {table.m} values. All must be equally long."
                )
            if known.names != table.names:
                raise DataError(
                    f"{file.path} has the columns {_some(table.names)}, and {before.path} has {_some(known.names)}. All "
                    "files must have the same columns in the same order."
                )
            yield file, table


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")


def _all_states(files: Sequence[TableFile], rows: int, step: Step) -> list[States]:
    """The states of each column in all files: numbers before text, each in order. None at all without rows."""
    by_column: list[dict[object, None]] = []
    for _, table in _tables(files, rows, None, step):
        by_column = by_column or [{} for _ in table.states]
        for seen, labels in zip(by_column, table.states, strict=True):
            seen.update(dict.fromkeys(labels))
    return [tuple(sorted(seen, key=lambda state: (isinstance(state, str), state))) for seen in by_column]


def _as_text(header: list[str] | None, block: list[list[str]]) -> DelimitedText:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if header is not None:
        writer.writerow(header)
    writer.writerows(block)
    return DelimitedText(text.getvalue(), "this block", ",")


def _decoded(lines: Iterable[bytes], path: Path) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode("utf-8").removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path} is not a UTF-8 text file (line {number}, byte {error.start} of it). Save it as UTF-8 text."
            ) from error


def _rows_of_block(rows: int, columns: int) -> int:
    """The rows of a block, at most ``rows``."""
    return min(rows, max(_BLOCK_VALUES // max(columns, 1), _BLOCK_ROWS))


def _batches(reader: Iterable[list[str]], rows: int) -> Iterator[tuple[int, list[list[str]]]]:
    block: list[list[str]] = []
    start = 0
    for row in reader:
        if not row:
            continue
        block.append(row)
        if len(block) >= _rows_of_block(rows, len(block[0])):
            yield start, block
            start, block = start + len(block), []
    if block:
        yield start, block
