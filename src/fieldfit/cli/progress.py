"""The progress of a fit on stderr: on a terminal one line that is overwritten, otherwise a line for each iteration."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fieldfit.cli.output import console, note

if TYPE_CHECKING:
    from fieldfit.optim import Progress


@contextmanager
def shown_progress(wanted: bool | None, json: bool, max_iter: int) -> Iterator[Callable[[Progress], None] | None]:
    """A callback that shows each iteration, or None where that is not wanted (by default: no terminal, or JSON)."""
    terminal = sys.stderr.isatty()
    if wanted is False or (wanted is None and (not terminal or json)):
        yield None
        return
    from fieldfit.api.progress import HEAD, ProgressLines

    line = ProgressLines(max_iter)
    if not terminal:
        note(HEAD)
        yield lambda state: note(line(state))
        return
    from rich.live import Live
    from rich.text import Text

    with Live(Text(HEAD), console=console(stderr=True), refresh_per_second=8) as live:
        yield lambda state: live.update(Text(f"{HEAD}\n{line(state)}"))
