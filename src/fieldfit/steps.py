"""Long work in counted steps, shown with the time left: a line on a terminal, a bar in a notebook, nothing elsewhere.

    with steps("standard errors", 40) as step:
        for part in parts:
            …
            step()

    with stepped("standard errors", parts) as counted:
        for part in counted: …

    with waiting("theory"): …

    with forecast("plan"):
        …
        expect(3.0)  # CPU seconds from here

Nothing appears in the first two seconds. Steps inside other steps or a forecast are not shown: the time left is that of the
whole. On a terminal `waiting` shows the seconds that have passed while no step has ended.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Protocol, TypeVar

#: Seconds before anything is shown, and between two changes of what is shown.
_PATIENCE, _PAUSE = 2.0, 0.2
#: From this number of steps on, the first one, which may load and compile things, does not count for the time left.
_MANY_STEPS = 10
#: CPU seconds from which their ratio to the clock is known.
_KNOWN_BUSY = 0.1

_wanted: bool | None = None
_inside: ContextVar[bool] = ContextVar("inside counted steps", default=False)
#: Displays that show something now; a line of `waiting` leaves the terminal to them.
_open_displays = 0
#: Whether a line of `waiting` is in use.
_waits = False
#: The forecast in use.
_forecast: Forecast | None = None

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


class _Handle(Protocol):
    """What IPython shows and can change."""

    def update(self, shown: object) -> None:
        """Show something else in its place."""


class NotebookBar:
    """A bar below a notebook's cell."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html: Callable[[str], object] = HTML
        self._handle: _Handle = display(HTML(""), display_id=True)

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
    return TerminalLine() if _wanted or stderr_is_terminal() else None


def stderr_is_terminal() -> bool:
    """Whether a person sees stderr at once; it is None in a process that was started without one (``2>&-``)."""
    return sys.stderr is not None and sys.stderr.isatty()


def _on_terminal() -> bool:
    """Whether progress is shown on a terminal."""
    return _wanted is not False and stderr_is_terminal() and "ipykernel" not in sys.modules


class Forecast:
    """When work is expected to end.

    Expectations are CPU seconds of this thread. They become seconds of the clock at the ratio of both so far, and the end
    moves half the way to each new one, so that the time left does not jump.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.began, self._cpu = time.perf_counter(), time.thread_time()
        self.end: float | None = None
        self._display: Display | None = None
        self._shown_at = self.began + _PATIENCE - _PAUSE

    def expect(self, seconds: float) -> None:
        """Move the end: the work takes this number of CPU seconds from here."""
        now, busy = time.perf_counter(), time.thread_time() - self._cpu
        slower = max((now - self.began) / busy, 1.0) if busy > _KNOWN_BUSY else 1.0
        end = now + slower * seconds
        self.end = end if self.end is None else (self.end + end) / 2
        self.refresh()

    def refresh(self) -> None:
        """Show it in a notebook; on a terminal another thread does."""
        now = time.perf_counter()
        if now < self._shown_at + _PAUSE or _on_terminal():
            return
        self._shown_at = now
        self._display = self._display or find_display()
        if self._display is not None:
            share = 0.0 if self.end is None else (now - self.began) / max(self.end - self.began, now - self.began)
            self._display.show(str(self), share)

    def close(self) -> None:
        """Take it away."""
        if self._display is not None:
            self._display.close()

    def __str__(self) -> str:
        now = time.perf_counter()
        left = ""
        if self.end is not None:
            left = f", about {self.end - now:,.0f} s left" if self.end > now else ", longer than expected"
        return f"{self.title}: {now - self.began:,.0f} s{left}"


@contextmanager
def forecast(title: str) -> Iterator[None]:
    """Show the seconds that have passed and those that are left, as far as the work says what it expects (`expect`)."""
    global _forecast
    if _forecast is not None or _inside.get():
        yield
        return
    with waiting(title):
        course = _forecast = Forecast(title)  # another thread may replace the forecast in use
        token = _inside.set(True)
        try:
            yield
        finally:
            _inside.reset(token)
            course.close()
            _forecast = None


def expect(seconds: float) -> None:
    """Tell the forecast in use that the work takes this number of CPU seconds from here."""
    current = _forecast
    if current is not None:
        current.expect(seconds)


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show the seconds that have passed, on a terminal, after two seconds and while nothing else is shown."""
    global _waits
    if _waits or _inside.get() or not _on_terminal():
        yield
        return
    _waits = True
    ended, written = threading.Event(), threading.Event()
    course = Forecast(title)

    def tell() -> None:
        pause = _PATIENCE
        while not ended.wait(pause):
            pause = 1.0
            if not _open_displays:
                written.set()
                _write_at_once(f"\r{_forecast or course}\x1b[K")

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        _waits = False
        ended.set()
        thread.join()
        if written.is_set():
            TerminalLine().close()


def _write_at_once(text: str) -> None:
    """Write to the terminal past the buffer of stderr, whose lock a forked process could not open."""
    with suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), text.encode())


class Step(Protocol):
    """Counts the steps that were done since the last call."""

    def __call__(self, count: int = 1) -> None:
        """Some more are done."""


@contextmanager
def steps(title: str, total: int, progress: Progress | None = None, *, in_megabytes: bool = False) -> Iterator[Step]:
    """Count ``total`` steps: call what this yields after each, or with a number of them. ``progress`` is called with the
    steps done and all. ``in_megabytes``: the steps are bytes.
    """
    global _open_displays
    began = first_ended = time.perf_counter()
    done, calls, first, shown_at = 0, 0, 0, began + _PATIENCE - _PAUSE
    display: Display | None = None
    silent = _inside.get()

    def step(count: int = 1) -> None:
        global _open_displays
        nonlocal done, calls, first, shown_at, display, first_ended
        if not count:
            return
        done, calls = done + count, calls + 1
        if progress is not None:
            progress(done, total)
        now = time.perf_counter()
        current = _forecast
        if silent and current is not None:
            current.refresh()
        if calls == 1:
            first, first_ended = done, now
        if silent or now < shown_at + _PAUSE:
            return
        if display is None:
            display = find_display()
            _open_displays += display is not None
        shown_at = now
        if display is not None:
            pace = (now - began) / done if calls == 1 or total < _MANY_STEPS else (now - first_ended) / (done - first)
            left = "" if calls == 1 and total >= _MANY_STEPS else f", about {pace * max(total - done, 0):,.0f} s left"
            counts = f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB" if in_megabytes else f"{done:,} of {total:,}"
            display.show(f"{title}: {counts}{left}", min(done / max(total, 1), 1.0))

    token = _inside.set(True)
    try:
        yield step
    finally:
        _inside.reset(token)
        if display is not None:
            _open_displays -= 1
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
    global _open_displays
    began = shown_at = time.perf_counter()
    display: Display | None = None
    silent = _inside.get()

    def show(text: str) -> None:
        global _open_displays
        nonlocal shown_at, display
        now = time.perf_counter()
        if silent or now < began + _PATIENCE or now < shown_at + _PAUSE:
            return
        if display is None:
            display = find_display()
            _open_displays += display is not None
        shown_at = now
        if display is not None:
            display.show(text, 0.0)

    try:
        yield show
    finally:
        if display is not None:
            _open_displays -= 1
            display.close()
