"""A fork waits while other threads import for fieldfit: their locks on modules would stay locked in the child forever.

fieldfit imports its parts, and SciPy's, when they are first used. Python holds a lock for each module that is being
imported, and a forked process has only the thread that forked: nobody opens the locks of the others there, and the first
import of such a module would never end.
"""

from __future__ import annotations

# What is called before a fork is called in the opposite order of its registration. These two take locks then, which an
# import may need: so they are registered first.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import sys
import threading
import time
from types import FrameType

#: Seconds that a fork waits at most. An import that takes longer may itself wait for the thread that forks.
_LONGEST_WAIT = 30.0
#: Seconds between two checks, in which other threads have their turns.
_AGAIN = 0.001


def wait_for_imports() -> None:
    """Return when no other thread is inside an import that fieldfit began. Called before every fork."""
    importing = _is_importing(sys._getframe())
    end = time.monotonic() + _LONGEST_WAIT
    interrupt: BaseException | None = None
    while time.monotonic() < end:
        try:
            if not _others_import(importing):
                break  # at once: no other thread has a turn before the fork, in which it could begin an import
            time.sleep(_AGAIN)
        except BaseException as error:  # of a signal's handler: the fork comes all the same, so it waits on
            interrupt = error
    if interrupt is not None:
        raise interrupt


def _others_import(importing: bool) -> bool:
    """Whether a thread must be waited for; ``importing``: this one is inside an import too."""
    me = threading.get_ident()
    frames = [frame for thread, frame in sys._current_frames().items() if thread != me]
    # Who waits for the lock of a module may then wait for this thread.
    return any(_imports_for_fieldfit(frame) and not (importing and _waits(frame)) for frame in frames)


def _imports_for_fieldfit(frame: FrameType | None) -> bool:
    """Whether a thread is inside an import that a function or a module of fieldfit began, directly or through others.

    The body of a module of fieldfit is itself inside an import, whoever began that.
    """
    importing = False
    while frame is not None:
        if _of_importlib(frame):
            importing = True
        elif (importing or _is_body(frame)) and str(frame.f_globals.get("__name__")).partition(".")[0] == "fieldfit":
            return True
        frame = frame.f_back
    return False


def _is_body(frame: FrameType) -> bool:
    return frame.f_code.co_name == "<module>"


def _waits(frame: FrameType) -> bool:
    """Whether a thread waits for the lock of a module."""
    return _of_importlib(frame) and frame.f_code.co_name == "acquire"


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and not _of_importlib(frame):
        frame = frame.f_back
    return frame is not None


def _of_importlib(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<frozen importlib")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=wait_for_imports)
