"""A bootstrap that was stopped keeps its finished resamples and ends with the bits of one that was not."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api.checkpoint import describe_state
from fieldfit.data.container import read_container, write_container
from fieldfit.types import FieldfitError, FileAccessError

RESAMPLES = 12


def fitted(random_state=0):
    model = ff.BoltzmannMachine(4, biases=True)
    theta = np.random.default_rng(5).normal(0, 0.8, model.n_parameters)
    return ff.fit(model, model.sample(theta, 300, random_state=1).values, "0.5*PL1", random_state=random_state)


def same(first, second):
    assert first.theta.tobytes() == second.theta.tobytes()
    assert first.separated.tobytes() == second.separated.tobytes()


@pytest.mark.parametrize("kind", ["rows", "parametric"])
@pytest.mark.parametrize("stop", [1, 5, RESAMPLES])
def test_the_same_bits_as_without_a_stop(tmp_path, kind, stop):
    fit, path, counts = fitted(), tmp_path / "state", []
    whole = fit.bootstrap(RESAMPLES, kind=kind)

    def interrupt(done, total):
        if done == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit.bootstrap(RESAMPLES, kind=kind, progress=interrupt, checkpoint=path)
    assert describe_state(path).split()[0] == str(stop)
    resumed = ff.Checkpoint(path, resume=True)
    same(fit.bootstrap(RESAMPLES, kind=kind, checkpoint=resumed, progress=lambda done, _: counts.append(done)), whole)
    assert counts == list(range(1, RESAMPLES + 1))
    same(fit.bootstrap(RESAMPLES, kind=kind, checkpoint=resumed), whole)


def test_other_bootstraps_and_damage_are_refused(tmp_path):
    fit, path = fitted(), tmp_path / "state"
    fit.bootstrap(RESAMPLES, checkpoint=path)
    with pytest.raises(FileAccessError, match=r"exists\. Use resume=True"):
        fit.bootstrap(RESAMPLES, checkpoint=path)
    resumed = ff.Checkpoint(path, resume=True)
    for options in ({"resamples": 13}, {"kind": "parametric"}, {"random_state": 1}):
        with pytest.raises(FieldfitError, match="another method"):
            fit.bootstrap(**({"resamples": RESAMPLES} | options), checkpoint=resumed)
    with pytest.raises(FieldfitError, match="another policy"):
        ff.refine(fit, "optimal").bootstrap(RESAMPLES, checkpoint=resumed)
    with pytest.raises(FieldfitError, match="another random_state"):
        fitted(random_state=2).bootstrap(RESAMPLES, checkpoint=resumed)
    header, arrays = read_container(path)
    for change in ({"resamples": np.zeros((3, 2))}, {"separated": np.zeros((12, 10))}, {"resamples": np.zeros(())}):
        write_container(path, header, arrays | change)
        with pytest.raises(FieldfitError, match="not those of this bootstrap"):
            fit.bootstrap(RESAMPLES, checkpoint=resumed)


PROGRAM = """
import sys
import time
import fieldfit as ff
sys.path.insert(0, {folder!r})
from test_checkpoint_bootstrap import RESAMPLES, fitted
def slowly(done, total):
    print(done, flush=True)
    time.sleep(0.1)
fitted().bootstrap(RESAMPLES, progress=slowly, checkpoint=ff.Checkpoint({path!r}, every=0.0))
"""


@pytest.mark.slow
def test_a_killed_process_goes_on(tmp_path):
    path = tmp_path / "state"
    program = PROGRAM.format(folder=os.path.dirname(__file__), path=str(path))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(4):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert 3 <= int(describe_state(path).split()[0]) < RESAMPLES
    fit = fitted()
    same(fit.bootstrap(RESAMPLES, checkpoint=ff.Checkpoint(path, resume=True)), fit.bootstrap(RESAMPLES))
