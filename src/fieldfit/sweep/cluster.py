"""The cells of a sweep on the workers of a Dask cluster: claimed and committed here, computed there.

Each worker has one cell at a time, with all its threads. The store stays in this process, so workers need no common disk.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from fieldfit.shards.dask_backend import DaskBackend, Member, WorkerLostError, translated
from fieldfit.shards.watch import Watch
from fieldfit.sweep.experiment import CellFunction
from fieldfit.sweep.grid import Sweep
from fieldfit.sweep.store import CellResult, Claim, Store
from fieldfit.sweep.worker import compute, signs_of_life
from fieldfit.threads import use_threads
from fieldfit.types import FieldfitError

if TYPE_CHECKING:
    from distributed import Future

#: Seconds between two checks of which workers are alive.
_SECONDS_BETWEEN_CHECKS = 1.0
#: How often a worker may be lost under a cell before the cell has failed.
_TRIES = 2


@dataclass(frozen=True)
class CellTask:
    """How a worker computes cells: the packed experiment, its constants, and whether cells start from others."""

    experiment: bytes
    constants: Mapping[str, object]
    warm: bool

    def __call__(self, claim: Claim, threads: int) -> CellResult:
        """What became of the cell, with the code of one machine."""
        import cloudpickle

        with use_threads(threads):
            return compute(cloudpickle.loads(self.experiment), claim, self.constants, self.warm)


def packed(function: CellFunction) -> bytes:
    """A function for workers that need not find the user's files: its module travels with it, unless it is installed."""
    import cloudpickle

    module = sys.modules.get(function.__module__)
    travels = module is not None and module.__name__ != "__main__" and not is_installed(module)
    if travels:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(function))
    finally:
        if travels:
            cloudpickle.unregister_pickle_by_value(module)


def is_installed(module: ModuleType) -> bool:
    """Whether the module belongs to fieldfit, or to another package that workers have to have."""
    if module.__name__.partition(".")[0] in ("fieldfit", "fieldfit_paper"):
        return True
    return any(part in ("site-packages", "dist-packages") for part in Path(module.__file__ or "").parts)


@dataclass(frozen=True)
class _Running:
    future: Future
    claim: Claim
    began: float


def work_on_cluster(store: Store, sweep: Sweep, run: str, backend: DaskBackend) -> None:
    """Work until no cell waits; what is unfinished when an exception comes is given back."""
    task = CellTask(packed(sweep.experiment.function), sweep.resolved_constants(), sweep.warm_start_axis is not None)
    Cluster(store, run, backend, task).work()


class Cluster:
    """The workers, and the cells that they have."""

    def __init__(self, store: Store, run: str, backend: DaskBackend, task: CellTask) -> None:
        self._store, self._backend, self._task = store, backend, task
        self._name = store.register_worker(run)
        self._running: dict[str, _Running] = {}
        self._given_up: set[str] = set()
        self._again: list[Claim] = []  # cells whose worker was lost
        self._watch = Watch(backend.client, backend.timeout)
        self._losses: Counter[str] = Counter()

    def work(self) -> None:
        """Give cells to idle workers and commit what comes back."""
        try:
            with signs_of_life(self._store.path, self._name):
                for suspect in [None, *self._store.suspects()]:
                    while self._hand_out(suspect):
                        self._collect()
        finally:
            with contextlib.suppress(Exception):
                self._backend.client.cancel([cell.future for cell in self._running.values()], force=True)
            with contextlib.suppress(FieldfitError):
                self._store.release(self._name)

    def _next(self, key: str | None) -> Claim | None:
        return self._again.pop() if self._again else self._store.claim(self._name, key)

    def _hand_out(self, key: str | None) -> bool:
        """Give every idle worker a cell; False where nothing is left to wait for."""
        alive, until = self._alive(), time.monotonic() + self._backend.patience
        while not alive:
            if time.monotonic() > until:
                raise self._backend.no_worker("Start workers and run the same command to continue.")
            time.sleep(0.2)
            alive = self._alive()
        for address, member in sorted(alive.items()):
            if address not in self._running and member.running and (claim := self._next(key)) is not None:
                future = self._backend.submit(address, self._task, claim, member.threads)
                self._running[address] = _Running(future, claim, time.monotonic())
        return bool(self._running)

    def _alive(self) -> dict[str, Member]:
        return {a: member for a, member in self._backend.alive().items() if a not in self._given_up}

    def _collect(self) -> None:
        """Wait for a cell, and commit those that are finished; cells of lost workers are tried once more."""
        from distributed import wait

        futures = [cell.future for cell in self._running.values()]
        with translated(), contextlib.suppress(TimeoutError), self._backend.client.as_current():
            wait(futures, timeout=_SECONDS_BETWEEN_CHECKS, return_when="FIRST_COMPLETED")
        alive = self._alive()
        waiting = {a: cell.future.key for a, cell in self._running.items() if not cell.future.done()}
        overdue = self._watch.overdue(waiting)
        self._given_up.update(address for address, hangs in overdue.items() if hangs)
        for address, cell in list(self._running.items()):
            if not cell.future.done() and address not in overdue and address in alive:
                continue
            del self._running[address]
            try:
                if not cell.future.done():
                    raise WorkerLostError
                with translated():
                    outcome = cell.future.result()
            except WorkerLostError:
                self._lost(cell)
            else:
                self._store.finish(self._name, cell.claim.cell, outcome, claim_next=False)

    def _lost(self, cell: _Running) -> None:
        with contextlib.suppress(Exception):
            cell.future.cancel(force=True)
        key = cell.claim.cell.key
        self._losses[key] += 1
        if self._losses[key] < _TRIES:
            self._again.append(cell.claim)
            return
        error = f"The worker that computed this cell was lost, {_TRIES} times: it died, or did not answer in time."
        seconds = time.monotonic() - cell.began
        self._store.finish(
            self._name, cell.claim.cell, CellResult(None, error, None, None, seconds), claim_next=False
        )
