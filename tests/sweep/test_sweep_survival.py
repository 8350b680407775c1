"""Sweeps that are killed, interrupted, shared and starved of disk: nothing is lost and nothing is done twice."""

import collections
import os
import signal
import sqlite3
import subprocess
import sys
import time
from typing import Any

import pytest
import sweep_cells
from sweep_cells import HERE, lines, make

from fieldfit.sweep import Sweep, open_sweep, run_sweep
from fieldfit.sweep import store as store_module
from fieldfit.sweep.store import CellResult, Store
from fieldfit.types import FileAccessError

CELLS = {(a, b) for a in range(4) for b in range(6)}


def launch(store, log, jobs, function="slow", largest_file=None):
    def limited():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))

    return subprocess.Popen(
        [sys.executable, str(HERE / "sweep_cells.py"), str(store), str(log), str(jobs), function],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a group of its own, as a terminal gives it
        preexec_fn=None if largest_file is None else limited,
    )


def done(store):
    """Coordinates of the committed cells, read without the engine."""
    try:
        connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        rows = connection.execute(
            "SELECT json_extract(coordinates, '$.a'), json_extract(coordinates, '$.b') FROM cells WHERE status = 'done'"
        ).fetchall()
        connection.close()
        return set(rows)
    except sqlite3.OperationalError:  # not there yet
        return set()


def wait_for(store, count, process):
    """Wait until ``count`` cells are committed; a process that ends before is an error."""
    while len(done(store)) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def finish(process, code=0):
    out, err = process.communicate()
    assert process.returncode == code, (out, err)
    return out.decode()


