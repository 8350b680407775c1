"""One worker process: claim a cell, compute it, commit it, until nothing waits.

The worker commits by itself, so that a result is lost only if the worker dies, not if the command that started it does:
an orphan finishes and commits its cell, then stops.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from fieldfit.sweep.experiment import CellFunction, find_experiment, takes_start
from fieldfit.sweep.grid import Cell
from fieldfit.sweep.process import ProcessName
from fieldfit.sweep.store import LEASE, CellResult, Claim, Store
from fieldfit.types import FieldfitError, FloatArray, SweepError

#: A result is a line of a table; what is larger belongs into a file.
MOST_RESULT_BYTES = 1_000_000
#: The key under which an experiment that takes ``start`` returns the array that its successor may start from.
STATE = "state"


def work(
    path: Path,
    run: str,
    experiment: CellFunction | str,
    folder: Path,
    constants: Mapping[str, object],
    *,
    warm: bool,
    parent: ProcessName,
    threads: int | None,
    only: str | None = None,
) -> None:
    """The life of a worker process that a run has started."""
    from fieldfit.processes import unfinished
    from fieldfit.threads import set_threads

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    set_threads(threads)
    function = find_experiment(experiment, folder).function
    with unfinished, Store(path, check=False) as store:
        work_in(store, run, function, constants, warm=warm, stop=lambda: not parent.alive, only=only)


def work_in(
    store: Store,
    run: str,
    function: CellFunction,
    constants: Mapping[str, object],
    *,
    warm: bool,
    stop: Callable[[], bool],
    interrupted: Callable[[], bool] = lambda: False,
    after: Callable[[], None] = lambda: None,
    only: str | None = None,
) -> None:
    """Work through an open store in this process; what is unfinished when an exception comes is given back."""
    worker = store.register_worker(run)
    try:
        with signs_of_life(store.path, worker):
            claim = store.claim(worker, only)
            while claim is not None:
                outcome = compute(function, claim, constants, warm)
                if interrupted():  # an experiment may swallow Ctrl-C and return what it has so far: not a result
                    raise KeyboardInterrupt
                more = only is None and not stop()
                _, claim = store.finish(worker, claim.cell, outcome, claim_next=more)
                after()
    finally:
        with contextlib.suppress(FieldfitError):
            store.release(worker)


def compute(function: CellFunction, claim: Claim, constants: Mapping[str, object], warm: bool) -> CellResult:
    """Call the experiment. Whatever it raises, Ctrl-C apart, is this cell's error and no one else's."""
    began = time.perf_counter()
    cell = claim.cell
    result: str | None = None
    state: bytes | None = None
    error: str | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            options = {"start": _read_state(claim.start)} if warm else {}
            returned = function({**constants, **cell.coordinates}, cell.seed, **options)
            result, state = _checked(returned, cell, has_state=takes_start(function))
        except KeyboardInterrupt:
            raise
        except BaseException:
            error = traceback.format_exc()
    seconds = time.perf_counter() - began
    texts = list(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught))
    return CellResult(result, error, state, "\n".join(texts) or None, seconds)


def _checked(returned: object, cell: Cell, *, has_state: bool) -> tuple[str, bytes | None]:
    """The result as JSON and the state as bytes."""
    if not isinstance(returned, Mapping):
        raise SweepError(f"An experiment returns a dict of named values; it returned {type(returned).__name__}.")
    values = dict(returned)
    state = values.pop(STATE, None) if has_state else None
    for name in values:
        if not isinstance(name, str) or name in cell.coordinates or name.startswith("cell_"):
            raise SweepError(
                f"The result has the name {name!r:.80}: names are text, and neither a coordinate nor begin with cell_."
            )
    text = json.dumps({name: _plain(name, value) for name, value in values.items()}, ensure_ascii=False)
    if len(text) > MOST_RESULT_BYTES:
        raise SweepError(
            f"The result takes {len(text):,} bytes; at most {MOST_RESULT_BYTES:,} are kept. Write large arrays to a file."
        )
    return text, None if state is None else _write_state(state)


def _plain(name: str, value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    raise SweepError(
        f"The result {name!r:.80} is of type {type(value).__name__}; results are numbers, text, booleans, None or arrays."
    )


def _write_state(state: object) -> bytes:
    array = np.asarray(state, dtype=np.float64)
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _read_state(data: bytes | None) -> FloatArray | None:
    if data is None:
        return None
    array: FloatArray = np.load(io.BytesIO(data), allow_pickle=False)
    return array


@contextlib.contextmanager
def signs_of_life(path: Path, worker: str) -> Iterator[None]:
    """A thread that renews this worker's lease while a long cell computes."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(LEASE / 6):
            # A full disk or a busy store is the main thread's to report; the lease leaves time for several tries.
            with contextlib.suppress(FieldfitError), Store(path, check=False) as store:
                store.heartbeat(worker)

    thread = threading.Thread(target=beat, name="sweep-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=math.ceil(LEASE / 6))
