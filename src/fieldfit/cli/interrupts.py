"""Ctrl-C and SIGTERM on the command line wait for imports and finalisers to end, which would lose the exception.

A KeyboardInterrupt in the middle of an import is lost in a callback of the import system, or becomes an ImportError of
NumPy or SciPy. Python prints and forgets what is raised in ``__del__`` and in callbacks of weak references, and the
``__del__`` of a zip archive fails if its ``__init__`` has not ended. So the handler checks where the program is, and tries
again a little later while it is in one of these, or in a block of `held_interrupts`. In callbacks from C it cannot see
that; an exception that is lost there comes again as well. After the first exception others wait for a few seconds, in which
the command saves what it has and cleans up.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

#: The exit code after Ctrl-C, as shells have it.
INTERRUPTED = 130
#: Seconds between two checks of whether the program has left an import or a finaliser.
_AGAIN = 0.02
#: Seconds that the program has to save, clean up and say so before another Ctrl-C interrupts that. People press twice, and
#: batch systems send several signals.
_ANSWERING = 3.0
#: The blocks of `held_interrupts` that the main thread is in.
_holds = 0


class Interrupts:
    """Whether Ctrl-C was pressed, or the process was told to end (SIGTERM, as batch systems and containers do).

    ``answered``: the command has ended and its sentence is on its way, which another Ctrl-C must not cut short.
    """

    def __init__(self) -> None:
        self.seen = self.terminated = self.answered = False
        self._raised = -math.inf

    def arrive(self, number: int, frame: FrameType | None) -> None:
        """The handler of both signals, and of the alarm that repeats them."""
        if number != signal.SIGALRM:
            self.seen = True
        if number == signal.SIGTERM:
            self.terminated = True
        if self.answered:
            return
        answering = time.monotonic() < self._raised + _ANSWERING
        if _holds or answering or _would_be_lost(frame):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN)
            return
        self._raised = time.monotonic()
        raise KeyboardInterrupt

    def come_again(self) -> None:
        """What was raised is lost: raise it once more, soon."""
        self._raised = -math.inf
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)

    def after_the_end(self, number: int, frame: FrameType | None) -> NoReturn:
        """The handler while Python itself ends: it would print a traceback of that, and may wait for threads."""
        if not self.seen:
            os.write(sys.stderr.fileno(), b"fieldfit: Interrupted after the command had ended.\n")
        os._exit(INTERRUPTED)


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Ctrl-C waits until the end of this block: inside, it would leave processes behind."""
    global _holds
    _holds += 1
    try:
        yield
    finally:
        _holds -= 1


@contextmanager
def ended_after(seconds: float, clean: Callable[[], None]) -> Iterator[None]:
    """A part of a block of `held_interrupts` in which Ctrl-C waits at most so long.

    Then another thread calls ``clean``, which removes what the block has started, and ends this process. It cannot rely on
    handlers: the main thread, which runs them, may be waiting.
    """
    if not (hasattr(signal, "sigpending") and threading.current_thread() is threading.main_thread()):
        yield
        return
    over = threading.Event()
    arrived, told = os.pipe()
    os.set_blocking(arrived, False)
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)

    def signalled() -> int | None:
        """The signal, if one has come. It may be blocked while other processes start, and then waits in the system."""
        waiting = signal.sigpending()
        with suppress(BlockingIOError):
            waiting |= set(os.read(arrived, 1024))
        return next((int(number) for number in (signal.SIGTERM, signal.SIGINT) if number in waiting), None)

    def watch() -> None:
        number = None
        while number is None:
            if over.wait(_AGAIN):
                return
            number = signalled()
        if not over.wait(seconds):
            clean()
            os.write(sys.stderr.fileno(), b"fieldfit: Interrupted while workers started; nothing was written.\n")
            os._exit(128 + number)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.set_wakeup_fd(before)
        os.close(arrived)
        os.close(told)


@contextmanager
def released_interrupts() -> Iterator[None]:
    """A part of a block of `held_interrupts` in which Ctrl-C comes at once."""
    global _holds
    before, _holds = _holds, 0
    try:
        yield
    finally:
        _holds = before


@contextmanager
def patient_interrupts(*, until_exit: bool = False) -> Iterator[Interrupts]:
    """Handle Ctrl-C in this block so, where it would raise KeyboardInterrupt and the system has alarms.

    Where Ctrl-C is ignored, as in jobs that a script starts with ``&``, SIGTERM alone is handled. ``until_exit``: the
    process ends after the block, and Ctrl-C ends it at once then.
    """
    interrupts = Interrupts()
    handler = signal.getsignal(signal.SIGINT)
    usual, known = handler is signal.default_int_handler, handler in (signal.default_int_handler, signal.SIG_IGN)
    if not (known and hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()):
        yield interrupts
        return
    alarm = signal.signal(signal.SIGALRM, interrupts.arrive)
    if usual:
        signal.signal(signal.SIGINT, interrupts.arrive)
    ends = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ends:
        signal.signal(signal.SIGTERM, interrupts.arrive)
    hook = sys.unraisablehook

    def come_again(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            interrupts.come_again()
        else:
            hook(lost)

    sys.unraisablehook = come_again
    try:
        yield interrupts
    finally:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        if usual:
            signal.signal(signal.SIGINT, interrupts.after_the_end if until_exit else signal.default_int_handler)
        if ends:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _would_be_lost(frame: FrameType | None) -> bool:
    """Whether an exception that is raised here may not reach the command: inside an import or a finaliser."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib") or code.co_name == "__del__":
            return True
        if code.co_filename.endswith(("weakref.py", "_weakrefset.py")) and "remove" in code.co_name:
            return True
        if frame.f_globals.get("__name__") == "zipfile" and code.co_name == "__init__":
            return True
        frame = frame.f_back
    return False
