"""Workers that are killed or hang, a scheduler that is lost, a shard that is damaged: with processes over TCP."""

import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.container import read_container
from fieldfit.types import ClusterError, FileFormatError

sys.path.insert(0, str(Path(__file__).parents[2]))
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def dask():
    pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def samples():
    model = ff.BoltzmannMachine(6, biases=True)
    theta = np.random.default_rng(0).normal(0, 0.6, model.n_parameters)
    return model, model.sample(theta, 500, random_state=1).values


OPTIONS: dict[str, Any] = {"method": "lbfgs", "tol": 1e-9, "random_state": 2}


def at(iteration, action):
    """A progress function that does something once."""

    def tell(progress):
        if progress.iteration == iteration:
            action()

    return tell


def test_workers_that_die_or_hang(samples):
    from fieldfit.shards.dask_backend import DaskBackend
    from tests.shards.cluster_processes import processes

    model, values = samples
    here = ff.fit(model, values, "PL1 + 0.5*PL2", shards=9, **OPTIONS)
    with processes(3) as (client, _, workers):
        whole = ff.fit(model, values, "PL1 + 0.5*PL2", shards=9, backend=client, **OPTIONS)
        assert whole.theta.tobytes() == here.theta.tobytes()
        killed = ff.fit(
            model, values, "PL1 + 0.5*PL2", shards=9, backend=client,
            progress=at(2, lambda: workers[0].send(signal.SIGKILL)), **OPTIONS,
        )  # fmt: skip
        assert killed.theta.tobytes() == here.theta.tobytes()
        assert len(client.scheduler_info()["workers"]) == 2
        hung = ff.fit(
            model, values, "PL1 + 0.5*PL2", shards=9, backend=DaskBackend(client, timeout=3),
            progress=at(2, lambda: workers[1].send(signal.SIGSTOP)), **OPTIONS,
        )  # fmt: skip
        assert hung.theta.tobytes() == here.theta.tobytes()
        assert hung.converged


def test_a_lost_scheduler_leaves_a_checkpoint(samples, tmp_path):
    from tests.shards.cluster_processes import processes

    model, values = samples
    here = ff.fit(model, values, "PL1", shards=4, **OPTIONS)
    state = tmp_path / "state"
    lost = pytest.raises(ClusterError, match=r"scheduler was lost.* has the state after 3 iterations")
    with processes(2) as (client, scheduler, _), lost:
        ff.fit(
            model, values, "PL1", shards=4, backend=client, checkpoint=ff.Checkpoint(state, every=0),
            progress=at(3, lambda: scheduler.send(signal.SIGKILL)), **OPTIONS,
        )  # fmt: skip
    assert len(read_container(state)[1]["history"]) == 4
    rest = ff.fit(model, values, "PL1", shards=4, checkpoint=ff.Checkpoint(state, resume=True), **OPTIONS)
    assert rest.theta.tobytes() == here.theta.tobytes()


def test_a_damaged_shard_on_a_worker_is_a_sentence(samples, tmp_path):
    from fieldfit.shards.making import TextTable, make_shards
    from tests.shards.cluster_processes import processes

    model, values = samples
    np.savetxt(tmp_path / "x.csv", values, delimiter=",", fmt="%d", header="a,b,c,d,e,f", comments="")
    make_shards(TextTable(tmp_path / "x.csv"), tmp_path / "s", rows=100)
    with processes(2) as (client, _, _):
        there = ff.fit(model, tmp_path / "s", "PL1 + 0.5*PL2", backend=client, **OPTIONS)
        here = ff.fit(model, tmp_path / "s", "PL1 + 0.5*PL2", **OPTIONS)
        assert there.theta.tobytes() == here.theta.tobytes()
        path = tmp_path / "s" / "00003.shard"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="its checksum is wrong"):
            ff.fit(model, tmp_path / "s", "PL1", backend=client, **OPTIONS)
