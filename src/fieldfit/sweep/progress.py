"""How far a sweep is: a bar where rich is installed and the output is a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from typing import Protocol

from fieldfit.steps import stderr_is_terminal
from fieldfit.sweep.store import Counts

_SECONDS_BETWEEN_LINES = 5.0


class SweepDisplay(Protocol):
    """What the runner reports while it works."""

    def update(self, counts: Counts) -> None:
        """The counts now."""

    def close(self) -> None:
        """Nothing more comes."""


def time_left(first: Counts, latest: Counts, elapsed: float) -> float | None:
    """Seconds to the end at the pace since the run began; None before there is a pace."""
    finished = latest.done + latest.failed - first.done - first.failed
    if finished <= 0:
        return None
    return elapsed / finished * (latest.waiting + latest.running)


def in_words(seconds: float | None) -> str:
    """A duration for people."""
    if seconds is None:
        return "time left unknown"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s left"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s left"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min left"


class Silent:
    """Shows nothing."""

    def update(self, counts: Counts) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Show nothing."""


class Lines:
    """A line now and then, for logs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.began = self.last = time.monotonic()
        self.first: Counts | None = None
        self.said = ""

    def update(self, counts: Counts) -> None:
        """Print a line at the beginning, every few seconds, and at the end."""
        if self.first is None:
            self.first = counts
        elif time.monotonic() - self.last < _SECONDS_BETWEEN_LINES and counts.waiting + counts.running:
            return
        self.last = time.monotonic()
        left = time_left(self.first, counts, self.last - self.began)
        end = "" if not counts.waiting + counts.running else f", {in_words(left)}"
        text = f"{self.name}: {counts.done} of {counts.total} cells done, {counts.failed} failed{end}"
        if text != self.said:
            print(text, file=sys.stderr, flush=True)
        self.said = text

    def close(self) -> None:
        """Nothing to clean up."""


class Bar:
    """A rich progress bar on standard error."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} cells"),
            TextColumn("[red]{task.fields[failed]}[/red]"),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self.task = self.progress.add_task(name, total=1, failed="", left="")
        self.began = time.monotonic()
        self.first: Counts | None = None
        self.progress.start()

    def update(self, counts: Counts) -> None:
        """Move the bar."""
        if self.first is None:
            self.first = counts
        self.progress.update(
            self.task,
            total=counts.total,
            completed=counts.done + counts.failed,
            failed=f"{counts.failed} failed" if counts.failed else "",
            left=in_words(time_left(self.first, counts, time.monotonic() - self.began)),
        )

    def close(self) -> None:
        """Leave the bar as it is."""
        self.progress.stop()


def choose_display(name: str, progress: bool | str) -> SweepDisplay:
    """``False``: silent; ``"lines"``: plain lines; ``True``: a bar on a terminal with rich, else lines."""
    if progress is False:
        return Silent()
    if progress is True and stderr_is_terminal():
        try:
            return Bar(name)
        except ImportError:
            pass
    return Lines(name)
