"""How many threads the kernels use. Results never depend on it: sums run over fixed chunks, reduced in order."""

from __future__ import annotations

import operator
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from fieldfit.types import FieldfitError

if TYPE_CHECKING:
    from threadpoolctl import LibController

#: More threads than this are never started, except on machines with more processors.
MOST_THREADS = 256
#: Operations below which starting a second thread costs more than it saves.
SMALL_WORK = 300_000
#: The module of joblib's own tracker of shared memory, for `interrupts_for_this_process`.
LOKY_TRACKER = "joblib.externals.loky.backend.resource_tracker"

_of_process: int | None = None
_of_block: ContextVar[int | None] = ContextVar("threads of the innermost use_threads block", default=None)
_several_used = False  # by this process, or by the one that it was forked from
_forked = False  # from a process that used several


def _checked(count: int) -> int:
    try:
        whole = operator.index(count)
    except TypeError:
        whole = 0
    if whole < 1:
        raise FieldfitError(f"The number of threads must be an integer of at least 1; got {count!r:.80}.")
    return whole if whole <= MOST_THREADS else min(whole, max(MOST_THREADS, processors()))


def set_threads(count: int | None) -> None:
    """Set the number of threads of this process. Results never depend on it.

    Parameters
    ----------
    count : int or None
        Number of threads. None: the default, which is FIELDFIT_NUM_THREADS or the number of processors. More than 256
        are used on machines with more processors only.

    Examples
    --------
    >>> import fieldfit as ff
    >>> ff.set_threads(2)
    >>> ff.set_threads(None)
    """
    global _of_process
    _of_process = None if count is None else _checked(count)


@contextmanager
def use_threads(count: int | None) -> Iterator[None]:
    """Use ``count`` threads inside a ``with`` block. Results never depend on it.

    The setting belongs to the calling Python thread (or task): others that run at the same time do not see it.

    Parameters
    ----------
    count : int or None
        Number of threads. None: no change.

    Examples
    --------
    >>> import fieldfit as ff
    >>> with ff.use_threads(1):
    ...     x = ff.BoltzmannMachine(3).sample([1.0, -1.0, 0.5], 10)
    """
    if count is None:
        yield
        return
    token = _of_block.set(_checked(count))
    try:
        yield
    finally:
        _of_block.reset(token)


@contextmanager
def interrupts_for_this_process(*trackers: str) -> Iterator[None]:
    """Start other processes in this block: Ctrl-C in a terminal then comes to this process alone, which ends them.

    A terminal sends it to all of them. They would print tracebacks, of their imports for example. It waits for the end of
    the block; processes and threads inherit that it waits. Trackers of shared memory, that of multiprocessing and those of
    the given modules, are started before it: their start would let it through again. They do not warn of what they remove
    if this process is killed or ends before it has done so.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    with _python_warnings("ignore:resource_tracker:UserWarning"):
        for tracker in ("multiprocessing.resource_tracker", *trackers):
            import_module(tracker).ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _python_warnings(rule: str) -> Iterator[None]:
    """Python processes that start in this block follow one more rule for warnings."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [before, rule]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


def processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def get_threads(work: float = float("inf")) -> int:
    """The number of threads: `use_threads`, else `set_threads`, else FIELDFIT_NUM_THREADS, else the processors.

    ``work`` is a rough number of operations: small work gets one thread. A process that was forked from one that had
    already used several threads gets one thread too, because threads do not survive a fork and waiting for
    them would never end. Start such processes with "spawn" or "forkserver" if they should use several.
    """
    global _several_used
    if work < SMALL_WORK:
        return 1
    count = _of_block.get() or _of_process
    if count is None:
        text = os.environ.get("FIELDFIT_NUM_THREADS")
        try:
            count = _checked(int(text)) if text else processors()
        except (ValueError, FieldfitError):
            raise FieldfitError(
                f"FIELDFIT_NUM_THREADS must be an integer of at least 1; it is {text!r:.80}."
            ) from None
    if _forked or count == 1:
        return 1
    _several_used = True
    return count


class _Limited(threading.local):
    """Whether this thread is inside `one_blas_thread`: None if it is not, else whether SciPy's library is limited too."""

    scipy: bool | None = None


class _BlasThreads:
    """The libraries that are limited to one thread now, and their numbers of threads before.

    The numbers belong to the process: the first of several Python threads sets them, the last one sets them back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before: dict[str, tuple[LibController, int]] = {}

    def limit(self, *, scipy_is_loaded: bool) -> None:
        """One thread for each library that is loaded, until `release`."""
        with self._lock:
            self._users += 1
            for library in _blas_libraries(scipy_is_loaded):
                if library.filepath not in self._before:
                    self._before[library.filepath] = library, library.num_threads
                    library.set_num_threads(1)

    def release(self) -> None:
        """The numbers of threads from before, if no other thread needs the limit."""
        with self._lock:
            self._users -= 1
            while not self._users and self._before:
                library, count = self._before.popitem()[1]
                # In threadpoolctl 3.7 or later, the first thread that sets a number keeps others from it.
                clear = getattr(library, "clear_controlling_thread", lambda **_: None)
                if library.num_threads != count:
                    clear(force=True)
                    library.set_num_threads(count)
                clear()

    def after_fork(self, users: int) -> None:
        """Only the thread that forked is left. Other limits stay: a new process calls no library before it needs to."""
        self._lock, self._users = threading.Lock(), users


_limited = _Limited()
_blas_threads = _BlasThreads()


def _after_fork() -> None:
    global _forked
    _forked = _several_used
    _blas_threads.after_fork(0 if _limited.scipy is None else 1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _blas_libraries(scipy_is_loaded: bool) -> list[LibController]:
    """The libraries that are there now; SciPy brings one of its own, which comes with its first import."""
    from threadpoolctl import ThreadpoolController

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


@contextmanager
def one_blas_thread(*, with_scipy: bool = False) -> Iterator[None]:
    """A context in which NumPy's products use one thread; ``with_scipy`` imports SciPy first, for its own.

    BLAS threads keep spinning for a while after a product, and two pools on the same processors take turns: even a dot
    product between two evaluations made each of them half as slow again. The libraries are looked up once without
    and once with SciPy, and a context inside another one does nothing.
    """
    if with_scipy:
        import_module("scipy.linalg")
    loaded = "scipy.linalg" in sys.modules
    before = _limited.scipy
    if before in (loaded, True):
        yield
        return
    _blas_threads.limit(scipy_is_loaded=loaded)
    try:
        _limited.scipy = loaded
        yield
    finally:
        _limited.scipy = before
        _blas_threads.release()
