"""Ctrl-C on the command line: it waits for an import to end, and is remembered whatever becomes of the exception.

A KeyboardInterrupt in the middle of an import is lost in a callback of the import system, or becomes an ImportError of
NumPy or SciPy. So the handler looks where the program is, and comes again a little later while an import is under way.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Seconds between two looks at an import that is under way.
_AGAIN = 0.02


class Interrupts:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.seen = False

    def arrive(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGINT, and of the alarm that repeats it."""
        if number == signal.SIGINT:
            self.seen = True
        if _importing(frame):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN)
            return
        raise KeyboardInterrupt


@contextmanager
def patient_interrupts() -> Iterator[Interrupts]:
    """Handle Ctrl-C in this block so, where it would raise KeyboardInterrupt and the system has alarms."""
    interrupts = Interrupts()
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not (usual and hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()):
        yield interrupts
        return
    alarm = signal.signal(signal.SIGALRM, interrupts.arrive)
    signal.signal(signal.SIGINT, interrupts.arrive)
    try:
        yield interrupts
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
