"""The options of fits on several processes or machines: workers that are started here, or a cluster that is running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fieldfit.shards.backend import Backend

Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Number of Dask worker processes to start. Default: no workers."),
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
        help="Time without progress after which a worker is replaced. Default: 300.",
    ),
]
ShardsOption = Annotated[
    int | None,
    typer.Option(
        "--shards", min=1, help="Number of shards of the samples. Default: 32 or more with workers, 1 without."
    ),
]


@contextmanager
def opened_backend(workers: int | None, cluster: str | None, timeout: float | None) -> Iterator[Backend | None]:
    """The backend that the options ask for, closed at the end of the block; None without workers."""
    if workers is None and cluster is None:
        yield None
        return
    from fieldfit.types import ClusterError, FieldfitError

    if workers is not None and cluster is not None:
        raise FieldfitError(
            "--workers starts workers here and --cluster uses those of a cluster. Give one of the two."
        )
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise FieldfitError("Workers need Dask. Install it with: pip install 'fieldfit[dask]'") from None
    from fieldfit.shards.dask_backend import DaskBackend
    from fieldfit.threads import get_threads

    def backend(client: Client) -> DaskBackend:
        return DaskBackend(client) if timeout is None else DaskBackend(client, timeout)

    if cluster is not None:
        try:
            client = Client(cluster, timeout=20, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"No scheduler answers at {cluster} ({type(error).__name__}). Check the address, and that it is running."
            ) from error
        with client:
            yield backend(client)
        return
    assert workers is not None
    threads = max(1, get_threads() // workers)
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=threads, dashboard_address=None, silence_logs=50
        ) as started,
        Client(started, set_as_default=False) as client,
    ):
        yield backend(client)
