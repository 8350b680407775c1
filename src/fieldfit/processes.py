"""Processes of joblib that end soon after the one that started them, also if it is killed and cannot say so.

Without this, they would wait for more work for five minutes. With the last of them, their semaphores and the folder for
arrays that they share are removed.
"""

from __future__ import annotations

import os
import threading
import time

from joblib.parallel import LokyBackend, get_active_backend

#: Seconds between two checks of whether the parent is still there.
_SECONDS_BETWEEN_CHECKS = 1.0
#: Held by what is to be finished even if the parent has ended.
unfinished = threading.Lock()


class EndingProcesses(LokyBackend):  # type: ignore[misc]
    """Processes of joblib, each of which watches the one that has started it."""

    def configure(self, **options: object) -> int:
        """Start the processes and return their number."""
        count: int = super().configure(initializer=_end_after, initargs=(os.getpid(),), **options)
        return count


def processes() -> EndingProcesses | None:
    """The ``backend`` for `joblib.Parallel`. None: the one that the user has chosen with `joblib.parallel_config`."""
    return EndingProcesses() if type(get_active_backend()[0]) is LokyBackend else None


def _end_after(parent: int) -> None:
    threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_CHECKS)
    with unfinished:
        os._exit(0)
