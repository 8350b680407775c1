"""Long work in counted steps, shown with the time left: a line on a terminal, a bar in a notebook, nothing elsewhere.

    with steps("standard errors", 40) as step:
        for part in parts:
            …
            step()

    with stepped("standard errors", parts) as counted:
        for part in counted: …

Nothing appears in the first two seconds. Steps inside other steps are not shown: the time left is that of the whole.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

#: Seconds before anything is shown, and between two changes of what is shown.
_PATIENCE, _PAUSE = 2.0, 0.2

_wanted: bool | None = None
_inside: ContextVar[bool] = ContextVar("inside counted steps", default=False)

Progress = Callable[[int, int], object]
Item = TypeVar("Item")


def show_progress(shown: bool | None) -> None:
    """Set whether work that takes more than two seconds shows its progress and the time left.

    Parameters
    ----------
    shown : bool or None
        None is the default: on a terminal (on stderr) and in notebooks.

    Examples
    --------
    >>> import fieldfit as ff
    >>> ff.show_progress(False)
    >>> ff.show_progress(None)
    """
    global _wanted
    _wanted = shown


class Display(Protocol):
    """Where a line and a share done can be seen."""

    def show(self, text: str, share: float) -> None:
        """Replace what was shown."""
        ...

    def close(self) -> None:
        """Take it away."""
        ...


class TerminalLine:
    """One line on stderr that is overwritten."""

    def show(self, text: str, share: float) -> None:
        """Write the line over the last one."""
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clear the line."""
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class NotebookBar:
    """A bar below a notebook's cell."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html: Any = HTML
        self._handle: Any = display(HTML(""), display_id=True)

    def show(self, text: str, share: float) -> None:
        """Change the bar."""
        bar = f'<progress value="{share:.3f}" max="1"></progress> ' if share else ""
        self._handle.update(self._html(f"{bar}{text}"))

    def close(self) -> None:
        """Take the bar away."""
        self._handle.update(self._html(""))


def find_display() -> Display | None:
    """The display of this process, or None where progress is not shown."""
    if _wanted is False:
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if type(shell).__name__ == "ZMQInteractiveShell":
        return NotebookBar()
    return TerminalLine() if _wanted or sys.stderr.isatty() else None


@contextmanager
def steps(title: str, total: int, progress: Progress | None = None) -> Iterator[Callable[[], None]]:
    """Count ``total`` steps: call what this yields after each. ``progress`` is called with the steps done and all."""
    began = time.perf_counter()
    done, shown_at = 0, began + _PATIENCE - _PAUSE
    display: Display | None = None
    silent = _inside.get()
    token = _inside.set(True)

    def step() -> None:
        nonlocal done, shown_at, display
        done += 1
        if progress is not None:
            progress(done, total)
        now = time.perf_counter()
        if silent or now < shown_at + _PAUSE:
            return
        display, shown_at = display or find_display(), now
        if display is not None:
            left = (now - began) / done * max(total - done, 0)
            display.show(f"{title}: {done:,} of {total:,}, about {left:,.0f} s left", min(done / total, 1.0))

    try:
        yield step
    finally:
        _inside.reset(token)
        if display is not None:
            display.close()


@contextmanager
def stepped(title: str, items: Sequence[Item]) -> Iterator[Iterator[Item]]:
    """The items one by one, each a step. The steps end with the block, also if an exception leaves the loop."""
    with steps(title, len(items)) as step:

        def counted() -> Iterator[Item]:
            for item in items:
                yield item
                step()

        yield counted()


@contextmanager
def shown_line() -> Iterator[Callable[[str], None]]:
    """What this yields shows a line, for work whose number of steps is not known; under the same conditions."""
    began = shown_at = time.perf_counter()
    display: Display | None = None
    silent = _inside.get()

    def show(text: str) -> None:
        nonlocal shown_at, display
        now = time.perf_counter()
        if silent or now < began + _PATIENCE or now < shown_at + _PAUSE:
            return
        display, shown_at = display or find_display(), now
        if display is not None:
            display.show(text, 0.0)

    try:
        yield show
    finally:
        if display is not None:
            display.close()
