"""The options of fits on several processes or machines: workers that are started here, or a cluster that is running."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.interrupts import ended_after, held_interrupts, released_interrupts
from fieldfit.cli.output import note
from fieldfit.cli.saving import remove_empty_folders

if TYPE_CHECKING:
    from distributed import Client

    from fieldfit.shards.backend import Backend

#: Seconds that Ctrl-C waits for workers that start, and seconds that workers have to end.
_LONGEST_WAIT, _LONGEST_END = 0.3, 0.5

Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        max=256,
        help="Number of Dask worker processes to start, at most 256. Default: no workers.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Address of a running Dask cluster, such as tcp://10.0.0.1:8786. Default: no cluster.",
    ),
]
WorkerTimeout = Annotated[
    float | None,
    typer.Option(
        "--worker-timeout",
        metavar="SECONDS",
        help="Time without progress after which a worker is replaced; inf: never. Default: 300.",
    ),
]
ShardsOption = Annotated[
    int | None,
    typer.Option(
        "--shards", min=1, help="Number of shards of the samples. Default: 32 or more with workers, 1 without."
    ),
]


def check_backend(workers: int | None, cluster: str | None, timeout: float | None) -> None:
    """Refuse options that contradict each other, before any work is done."""
    from fieldfit.types import FieldfitError

    if workers is not None and cluster is not None:
        raise FieldfitError(
            "--workers starts workers here and --cluster uses those of a cluster. Give one of the two."
        )
    if timeout is not None and not timeout > 0:
        raise FieldfitError(f"--worker-timeout is {timeout:g}; it must be a number of seconds above 0, or inf.")
    if timeout is not None and workers is None and cluster is None:
        raise FieldfitError(
            "--worker-timeout is for fits on workers. Add --workers N or --cluster ADDRESS, or leave it out."
        )
    if cluster is not None:
        from fieldfit.cli.reaching import Address

        Address.parse(cluster)


@contextmanager
def opened_backend(workers: int | None, cluster: str | None, timeout: float | None) -> Iterator[Backend | None]:
    """The backend that the options ask for, closed at the end of the block; None without workers."""
    if workers is None and cluster is None:
        yield None
        return
    if find_spec("distributed") is None:
        from fieldfit.types import FieldfitError

        raise FieldfitError("Workers need Dask. Install it with: pip install 'fieldfit[dask]'")
    with silent_logs(), started(workers) if cluster is None else connected(cluster) as client:
        from fieldfit.shards.dask_backend import DaskBackend

        yield DaskBackend(client, tell=note) if timeout is None else DaskBackend(client, timeout, tell=note)


@contextmanager
def connected(text: str) -> Iterator[Client]:
    """A client of a running cluster."""
    from fieldfit.cli.reaching import Address, check_answer
    from fieldfit.types import ClusterError

    check_answer(Address.parse(text))  # before the import of Dask, which takes a second
    from distributed import Client

    try:
        client = Client(text, timeout=20, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"No scheduler answers at {text} ({type(error).__name__}). Check the address, and that it is running."
        ) from error
    with client:
        yield client


@contextmanager
def started(workers: int | None) -> Iterator[Client]:
    """A client of workers that are started here and end with the block.

    Ctrl-C waits while they end, and for a moment while they start: Dask would leave processes behind, or print
    tracebacks. It comes to this process alone. Workers that do not end in time are killed.
    """
    import dask
    from distributed import Client, LocalCluster

    from fieldfit.data.atomic import temporary_folder
    from fieldfit.threads import get_threads, interrupts_for_this_process
    from fieldfit.types import ClusterError
    from fieldfit.words import counted

    assert workers is not None
    parent = dask.config.get("temporary-directory") or tempfile.gettempdir()
    with (
        held_interrupts(),
        temporary_folder(parent, "fieldfit-workers") as folder,
        dask.config.set({"temporary-directory": str(folder)}),
    ):
        with (
            interrupts_for_this_process(),
            ended_after(_LONGEST_WAIT, partial(_remove_workers, str(folder))),
        ):
            try:
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=max(1, get_threads() // workers),
                    dashboard_address=None,
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # any free port; there is no dashboard
                    silence_logs=logging.CRITICAL,
                )
            except RuntimeError as error:
                raise ClusterError(
                    f"The {counted(workers, 'workers')} of --workers cannot be started ({error!s:.200}). A limit of "
                    "memory (ulimit -v) holds for each of them."
                ) from error
        end = threading.Timer(_LONGEST_END, _kill_workers)
        end.daemon = True
        try:
            with cluster:
                try:
                    with Client(cluster, set_as_default=False) as client, released_interrupts():
                        yield client
                finally:
                    end.start()
        finally:
            end.cancel()


def _kill_workers() -> None:
    """End the workers at once: one that hangs does not end when it is asked to."""
    for worker in multiprocessing.active_children():
        worker.kill()


def _remove_workers(folder: str) -> None:
    """End the workers that have been started, and remove their folder. One that starts just now ends with its parent."""
    for _ in range(2):
        _kill_workers()
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)
    remove_empty_folders()


@contextmanager
def silent_logs() -> Iterator[None]:
    """Nothing of what Dask logs in this process is printed: fieldfit's own errors say what happened and what to do."""
    before = logging.root.manager.disable
    if not os.environ.get("FIELDFIT_DEBUG"):
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
