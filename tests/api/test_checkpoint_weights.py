"""Checkpoints of fits with automatic weights: several fits in one file, and the bits of a search without a stop."""

import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api import checkpoint as module
from fieldfit.api.checkpoint import describe_state
from fieldfit.data.container import read_container, write_container
from fieldfit.types import FieldfitError

POLICY = "PL1 + 0.4*PL2"
#: All samples in every round; rounds on a part of the samples first; an L1 penalty; shards; the diagonal form.
FIRST: tuple[int, dict[str, Any]] = (400, {})
OTHERS: list[tuple[int, dict[str, Any]]] = [
    (8000, {"sigma2": 10.0}),
    (400, {"l1": 2.0}),
    (400, {"shards": 3}),
    (400, {"weights": ff.AutoWeights(form="diagonal")}),
]


class StoppedError(Exception):
    """What ends a fit in the middle of it."""


def problem(n):
    model = ff.BoltzmannMachine(6, biases=True)
    theta = np.random.default_rng(0).normal(0, 0.9, model.n_parameters)
    return model, model.sample(theta, n, random_state=1).values


def fitted(n, options, kept=None):
    model, values = problem(n)
    return ff.fit(model, values, POLICY, checkpoint=kept, **({"weights": "auto", "random_state": 3} | options))


def stopping_at(monkeypatch, number):
    """End the process's work after a write of the file; gives the writes that were made."""
    writes: list[str] = []

    def write(path, *given):
        write_container(path, *given)
        writes.append(path)
        if len(writes) == number:
            raise StoppedError

    monkeypatch.setattr(module, "write_container", write)
    return writes


def same(first, second):
    assert first.theta.tobytes() == second.theta.tobytes()
    assert first.weights.beta.tobytes() == second.weights.beta.tobytes()
    assert first.weights.to_dict() == second.weights.to_dict()
    assert (first.iterations, first.evaluations, first.message) == (
        second.iterations,
        second.evaluations,
        second.message,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "options"), [FIRST, *(pytest.param(*case, marks=pytest.mark.slow) for case in OTHERS)], ids=str
)
def test_the_same_bits_after_a_stop_at_any_write(tmp_path, monkeypatch, n, options):
    whole = fitted(n, options)
    with monkeypatch.context() as patched:
        writes = stopping_at(patched, -1)
        same(fitted(n, options, ff.Checkpoint(tmp_path / "all", every=0.0)), whole)
    assert len(whole.weights.history) > 1
    places = sorted({1, 2, len(writes) // 3, len(writes) // 2, len(writes) - 2, len(writes)})
    for stop in places:
        path = tmp_path / f"state{stop}"
        with monkeypatch.context() as patched:
            stopping_at(patched, stop)
            with pytest.raises(StoppedError):
                fitted(n, options, ff.Checkpoint(path, every=0.0))
        same(fitted(n, options, ff.Checkpoint(path, resume=True)), whole)
    same(fitted(n, options, ff.Checkpoint(path, resume=True)), whole)  # from the end


def test_an_interrupt_in_a_later_round(tmp_path):
    whole, path, told = fitted(400, {}), tmp_path / "state", []

    def interrupt(progress):
        told.append(progress)
        if len(told) == 8:
            raise KeyboardInterrupt

    part = fitted(400, {"progress": interrupt}, path)
    assert part.interrupted
    state = describe_state(path)
    assert state.startswith("the state after ")
    assert "of the automatic weights" in state
    said: list[str] = []
    same(fitted(400, {}, ff.Checkpoint(path, resume=True, tell=said.append)), whole)
    assert said == [f"resuming: {path} has {state}"]


def test_other_options_and_damage_are_refused(tmp_path):
    path = tmp_path / "state"
    fitted(400, {}, path)
    resumed = ff.Checkpoint(path, resume=True)
    for options in ({"weights": ff.AutoWeights(form="diagonal")}, {"weights": [0.5, 0.5]}):
        with pytest.raises(FieldfitError, match="another policy"):
            fitted(400, options, resumed)
    header, arrays = read_container(path)
    write_container(path, header, arrays | {"round0.x": np.zeros(2)})
    with pytest.raises(FieldfitError, match="saved state is not one of"):
        fitted(400, {}, resumed)
    write_container(path, header, {name: a for name, a in arrays.items() if not name.startswith("round0.")})
    same(fitted(400, {}, resumed), fitted(400, {}))  # without the first fit, nothing of the others counts


PROGRAM = """
import sys
import time
import fieldfit as ff
sys.path.insert(0, {folder!r})
from test_checkpoint_weights import fitted
def slowly(progress):
    print(progress.iteration, flush=True)
    time.sleep(0.05)
fitted(400, {{"progress": slowly}}, ff.Checkpoint({path!r}, every=0.0))
"""


@pytest.mark.slow
def test_a_killed_process_goes_on(tmp_path):
    path = tmp_path / "state"
    program = PROGRAM.format(folder=os.path.dirname(__file__), path=str(path))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(7):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert "automatic weights" in describe_state(path)
    same(fitted(400, {}, ff.Checkpoint(path, resume=True)), fitted(400, {}))
