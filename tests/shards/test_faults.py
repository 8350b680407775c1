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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("place", [1, 3, 9])
def test_a_worker_that_is_lost_while_data_are_sent_to_it(samples, number, place, monkeypatch):
    """Shards are sent first, then the problem, then large questions: here, every question is large."""
    from fieldfit.shards import dask_backend
    from tests.shards.cluster_processes import processes

    model, values = samples
    here = ff.fit(model, values, "PL1", shards=5, **OPTIONS)
    sending, sent = dask_backend.DaskShards._sent, []
    monkeypatch.setattr(dask_backend, "_LARGE_BYTES", 0)
    with processes(2) as (client, _, workers):

        def lose_the_worker(self, address, value):
            sent.append(address)
            if len(sent) == place:
                next(worker for worker in workers if worker.address == address).send(number)
            return sending(self, address, value)

        monkeypatch.setattr(dask_backend.DaskShards, "_sent", lose_the_worker)
        # On a busy machine, a worker that is alive may need some seconds for its answer.
        backend = dask_backend.DaskBackend(client, timeout=8 if number == signal.SIGSTOP else 60)
        fit = ff.fit(model, values, "PL1", shards=5, backend=backend, **OPTIONS)
    assert fit.theta.tobytes() == here.theta.tobytes()


def test_a_worker_that_dies_where_sums_are_added_up_on_workers(samples, monkeypatch):
    from fieldfit.shards import dask_backend
    from tests.shards.cluster_processes import processes

    model, values = samples
    here = ff.fit(model, values, "PL1", shards=5, **OPTIONS)
    monkeypatch.setattr(dask_backend, "_FAN_IN", 2)
    with processes(3) as (client, _, workers):
        fit = ff.fit(
            model, values, "PL1", shards=5, backend=client,
            progress=at(2, lambda: workers[0].send(signal.SIGKILL)), **OPTIONS,
        )  # fmt: skip
    assert fit.theta.tobytes() == here.theta.tobytes()


def test_new_workers_take_the_place_of_all_that_died(samples):
    from tests.shards.cluster_processes import WORKER, Process, processes

    model, values = samples
    here = ff.fit(model, values, "PL1 + 0.5*PL2", shards=5, **OPTIONS)
    with processes(2) as (client, scheduler, workers):

        def restart():
            for worker in workers:
                worker.send(signal.SIGKILL)
            started.append(Process(WORKER, scheduler.address))

        started: list[Process] = []
        try:
            fit = ff.fit(model, values, "PL1 + 0.5*PL2", shards=5, backend=client, progress=at(2, restart), **OPTIONS)
            assert fit.theta.tobytes() == here.theta.tobytes()
            assert list(client.scheduler_info()["workers"]) == [started[0].address]
        finally:
            for worker in started:
                worker.end()


def test_a_cluster_without_workers_leaves_a_checkpoint(samples, tmp_path):
    from fieldfit.shards.dask_backend import DaskBackend
    from tests.shards.cluster_processes import processes

    model, values = samples
    here = ff.fit(model, values, "PL1", shards=4, **OPTIONS)
    state = tmp_path / "state"
    none_left = pytest.raises(ClusterError, match=r"no worker that answers \(waited 2 s\).* state after 3 iterations")
    with processes(2) as (client, _, workers):

        def kill():
            for worker in workers:
                worker.send(signal.SIGKILL)

        with none_left:
            ff.fit(
                model, values, "PL1", shards=4, backend=DaskBackend(client, patience=2),
                checkpoint=ff.Checkpoint(state, every=0), progress=at(3, kill), **OPTIONS,
            )  # fmt: skip
    rest = ff.fit(model, values, "PL1", shards=4, checkpoint=ff.Checkpoint(state, resume=True), **OPTIONS)
    assert rest.theta.tobytes() == here.theta.tobytes()


