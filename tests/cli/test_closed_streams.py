"""Commands whose output goes nowhere: `>&-` and `2>&-` close the streams before the command begins."""

import os
import subprocess
import sys

import pytest

import fieldfit as ff
from fieldfit.cli import main
from fieldfit.steps import find_display


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_command_without_streams_ends_well(saved, monkeypatch, options):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["show", str(saved), *options]) == 0
    assert main(["show", str(saved.with_name("nothing.ff")), *options]) == 2
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        assert stream.name == os.devnull
        stream.close()


def test_a_fit_in_python_without_stderr(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert find_display() is None
    assert ff.fit(ff.BoltzmannMachine(2), [[0, 1], [1, 0], [1, 1], [0, 0]], "PL1").converged


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="closes streams as a shell does")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_by_the_shell(saved, tmp_path, closed):
    """No file that the command opens gets the number of a stream, so that its output does not go there."""
    out = tmp_path / "draws.csv"
    command = f'"{sys.executable}" -m fieldfit sample "{saved}" -n 5 --out "{out}" {closed}'
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.count("bug")) == (0, 0)
    assert len(out.read_text(encoding="utf-8").splitlines()) == 6
