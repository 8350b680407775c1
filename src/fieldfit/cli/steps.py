"""The progress of work in counted steps on stderr: one line that is overwritten on a terminal, else a line at the start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fieldfit.cli.output import console, note


@contextmanager
def shown_steps(title: str, json: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A callback for the number of steps done and of all; None where nothing is shown (JSON)."""
    if json:
        yield None
        return
    if not sys.stderr.isatty():
        note(f"{title} …")
        yield None
        return
    from rich.live import Live
    from rich.text import Text

    began = time.perf_counter()
    with Live(Text(f"{title} …"), console=console(stderr=True), refresh_per_second=8, transient=True) as live:

        def show(done: int, total: int) -> None:
            left = (time.perf_counter() - began) / done * (total - done)
            live.update(Text(f"{title}: {done} of {total}, about {left:.0f} s left"))

        yield show
