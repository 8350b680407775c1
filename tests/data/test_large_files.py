"""Files without an end, and files that are larger than the memory: refused before they are read."""

import contextlib
import os
import threading
from pathlib import Path

import pytest

import fieldfit as ff
from fieldfit import networks, proteins, sweep
from fieldfit.chains import read_columns
from fieldfit.data import memory, textfile
from fieldfit.data.textfile import read_bytes, read_text
from fieldfit.types import FileAccessError, FileFormatError, SweepError

READERS = [
    read_text,
    read_columns,
    proteins.read_alignment,
    proteins.read_plmc,
    networks.read_responses,
    sweep.read_sweep,
    lambda path: ff.fit(ff.BoltzmannMachine(3), path, "PL1"),
    lambda path: proteins.read_distances(path, 5),
]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
@pytest.mark.parametrize("read", [proteins.read_plmc, sweep.read_sweep])
def test_a_device_without_an_end(read):
    with pytest.raises(FileAccessError, match="/dev/zero is a device"):
        read("/dev/zero")


@pytest.mark.parametrize("read", READERS)
def test_a_file_that_is_larger_than_the_memory(tmp_path, monkeypatch, read):
    monkeypatch.setattr(memory, "memory_limit", lambda: 2**30)
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        file.truncate(2**29 + 1)
    said = r"large.txt has 536,870,913 bytes.*takes at least 1,073,741,826 bytes, and there are 1,073,741,824 bytes"
    with pytest.raises(FileAccessError, match=said):
        read(path)


def test_what_to_do_with_a_table_or_sentences(tmp_path, monkeypatch):
    (tmp_path / "large.csv").write_text("a,b\n0,1\n")
    monkeypatch.setattr(memory, "memory_limit", lambda: 10)
    with pytest.raises(FileAccessError, match="Divide it with `fieldfit shard FILE --out FOLDER`"):
        ff.fit(ff.BoltzmannMachine(2), tmp_path / "large.csv", "PL1")
    with pytest.raises(FileAccessError, match="Divide it with `fieldfit shard FILE --sentences N --out FOLDER`"):
        read_columns(tmp_path / "large.csv")
    monkeypatch.setattr(memory, "memory_limit", lambda: None)
    assert read_bytes(tmp_path / "large.csv") == b"a,b\n0,1\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(
    ("read", "error"), [(proteins.read_plmc, FileFormatError), (sweep.read_sweep, SweepError), (read_text, None)]
)
def test_a_pipe_with_a_writer_is_read(tmp_path, read, error):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=["not = one, of them"])
    writer.start()
    try:
        if error is None:
            assert read(tmp_path / "pipe") == "not = one, of them"
        else:
            with pytest.raises(error, match="not a"):
                read(tmp_path / "pipe")
    finally:
        writer.join()


def written_without_end(path):
    """The lines of ``yes``, until the reader has had enough."""
    with contextlib.suppress(BrokenPipeError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"y\n" * 2**15)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("read", READERS)
def test_a_pipe_without_an_end(tmp_path, monkeypatch, read):
    monkeypatch.setattr(memory, "memory_limit", lambda: 2**22)
    monkeypatch.setattr(textfile, "_PIPED_AT_A_TIME", 2**20)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=written_without_end, args=[tmp_path / "pipe"])
    writer.start()
    said = (
        r"pipe has at least 3,145,728 bytes.*takes at least 6,291,456 bytes, and there are 4,194,304 bytes of memory"
    )
    try:
        with pytest.raises(FileAccessError, match=said):
            read(tmp_path / "pipe")
    finally:
        writer.join()