def check_complete(store):
    frame = open_sweep(store).frame()
    assert len(frame) == 24
    assert (frame["cell_status"] == "done").all()
    assert (frame["product"] == frame["a"] * frame["b"]).all()
    assert (frame["seed_seen"] == frame["cell_seed"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_with_all_its_workers_it_goes_on_and_repeats_only_what_was_running(tmp_path, jobs):
    store, log = tmp_path / "s.sweep", tmp_path / "log"
    for target in (4, 11):
        process = launch(store, log, jobs)
        wait_for(store, target, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        time.sleep(0.05)
        committed, started = done(store), len(lines(log, "start"))
        assert len(committed) >= target
    finish(launch(store, log, jobs))
    check_complete(store)
    assert committed.isdisjoint(lines(log, "start")[started:])
    times = collections.Counter(lines(log, "start"))
    assert set(times) == CELLS
    assert sum(times.values()) <= 24 + 2 * jobs  # at most the cells in flight at each kill


@pytest.mark.slow
def test_workers_that_outlive_the_command_finish_their_cells_which_are_then_not_repeated(tmp_path):
    store, log = tmp_path / "s.sweep", tmp_path / "log"
    process = launch(store, log, 2)
    wait_for(store, 5, process)
    process.kill()  # the parent alone: its workers become orphans in the middle of a cell
    process.wait()
    finish(launch(store, log, 2))
    check_complete(store)
    assert collections.Counter(lines(log, "end")) == dict.fromkeys(CELLS, 1)
    process.stdout.close()
    process.stderr.close()


@pytest.mark.slow
def test_two_processes_share_one_store(tmp_path):
    store, log = tmp_path / "s.sweep", tmp_path / "log"
    processes = [launch(store, log, 1), launch(store, log, 1)]
    for process in processes:
        finish(process)
    check_complete(store)
    assert collections.Counter(lines(log, "start")) == dict.fromkeys(CELLS, 1)
    connection = sqlite3.connect(store)
    shares = connection.execute("SELECT COUNT(*) FROM cells GROUP BY run").fetchall()
    connection.close()
    assert len(shares) == 2


@pytest.mark.slow
def test_the_survivor_takes_over_from_a_dead_process(tmp_path):
    store, log = tmp_path / "s.sweep", tmp_path / "log"
    first, second = launch(store, log, 1), launch(store, log, 1)
    wait_for(store, 4, first)
    first.kill()
    first.communicate()
    finish(second)
    check_complete(store)


@pytest.mark.slow
@pytest.mark.parametrize(("jobs", "function"), [(1, "slow"), (1, "swallow"), (2, "slow")])
def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(tmp_path, jobs, function):
    store, log = tmp_path / "s.sweep", tmp_path / "log"
    process = launch(store, log, jobs, function)
    wait_for(store, 5, process)
    os.killpg(process.pid, signal.SIGINT)
    out = finish(process, 130)
    assert "stopped, run the same command to continue" in out
    committed, started = done(store), len(lines(log, "start"))
    assert 5 <= len(committed) < 24
    with Store(store) as opened:
        counts = opened.counts()
    assert (counts.running, counts.waiting) == (0, 24 - len(committed))
    finish(launch(store, log, jobs, function))
    check_complete(store)
    assert committed.isdisjoint(lines(log, "start")[started:])


@pytest.mark.slow
def test_a_cell_that_kills_its_process_fails_alone(tmp_path):
    sweep = make(tmp_path / "log", "deadly", a=3, b=4)
    summary = run_sweep(sweep, tmp_path / "s.sweep", n_jobs=2)
    assert (summary.done, summary.failed, summary.unfinished) == (11, 1, 0)
    frame: Any = open_sweep(tmp_path / "s.sweep").frame().set_index(["a", "b"])
    assert "was killed, twice" in frame.loc[(1, 2), "cell_error"]


def test_a_full_disk_is_a_sentence_and_loses_no_committed_cell(tmp_path, monkeypatch):
    real = vars(store_module)["connect"]

    def small(path):
        connection = real(path)
        connection.execute("PRAGMA max_page_count = 1")  # no page beyond those that the file has
        return connection

    def large(coordinates, seed):
        return sweep_cells.slow(coordinates, seed) | {"text": "x" * 1500}

    store, plain = tmp_path / "s.sweep", make(tmp_path / "log", seconds=0.0)
    sweep = Sweep(large, plain.axes, plain.constants)
    Store.for_sweep(store, sweep).close()
    monkeypatch.setattr(store_module, "connect", small)
    with pytest.raises(FileAccessError, match="The disk is full: the last cell could not be written"):
        run_sweep(sweep, store)
    monkeypatch.setattr(store_module, "connect", real)
    committed = done(store)
    assert 0 < len(committed) < 24
    started = len(lines(tmp_path / "log", "start"))
    assert run_sweep(sweep, store).done == 24
    assert committed.isdisjoint(lines(tmp_path / "log", "start")[started:])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of file sizes")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_store_that_cannot_be_written_any_more_goes_on_later(tmp_path, jobs):
    store, log = tmp_path / "s.sweep", tmp_path / "log"
    ended = launch(store, log, jobs, "large", largest_file=60_000)
    _, told = ended.communicate()
    assert ended.returncode != 0
    assert b"FileAccessError" in told.splitlines()[-1]
    committed = done(store)
    assert len(committed) < 24
    started = len(lines(log, "start"))
    finish(launch(store, log, jobs, "large"))
    check_complete(store)
    assert committed.isdisjoint(lines(log, "start")[started:])


def test_a_worker_on_another_machine_keeps_its_cell_until_its_lease_ends(tmp_path):
    path = tmp_path / "s.sweep"
    with Store.for_sweep(path, make(tmp_path / "log")) as store:
        worker = store.register_worker(store.begin_run(1, {}))
        store.connection.execute("UPDATE workers SET host = 'elsewhere', pid = 1")
        claim = store.claim(worker)
        assert store.take_over() == 0
        store.connection.execute("UPDATE workers SET heartbeat = heartbeat - 1000")
        assert store.take_over() == 1
        other = store.register_worker(store.begin_run(1, {}))
        assert store.claim(other, claim.cell.key).cell == claim.cell
        late = CellResult('{"product": 13}', None, None, None, 1.0)
        accepted, _ = store.finish(worker, claim.cell, late, claim_next=False)
        assert not accepted
        assert store.counts().done == 0
        accepted, _ = store.finish(other, claim.cell, late, claim_next=False)
        assert accepted
        assert store.counts().done == 1


def test_a_sign_of_life_in_the_far_future_is_none(tmp_path):
    """Otherwise a changed store would make a run wait forever."""
    with Store.for_sweep(tmp_path / "s.sweep", make(tmp_path / "log")) as store:
        store.claim(store.register_worker(store.begin_run(1, {})))
        store.connection.execute("UPDATE workers SET host = 'elsewhere', heartbeat = 1e18")
        assert store.take_over() == 1


def test_a_run_that_could_not_give_its_cell_back_does_not_block_the_next_one(tmp_path, monkeypatch):
    """As on a full disk, in a session that lives on."""
    store = tmp_path / "s.sweep"
    sweep = make(tmp_path / "log", seconds=0.0)

    def refuse(*_, **__):
        raise FileAccessError("The disk is full.")

    with monkeypatch.context() as broken:
        for name in ("finish", "release", "release_run"):
            broken.setattr(Store, name, refuse)
        with pytest.raises(FileAccessError, match="disk is full"):
            run_sweep(sweep, store)
    with Store(store) as opened:
        assert opened.counts().running == 1
    assert run_sweep(sweep, store).done == 24
