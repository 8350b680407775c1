"""Run a sweep: workers on joblib share the store, the parent watches it.

    claim → compute → commit + claim → …    in every worker, of this run and of any other on the same store

The same call after kill -9, Ctrl-C or a crash continues from the cells in the store.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from fieldfit.docstrings import filled
from fieldfit.sweep.grid import Sweep
from fieldfit.sweep.process import ProcessName
from fieldfit.sweep.progress import Silent, SweepDisplay, choose_display
from fieldfit.sweep.results import SQUARES
from fieldfit.sweep.store import Counts, Store
from fieldfit.sweep.worker import work, work_in
from fieldfit.threads import LOKY_TRACKER, interrupts_for_this_process, processors
from fieldfit.types import FieldfitError, SweepError

if TYPE_CHECKING:
    from fieldfit.shards.dask_backend import DaskBackend

_SECONDS_BETWEEN_POLLS = 0.3
#: Runs of this process that have ended but could not give their cells back (a full disk). This process and its
#: workers live on, so nobody would take those cells over: the next run releases them.
_ended: set[str] = set()


@filled(SQUARES)
@dataclass(frozen=True)
class Summary:
    """Counts of cells at the end of a run. `run_sweep` returns it.

    Parameters
    ----------
    path : Path
        The store.
    done, failed, unfinished : int
        Numbers of cells.
    interrupted : bool
        Whether Ctrl-C ended the run.
    seconds : float
        How long the run took.

    Examples
    --------
    %(squares)s
    >>> summary.done, summary.failed
    (3, 0)
    """

    path: Path
    done: int
    failed: int
    unfinished: int
    interrupted: bool
    seconds: float

    def __str__(self) -> str:
        text = f"{self.done} cells done, {self.failed} failed, {self.unfinished} unfinished ({self.path})"
        return f"{text}; stopped, run the same command to continue" if self.interrupted else text


def run_sweep(
    sweep: Sweep,
    path: str | os.PathLike[str],
    *,
    n_jobs: int = 1,
    retry_failed: bool = False,
    extend: bool = False,
    progress: bool | str = False,
    backend: object = None,
) -> Summary:
    """Compute the cells of a sweep that its store does not have yet.

    Each cell is on the disk as soon as it is finished. Other processes may run the same sweep on the same store. This one
    returns when all cells are done or failed, or on Ctrl-C.

    Parameters
    ----------
    sweep : Sweep
        The sweep.
    path : str or Path
        The store, a file. It is created if there is none.
    n_jobs : int, default: 1
        1: cells run in this process. More: that many worker processes, with the kernels' threads divided among them.
        −1: one for each processor.
    retry_failed : bool, default: False
        Whether cells that failed are computed again.
    extend : bool, default: False
        Whether a store of the same sweep with fewer cells gets the new ones.
    progress : bool or str, default: False
        Whether to show a progress bar; "lines" for lines of text.
    backend : distributed.Client or None, default: None
        Cells run on the workers of this Dask cluster, one at a time on each with all its threads. The store stays in this
        process. None: no cluster.

    Returns
    -------
    Summary

    Examples
    --------
    >>> from fieldfit.sweep import Sweep, run_sweep
    >>> def square(coordinates, seed):
    ...     return {"y": coordinates["x"] ** 2}
    >>> sweep = Sweep(square, {"x": [1, 2, 3]})
    >>> print(str(run_sweep(sweep, "squares.db")))
    3 cells done, 0 failed, 0 unfinished (squares.db)
    """
    count, cluster = _jobs(n_jobs), _cluster(backend, n_jobs)
    began = time.perf_counter()
    interrupted = False
    with Store.for_sweep(path, sweep, extend=extend) as store:
        for left in tuple(_ended):
            store.release_run(left)
        if retry_failed:
            store.retry_failed()
        store.take_over()
        display = choose_display(sweep.name, progress)
        try:
            counts = store.counts()
            display.update(counts)
            if counts.waiting or counts.running:
                with _run(store, count) as run, _watch(store.path, display):
                    _until_finished(store, sweep, run, count, cluster)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            with contextlib.suppress(FieldfitError):
                display.update(store.counts())
            display.close()
        counts = store.counts()
    return Summary(
        Path(path),
        counts.done,
        counts.failed,
        counts.waiting + counts.running,
        interrupted,
        time.perf_counter() - began,
    )


@contextlib.contextmanager
def _run(store: Store, count: int) -> Iterator[str]:
    """A run from its beginning to its end, when no cell is left with it."""
    run = store.begin_run(count, versions())
    try:
        yield run
    finally:
        _ended.add(run)
        with contextlib.suppress(FieldfitError):
            store.release_run(run)
            _ended.discard(run)


def versions() -> dict[str, str]:
    """Return the versions that the results of a run depend on.

    Returns
    -------
    dict of str
        Python, the kind of machine, fieldfit, NumPy and SciPy.

    Examples
    --------
    >>> from fieldfit.sweep import versions
    >>> sorted(versions())
    ['fieldfit', 'machine', 'numpy', 'python', 'scipy']
    """
    return {"python": platform.python_version(), "machine": platform.machine(), **_installed()}


@cache
def _installed() -> dict[str, str]:
    """The versions of packages, which are read from their metadata once."""
    installed = {}
    for name in ("fieldfit", "numpy", "scipy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def _jobs(n_jobs: int) -> int:
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
        raise SweepError(f"The number of jobs must be at least 1, or -1 for one per processor; got {n_jobs!r:.80}.")
    return processors() if n_jobs == -1 else n_jobs


def _cluster(backend: object, n_jobs: int) -> DaskBackend | None:
    if backend is None:
        return None
    from fieldfit.api.sharded import as_backend
    from fieldfit.shards.dask_backend import DaskBackend

    cluster = as_backend(backend)
    if not isinstance(cluster, DaskBackend):
        raise SweepError("The backend of a sweep is a distributed.Client. For processes on this machine use n_jobs.")
    if n_jobs != 1:
        raise SweepError("Give n_jobs for processes on this machine, or a backend for the workers of a cluster.")
    return cluster


def _until_finished(store: Store, sweep: Sweep, run: str, jobs: int, cluster: DaskBackend | None) -> None:
    """Start workers until no cell waits and none is running, here or in another process."""
    while True:
        if cluster is not None:
            from fieldfit.sweep.cluster import work_on_cluster

            work_on_cluster(store, sweep, run, cluster)
        elif jobs == 1:
            _work_here(store, sweep, run)
        else:
            _work_in_processes(store, sweep, run, jobs)
        store.take_over()
        counts = store.counts()
        if not counts.waiting and not counts.running:
            return
        time.sleep(_SECONDS_BETWEEN_POLLS)  # another process has the rest: wait for it, or take over what it leaves


def _work_here(store: Store, sweep: Sweep, run: str) -> None:
    with _noting_interrupts() as interrupted:
        finish = partial(
            work_in,
            store,
            run,
            sweep.experiment.function,
            sweep.resolved_constants(),
            warm=sweep.warm_start_axis is not None,
            stop=interrupted,
            interrupted=interrupted,
        )
        finish()
        for key in store.suspects():  # left by a run with worker processes; here they get their second try
            finish(only=key)


def _work_in_processes(store: Store, sweep: Sweep, run: str, jobs: int) -> None:
    """All workers at once; if one is killed under a cell, the cells that were running are tried one by one alone."""
    if not _start_workers(store, sweep, run, min(jobs, max(store.counts().waiting, 1)), None):
        store.take_over(crashed_run=run)
    for key in store.suspects():
        if not _start_workers(store, sweep, run, 1, key):
            store.take_over(crashed_run=run)
            store.condemn(
                key,
                "The process that computed this cell was killed, twice; the second time no other cell was running. "
                "It crashed, or the machine was out of memory.",
            )


def _start_workers(store: Store, sweep: Sweep, run: str, count: int, only: str | None) -> bool:
    """False if a worker process died."""
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    from fieldfit.processes import EndingProcesses

    # By its address where a worker can import it; any other function travels by value (cloudpickle).
    address = sweep.experiment.address
    importable = find_by_address(address, sweep)
    tasks = [
        delayed(work)(
            store.path.resolve(),
            run,
            address if importable else sweep.experiment.function,
            sweep.folder,
            sweep.resolved_constants(),
            warm=sweep.warm_start_axis is not None,
            parent=ProcessName.current(),
            threads=max(1, processors() // count),
            only=only,
        )
        for _ in range(count)
    ]
    try:
        # Two processes at least: joblib runs a single job in this process, which is to survive it.
        workers = Parallel(
            n_jobs=max(count, 2), backend=EndingProcesses(), batch_size=1, pre_dispatch="all", return_as="generator"
        )
        with interrupts_for_this_process(LOKY_TRACKER):
            ended = workers(tasks)
        for _ in ended:
            pass
    except (BrokenProcessPool, TerminatedWorkerError):
        return False
    return True


def find_by_address(address: str, sweep: Sweep) -> bool:
    """Whether a new process finds the sweep's function at this address."""
    from fieldfit.sweep.experiment import find_experiment

    if address.startswith("__main__:") or "<" in address:
        return False
    try:
        return find_experiment(address, sweep.folder).function is sweep.experiment.function
    except SweepError:
        return False


@contextlib.contextmanager
def _noting_interrupts() -> Iterator[Callable[[], bool]]:
    """While a cell runs in this process, remember Ctrl-C even if the experiment swallows it."""
    seen = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield seen.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> NoReturn:
        seen.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield seen.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _watch(path: Path, display: SweepDisplay) -> Iterator[None]:
    """A thread that reads the store and moves the display, whoever does the work; none if nothing is shown."""
    if isinstance(display, Silent):
        yield
        return
    ended = threading.Event()

    def look() -> None:
        try:
            with Store(path, check=False) as store:
                last: Counts | None = None
                while not ended.wait(_SECONDS_BETWEEN_POLLS):
                    counts = store.counts()
                    if counts != last:
                        display.update(counts)
                    last = counts
        except Exception as error:
            print(f"The progress display stopped: {error}", file=sys.stderr)

    thread = threading.Thread(target=look, name="sweep-display", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=5)
