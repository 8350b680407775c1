"""`fieldfit fit` with workers: Ctrl-C at any moment, a scheduler that is lost, and a second run beside it."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.cli import main
from fieldfit.types import ClusterError
from tests.shards.cluster_processes import PATIENCE, processes, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(autouse=True)
def dask():
    pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A CSV file of 12 binary columns."""
    path = tmp_path_factory.mktemp("table") / "x.csv"
    model = ff.BoltzmannMachine(12)
    theta = np.random.default_rng(0).normal(size=model.n_parameters) * 0.3
    values = model.sample(theta, 3000, random_state=1).values
    np.savetxt(path, values, delimiter=",", fmt="%d", header=",".join("abcdefghijkl"), comments="")
    return path


def start(folder, *arguments):
    """The command as a terminal starts it: a group of processes of its own, with temporary files in a folder of its own."""
    temporary = folder / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "fieldfit", *arguments], cwd=folder, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": str(temporary)},
    )  # fmt: skip
    return process, temporary


def session(number):
    """The processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, leader = path.joinpath("stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(leader) == number and state != "Z":
            found.append(int(path.name))
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs the processes of a session")
@pytest.mark.parametrize(("seconds", "presses"), [(0.0, 1), (0.5, 1), (1.0, 2), (1.5, 1), (2.5, 1)])
def test_ctrl_c_at_any_moment_of_workers(table, tmp_path, seconds, presses):
    """A terminal sends it to all processes. The moments are from the first other process on: start, fit, end."""
    arguments = ["fit", "boltzmann", str(table), "--workers", "2", "-p", "PL1 + 0.5*PL2"]
    process, temporary = start(tmp_path, *arguments)
    wait_until(lambda: len(session(process.pid)) > 1 or process.poll() is not None, "workers")
    time.sleep(seconds)
    for _ in range(presses):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.1)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode in (130, 0), said  # 0: it had ended before
    sentences = said.splitlines()
    assert len(sentences) == (process.returncode == 130), said
    assert all(sentence.startswith("fieldfit: Interrupted") for sentence in sentences)
    wait_until(lambda: not session(process.pid), "processes to end")
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs the processes of a session")
def test_a_command_that_is_killed_takes_its_workers_along_and_the_next_run_removes_their_folder(table, tmp_path):
    process, temporary = start(tmp_path, "fit", "boltzmann", str(table), "--workers", "1", "-p", "PL1 + 0.5*PL2")
    wait_until(
        lambda: list(temporary.glob(".fieldfit-workers.*/*/worker*")) or process.poll() is not None, "a worker"
    )
    assert process.poll() is None
    process.kill()
    process.communicate()
    wait_until(lambda: not session(process.pid), "processes to end")
    assert list(temporary.iterdir())
    again = [sys.executable, "-m", "fieldfit", "fit", "boltzmann", str(table), "--workers", "1"]
    environment = os.environ | {"TMPDIR": str(temporary)}
    subprocess.run(again, check=True, capture_output=True, env=environment, timeout=PATIENCE)
    assert list(temporary.iterdir()) == []


def test_a_lost_scheduler_is_one_sentence(table, tmp_path):
    """Dask logs the lost connection, with tracebacks of its own."""
    with processes(2) as (_, scheduler, _):
        process, _ = start(
            tmp_path, "fit", "boltzmann", str(table), "--cluster", scheduler.address, "--checkpoint", "state",
            "--checkpoint-every", "0", "--tol", "1e-9", "-p", "PL1 + 0.5*PL2",
        )  # fmt: skip
        wait_until(lambda: (tmp_path / "state").exists() or process.poll() is not None, "a checkpoint")
        scheduler.send(signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert said.startswith("fieldfit: The connection to the cluster's scheduler was lost")
    assert said.count("\n") == 1
    assert "state has the state after" in said
    assert "--resume" in said


@pytest.mark.parametrize(
    ("number", "code", "options"),
    [(signal.SIGINT, 130, []), (signal.SIGTERM, 143, []), (signal.SIGINT, 130, ["--weights", "auto"])],
)
def test_an_interrupt_does_not_wait_for_a_worker_that_hangs(table, tmp_path, number, code, options):
    with processes(2) as (_, scheduler, workers):
        process, _ = start(
            tmp_path, "fit", "boltzmann", str(table), "--cluster", scheduler.address, "--checkpoint", "state",
            "--checkpoint-every", "0", "--tol", "1e-12", "-p", "PL1 + 0.5*PL2", "--out", "a.ff", *options,
        )  # fmt: skip
        wait_until(lambda: (tmp_path / "state").exists() or process.poll() is not None, "a checkpoint")
        workers[0].send(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)  # the worker would be given up after 300 seconds
    assert process.returncode == code, said
    assert "not converged; a.ff has the estimate so far; state has the state" in said
    assert "--resume" in said
    assert not ff.load(tmp_path / "a.ff").converged


def worker_processes(number):
    """The processes of a session that are workers of a cluster on this machine."""
    commands = {}
    for process in session(number):
        with contextlib.suppress(OSError):
            commands[process] = Path(f"/proc/{process}/cmdline").read_bytes()
    return [process for process, command in commands.items() if b"spawn_main" in command]


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs the processes of a session")
@pytest.mark.parametrize("options", [["--weights", "auto"], ["--sigma2", "100"]])
def test_one_ctrl_c_ends_a_fit_with_workers_of_which_one_hangs(table, tmp_path, options):
    """A worker that is stopped does not end when it is asked to. The samples are in shards, which are on workers alone."""
    assert main(["shard", str(table), "--rows", "300", "--out", str(tmp_path / "shards")]) == 0
    process, temporary = start(
        tmp_path, "fit", "boltzmann", "shards", "--workers", "2", "--checkpoint", "state", "--checkpoint-every", "0",
        "--tol", "1e-12", "-p", "PL1 + 0.5*PL2", "--out", "a.ff", *options,
    )  # fmt: skip
    wait_until(lambda: (tmp_path / "state").exists() or process.poll() is not None, "a checkpoint")
    os.kill(worker_processes(process.pid)[-1], signal.SIGSTOP)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)  # the worker would be given up after 300 seconds
    assert process.returncode == 130, said
    assert "not converged; a.ff has the estimate so far; state has the state" in said
    wait_until(lambda: not session(process.pid), "processes to end")
    assert list(temporary.iterdir()) == []
    assert not ff.load(tmp_path / "a.ff").converged


STAGES = {
    "standard errors": "fit.standard_errors()",
    "optimal": "ff.refine(fit, 'optimal')",
    "FL": "ff.refine(fit, 'FL')",
    "Nodewise": "ff.fit(model, values, 'Nodewise >> optimal', backend=client)",
    "plan": "ff.plan(model, values, backend=client)",
}
STAGE = """
import os, signal, sys
import fieldfit as ff
from distributed import Client
model = ff.BoltzmannMachine(5)
values = model.sample([0.3] * model.n_parameters, 1000, random_state=1).values
client = Client(sys.argv[1], set_as_default=False)
fit = ff.fit(model, values, "PL1", backend=client)
os.kill(int(sys.argv[2]), signal.SIGSTOP)
print("begins", flush=True)
try:
    {work}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("stage", STAGES)