def test_a_tagger_goes_on_when_its_scheduler_is_lost(tmp_path):
    """On files that the workers read; the rest of the fit runs in this process."""
    from fieldfit.chains import SentenceFiles
    from tests.shards.cluster_processes import processes

    random = np.random.default_rng(0)
    for number in range(3):
        words = random.integers(0, 20, (30, 5))
        text = "\n".join("".join(f"w{word} {'ABC'[word % 3]}\n" for word in sentence) for sentence in words)
        (tmp_path / f"{number}.conll").write_text(text)
    files, state = SentenceFiles.matching(str(tmp_path / "*.conll")), tmp_path / "state"
    here = ff.CRFTagger("FL", tol=1e-7).fit(files)
    with processes(2) as (client, scheduler, workers):
        killed = ff.CRFTagger("FL", tol=1e-7).fit(
            files, backend=client, progress=at(2, lambda: workers[0].send(signal.SIGKILL))
        )
        assert killed.fit_.theta.tobytes() == here.fit_.theta.tobytes()
        with pytest.raises(ClusterError, match=r"scheduler was lost.* has the state after 3 iterations"):
            ff.CRFTagger("FL", tol=1e-7).fit(
                files, backend=client, checkpoint=ff.Checkpoint(state, every=0),
                progress=at(3, lambda: scheduler.send(signal.SIGKILL)),
            )  # fmt: skip
    rest = ff.CRFTagger("FL", tol=1e-7).fit(files, checkpoint=ff.Checkpoint(state, resume=True))
    assert rest.fit_.theta.tobytes() == here.fit_.theta.tobytes()


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


def test_a_scheduler_lost_while_weights_are_chosen_leaves_a_checkpoint(samples, tmp_path):
    from tests.shards.cluster_processes import processes

    model, values = samples
    options = {**OPTIONS, "weights": "auto", "shards": 4}
    here = ff.fit(model, values, "PL1 + PL2", **options)
    state = tmp_path / "state"
    lost = pytest.raises(
        ClusterError, match=r"scheduler was lost.* of the automatic weights; the same fit with resume"
    )
    with processes(2) as (client, scheduler, _), lost:
        ff.fit(
            model, values, "PL1 + PL2", backend=client, checkpoint=ff.Checkpoint(state, every=0),
            progress=at(2, lambda: scheduler.send(signal.SIGKILL)), **options,
        )  # fmt: skip
    rest = ff.fit(model, values, "PL1 + PL2", checkpoint=ff.Checkpoint(state, resume=True), **options)
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


def test_workers_in_other_folders_find_the_files_and_name_those_that_they_lack(samples, tmp_path, monkeypatch):
    from fieldfit.chains import SentenceFiles
    from fieldfit.shards.making import TextTable, make_shards
    from fieldfit.types import FileAccessError
    from tests.shards.cluster_processes import processes

    model, values = samples
    for name in ("x0.csv", "x1.csv"):
        np.savetxt(tmp_path / name, values, delimiter=",", fmt="%d", header="a,b,c,d,e,f", comments="")
    (tmp_path / "a.conll").write_text("the D\ndog N\n\n")
    make_shards(TextTable(tmp_path / "x0.csv"), tmp_path / "s", rows=100)
    with processes(1) as (client, _, (worker,)):
        monkeypatch.chdir(tmp_path)  # the worker is in another folder
        for data in ("s", "x*.csv", ["x0.csv", "x1.csv"]):
            there = ff.fit(model, data, "PL1", backend=client, **OPTIONS)
            assert there.theta.tobytes() == ff.fit(model, data, "PL1", **OPTIONS).theta.tobytes()
        ff.CRFTagger(sigma2=1.0).fit(SentenceFiles.matching("a.conll"), backend=client)
        where = rf"On the worker {worker.address}: .*"
        every = r".* Every worker must see the files under the same path\."
        (tmp_path / "s" / "00003.shard").unlink()
        with pytest.raises(FileAccessError, match=where + r"s/00003\.shard cannot be read" + every):
            ff.fit(model, "s", "PL1", backend=client, **OPTIONS)
        with pytest.raises(FileAccessError, match=where + r"x2\.csv cannot be opened: No such file" + every):
            ff.fit(model, ["x0.csv", "x2.csv"], "PL1", backend=client, **OPTIONS)
