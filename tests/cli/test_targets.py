"""Files and folders that cannot be written are refused before any work, and where possible before the data are read."""

import os

import pytest

from fieldfit.types import FileAccessError

FILES = (
    ("fit", "boltzmann", "DATA"),
    ("fit", "crf", "DATA"),
    ("fit", "boltzmann-chain", "DATA"),
    ("report", "SAVED"),
    ("sample", "SAVED"),
    ("predict", "SAVED", "DATA"),
    ("label", "SAVED", "DATA", "--edges", "DATA"),
    ("sweep", "export", "DATA"),
)
FOLDERS = (
    ("plan", "boltzmann", "DATA"),
    ("plan", "crf", "DATA"),
    ("influence", "SAVED", "DATA"),
    ("contacts", "DATA"),
    ("network", "DATA"),
    ("reproduce", "figure-1"),
)
CHECKPOINTS = (*FILES[:3], *FOLDERS[3:5], ("validate", "SAVED", "DATA"))


@pytest.fixture
def target(refused, tmp_path):
    """Run a command on files that do not exist, with options. Gives what it says."""
    names = {"DATA": tmp_path / "none.csv", "SAVED": tmp_path / "none.ff"}
    return lambda command, *options: refused(*(names.get(word, word) for word in command), *options)


@pytest.mark.parametrize("command", FILES, ids=" ".join)
def test_files(target, command, tmp_path, monkeypatch):
    assert "/dev/null cannot be written because it is not a regular file" in target(command, "--out", "/dev/null")
    assert "it is a folder" in target(command, "--out", tmp_path)
    assert "does not exist. Create it first" in target(command, "--out", tmp_path / "no" / "file")
    assert "File name too long" in target(command, "--out", tmp_path / ("a" * 300))
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    assert "no permission to write in" in target(command, "--out", tmp_path / "file")


@pytest.mark.parametrize("command", FOLDERS, ids=" ".join)
def test_folders(target, command, tmp_path, monkeypatch):
    assert "/dev/null exists and is not a folder" in target(command, "--out", "/dev/null")
    assert "does not exist. Create that first" in target(command, "--out", tmp_path / "no" / "folder")
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    assert "no permission to write in" in target(command, "--out", tmp_path)
    assert "no permission to write in" in target(command, "--out", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("command", CHECKPOINTS, ids=" ".join)
@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_checkpoints(target, command, resume):
    assert ". cannot be written because it is a folder" in target(command, "--checkpoint", ".", *resume)
    assert "not a regular file" in target(command, "--checkpoint", "/dev/null", *resume)


def test_plots_of_a_saved_fit(refused, saved):
    for option in ("--weights-to", "--coefficients-to"):
        assert "/dev/null exists and is not a folder" in refused("show", saved, option, "/dev/null")


def test_shards_and_stores(refused, votes, tmp_path):
    for options in ((), ("--sentences", 1)):
        assert "/dev/null exists and is not a folder" in refused("shard", votes, "--out", "/dev/null", *options)
        assert f"{votes} exists and is not a folder" in refused("shard", votes, "--out", votes, *options)
    sweep = tmp_path / "a.toml"
    sweep.write_text('experiment = "fit-table"\n[axes]\nfold = [1]\n')
    assert "not a regular file" in refused("sweep", "run", sweep, "--store", "/dev/null")
    assert "it is a folder" in refused("sweep", "run", sweep, "--store", tmp_path)


def test_a_checkpoint_from_python(samples, tmp_path):
    import fieldfit as ff

    for path in (tmp_path, "/dev/null", tmp_path / "no" / "file"):
        with pytest.raises(FileAccessError, match="cannot be written because"):
            ff.fit(ff.BoltzmannMachine(4, biases=True), samples, checkpoint=path)


def test_files_that_a_command_needs_are_not_replaced(refused, votes, saved, tmp_path):
    before = votes.read_bytes(), saved.read_bytes()
    other = tmp_path / "other.ff"
    assert "is not a saved fit" in refused("fit", "boltzmann", votes, "--out", votes)
    assert "would be replaced" in refused("fit", "boltzmann", votes, "--out", other, "--checkpoint", other)
    assert "would be replaced" in refused("sample", saved, "--out", saved)
    assert "would be replaced" in refused("report", saved, "--out", saved)
    sweep = tmp_path / "a.toml"
    sweep.write_text(f'experiment = "fit-table"\n[axes]\nfold = [1]\n[constants]\ndata = "{votes}"\n')
    assert "would be replaced" in refused("sweep", "export", sweep, "--out", votes)
    assert (votes.read_bytes(), saved.read_bytes()) == before