def test_one_ctrl_c_ends_long_work_while_a_worker_hangs(stage):
    with processes(2) as (_, scheduler, workers):
        code = STAGE.format(work=STAGES[stage])
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, scheduler.address, str(workers[1].process.pid)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE)
    assert said == "interrupted\n"


def test_a_lost_worker_is_told_once(table, tmp_path):
    with processes(2) as (_, scheduler, workers):
        process, _ = start(
            tmp_path, "fit", "boltzmann", str(table), "--cluster", scheduler.address, "--checkpoint", "state",
            "--checkpoint-every", "0", "--tol", "1e-9", "-p", "PL1 + 0.5*PL2",
        )  # fmt: skip
        wait_until(lambda: (tmp_path / "state").exists() or process.poll() is not None, "a checkpoint")
        workers[0].send(signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    told = f"the worker {workers[0].address} does not answer; 16 shards that it had are read again by the workers that do"
    assert [told in line for line in said.splitlines()] == [True]


def test_a_cluster_that_is_lost_after_the_fit_keeps_the_estimate(table, tmp_path):
    values = np.loadtxt(table, delimiter=",", skiprows=1, dtype=int)
    with processes(1) as (client, scheduler, _):
        fit = ff.fit(ff.BoltzmannMachine(12), values, "PL1", backend=client)
        scheduler.send(signal.SIGKILL)
        with pytest.raises(ClusterError, match=r"a\.ff has the estimate, without standard errors"):
            fit.save(tmp_path / "a.ff")
    assert ff.load(tmp_path / "a.ff").theta.tobytes() == fit.theta.tobytes()


IN_ERRORS = """
import sys, time
from fieldfit.api import accuracies
usual = accuracies.robust_moments
def slow(*arguments, **options):
    open("began", "w").close()
    time.sleep(1.0)
    return usual(*arguments, **options)
accuracies.robust_moments = slow
from fieldfit.cli import main
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("out", [[], ["--out", "a.ff"]])
@pytest.mark.parametrize("lost", [False, True])
def test_a_fit_that_ends_in_its_standard_errors_is_in_the_checkpoint(table, tmp_path, lost, out):
    """Ctrl-C, or a scheduler that is killed; the same command with --resume brings the errors without another iteration."""
    (tmp_path / "slow.py").write_text(IN_ERRORS)
    options = ["fit", "boltzmann", str(table), "--checkpoint", "state", "--shards", "32", "--json", *out]
    with processes(1) as (_, scheduler, _):
        process = subprocess.Popen(
            [sys.executable, "slow.py", *options, "--cluster", scheduler.address], cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        wait_until(lambda: (tmp_path / "began").exists() or process.poll() is not None, "standard errors")
        if lost:
            scheduler.send(signal.SIGKILL)
        else:
            process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == (2 if lost else 130), said
    assert "lost, because" not in said
    assert ("a.ff has the" in said) == bool(out)
    if lost:
        assert "Only the standard errors are missing: the estimate is printed. The connection" in said
        assert re.search("state has the state after [0-9]+ iterations; the same fit with --resume goes on", said)
        assert len(json.loads(printed)["parameter"]) == 78
    else:
        assert "in its standard errors; " in said
        assert "state has the state, and the same command with --resume continues from there." in said
    again = [sys.executable, "-m", "fieldfit", *options, "--resume"]
    ended = subprocess.run(again, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=PATIENCE)
    assert all(line["std_error"] > 0 for line in json.loads(ended.stdout)["parameter"])
    assert "resuming: state has the state after" in ended.stderr


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_estimates_are_shown_if_the_cluster_is_lost_before_their_errors(table, tmp_path, monkeypatch, capsys, form):
    def lost(*_):
        raise ClusterError("The connection was lost.")

    monkeypatch.setattr("fieldfit.cli.showing.identified_estimates", lost)
    state = str(tmp_path / "state")
    assert main(["fit", "boltzmann", str(table), "--checkpoint", state, "--rows", "3", *form]) == 2
    said = capsys.readouterr()
    assert "The connection was lost." in said.err
    assert "state after" in said.err
    if form:
        parameters = json.loads(said.out)["parameter"]
        assert all(line["std_error"] is None for line in parameters)
        assert all(isinstance(line["estimate"], float) for line in parameters)
        return
    assert "converged" in said.out
    assert "75 more" in said.out
    assert "No parameter has a standard error: the cluster was lost." in " ".join(said.out.split())


def test_a_second_run_with_workers_says_nothing_of_ports(table, tmp_path):
    """8787 is the port of Dask's dashboard."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        except OSError:
            pass  # another program has it, which is just as good
        process, _ = start(tmp_path, "fit", "boltzmann", str(table), "--workers", "1")
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert said == ""


ENDED = """
import os
from fieldfit.cli.cluster import _kill_workers, started
if __name__ == "__main__":
    with started(1):
        _kill_workers()
        os._exit(130)
"""


def test_a_command_that_ends_while_workers_start_leaves_no_warning_of_semaphores(tmp_path):
    """Another process, which Python has started, removes them afterwards."""
    (tmp_path / "ended.py").write_text(ENDED)
    ran = subprocess.run(
        [sys.executable, "ended.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (ran.returncode, ran.stderr) == (130, "")
