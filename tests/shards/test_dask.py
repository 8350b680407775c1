"""Fits on Dask workers have the bits of the fit in this process, whatever the number of workers."""

import asyncio
import json
import subprocess
import sys

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.shards.dask_backend import DaskBackend
from fieldfit.types import ClusterError, DataError


def cluster(workers):
    distributed = pytest.importorskip("distributed")
    return distributed.Client(
        n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=40
    )


@pytest.fixture(scope="module")
def client():
    with cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def samples():
    model = ff.BoltzmannMachine(4, biases=True)
    theta = np.linspace(-0.6, 0.7, model.n_parameters)
    return model, model.sample(theta, 400, random_state=1).values


@pytest.mark.slow
def test_the_same_bits_as_in_this_process(client, samples):
    model, values = samples
    here = ff.fit(model, values, "PL1 + 0.4*PL2", random_state=3, shards=9)
    there = ff.fit(model, values, "PL1 + 0.4*PL2", random_state=3, shards=9, backend=client)
    assert there.theta.tobytes() == here.theta.tobytes()
    assert there.covariance().tobytes() == here.covariance().tobytes()
    assert there.evaluations == here.evaluations


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3, 7, 11])
def test_the_same_bits_with_any_number_of_workers(workers, samples):
    model, values = samples
    here = ff.fit(model, values, "PL1 + 0.4*PL2", random_state=3, shards=32)
    with cluster(workers) as client:
        there = ff.fit(model, values, "PL1 + 0.4*PL2", random_state=3, backend=client)
    assert there.theta.tobytes() == here.theta.tobytes()


def test_weights_of_samples_stay_on_the_workers(client, samples):
    model, values = samples
    weight = np.random.default_rng(0).random(len(values))
    here = ff.fit(model, values, "PL1", sample_weight=weight, shards=5)
    there = ff.fit(model, values, "PL1", sample_weight=weight, shards=5, backend=client)
    assert there.theta.tobytes() == here.theta.tobytes()
    assert there.standard_errors().tobytes() == here.standard_errors().tobytes()


def test_errors_of_the_workers_are_those_of_one_machine(client, samples):
    model, values = samples
    broken = values.astype(float)
    broken[:, 0] = np.nan
    broken[0, 0] = 1
    with pytest.raises(DataError, match="never changes"):
        ff.fit(model, broken, "PL1", backend=client)


@pytest.mark.slow
def test_saved_fits_of_a_cluster(client, samples, tmp_path):
    model, values = samples
    fit = ff.fit(model, values, "PL1", shards=4, backend=client)
    fit.save(tmp_path / "fit.ff")
    loaded = ff.load(tmp_path / "fit.ff", values)
    assert loaded.theta.tobytes() == fit.theta.tobytes()
    np.testing.assert_allclose(loaded.standard_errors(), fit.standard_errors(), rtol=1e-9)


@pytest.mark.slow
def test_workers_and_clusters_on_the_command_line(samples, tmp_path):
    values = samples[1]
    np.savetxt(tmp_path / "x.csv", values, delimiter=",", fmt="%d", header="a,b,c,d", comments="")
    command = [
        sys.executable,
        "-m",
        "fieldfit",
        "fit",
        "boltzmann",
        "x.csv",
        "--biases",
        "-p",
        "PL1 + 0.5*PL2",
        "--json",
    ]
    printed = []
    for options in (["--shards", "32"], ["--workers", "2"]):
        ran = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        document = json.loads(ran.stdout)
        printed.append([(row["estimate"], row["std_error"]) for row in document["parameter"]])
    assert printed[0] == printed[1]
    planned = [sys.executable, "-m", "fieldfit", "plan", "x.csv", "--policy", "PL1", "--policy", "FL", "--json"]
    variances = []
    for options in ([], ["--workers", "2"]):
        ran = subprocess.run([*planned, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        variances.append({row["policy"]: row["variance"] for row in json.loads(ran.stdout)["policies"]})
    # The pilot's fit takes other steps for workers: shards of these few rows have no preconditioner.
    assert variances[0] == pytest.approx(variances[1], rel=1e-8)
    ran = subprocess.run(
        [*command, "--workers", "2", "--cluster", "tcp://127.0.0.1:1"], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "Give one of the two" in ran.stderr


def test_a_scheduler_that_does_not_answer_is_asked_once_and_no_longer_than_the_timeout(client, monkeypatch):
    asked = []

    async def hangs(**_):
        asked.append(True)
        await asyncio.sleep(1000)

    backend = DaskBackend(client, timeout=0.2)
    monkeypatch.setattr(client.scheduler, "identity", hangs, raising=False)
    for _ in range(3):
        backend._unanswered += 1000.0  # no time passes between the questions
        with pytest.raises(ClusterError, match="scheduler"):
            backend.members()
    assert asked == [True]
