"""A table of plain values, shown by the command line and by pages."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace

Cell = str | int | float | None


@dataclass(frozen=True)
class PlainTable:
    """A table of plain values.

    Parameters
    ----------
    title : str
        Its title.
    columns : tuple of str
        Names of the columns.
    rows : tuple of tuples
        The cells: text, numbers, or None, which is shown as a dash.
    note : str, default: ""
        Text below the table.
    formats : tuple of str, default: ()
        Format of the numbers of each column, such as ``".4f"``; "": depends on their size.
    optional : tuple of int, default: ()
        Sizes of groups of columns, from the end, that a narrow terminal may leave out.

    Examples
    --------
    >>> from fieldfit import plots
    >>> table = plots.PlainTable("costs", ("policy", "FLOPs"), (("PL1", 21), ("FL", 2700)))
    >>> len(table.rows)
    2
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    formats: tuple[str, ...] = ()  # format of the numbers of each column, such as ".4f"; "": depends on their size
    optional: tuple[int, ...] = ()  # sizes of groups of columns that a narrow terminal may leave out, from the end

    def __post_init__(self) -> None:
        if self.formats and len(self.formats) != len(self.columns):
            raise ValueError(f"{self.title!r:.80} has {len(self.formats)} formats for {len(self.columns)} columns.")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"A row of {self.title!r:.80} has {len(row)} cells for {len(self.columns)} columns.")

    def numeric(self, column: int) -> bool:
        """Return whether a column holds numbers, which are right-aligned.

        Parameters
        ----------
        column : int
            The column.

        Returns
        -------
        bool

        Examples
        --------
        >>> from fieldfit import plots
        >>> table = plots.PlainTable("costs", ("policy", "FLOPs"), (("PL1", 21), ("FL", 2700)))
        >>> table.numeric(0), table.numeric(1)
        (False, True)
        """
        return all(not isinstance(row[column], str) for row in self.rows)

    def first(self, columns: int) -> PlainTable:
        """Return the table of the first columns.

        Parameters
        ----------
        columns : int
            How many.

        Returns
        -------
        PlainTable

        Examples
        --------
        >>> from fieldfit import plots
        >>> table = plots.PlainTable("costs", ("policy", "FLOPs"), (("PL1", 21), ("FL", 2700)))
        >>> table.first(1).rows
        (('PL1',), ('FL',))
        """
        rows = tuple(row[:columns] for row in self.rows)
        return replace(self, columns=self.columns[:columns], rows=rows, formats=self.formats[:columns], optional=())

    def texts(self) -> list[list[str]]:
        """Return the cells as text.

        Returns
        -------
        list of lists of str

        Examples
        --------
        >>> from fieldfit import plots
        >>> table = plots.PlainTable("costs", ("policy", "FLOPs"), (("PL1", 21), ("FL", 2700)))
        >>> table.texts()
        [['PL1', '21'], ['FL', '2,700']]
        """
        formats = self.formats or ("",) * len(self.columns)
        return [[format_cell(cell, how) for cell, how in zip(row, formats, strict=True)] for row in self.rows]

    def to_html(self) -> str:
        """Return the table as HTML. Line breaks in cells are kept.

        Returns
        -------
        str

        Examples
        --------
        >>> from fieldfit import plots
        >>> table = plots.PlainTable("costs", ("policy", "FLOPs"), (("PL1", 21), ("FL", 2700)))
        >>> table.to_html().count("<tr>")
        3
        """
        right = [' class="number"' if self.numeric(c) else "" for c in range(len(self.columns))]
        head = "".join(
            f'<th scope="col"{r}>{html.escape(name)}</th>' for r, name in zip(right, self.columns, strict=True)
        )
        body = "\n".join(
            "<tr>" + "".join(f"<td{r}>{_lines(cell)}</td>" for r, cell in zip(right, row, strict=True)) + "</tr>"
            for row in self.texts()
        )
        note = f"<p class='note'>{html.escape(self.note)}</p>" if self.note else ""
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>{note}"


def _lines(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")


def format_cell(cell: Cell, how: str = "") -> str:
    """Format a cell: integers with thousands separators, other numbers with four digits, None and NaN as a dash."""
    if isinstance(cell, str):
        return cell
    if cell is None or cell != cell:
        return "–"
    if how:
        return format(cell, how)
    if isinstance(cell, int):
        return f"{cell:,}"
    if abs(cell) >= 1000:
        return f"{cell:,.0f}" if abs(cell) < 1e9 else f"{cell:.3g}"
    return f"{cell:.4g}"


def aligned_text(table: PlainTable) -> str:
    """The table in aligned columns of plain text."""
    texts = [list(table.columns), *table.texts()]
    widths = [max(len(row[c]) for row in texts) for c in range(len(table.columns))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if table.numeric(c) else cell.ljust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    parts = [table.title, line(texts[0]), "  ".join("─" * w for w in widths), *map(line, texts[1:])]
    return "\n".join([*parts, *([table.note] if table.note else [])])
