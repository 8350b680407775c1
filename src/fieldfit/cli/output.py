"""What the commands print: results on stdout (tables, or one JSON document), everything else on stderr."""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import textwrap
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fieldfit.cli.wording import in_options

if TYPE_CHECKING:
    from rich.console import Console

    from fieldfit.report.table import PlainTable


class InterruptedFitError(Exception):
    """Ctrl-C during work that keeps what it has; the message says what that is."""


def prepare_streams() -> None:
    """Let a terminal that cannot show a character get an escape for it instead of an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError, io.UnsupportedOperation):
                stream.reconfigure(errors="backslashreplace")


def complain(message: str) -> None:
    """One line on stderr."""
    print("fieldfit:", in_options(" ".join(message.split())), file=sys.stderr, flush=True)


def say(message: str) -> None:
    """A line of text on stdout, never folded or coloured."""
    print(message)


def tell(message: str, indent: str = "") -> None:
    """What the library says, on stdout: with options instead of arguments, folded to 80 columns."""
    say(textwrap.fill(in_options(message), 80, subsequent_indent=indent))


def note(message: str) -> None:
    """A line on stderr that is not an error."""
    print(message, file=sys.stderr, flush=True)


def print_json(document: object) -> None:
    """One JSON document on stdout. Numbers that JSON does not have (NaN, infinities) are null."""
    unicode = (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")
    print(json.dumps(plain(document), ensure_ascii=not unicode, allow_nan=False, indent=1))


def plain(value: object) -> object:
    """Numpy's numbers and arrays as Python's, and NaN or infinite ones as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int):
        return value
    return str(value)


def console(*, stderr: bool = False) -> Console:
    """A rich console that writes text as it is: no markup, no guessed colours for numbers."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=False)


def print_table(table: PlainTable) -> None:
    """A table that fits the terminal: text folds, optional columns go, and words that are too long are shortened."""
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    from fieldfit.cli.widths import GAP, column_widths, columns_that_fit, shorten_words

    target = console()
    rows = table.texts()
    natural = [max(map(cell_len, column)) for column in zip(table.columns, *rows, strict=True)]
    is_text = [not table.numeric(c) for c in range(len(natural))]
    kept = columns_that_fit(natural, is_text, table.optional, target.width)
    left_out, table = table.columns[kept:], table.first(kept)
    rows, natural, is_text = [row[:kept] for row in rows], natural[:kept], is_text[:kept]
    widths = column_widths(natural, is_text, target.width)
    # In a narrow terminal lines wrap: a number without its last digits would be another number.
    target.width = max(target.width, sum(widths) + GAP * (len(widths) - 1))
    mark = "…" if target.encoding.startswith("utf") else "~"
    # The simple box needs characters outside ASCII; rich falls back by itself where the encoding has none.
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left", show_edge=False)
    if table.title:
        target.print(Text(table.title, style="bold"))
    for name, width, text in zip(table.columns, widths, is_text, strict=True):
        shown.add_column(Text(name), justify="left" if text else "right", no_wrap=not text, width=width)
    for row in rows:
        cells = zip(row, widths, is_text, strict=True)
        shown.add_row(*(Text(shorten_words(cell, width, mark) if text else cell) for cell, width, text in cells))
    target.print(shown)
    if left_out:
        what = f"Columns left out in this narrow terminal: {', '.join(left_out)} (see --json)."
        target.print(Text(what, style="dim"))
    if table.note:
        target.print(Text(in_options(table.note), style="dim"))


@contextlib.contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Catch warnings as sentences; they are printed to stderr when the block ends."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            yield messages
        finally:
            messages += dict.fromkeys(in_options(str(warning.message)) for warning in caught)
    for message in messages:
        complain(f"warning: {message}")
