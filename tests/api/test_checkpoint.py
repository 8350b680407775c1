"""A fit that was stopped goes on from its checkpoint and ends with the bits of a fit that was not."""

import os
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.container import read_container, write_container
from fieldfit.types import ConvergenceWarning, FieldfitError, FieldfitWarning, FileAccessError, FileFormatError


@pytest.fixture(scope="module")
def samples():
    model = ff.BoltzmannMachine(9, biases=True)
    theta = np.random.default_rng(0).normal(0, 0.5, model.n_parameters)
    return model, model.sample(theta, 400, random_state=1).values


METHODS = [
    {"method": "lbfgs"},
    {"method": "newton"},
    {"method": "lbfgs", "l1": 2.0},
    {"shards": 4, "sigma2": 3.0},
    {"fixed": {"x0:x1": 0.5}},
]


@pytest.mark.parametrize("options", METHODS, ids=str)
@pytest.mark.parametrize("stop", [1, 3])
def test_the_same_bits_as_without_a_stop(samples, tmp_path, options, stop):
    model, values = samples
    whole = ff.fit(model, values, "PL1 + 0.3*PL2", tol=1e-9, **options)
    path = tmp_path / "state"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        part = ff.fit(model, values, "PL1 + 0.3*PL2", tol=1e-9, max_iter=stop, checkpoint=path, **options)
    assert part.iterations == stop < whole.iterations
    rest = ff.fit(model, values, "PL1 + 0.3*PL2", tol=1e-9, checkpoint=ff.Checkpoint(path, resume=True), **options)
    assert rest.theta.tobytes() == whole.theta.tobytes()
    assert (rest.iterations, rest.evaluations, rest.hessian_products) == (
        whole.iterations,
        whole.evaluations,
        whole.hessian_products,
    )
    assert rest.converged


def test_a_better_preconditioner_is_made_again_where_it_was(tmp_path):
    # Strong couplings: more than 12 iterations, after which the preconditioner is made anew.
    model = ff.BoltzmannMachine(12, biases=True)
    theta = np.random.default_rng(3).normal(0, 1.6, model.n_parameters)
    values = model.sample(theta, 2000, random_state=1).values
    options: dict[str, Any] = {"tol": 1e-11, "method": "lbfgs", "sigma2": 100.0}
    whole = ff.fit(model, values, "PL1", **options)
    assert whole.iterations > 14
    with pytest.warns(ConvergenceWarning):
        ff.fit(model, values, "PL1", max_iter=14, checkpoint=tmp_path / "state", **options)
    assert "stage" in read_container(tmp_path / "state")[1]
    rest = ff.fit(model, values, "PL1", checkpoint=ff.Checkpoint(tmp_path / "state", resume=True), **options)
    assert rest.theta.tobytes() == whole.theta.tobytes()


def test_an_interrupt_leaves_the_state_of_the_last_iteration(samples, tmp_path):
    model, values = samples
    whole = ff.fit(model, values, "PL1", tol=1e-9, method="lbfgs")
    calls = []

    def interrupt(progress):
        calls.append(progress)
        if progress.iteration == 3:
            raise KeyboardInterrupt

    path = tmp_path / "state"
    part = ff.fit(model, values, "PL1", tol=1e-9, method="lbfgs", checkpoint=path, progress=interrupt)
    assert part.interrupted
    assert len(read_container(path)[1]["history"]) == 4
    rest = ff.fit(model, values, "PL1", tol=1e-9, method="lbfgs", checkpoint=ff.Checkpoint(path, resume=True))
    assert rest.theta.tobytes() == whole.theta.tobytes()


def test_an_error_leaves_the_state_too(samples, tmp_path):
    model, values = samples

    def fail(progress):
        if progress.iteration == 2:
            raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        ff.fit(model, values, "PL1", method="lbfgs", checkpoint=tmp_path / "state", progress=fail)
    assert len(read_container(tmp_path / "state")[1]["history"]) == 3


