"""Text files, plain or gzipped: what comes back, and what is refused."""

import gzip
import tracemalloc

import pytest

from fieldfit.data import textfile
from fieldfit.data.textfile import read_text
from fieldfit.types import FileFormatError


def test_a_compressed_file_reads_like_the_plain_one(tmp_path):
    text = "a,b\n" + "1,0\n" * 1000
    (tmp_path / "plain.csv").write_text(text)
    # Two members, one after the other, are one file.
    (tmp_path / "packed.csv").write_bytes(gzip.compress(text[:99].encode()) + gzip.compress(text[99:].encode()))
    assert read_text(tmp_path / "plain.csv") == read_text(tmp_path / "packed.csv") == text


@pytest.mark.slow
def test_a_small_file_that_would_fill_the_memory_is_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr(textfile, "MAX_UNPACKED_BYTES", 2**22)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"0" * 2**27, 9))
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="gunzip"):
            read_text(path)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    # The same size is fine where the file itself is not small.
    path.write_bytes(gzip.compress(b"0" * 2**23, 0))
    assert len(read_text(path)) == 2**23
