"""A disk that is really full: a small file system in memory, mounted for one process.

Each program runs in a mount namespace of its own, so that the file system is gone when it ends. It prints one line of JSON
for each command.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import fieldfit as ff

pytestmark = pytest.mark.slow

#: What every program begins with: ``fill(left)`` leaves so many free bytes, ``empty()`` frees the rest again.
PREAMBLE = """
import contextlib, io, json, os, subprocess, sys
from pathlib import Path
import numpy as np
import fieldfit as ff
from fieldfit.cli import main

disk, data = Path(sys.argv[1]), sys.argv[2]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", str(disk)], check=True)
filler = disk / "filler"

def fill(left=0):
    with open(filler, "ab", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        file.truncate(max(0, file.tell() - left))

def empty():
    filler.unlink()

def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    say(code=code, out=out.getvalue(), err=err.getvalue())

def say(**values):
    print(json.dumps({**values, "files": sorted(p.name for p in disk.rglob("*") if p != filler)}))
"""


@pytest.fixture
def inside(tmp_path, votes):
    """Run a program in a namespace in which a disk of 1 MB is mounted; what it prints, line by line."""
    unshare = shutil.which("unshare")
    disk = tmp_path / "disk"
    disk.mkdir()
    trial = [unshare or "", "-rm", "mount", "-t", "tmpfs", "none", str(disk)]
    if unshare is None or subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("this system does not let a process mount a file system of its own")
    (tmp_path / "other").mkdir()

    def go(program):
        ran = subprocess.run(
            [unshare, "-rm", sys.executable, "-c", PREAMBLE + textwrap.dedent(program), str(disk), str(votes)],
            capture_output=True, text=True, check=False, cwd=tmp_path,
            env={
                "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "TMPDIR": str(tmp_path / "other"), "COLUMNS": "200",
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            },
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    return go


def test_a_checkpoint(inside):
    """Full from the start: an error before the fit. Full in the middle: a warning, and the fit goes on."""
    refused, full, again, resumed = inside("""
        import warnings
        fill()
        run("fit", "boltzmann", data, "--checkpoint", disk / "state")
        empty()
        rows, model = np.loadtxt(data, delimiter=",", skiprows=1), ff.BoltzmannMachine(4, biases=True)

        def fit(checkpoint, progress=None):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                result = ff.fit(model, rows, "PL1", checkpoint=checkpoint, progress=progress)
            say(theta=result.theta.tolist(), told=[str(warning.message) for warning in told])

        fit(ff.Checkpoint(disk / "state", every=0), lambda step: fill() if step.iteration == 2 else None)
        fit(None)
        empty()
        fit(ff.Checkpoint(disk / "state", every=0, resume=True))
    """)
    assert refused["code"] == 2
    assert "state was not written because the disk is full" in refused["err"]
    assert refused["files"] == []
    assert len(full["told"]) == 1
    assert "the fit continues without it" in full["told"][0]
    assert "the disk is full" in full["told"][0]
    assert full["files"] == ["state"]
    assert full["theta"] == again["theta"] == resumed["theta"]
    assert resumed["told"] == []


def test_a_fit_that_is_saved(inside, tmp_path):
    first, full, again = inside("""
        run("fit", "boltzmann", data, "--out", disk / "fit.ff")
        old = (disk / "fit.ff").read_bytes()
        fill()
        run("fit", "boltzmann", data, "--sigma2", "1", "--out", disk / "fit.ff")
        assert (disk / "fit.ff").read_bytes() == old
        empty()
        run("fit", "boltzmann", data, "--sigma2", "1", "--out", disk / "fit.ff")
        assert (disk / "fit.ff").read_bytes() != old
    """)
    assert (first["code"], full["code"], again["code"]) == (0, 2, 0)
    assert "the disk is full; an older file there is unchanged" in full["err"]
    assert full["files"] == ["fit.ff"]
    without_time = [re.sub(r"[\d.]+ s\b", "", ran["out"]) for ran in (full, again)]
    assert without_time[0] == without_time[1] != ""
    [elsewhere] = (tmp_path / "other").glob("fieldfit-*/fit.ff")
    assert str(elsewhere) in full["err"]
    assert (ff.load(elsewhere).sigma2 == 1.0).all()


def test_a_sweep(inside):
    """Full before there is a store, then in the middle: cells that were finished are not computed again."""
    none, partly, whole = inside("""
        from fieldfit.sweep import Sweep, open_sweep, run_sweep
        calls = []

        def experiment(coordinates, seed):
            calls.append(coordinates["x"])
            if coordinates["x"] == 3 and calls.count(3) == 1:
                fill()
            return {"y": float(coordinates["x"]), "text": "a" * 20_000}

        sweep = Sweep(experiment, {"x": [1, 2, 3, 4]})

        def attempt():
            try:
                said = str(run_sweep(sweep, disk / "results.sweep"))
            except ff.types.FieldfitError as error:
                said = f"{type(error).__name__}: {error}"
            say(said=said, calls=list(calls))

        fill()
        attempt()
        empty()
        attempt()
        empty()
        attempt()
        assert open_sweep(disk / "results.sweep").frame()["y"].tolist() == [1.0, 2.0, 3.0, 4.0]
    """)
    assert none["calls"] == []
    assert "full" in none["said"]
    assert partly["calls"] == [1, 2, 3]
    assert "full" in partly["said"]
    assert "Error" in none["said"]
    assert "Error" in partly["said"]
    assert "4 cells done, 0 failed, 0 unfinished" in whole["said"]
    assert whole["calls"] == [1, 2, 3, 3, 4]


def test_shards(inside, votes):
    rows = np.random.default_rng(0).integers(0, 2, (4_000, 4))
    np.savetxt(votes, rows, fmt="%d", delimiter=",", header="a,b,c,d", comments="")
    table, sentences, again = inside("""
        fill(8_192)
        run("shard", data, "--out", disk / "shards", "--rows", "1000")
        run("shard", data, "--out", disk / "texts", "--sentences", "100")
        empty()
        run("shard", data, "--out", disk / "shards", "--rows", "1000")
    """)
    for full in (table, sentences):
        assert full["code"] == 2
        assert "was not written because the disk is full" in full["err"]
        assert full["files"] == []
    assert again["code"] == 0
    assert "4,000 samples of 4 columns in 4 shards" in again["out"]


def test_folders_of_tables(inside, tmp_path):
    """The results are printed, and all files are elsewhere; the error names both files and the checkpoint."""
    rows = np.random.default_rng(0).integers(0, 2, (60, 4))
    (tmp_path / "family.fasta").write_text(
        "".join(f">{k}\n{''.join('AC'[v] for v in row)}\n" for k, row in enumerate(rows))
    )
    network, contacts, again = inside("""
        (disk / "network").mkdir()
        (disk / "contacts").mkdir()
        fill()
        run("network", data, "--out", disk / "network", "--checkpoint", "network.state")
        run("contacts", "family.fasta", "--penalty", "1", "--out", disk / "contacts", "--checkpoint", "contacts.state")
        empty()
        run("network", data, "--out", disk / "network")
    """)
    for full, name, pictures in (
        (network, "network/edges.csv", ["network.png"]),
        (contacts, "contacts/contacts.csv", ["contact_map.png", "model.ff"]),
    ):
        assert full["code"] == 2
        folder, table = name.split("/")
        assert f"{name} was not written because the disk is full" in full["err"]
        assert f"{folder}.state has the state" in full["err"]
        assert ("Edges" if folder == "network" else "Pairs with the highest scores") in full["out"]
        elsewhere = Path(re.search(r"All files were saved as (\S+) instead", full["err"])[1])
        assert {table, *pictures} <= {file.name for file in elsewhere.iterdir()}
        shutil.rmtree(elsewhere.parent)
        assert not [file for file in full["files"] if file.endswith(".csv")]
    assert again["code"] == 0
    assert {"edges.csv", "nodes.csv", "summary.txt"} <= set(again["files"])