def test_checkpoints_of_other_fits_are_refused(samples, tmp_path):
    model, values = samples
    path = tmp_path / "state"
    ff.fit(model, values, "PL1", checkpoint=path)
    with pytest.raises(FileAccessError, match=r"exists\. Use resume=True"):
        ff.fit(model, values, "PL1", checkpoint=path)
    resumed = ff.Checkpoint(path, resume=True)
    for arguments, what in (
        ((model, values[1:], "PL1", {}), "set of samples"),
        ((model, values[:, ::-1], "PL1", {}), "set of samples"),
        ((model, values, "PL1 + PL2", {}), "policy"),
        ((ff.BoltzmannMachine(9), values, "PL1", {}), "model"),
        ((model, values, "PL1", {"sigma2": 1.0}), "penalty"),
        ((model, values, "PL1", {"random_state": 1}), "random_state"),
        ((model, values, "PL1", {"shards": 2}), "number of shards"),
        ((model, values, "PL1", {"method": "newton"}), "method"),
    ):
        *given, options = arguments
        with pytest.raises(FieldfitError, match=f"another {what}"):
            ff.fit(*given, checkpoint=resumed, **options)
    labels = [["A", "B"]] * 5 + [["B", "A"]] * 5
    sizes = np.linspace(0.0, 2.0, 10)
    first, other = ([[{"size": sign * size}, {"size": size}] for size in sizes] for sign in (1, -1))
    ff.CRFTagger("FL", features=None).fit(first, labels, checkpoint=tmp_path / "tagger")
    again = ff.Checkpoint(tmp_path / "tagger", resume=True)
    with pytest.raises(FieldfitError, match="another set of samples"):  # other values of the same features
        ff.CRFTagger("FL", features=None).fit(other, labels, checkpoint=again)
    with pytest.raises(FieldfitError, match="must be the path"):
        ff.fit(model, values, checkpoint=3)  # type: ignore[arg-type]
    with pytest.raises(FieldfitError, match="seconds"):
        ff.Checkpoint(path, every=-1)


def test_damaged_checkpoints_are_refused(samples, tmp_path):
    model, values = samples
    path = tmp_path / "state"
    ff.fit(model, values, "PL1", method="lbfgs", checkpoint=path)
    header, arrays = read_container(path)
    damages = (
        {"x": arrays["x"][:-1]},
        {"history": np.zeros(3)},
        {"order": np.array([99])},
        {"order": np.array([0, 0])},
        {"work": np.zeros(5)},
        {"steps": np.zeros((1, 2))},
        {"point": np.zeros(0)},
        {"point": np.array([np.inf, 1.0])},
        {"x": arrays["x"] * np.nan},
        {"gradient": arrays["gradient"] + np.inf},
        {"work": np.array([2**63 - 1, 0])},
        {"work": np.array([3, -1])},
        {"changes": arrays["changes"] * np.nan},
        {"search": arrays["search"] + np.inf},
    )
    for change in damages:
        write_container(path, header, arrays | change)
        with pytest.raises(FieldfitError, match="not one of this optimiser"):
            ff.fit(model, values, "PL1", method="lbfgs", checkpoint=ff.Checkpoint(path, resume=True))
    path.write_bytes(b"nonsense")
    with pytest.raises(FileFormatError, match="Use an intact copy, or start again without it"):
        ff.fit(model, values, "PL1", method="lbfgs", checkpoint=ff.Checkpoint(path, resume=True))


def test_a_disk_that_is_full_later_is_a_warning(samples, tmp_path, monkeypatch):
    from fieldfit.api import checkpoint

    model, values = samples
    with pytest.raises(FileAccessError, match="does not exist"):
        ff.fit(model, values, "PL1", checkpoint=tmp_path / "nowhere" / "state")
    write, calls = write_container, []

    def full(path, header, arrays):
        calls.append(path)
        if len(calls) > 1:
            raise FileAccessError(f"{path} was not written because the disk is full.")
        write(path, header, arrays)

    monkeypatch.setattr(checkpoint, "write_container", full)
    with pytest.warns(FieldfitWarning, match="continues without it. .* the disk is full"):
        fit = ff.fit(model, values, "PL1", method="lbfgs", checkpoint=ff.Checkpoint(tmp_path / "state", every=0))
    assert fit.converged
    assert len(read_container(tmp_path / "state")[1]["history"]) == 1


