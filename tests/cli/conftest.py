"""A table, a saved fit, and a way to run the command line in this process."""

import json
import warnings

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.cli import main


class Ran:
    """What a run printed, and its exit code."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FIELDFIT_DEBUG", raising=False)

    def go(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return go


@pytest.fixture
def refused(run):
    """Run something that must fail: exit code 2, one line on stderr, nothing on stdout. Gives the line."""

    def go(*arguments):
        ran = run(*arguments)
        assert ran.code == 2
        assert ran.out == ""
        assert ran.err.startswith("fieldfit: ")
        assert ran.err.count("\n") == 1
        assert "Traceback" not in ran.err
        return ran.err

    return go


@pytest.fixture(scope="session")
def samples():
    return ff.BoltzmannMachine(4, biases=True).sample(np.linspace(-1, 1, 10), 300, 0).values


@pytest.fixture
def votes(tmp_path, samples):
    path = tmp_path / "votes.csv"
    lines = ["été,b,c,d", *(",".join(map(str, row)) for row in samples.tolist())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def saved(tmp_path, samples):
    path = tmp_path / "model.ff"
    model = ff.BoltzmannMachine(4, biases=True, names=["été", "b", "c", "d"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ff.fit(model, samples, "PL1 + 0.2*PL2", sigma2=10).save(path)
    return path
