"""Ctrl-C during imports and between the files of a command."""

import _weakrefset
import ctypes
import importlib
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from fieldfit.cli import interrupts, main
from fieldfit.cli.interrupts import ended_after, patient_interrupts


def press():
    """Ctrl-C, and time for it to arrive."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)


def test_an_import_ends_before_the_interrupt(tmp_path, monkeypatch):
    (tmp_path / "slow_import.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.1)\ndone = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    ended = []

    def work():
        ended.append(importlib.import_module("slow_import").done)
        time.sleep(5)

    with patient_interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        work()
    assert ended == [True]
    assert interrupts.seen
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Pressed:
    """Its finaliser is interrupted."""

    def __init__(self, ended):
        self.ended = ended

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        self.ended.append(True)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("weak", [False, True])
def test_a_finaliser_ends_before_the_interrupt(weak):
    """Python would print what is raised there, and go on."""
    ended: list[bool] = []

    class Entry:
        pass

    class Pressing(weakref.WeakSet[Entry]):
        _remove: Callable[[weakref.ref[Entry]], None]

        def __init__(self):
            super().__init__()
            remove = self._remove

            def remove_and_press(reference):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)
                remove(reference)
                ended.append(True)

            # As the callback of weakref.WeakSet, whose file and name the handler knows.
            code = remove_and_press.__code__.replace(co_filename=_weakrefset.__file__, co_name="_remove")
            remove_and_press.__code__ = code
            self._remove = remove_and_press

    def work():
        if weak:
            entries, entry = Pressing(), Entry()
            entries.add(entry)
            del entry
        else:
            Pressed(ended)
        time.sleep(5)

    with patient_interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        work()
    assert ended == [True]
    assert interrupts.seen


def test_an_interrupt_that_is_lost_in_a_callback_from_c_comes_again(capfd):
    """Python would print it and go on."""

    def callback():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)

    def work():
        ctypes.CFUNCTYPE(None)(callback)()
        time.sleep(5)

    with patient_interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        work()
    assert interrupts.seen
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_ctrl_c_while_python_ends_has_no_traceback(tmp_path):
    """As after a sweep on several processes, whose threads Python waits for."""
    code = """
import atexit, os, signal, sys, threading, time
from fieldfit.cli import interrupts, main
threading._register_atexit(lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(5)))
sys.argv = ["fieldfit", "show", "no such file"]
sys.exit(main())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == 130
    assert "no such file" in ended.stderr
    assert ended.stderr.endswith("fieldfit: Interrupted after the command had ended.\n")
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs the signals of a process as text")
def test_worker_processes_do_not_get_the_interrupt_of_a_terminal():
    code = """
import joblib
from fieldfit.threads import LOKY_TRACKER, interrupts_for_this_process

def waits(number):
    masks = [line.split()[1] for line in open("/proc/self/status") if line.startswith("SigBlk")]
    return int(masks[0], 16) >> 1 & 1

with interrupts_for_this_process(LOKY_TRACKER):
    answers = joblib.Parallel(n_jobs=2, return_as="generator")(joblib.delayed(waits)(each) for each in range(4))
print(list(answers), waits(0))
"""
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[1, 1, 1, 1] 0\n"


def test_outside_of_imports_it_comes_at_once():
    with patient_interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        press()
    assert interrupts.seen


def test_an_error_that_an_interrupt_became_is_an_interrupt(tmp_path, monkeypatch, capsys):
    def reading(*_, **__):
        with pytest.raises(KeyboardInterrupt):
            press()
        raise ImportError("numpy failed")

    monkeypatch.setattr("fieldfit.data.table.read_table", reading)
    assert main(["fit", "boltzmann", str(tmp_path / "a.csv")]) == 130
    assert "nothing was written" in capsys.readouterr().err


@pytest.mark.parametrize("files", [1, 5])
def test_files_that_were_written_are_named(tmp_path, monkeypatch, capsys, files):
    from fieldfit.data.atomic import atomic_writer

    def interrupt(*_, **__):
        for number in (0, 0, *range(files)):  # a checkpoint is written again and again
            with atomic_writer(tmp_path / f"{number}.txt") as file:
                file.write(b"x")
        raise KeyboardInterrupt

    monkeypatch.setattr("fieldfit.data.table.read_table", interrupt)
    assert main(["fit", "boltzmann", str(tmp_path / "a.csv")]) == 130
    said = capsys.readouterr().err
    assert "Written completely before that:" in said
    assert said.count("0.txt") == 1
    assert ("and 2 more" in said) == (files == 5)


