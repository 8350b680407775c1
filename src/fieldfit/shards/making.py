"""Make a folder of shards from a text file that may be larger than memory: in blocks of rows, in two passes.

The first pass finds the states of each column, unless they are given; the second writes the shards.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fieldfit.data.delimited import DelimitedText, delimiter_of, is_header
from fieldfit.data.labels import States
from fieldfit.data.samples import Table
from fieldfit.data.table import read_table
from fieldfit.data.textfile import lines_of, opened_stream
from fieldfit.shards.folder import ShardFolder, write_folder
from fieldfit.types import DataError, FieldfitError

#: Characters of the first lines that decide on separator and header.
_FIRST = 1 << 16


@dataclass(frozen=True)
class TextTable:
    """A CSV or TSV file and how it is read; the options are those of `read_table`."""

    path: Path
    states: Sequence[object] | None = None
    columns: Sequence[str] | None = None
    leave_out: Sequence[str] = ()
    header: bool | None = None
    sample_weight: str | None = None
    weight_kind: str = "importance"

    def blocks(self, rows: int, states: Sequence[object] | None) -> Iterator[Table]:
        """The table in blocks of at most ``rows`` rows, each read by the reader of whole tables."""
        with opened_stream(self.path) as stream:
            lines = (line.decode("utf-8").removeprefix("\ufeff") for line in lines_of(stream, str(self.path)))
            beginning: list[str] = []
            while sum(map(len, beginning)) < _FIRST and (line := next(lines, None)) is not None:
                beginning.append(line)
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
                    yield self._table(start, header, block, states)
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

    def _table(
        self, start: int, header: list[str] | None, block: list[list[str]], states: Sequence[object] | None
    ) -> Table:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        if header is not None:
            writer.writerow(header)
        writer.writerows(block)
        try:
            return read_table(
                DelimitedText(text.getvalue(), "this block", ","),
                states=states,
                columns=self.columns,
                leave_out=self.leave_out,
                header=header is not None,
                sample_weight=self.sample_weight,
                weight_kind=self.weight_kind,
                part=True,
            )
        except DataError as error:
            raise DataError(
                f"In the block of {self.path} that begins with row {start} (counting from 0): {error}"
            ) from error


def make_shards(source: TextTable, folder: str | os.PathLike[str], rows: int) -> ShardFolder:
    """Write the shards of a text file, ``rows`` rows in each."""
    if rows < 1:
        raise FieldfitError(f"A shard has {rows} rows; it must have at least 1.")
    try:
        states = _all_states(source, rows) if source.states is None else None
        if states is None:
            first = next(source.blocks(1, source.states), None)
            if first is None:
                raise DataError(f"No rows: {source.path} has no samples. Give at least one row.")
            states = list(first.states)
        return write_folder(folder, source.blocks(rows, states), states)
    except UnicodeDecodeError as error:
        raise DataError(f"{source.path} is not a UTF-8 text file (byte {error.start}).") from error


def _all_states(source: TextTable, rows: int) -> list[States]:
    """The states of each column in the whole file: numbers before text, each in order."""
    by_column: list[dict[object, None]] = []
    for table in source.blocks(rows, None):
        by_column = by_column or [{} for _ in table.states]
        if len(table.states) != len(by_column):
            raise DataError(
                f"{source.path} has rows of {len(by_column)} and rows of {len(table.states)} values. All must be "
                "equally long."
            )
        for seen, labels in zip(by_column, table.states, strict=True):
            seen.update(dict.fromkeys(labels))
    if not by_column:
        raise DataError(f"No rows: {source.path} has no samples. Give at least one row.")
    return [tuple(sorted(seen, key=lambda state: (isinstance(state, str), state))) for seen in by_column]


def _batches(reader: Iterable[list[str]], rows: int) -> Iterator[tuple[int, list[list[str]]]]:
    block: list[list[str]] = []
    start = 0
    for row in reader:
        if not row:
            continue
        block.append(row)
        if len(block) == rows:
            yield start, block
            start, block = start + len(block), []
    if block:
        yield start, block
