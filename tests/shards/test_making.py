"""Folders of shards and of sentences are made completely or not at all, from files that may be damaged or hostile."""

import gzip
import io
import itertools
import os
import signal
import subprocess
import sys
import time
import zlib

import pytest

from fieldfit.data import textfile
from fieldfit.data.atomic import atomic_folder
from fieldfit.shards import making
from fieldfit.shards.folder import open_folder
from fieldfit.shards.making import TextTable, make_shards
from fieldfit.shards.making_sentences import divide_sentences
from fieldfit.shards.sentence_files import SentenceFile
from fieldfit.steps import show_progress
from fieldfit.types import DataError, FileAccessError, FileFormatError


def test_a_folder_is_there_as_a_whole_or_not_at_all(tmp_path):
    with atomic_folder(tmp_path / "a" / "b") as folder:
        (folder / "x").write_text("1")
        assert not (tmp_path / "a" / "b").exists()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    with pytest.raises(KeyError), atomic_folder(tmp_path / "c") as folder:
        raise KeyError("a fault in the block")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]
    with pytest.raises(FileAccessError, match="not empty"), atomic_folder(tmp_path / "a"):
        pass


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    code = (
        "import sys, time\nfrom fieldfit.data.atomic import atomic_folder\n"
        "with atomic_folder(sys.argv[1]) as folder:\n"
        "    (folder / '00000.shard').write_text('half')\n    print('ready', flush=True)\n    time.sleep(600)\n"
    )
    target = tmp_path / "shards"
    command = [sys.executable, "-c", code, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        with atomic_folder(target) as folder:  # while it lives, its folder is left alone
            (folder / "x").touch()
            assert len(list(tmp_path.iterdir())) == 2
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(list(tmp_path.iterdir())) == 2
    with atomic_folder(tmp_path / "shards2"):  # of another name: not its concern
        pass
    assert len(list(tmp_path.iterdir())) == 3
    os.unlink(target / "x")
    with atomic_folder(target) as folder:
        (folder / "y").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shards", "shards2"]


@pytest.mark.parametrize("text", ['a,b\n"0,1\n1,0\n', 'a,b\n0,1\n"x"y,0\n'])
def test_quotation_marks_that_do_not_end(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError):
        make_shards(TextTable(tmp_path / "a.csv"), tmp_path / "out", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_rows_of_different_lengths_in_different_blocks(tmp_path):
    (tmp_path / "x.csv").write_text("1\n0\n1,,0")
    with pytest.raises(DataError, match="has rows of 1 and rows of 3 values"):
        make_shards(TextTable(tmp_path / "x.csv"), tmp_path / "shards", rows=2)


def test_damaged_gzip(tmp_path):
    packed = gzip.compress(b"a,b\n" + b"0,1\n1,0\n" * 500)
    for number, content in enumerate((packed[:-9], packed[:30] + b"\xff" * 8 + packed[38:])):
        path = tmp_path / f"{number}.csv.gz"
        path.write_bytes(content)
        with pytest.raises((FileFormatError, DataError)):
            make_shards(TextTable(path), tmp_path / "out", 100)
        with pytest.raises(FileFormatError):
            divide_sentences(path, tmp_path / "out", 100)
        assert not (tmp_path / "out").exists()
    (tmp_path / "c").write_bytes(b"\x1f\x8b" + b"\x08" + bytes(30))
    with pytest.raises(FileFormatError):
        SentenceFile(str(tmp_path / "c")).width()
    assert not issubclass(zlib.error, OSError)  # why it is named where streams are read


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(textfile, "MAX_LINE_BYTES", 1 << 16)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"0," * (1 << 20)))
    for make in (
        lambda: make_shards(TextTable(tmp_path / "a.csv.gz"), tmp_path / "out", 100),
        lambda: divide_sentences(tmp_path / "a.csv.gz", tmp_path / "out", 100),
    ):
        with pytest.raises(FileFormatError, match="more than 65,536 bytes"):
            make()


@pytest.mark.slow
def test_shards_leave_no_file_behind_when_the_command_is_killed(tmp_path):
    """`fieldfit shard` is killed at some moment; the next call makes the folder, and nothing else is left."""
    table, out = tmp_path / "a.csv", tmp_path / "out"
    table.write_text("a,b\n" + "0,1\n1,0\n" * 5_000)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "fieldfit", "shard", str(table), "--out", str(out), "--rows", "50"]
    environment = os.environ | {"TMPDIR": str(scratch)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while not list(tmp_path.glob(".out.*.tmp/00003.shard")) and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not out.exists()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert open_folder(out).n == 10_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "out", "scratch"]
    assert not list(scratch.iterdir())


#: No file of this process may become larger than some bytes: the system refuses the rest, as if the disk were full.
SMALL_DISK = """
import resource, signal, sys
from fieldfit.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["--rows", "--sentences"])
def test_a_disk_that_is_full_names_the_target(tmp_path, what):
    (tmp_path / "x.csv").write_text("a,b\n" + "0,1\n1,0\n" * 400)
    command = ["shard", "x.csv", what, "700", "--out", "parts"]
    ran = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("fieldfit: parts was not written")
    assert ".tmp" not in ran.stderr
    assert os.listdir(tmp_path) == ["x.csv"]


class _Stream(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, terminal):
        super().__init__()
        self._terminal = terminal

    def isatty(self):
        return self._terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_the_bytes_read_of_all_files_are_shown_on_a_terminal(tmp_path, monkeypatch, terminal):
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("a,b\n" + "0,1\n1,0\n" * 12_500)
    (tmp_path / "sentences.txt").write_text("x A\n\n" * 50_000)
    seconds = itertools.count()
    monkeypatch.setattr(making, "_BLOCK_VALUES", 10_000)
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(seconds)))
    monkeypatch.setattr(sys, "stderr", stream := _Stream(terminal))
    show_progress(None)
    make_shards([TextTable(tmp_path / f"{number}.csv") for number in range(3)], tmp_path / "s", 10_000)
    divide_sentences(tmp_path / "sentences.txt", tmp_path / "t", 10_000)
    shown = stream.getvalue()
    assert ("states of the columns: 0.1 of 0.3 MB, about" in shown) == terminal
    assert ("shards: 0.3 of 0.3 MB, about 0 s left" in shown) == terminal
    assert ("sentences: 0.2 of 0.2 MB" in shown) == terminal
    assert bool(shown) == terminal
