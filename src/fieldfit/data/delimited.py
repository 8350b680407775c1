"""Tables in text files: CSV, TSV and semicolons, optionally gzipped, with the line of every row."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.data.labels import MISSING_TEXT, RawColumn, as_number
from fieldfit.data.rawtable import RawTable, default_names
from fieldfit.data.textfile import read_text
from fieldfit.types import DataError

#: Rows that are checked and converted together.
_ROWS_AT_A_TIME = 8192
#: Columns of a table at most: each takes about 500 bytes, so that a line of separators alone would fill the memory.
_MAX_COLUMNS = 2**21


@dataclass(frozen=True)
class DelimitedText:
    """Lines of a table that were read already: their text, the name of their file, and what separates the columns."""

    text: str
    shown: str
    delimiter: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> DelimitedText:
        """A whole file."""
        advice = "Divide it with `fieldfit shard FILE --out FOLDER`, and give the folder as the data."
        shown, text = os.fspath(path), read_text(path, too_large=advice)
        return cls(text, shown, delimiter_of(shown, text))


def read_delimited(
    source: str | os.PathLike[str] | DelimitedText,
    header: bool | None,
    expected_names: Sequence[object],
    known: frozenset[str],
) -> RawTable:
    """The cells of a file by column. `header` None: auto-detected from line 1 (`expected_names` and the texts of
    the `known` states help); if line 1 could be either, an error says so.
    """
    whole = source if isinstance(source, DelimitedText) else DelimitedText.of(source)
    shown = whole.shown
    columns_at_most = whole.text.lstrip("\r\n").split("\n", 1)[0].count(whole.delimiter) + 1
    if columns_at_most > _MAX_COLUMNS:
        raise DataError(f"Line 1 of {shown} has {columns_at_most:,} columns; the limit is {_MAX_COLUMNS:,}.")
    reader = csv.reader(io.StringIO(whole.text, newline=""), delimiter=whole.delimiter, strict=True)
    first: list[str] = []
    first_line = 0
    lines: list[int] = []
    places: list[dict[str, int]] = []
    batches: list[np.ndarray[tuple[int, int], np.dtype[np.int32]]] = []
    pending: list[list[str]] = []
    try:
        for row in reader:
            if not first:
                # Blank lines before the first row are no rows; later ones are missing values if there is one column.
                first, first_line = row, reader.line_num
                places = [{} for _ in first]
                continue
            if not row:
                if len(first) > 1:
                    continue
                row = [""]
            if len(row) != len(first):
                raise DataError(
                    f"Line {reader.line_num} of {shown} has {len(row)} values, and line {first_line} has "
                    f"{len(first)}. Every line must have the same number; a missing value is an empty one."
                )
            pending.append(row)
            lines.append(reader.line_num)
            if len(pending) == _ROWS_AT_A_TIME:
                batches.append(_number_cells(pending, places))
                pending = []
    except csv.Error as error:
        raise DataError(
            f"Line {reader.line_num} of {shown} cannot be read ({error}). Check the quotation marks there."
        ) from error
    if not first:
        raise DataError(f"{shown} is empty. Give a file with one line for each sample.")
    batches.append(_number_cells(pending, places))
    indices = np.concatenate(batches, axis=0)
    if len(first) == 1:
        indices, lines = _without_blank_end(indices, lines, places[0])
    names = default_names(len(first))
    named = _is_header(shown, first, first_line, places, header, expected_names, known)
    if named:
        names = [cell.strip() or name for cell, name in zip(first, names, strict=True)]
    else:
        indices = np.concatenate([_number_cells([first], places), indices], axis=0)
        lines.insert(0, first_line)
    columns = [RawColumn(np.ascontiguousarray(indices[:, j]), tuple(place)) for j, place in enumerate(places)]
    return RawTable(names, len(lines), columns=columns, lines=lines, path=shown, named=named)


def delimiter_of(shown: str, text: str) -> str:
    """Tab for .tsv and .tab files; otherwise the one of comma, semicolon and tab that line 1 has most of."""
    name = shown.lower().removesuffix(".gz")
    if name.endswith((".tsv", ".tab")):
        return "\t"
    line = text.lstrip("\r\n").split("\n", 1)[0]
    outside_quotes = "".join(line.split('"')[::2])
    return max(",;\t", key=outside_quotes.count)


def is_header(
    shown: str,
    first: list[str],
    rest: Sequence[list[str]],
    header: bool | None,
    expected_names: Sequence[object],
    known: frozenset[str],
) -> bool:
    """Whether the first row of a file has names; ``rest`` are some of the rows after it."""
    places: list[dict[str, int]] = [{} for _ in first]
    if rest:
        _number_cells(list(rest), places)
    return _is_header(shown, first, 1, places, header, expected_names, known)


def _number_cells(
    rows: list[list[str]], places: list[dict[str, int]]
) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    """Rows of text as indices into the distinct texts of each column; `places` grows by the new ones."""
    indices = np.empty((len(rows), len(places)), np.int32)
    for j, (cells, place) in enumerate(zip(zip(*rows, strict=True), places, strict=False)):
        for cell in dict.fromkeys(cells):
            place.setdefault(cell, len(place))
        indices[:, j] = np.fromiter(map(place.__getitem__, cells), np.int32, len(cells))
    return indices


def _without_blank_end(
    indices: np.ndarray[tuple[int, int], np.dtype[np.int32]], lines: list[int], place: dict[str, int]
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int32]], list[int]]:
    """In a table of one column, blank lines at the end of the file are no rows."""
    filled = np.flatnonzero(indices[:, 0] != place.get("", -1))
    end = int(filled[-1]) + 1 if len(filled) else 0
    return indices[:end], lines[:end]


def _is_header(
    shown: str,
    first: list[str],
    line: int,
    places: list[dict[str, int]],
    header: bool | None,
    expected_names: Sequence[object],
    known: frozenset[str],
) -> bool:
    if header is not None:
        return header
    cells = [cell.strip() for cell in first]
    if expected_names and all(name in cells for name in expected_names):
        return True
    names = [(j, cell) for j, cell in enumerate(cells) if cell not in MISSING_TEXT and as_number(cell) is None]
    filled = sum(cell not in MISSING_TEXT for cell in cells)
    odd = [cell for j, cell in names if cell not in known and cell not in places[j]]
    if odd and len(odd) == filled:
        return True
    # A text above a column of numbers, beside cells that look like data: a header, or a mistake in the first sample?
    strange = [
        cell
        for j, cell in names
        if cell in odd and all(t.strip() in MISSING_TEXT or as_number(t.strip()) is not None for t in places[j])
    ]
    if strange:
        raise DataError(
            f"Line {line} of {shown} could be names or data: {strange[0]!r:.80} is above numbers, and other cells "
            "look like values. Use header=True or header=False."
        )
    return False
