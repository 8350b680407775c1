"""`fieldfit sweep` from its arguments to its exit code."""

import json
import traceback

import pandas as pd
import pytest
import sweep_cells

from fieldfit.cli.app import run
from fieldfit.policies.text import PolicyTextError
from fieldfit.sweep.results import error_sentence
from fieldfit.types import DataError


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(sweep_cells.HERE)
    text = (
        'experiment = "sweep_cells:slow"\n[constants]\nlog = "log"\nseconds = 0.0\n[axes]\na = [0, 1]\nb = [1, 2]\n'
    )
    (tmp_path / "s.toml").write_text(text)
    return tmp_path / "s.toml"


def test_run_show_and_export(sweep, capsys):
    assert run(["sweep", "run", "s.toml", "--quiet"]) == 0
    assert capsys.readouterr().out == "4 cells done, 0 failed, 0 unfinished (s.sweep)\n"
    assert run(["sweep", "show", "s.toml"]) == 0
    assert "4 of 4 cells done" in capsys.readouterr().out
    assert run(["sweep", "show", "s.sweep", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["product"] for cell in cells] == [0, 0, 1, 2]
    assert run(["sweep", "export", "s.toml", "-o", "out.csv"]) == 0
    assert list(pd.read_csv("out.csv")["product"]) == [0, 0, 1, 2]


def test_another_store(sweep, capsys):
    assert run(["sweep", "run", "s.toml", "--quiet", "--store", "other.sweep"]) == 0
    assert not sweep.with_suffix(".sweep").exists()
    capsys.readouterr()
    assert run(["sweep", "show", "s.toml", "--store", "other.sweep"]) == 0
    assert "4 of 4 cells done" in capsys.readouterr().out
    assert run(["sweep", "export", "s.toml", "--store", "other.sweep", "-o", "out.csv"]) == 0
    assert list(pd.read_csv("out.csv")["product"]) == [0, 0, 1, 2]
    assert run(["sweep", "export", "s.toml", "--store", "other.sweep", "-o", "other.sweep"]) == 2
    assert "other.sweep would be replaced" in capsys.readouterr().err


def test_failed_cells_are_an_exit_code_and_can_be_read(sweep, capsys):
    sweep.write_text(sweep.read_text().replace("seconds = 0.0", 'seconds = "long"'))
    assert run(["sweep", "run", "s.toml", "-q"]) == 1
    assert run(["sweep", "show", "s.toml", "--errors"]) == 0
    said = capsys.readouterr().out
    assert "4 × TypeError" in said
    assert "Traceback" not in said
    assert "a = 1, b = 2\nTypeError: 'str' object cannot be interpreted" in said
    assert run(["sweep", "show", "s.toml", "--tracebacks"]) == 0
    assert capsys.readouterr().out.count("Traceback") == 4


def test_an_error_is_told_without_its_traceback():
    def fail(error):
        try:
            try:
                raise KeyError("first")
            except KeyError as cause:
                raise error from cause
        except type(error):
            return error_sentence(traceback.format_exc())

    assert fail(DataError("Two lines:\n  the second.")) == "Two lines:\n  the second."
    assert fail(PolicyTextError("The policy is not valid.")) == "The policy is not valid."
    assert fail(ValueError("no number")) == "ValueError: no number"
    assert error_sentence("The worker process ended.\n") == "The worker process ended."


def test_mistakes_are_one_sentence_and_exit_code_2(sweep, capsys):
    assert run(["sweep", "run", "s.toml", "-q"]) == 0
    sweep.write_text(sweep.read_text().replace("b = [1, 2]", "b = [1, 2, 3]"))
    for arguments, message in (
        (
            ["run", "s.toml", "-q"],
            "axes.b was [1, 2] and is [1, 2, 3]. Only values were added to axes: run with --extend",
        ),
        (["run", "absent.toml"], "There is no sweep file absent.toml"),
        (["show", "absent.sweep"], "There is no sweep store absent.sweep"),
        (["export", "s.toml", "-o", "no/out.csv"], "the folder no does not exist"),
        (["run", "s.toml", "--jobs", "0"], "The number of jobs must be at least 1"),
        (
            ["run", "s.toml", "--jobs", "2", "--workers", "2"],
            "--jobs starts processes on this machine, and --workers",
        ),
    ):
        assert run(["sweep", *arguments]) == 2
        said = capsys.readouterr().err
        assert message in said
        assert len(said.splitlines()) == 1
    assert run(["sweep", "run", "s.toml", "-q", "--extend"]) == 0
