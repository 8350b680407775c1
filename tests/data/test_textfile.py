"""Text files, plain or gzipped: what comes back, and what is refused."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from fieldfit.data import textfile
from fieldfit.data.table import read_table
from fieldfit.data.textfile import read_text
from fieldfit.types import DataError, FileAccessError, FileFormatError


def test_a_compressed_file_reads_like_the_plain_one(tmp_path):
    text = "a,b\n" + "1,0\n" * 1000
    (tmp_path / "plain.csv").write_text(text)
    # Two members, one after the other, are one file.
    (tmp_path / "packed.csv").write_bytes(gzip.compress(text[:99].encode()) + gzip.compress(text[99:].encode()))
    assert read_text(tmp_path / "plain.csv") == read_text(tmp_path / "packed.csv") == text


@pytest.mark.slow
def test_a_small_file_that_would_fill_the_memory_is_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr(textfile, "MAX_UNPACKED_BYTES", 2**25)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"0" * 2**27, 9))
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="gunzip"):
            read_text(path)
        assert tracemalloc.get_traced_memory()[1] < 2**23  # nothing is kept before the size is known
    finally:
        tracemalloc.stop()
    # The same size is fine where the file itself is not small.
    path.write_bytes(gzip.compress(b"0" * 2**26, 0))
    assert len(read_text(path)) == 2**26


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        ("käse,brot\n1,0\n".encode("cp1252"), "CSV UTF-8.*iconv -f WINDOWS-1252"),
        (b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}", "numpy.load"),
        (b"PK\x03\x04\x14\x00\x00\x00", "Excel workbook"),
        (b"PAR1\x15\x04\xff", "pandas.read_parquet"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"MATLAB 5.0 MAT-file\0\0", "scipy.io.loadmat"),
        (b"a,b\n1,\0\n", "CSV UTF-8"),
        ("a,b\n1,0\n".encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
    ],
)
def test_what_is_not_text_is_named_with_what_to_do(tmp_path, data, remedy):
    (tmp_path / "given").write_bytes(data)
    with pytest.raises(FileFormatError, match=remedy):
        read_text(tmp_path / "given")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_a_device_without_an_end_is_refused():
    with pytest.raises(FileAccessError, match="/dev/zero is a device"):
        read_text("/dev/zero")


def test_a_line_of_separators_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("," * 2**21 + "\n1\n")
    with pytest.raises(DataError, match=r"Line 1 of .* has 2,097,153 columns; the limit is 2,097,152"):
        read_table(path)


def test_a_pattern_in_the_place_of_a_file(tmp_path):
    """Only fits and plans read data in several parts."""
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text("a,b\n0,1\n")
    with pytest.raises(FileAccessError, match=r"is a pattern, where one file is needed \(it matches 2 files\)"):
        read_text(tmp_path / "*.csv")
    with pytest.raises(FileAccessError, match=r"\(no file matches it\)"), textfile.opened_stream(tmp_path / "?.txt"):
        pass
    odd = tmp_path / "[a].csv"  # a name that could be a pattern
    odd.write_text("a,b\n0,1\n")
    assert read_text(odd) == "a,b\n0,1\n"
