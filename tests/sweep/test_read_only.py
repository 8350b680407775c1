"""Stores on a read-only file system, where SQLite cannot make the files of its journal."""

import os
from types import SimpleNamespace

import pytest

from fieldfit.sweep import Sweep, open_sweep, run_sweep
from fieldfit.types import FileAccessError


def squared(coordinates, seed):
    return {"y": coordinates["x"] ** 2}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "statvfs"), reason="this system does not say whether a file system is read-only")
def test_stores_on_a_read_only_file_system_are_read_and_not_written(tmp_path, monkeypatch):
    path = tmp_path / "a.sweep"
    run_sweep(Sweep(squared, {"x": [1, 2, 3]}, name="a"), path, progress=False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    before = path.read_bytes()
    assert open_sweep(path).frame()["y"].tolist() == [1, 4, 9]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.sweep"]  # no journal was made
    with pytest.raises(FileAccessError, match="cannot be read or written"):
        run_sweep(Sweep(squared, {"x": [1, 2, 3, 4]}, name="a"), path, progress=False, extend=True)
    assert path.read_bytes() == before
