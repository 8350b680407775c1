"""Where data lies: the variable, the cache folder, the catalogue's checksums."""

import hashlib
import os
from pathlib import Path

import pytest

from fieldfit.data import locate
from fieldfit.data.catalogue import CATALOGUE, DataFile, DataSet, set_of_file
from fieldfit.data.locate import check_data, data_folder, find_data
from fieldfit.types import DataError


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/fieldfit/data"),
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/fieldfit/data"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache/fieldfit/data"),
        ("darwin", {}, "home/Library/Caches/fieldfit/data"),
        ("win32", {}, "home/AppData/Local/fieldfit/data"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/fieldfit/data"),
        ("linux", {"FIELDFIT_DATA": "/mine"}, "/mine"),
    ],
)
def test_folder_by_platform(monkeypatch, platform, variables, expected):
    for name in ("FIELDFIT_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    assert data_folder() == Path(expected)


def test_a_file_is_found_or_said_to_be_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDFIT_DATA", str(tmp_path))
    with pytest.raises(DataError) as caught:
        find_data("conll2000/train.txt")
    message = str(caught.value)
    for words in ("conll2000/train.txt", str(tmp_path), "FIELDFIT_DATA", "https://www.clips.uantwerpen.be/conll2000"):
        assert words in message
    with pytest.raises(DataError, match="It is not in the catalogue, which has conll2000"):
        find_data("nothing.txt")
    (tmp_path / "conll2000").mkdir()
    (tmp_path / "conll2000" / "train.txt").write_text("a b c\n")
    assert find_data("conll2000/train.txt") == tmp_path / "conll2000" / "train.txt"


def test_statuses(tmp_path, monkeypatch):
    right = hashlib.sha256(b"right").hexdigest()
    data_set = DataSet("toy", "a toy", "nowhere", "free", tuple(DataFile(f"toy/{n}", 5, right) for n in "abcd"))
    monkeypatch.setattr(locate, "CATALOGUE", (data_set,))
    monkeypatch.setenv("FIELDFIT_DATA", str(tmp_path))
    (tmp_path / "toy").mkdir()
    for name, content in (("a", b"right"), ("b", b"wrong"), ("c", b"right!")):
        (tmp_path / "toy" / name).write_bytes(content)
    assert [status.state for status in check_data()] == ["present", "different", "different", "missing"]
    assert [status.file for status in check_data("toy")] == ["toy/a", "toy/b", "toy/c", "toy/d"]
    with pytest.raises(DataError, match="no data set named 'other'; there are toy"):
        check_data("other")


def test_the_catalogue_is_well_formed():
    files = [file for data_set in CATALOGUE for file in data_set.files]
    assert len({file.name for file in files}) == len(files) == 21
    assert len({data_set.name for data_set in CATALOGUE}) == len(CATALOGUE)
    assert all(len(file.sha256) == 64 and file.size > 0 for file in files)
    assert set_of_file("stopwords/smart.txt").name == "stopwords"
    assert set_of_file("none") is None


@pytest.mark.skipif("FIELDFIT_DATA" not in os.environ, reason="FIELDFIT_DATA is not set")
def test_files_at_hand_are_those_of_the_catalogue():
    states = check_data()
    assert [status.file for status in states if status.state == "different"] == []
    assert any(status.state == "present" for status in states)
