"""`fieldfit plan` on the command line."""

import json

import numpy as np
import pytest

from fieldfit.cli import main


@pytest.fixture
def data(tmp_path, five):
    path = tmp_path / "data.csv"
    np.savetxt(path, five[2], fmt="%d", delimiter=",", header="a,b,c,d,e", comments="")
    return path


def test_table_fits_the_terminal_and_files_are_written(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["plan", str(data), "--flops", "9e6", "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert max(map(len, printed.out.splitlines())) <= 80
    assert "→" in printed.out
    assert "Fit '" in printed.out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "plan.csv",
        "plan.html",
        "plan.png",
        "plan.svg",
    ]


def test_json_has_the_table(data, capsys):
    assert main(["plan", str(data), "--flops", "9e6", "-p", "PL1", "-p", "Partition(2)", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {own["policy"] for own in document["policies"]} == {"PL1", "Partition(2)"}
    assert document["best"] in ("PL1", "Partition(2)")


def test_potts_and_refusals(data, capsys):
    assert (
        main(["plan", str(data), "--model", "potts", "--edges", "grid:1x5", "-p", "PL1", "-p", "FL", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["best"] == "FL"
    assert main(["plan", str(data), "--model", "nothing"]) == 2
    assert "boltzmann, potts" in capsys.readouterr().err
    assert main(["plan", str(data), "--budget", "soon"]) == 2
    assert "10s" in capsys.readouterr().err
