"""Tasks that are lost between scheduler, worker and client, workers that pause, threads that are blocked."""

import gc
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.shards import held, watch
from fieldfit.shards.shard import Given
from fieldfit.types import ClusterError, FieldfitError

sys.path.insert(0, str(Path(__file__).parents[2]))


def cluster(workers, **options):
    distributed = pytest.importorskip("distributed")
    return distributed.Client(
        n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50, **options
    )


@pytest.fixture(scope="module")
def samples():
    model = ff.BoltzmannMachine(4, biases=True)
    theta = np.linspace(-0.6, 0.7, model.n_parameters)
    return model, model.sample(theta, 400, random_state=1).values


def losing(stream, op, times):
    """Drop some messages of a kind on their way; the list grows with each."""
    sending = stream.send
    lost: list[Any] = []

    def send(*messages):
        kept = []
        for message in messages:
            if message.get("op") == op and len(lost) < times:
                lost.append(message)
            else:
                kept.append(message)
        sending(*kept)

    stream.send = send
    return lost


@pytest.mark.slow
@pytest.mark.parametrize("way", ["to the worker", "to the client"])
def test_a_task_that_is_lost_is_asked_for_again(samples, way, monkeypatch):
    model, values = samples
    monkeypatch.setattr(watch, "_ASK_SECONDS", 0.5)
    here = ff.fit(model, values, "PL1 + 0.4*PL2", shards=5)
    with cluster(2) as client:
        scheduler, lost = client.cluster.scheduler, []

        def lose(progress):
            if progress.iteration == 1:
                stream = next(iter(scheduler.stream_comms.values()))
                if way == "to the worker":
                    lost.append(losing(stream, "compute-task", 1))
                else:
                    lost.append(losing(scheduler.client_comms[client.id], "key-in-memory", 1))

        there = ff.fit(model, values, "PL1 + 0.4*PL2", shards=5, backend=client, progress=lose)
    assert [len(messages) for messages in lost] == [1]
    assert there.theta.tobytes() == here.theta.tobytes()


@pytest.mark.slow
def test_a_worker_that_loses_every_task_is_given_up(samples, monkeypatch):
    from fieldfit.shards import dask_backend

    model, values = samples
    monkeypatch.setattr(watch, "_ASK_SECONDS", 0.3)
    monkeypatch.setattr(dask_backend, "_CHECK_SECONDS", 0.3)
    here = ff.fit(model, values, "PL1", shards=5)
    with cluster(2) as client:
        streams = list(client.cluster.scheduler.stream_comms.values())
        lost = losing(streams[0], "compute-task", 1000)
        assert ff.fit(model, values, "PL1", shards=5, backend=client).theta.tobytes() == here.theta.tobytes()
        assert lost
        losing(streams[1], "compute-task", 1000)
        with pytest.raises(ClusterError, match="no worker that answers"):
            ff.fit(model, values, "PL1", shards=5, backend=dask_backend.DaskBackend(client, patience=1))


@pytest.mark.slow
def test_a_worker_that_pauses_during_a_fit_loses_its_shards(samples):
    from distributed.core import Status

    from fieldfit.shards.dask_backend import DaskBackend

    model, values = samples
    here = ff.fit(model, values, "PL1", shards=5)
    with cluster(2) as client:
        worker = client.cluster.workers[0]
        worker.memory_manager.memory_pause_fraction = False  # nobody wakes it

        def pause(progress):
            if progress.iteration == 1:
                client.loop.add_callback(setattr, worker, "status", Status.paused)
                time.sleep(0.5)

        there = ff.fit(model, values, "PL1", shards=5, backend=DaskBackend(client, patience=1), progress=pause)
        assert worker.status == Status.paused
    assert there.theta.tobytes() == here.theta.tobytes()


@pytest.mark.slow
def test_workers_without_memory_are_a_sentence(samples):
    from fieldfit.shards.dask_backend import DaskBackend

    model, values = samples
    with cluster(2, memory_limit="1MB") as client:
        time.sleep(0.5)
        with pytest.raises(
            ClusterError, match=r"waited 1 s\). 2 of its workers have paused: their memory is full\. Start"
        ):
            ff.fit(model, values, "PL1", shards=5, backend=DaskBackend(client, patience=1))


def test_all_workers_are_known_whatever_else_the_client_asks():
    """The client asks for totals at intervals; their answer has no workers, and they would all be lost."""
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")  # sets its defaults, which the end of the block would remove
    from fieldfit.shards.dask_backend import DaskBackend

    with dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}), cluster(3) as client:
        backend = DaskBackend(client)
        assert {len(backend.alive()) for _ in range(300)} == {3}


def test_limits_that_are_none(samples):
    from fieldfit.shards.dask_backend import DaskBackend

    with cluster(1) as client:
        for limits in ({"timeout": 0}, {"timeout": None}, {"timeout": float("nan")}, {"patience": -1}):
            with pytest.raises(FieldfitError, match="number of seconds above 0"):
                DaskBackend(client, **limits)


@pytest.mark.slow
@pytest.mark.parametrize("busy", [True, False])
def test_a_slow_worker_is_waited_for_and_a_blocked_one_is_not(samples, tmp_path, busy, monkeypatch):
    from fieldfit.shards.dask_backend import DaskBackend
    from tests.shards.cluster_processes import Work, processes

    pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    model, values = samples
    with processes(2) as (client, _, _):
        placed = DaskBackend(client, timeout=4).place([Given(model.read(values))])
        question: Any = Work(str(tmp_path), busy)
        assert placed.each(question) == ["first" if busy else "again"]


@pytest.mark.slow
def test_shards_of_workers_in_this_process_are_dropped_with_the_fit(samples):
    model, values = samples
    before = set(held._placements)
    with cluster(2) as client:
        fit = ff.fit(model, values, "PL1", shards=5, backend=client)
    assert set(held._placements) > before
    del fit
    gc.collect()
    assert set(held._placements) == before