def test_a_file_that_is_written_many_times_is_listed_once(tmp_path, monkeypatch):
    from fieldfit.data import atomic

    monkeypatch.setattr(atomic, "written", [])
    for name in ("state", "state", "fit", "state"):
        with atomic.atomic_writer(tmp_path / name) as file:
            file.write(b"x")
    assert atomic.written == [str(tmp_path / "state"), str(tmp_path / "fit")]


def test_no_part_of_a_folder_of_shards_is_left(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.txt").write_text("x X\n\ny Y\n\nz Z\n")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fieldfit.shards.making_sentences.atomic_writer", interrupt)
    assert main(["shard", str(tmp_path / "a.txt"), "--sentences", "1", "--out", str(tmp_path / "new")]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["usual", "ignored"])
def of_ctrl_c(request):
    """How the process handles Ctrl-C; a job that a script starts with ``&`` ignores it."""
    before = signal.signal(signal.SIGINT, request.param)
    yield request.param
    signal.signal(signal.SIGINT, before)


def test_the_order_to_end_is_an_interrupt_with_its_own_code(tmp_path, monkeypatch, capsys, of_ctrl_c):
    def told(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("fieldfit.data.table.read_table", told)
    assert main(["fit", "boltzmann", str(tmp_path / "a.csv")]) == 143
    assert "nothing was written" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.getsignal(signal.SIGINT) is of_ctrl_c


def test_ctrl_c_while_the_handler_is_imported(capsys, monkeypatch, tmp_path):
    """It comes at the end of that import, before the command begins."""
    import fieldfit.cli as cli

    ended = []

    class Held(cli._held_interrupts):
        def __exit__(self, *_):
            press_shortly()
            ended.append(True)
            super().__exit__()

    def press_shortly():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)

    monkeypatch.setattr(cli, "_held_interrupts", Held)
    assert main(["show", str(tmp_path / "a.ff")]) == 130
    assert ended == [True]
    assert "Interrupted before the command began; nothing was written." in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_while_an_archive_is_opened(tmp_path):
    """Its finaliser would print an exception about the object that was not finished."""
    import zipfile

    class Pressing(zipfile.ZipFile):
        @property
        def _didModify(self):
            return False

        @_didModify.setter
        def _didModify(self, value):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)

    opened = []

    def work():
        opened.append(Pressing(tmp_path / "a.zip", "w"))
        time.sleep(5)

    with patient_interrupts(), pytest.raises(KeyboardInterrupt):
        work()
    assert len(opened) == 1
    opened[0].close()


def test_an_interrupted_sweep_does_not_say_that_nothing_was_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.csv").write_text("x,y\n" + "0,1\n1,0\n1,1\n0,0\n" * 5)
    (tmp_path / "a.toml").write_text(
        'experiment = "fit-table"\n[constants]\ndata = "a.csv"\npolicy = "PL1"\n[axes]\nsigma2 = [1.0, 2.0, 3.0]\n'
    )
    from fieldfit.sweep import fit_table

    usual, calls = fit_table.fold_masks, list[int]()

    def second(*given):
        calls.append(1)
        if len(calls) == 2:
            press()
        return usual(*given)

    monkeypatch.setattr(fit_table, "fold_masks", second)
    command = ["sweep", "run", str(tmp_path / "a.toml")]
    assert main(command) == 130
    said = capsys.readouterr()
    assert "1 cells done" in said.out
    assert said.err.endswith("a.sweep has the finished cells, and the same command continues.\n")
    assert "nothing" not in said.err
    assert main(command) == 0