SCRIPT = """
import sys, time, numpy as np, fieldfit as ff
model = ff.BoltzmannMachine(9, biases=True)
values = np.load(sys.argv[1])
slow = (lambda progress: time.sleep(0.1)) if sys.argv[3] == "slow" else None
fit = ff.fit(model, values, "PL1", tol=1e-9, method="lbfgs", progress=slow,
             checkpoint=ff.Checkpoint(sys.argv[2], every=0, resume=True))
np.save(sys.argv[4], fit.theta)
"""


@pytest.mark.slow
def test_a_killed_process_goes_on(samples, tmp_path):
    model, values = samples
    np.save(tmp_path / "x.npy", values)
    state = tmp_path / "state"

    def run(pace):
        return [sys.executable, "-c", SCRIPT, str(tmp_path / "x.npy"), str(state), pace, str(tmp_path / "theta.npy")]

    process = subprocess.Popen(run("slow"))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if state.exists() and len(read_container(state)[1]["history"]) > 2:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    (tmp_path / ".state.0123456789ab.tmp").write_bytes(b"left over by a kill")
    assert subprocess.run(run("fast"), check=False).returncode == 0
    whole = ff.fit(model, values, "PL1", tol=1e-9, method="lbfgs")
    assert np.load(tmp_path / "theta.npy").tobytes() == whole.theta.tobytes()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


@pytest.mark.slow
def test_ctrl_c_on_the_command_line_says_how_to_go_on(samples, tmp_path, monkeypatch, capsys):
    from contextlib import contextmanager

    from fieldfit.cli import fitting
    from fieldfit.cli.app import run

    model, values = samples
    np.savetxt(tmp_path / "x.csv", values, delimiter=",", fmt="%d")
    state = tmp_path / "state"
    command = ["fit", "boltzmann", str(tmp_path / "x.csv"), "--no-header", "--biases", "--method", "lbfgs", "--json",
               "--checkpoint", str(state), "--out", str(tmp_path / "fit.ff")]  # fmt: skip

    @contextmanager
    def interrupted(*_):
        def tell(progress):
            if progress.iteration == 2:
                raise KeyboardInterrupt

        yield tell

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "shown_progress", interrupted)
        assert run(command) == 130
    said = capsys.readouterr().err
    assert "fit.ff has the estimate so far" in said
    assert "state has the state, and the same command with --resume continues from there" in said
    assert run(command) == 2
    assert "exists" in capsys.readouterr().err
    assert run([*command, "--resume"]) == 0
    whole = ff.fit(model, values, "PL1", method="lbfgs")
    assert ff.load(tmp_path / "fit.ff").theta.tobytes() == whole.theta.tobytes()
    assert run([*command[:3], "--resume"]) == 2
    assert "--resume needs --checkpoint" in capsys.readouterr().err


FULL = """
import resource, sys, warnings, numpy as np, fieldfit as ff
model, values = ff.BoltzmannMachine(9, biases=True), np.load(sys.argv[1])
def full(progress):
    if progress.iteration == 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fit = ff.fit(model, values, "PL1", method="lbfgs", progress=full, checkpoint=ff.Checkpoint(sys.argv[2], every=0))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(fit.converged, [str(warning.message) for warning in caught])
"""


@pytest.mark.slow
def test_a_disk_that_is_full_during_a_fit(samples, tmp_path):
    np.save(tmp_path / "x.npy", samples[1])
    command = [sys.executable, "-c", FULL, str(tmp_path / "x.npy"), str(tmp_path / "state")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("True ['A checkpoint could not be written, and the fit continues without it.")
    assert len(read_container(tmp_path / "state")[1]["history"]) == 2  # a state is written after its callback
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
    model, values = samples
    with pytest.raises(FileAccessError, match="not a regular file"):
        ff.fit(model, values, "PL1", checkpoint=ff.Checkpoint("/dev/full", resume=True))
