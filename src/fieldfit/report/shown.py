"""Display of results: a few lines and a table, as text in 80 columns and as HTML in a notebook."""

from __future__ import annotations

import html
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fieldfit.report.table import Cell, PlainTable, aligned_text

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 80
#: Most rows of a displayed table; `to_frame` has all.
MOST_SHOWN_ROWS = 20


class Shown(ABC):
    """A result with ``print(x)`` and a notebook's display made of `_lines` and `_table`, and a short ``repr(x)``."""

    @abstractmethod
    def _lines(self) -> Sequence[str]:
        """The lines above the table; the first one names the result."""

    @abstractmethod
    def _table(self) -> PlainTable | None:
        """The table, already cut to `MOST_SHOWN_ROWS` rows."""

    def __str__(self) -> str:
        lines = [textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in self._lines()]
        table = self._table()
        if table is None:
            return "\n".join(lines)
        note = [textwrap.fill(table.note, WIDTH)] if table.note else []
        return "\n".join([*lines, aligned_text(replace(table, note="")), *note])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._lines()[0]}>"

    def _repr_html_(self) -> str:
        table = self._table()
        words = "<br>".join(html.escape(line) for line in self._lines())
        return f"<p>{words}</p>" + ("" if table is None else table.to_html())


def first_rows(table: PlainTable, count: int = MOST_SHOWN_ROWS, whole: str = "to_frame()") -> PlainTable:
    """The table cut after some rows, with a note that says how many more there are, and which call has the ``whole``."""
    more = len(table.rows) - count
    if more <= 0:
        return table
    note = f"… and {more:,} more ({whole} has all)."
    joined = f"{note} {table.note}" if table.note else note
    return replace(table, rows=table.rows[:count], note=joined)


def frame_rows(frame: pd.DataFrame, most: int = 36) -> tuple[tuple[Cell, ...], ...]:
    """The rows of a data frame of numbers, with the names of the index cut to a width."""
    names = [str(name) for name in frame.index]
    short = [name if len(name) <= most else name[: most - 1] + "…" for name in names]
    numbers = frame.to_numpy(dtype=float).tolist()
    return tuple((name, *line) for name, line in zip(short, numbers, strict=True))