_HELD = """
import os, signal, sys, threading
from fieldfit.cli.interrupts import ended_after, held_interrupts, patient_interrupts
number, blocked = signal.Signals[sys.argv[1]], sys.argv[2] == "blocked"
with patient_interrupts(), held_interrupts():
    if blocked:
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    with ended_after(0.05, lambda: print("cleaned", flush=True)):
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        threading.Event().wait(60)
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("blocked", ["blocked", "not blocked"])
def test_a_held_interrupt_ends_the_process_after_its_time(name, code, blocked):
    """Also where the main thread does not run handlers: it waits, and the signal is blocked or came to another thread."""
    ran = subprocess.run(
        [sys.executable, "-c", _HELD, name, blocked], capture_output=True, text=True, check=False, timeout=30
    )
    assert ran.returncode == code
    assert ran.stdout == "cleaned\n"
    assert ran.stderr == "fieldfit: Interrupted while workers started; nothing was written.\n"


def test_a_held_interrupt_does_nothing_if_the_block_ends_in_time():
    with ended_after(60.0, lambda: pytest.fail("cleaned")):
        pass
    assert signal.set_wakeup_fd(-1) == -1


def test_another_interrupt_waits_while_the_first_is_answered(monkeypatch):
    monkeypatch.setattr(interrupts, "_ANSWERING", 0.3)
    answered = []

    def answer():
        try:
            press()
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            answered.append(True)
            time.sleep(60)  # it hangs

    with patient_interrupts(), pytest.raises(KeyboardInterrupt):
        answer()
    assert answered == [True]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "0,1\n1,0\n1,1\n0,0\n" * 5)
    return path


def pressing(monkeypatch, name, times):
    """Ctrl-C when a file with this name is brought to the disk, the first times."""
    from fieldfit.data import atomic

    usual, left = os.fsync, [True] * times

    def fsync(descriptor):
        if left and f".{name}." in os.readlink(f"/proc/self/fd/{descriptor}"):
            left.pop()
            press()
        usual(descriptor)

    monkeypatch.setattr(atomic, "written", [])
    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the test needs the names of open files")
@pytest.mark.parametrize("times", [1, 2])
def test_a_fit_is_named_only_if_its_file_is_there(table, tmp_path, monkeypatch, capsys, times):
    monkeypatch.setattr(interrupts, "_ANSWERING", 0.0)
    pressing(monkeypatch, "fit.ff", times)
    out = tmp_path / "fit.ff"
    assert main(["fit", "boltzmann", str(table), "--out", str(out)]) == 130
    said = capsys.readouterr().err
    assert out.exists() == (f"{out} has the fit." in said) == (times == 1)
    assert ("nothing was written" in said) == (times == 2)


@pytest.mark.parametrize("written", [False, True])
def test_only_the_files_of_a_fit_that_are_there_are_named(tmp_path, monkeypatch, written):
    from fieldfit.api.checkpoint import Checkpoint
    from fieldfit.cli.saving import what_is_kept
    from fieldfit.data import atomic

    monkeypatch.setattr(atomic, "written", [])
    out, state = tmp_path / "fit.ff", tmp_path / "state"
    out.write_text("older")
    if written:
        atomic.write_text(out, "x")
        atomic.write_text(state, "x")
    kept = what_is_kept(out, Checkpoint(state))
    assert (f"{out} has the estimate so far" in kept) == written
    assert (f"{out} was not written" in kept) != written
    assert (f"{state} has the state" in kept) == written


def test_a_sweep_that_is_interrupted_twice_names_its_store(tmp_path, monkeypatch, capsys, table):
    (tmp_path / "a.toml").write_text(
        'experiment = "fit-table"\n[constants]\ndata = "a.csv"\npolicy = "PL1"\n[axes]\nsigma2 = [1.0]\n'
    )

    def twice(sweep, path, **_):
        path.write_bytes(b"")
        raise KeyboardInterrupt

    monkeypatch.setattr("fieldfit.sweep.run_sweep", twice)
    assert main(["sweep", "run", str(tmp_path / "a.toml")]) == 130
    assert "a.sweep has the finished cells, and the same command continues." in capsys.readouterr().err


def test_an_interrupt_in_the_folds_of_a_tagger_names_their_file(tmp_path, monkeypatch, capsys):
    """The fit itself has no file before the penalty is chosen."""
    from fieldfit.api.finished_parts import PartsKeeper

    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text("the D\ndog N\nruns V\n\na D\ncat N\nsleeps V\n\n" * 20)
    usual = PartsKeeper.part

    def second(keeper, shapes, compute):
        if keeper._next == 1:
            raise KeyboardInterrupt
        return usual(keeper, shapes, compute)

    command = ["fit", "crf", "train.txt", "--sigma2", "1,10", "--checkpoint", "state", "--json"]
    with monkeypatch.context() as patch:
        patch.setattr(PartsKeeper, "part", second)
        assert main(command) == 130
    said = capsys.readouterr().err
    assert "state.cv has the state, and the same command with --resume continues from there." in said
    assert main([*command, "--resume"]) == 0
    said = capsys.readouterr().err
    assert "nothing to resume" not in said
    assert "resuming: state.cv has 1 finished part" in said
