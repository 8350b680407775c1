"""Cells of a sweep on the workers of a Dask cluster."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.shards.dask_backend import DaskBackend
from fieldfit.sweep import Sweep, open_sweep, run_sweep
from fieldfit.types import ClusterError, SweepError

sys.path.insert(0, str(Path(__file__).parents[2]))


def small_fit(coordinates, seed):
    """One fit of simulated samples."""
    model = ff.BoltzmannMachine(3)
    x = model.sample([1.0, -1.0, 0.5], coordinates["n"], random_state=seed).values
    fit = ff.fit(model, x, coordinates["policy"], random_state=seed)
    return {"theta": fit.theta, "process": os.getpid()}


def deadly(coordinates, seed):
    """A cell that kills its process: always, or the first time."""
    kind, path = coordinates["kind"], Path(coordinates["folder"]) / "once"
    if kind == "always" or (kind == "once" and not path.exists()):
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"kind_done": kind}


def the_sweep():
    return Sweep(small_fit, {"policy": ["PL1", "FL", "0.5*PL1"], "n": [100, 200]}, name="fits")


@pytest.fixture(autouse=True)
def distributed():
    return pytest.importorskip("distributed")


def thetas(path):
    return np.array(open_sweep(path).frame()["theta"].tolist()).tobytes()


@pytest.mark.slow
def test_cells_have_the_results_of_one_process(distributed, tmp_path):
    run_sweep(the_sweep(), tmp_path / "here.sweep")
    with distributed.Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        summary = run_sweep(the_sweep(), tmp_path / "there.sweep", backend=client)
        with pytest.raises(SweepError, match="n_jobs"):
            run_sweep(the_sweep(), tmp_path / "there.sweep", backend=client, n_jobs=2)
    assert (summary.done, summary.failed, summary.unfinished) == (6, 0, 0)
    assert thetas(tmp_path / "here.sweep") == thetas(tmp_path / "there.sweep")


@pytest.mark.slow
def test_a_scheduler_that_is_lost_leaves_a_store_to_go_on_from(distributed, tmp_path):
    with distributed.Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        backend = DaskBackend(client)
    with pytest.raises(ClusterError):
        run_sweep(the_sweep(), tmp_path / "a.sweep", backend=backend)
    assert run_sweep(the_sweep(), tmp_path / "a.sweep").done == 6


@pytest.mark.slow
def test_workers_in_processes_that_die_under_cells(tmp_path):
    from tests.shards.cluster_processes import processes

    run_sweep(the_sweep(), tmp_path / "here.sweep")
    sweep = Sweep(deadly, {"kind": ["fine", "once", "always", "good"]}, {"folder": str(tmp_path)}, name="deadly")
    with processes(4) as (client, _, _):
        assert run_sweep(the_sweep(), tmp_path / "there.sweep", backend=client).done == 6
        frame = open_sweep(tmp_path / "there.sweep").frame()
        assert len(set(frame["process"])) > 1
        assert os.getpid() not in set(frame["process"])
        summary = run_sweep(sweep, tmp_path / "deadly.sweep", backend=client)
    assert thetas(tmp_path / "here.sweep") == thetas(tmp_path / "there.sweep")
    assert (summary.done, summary.failed, summary.unfinished) == (3, 1, 0)
    failed = open_sweep(tmp_path / "deadly.sweep").frame(unfinished=True).set_index("kind").loc["always"]
    assert "lost, 2 times" in failed["cell_error"]
