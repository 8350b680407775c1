"""The stub of the compiled module is what nanobind writes for it (`make stubs` writes it again)."""

import subprocess
import sys
from pathlib import Path

import pytest

import fieldfit

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_stub_is_that_of_the_compiled_module(tmp_path):
    out = tmp_path / "_kernels.pyi"
    for command in (
        ["nanobind.stubgen", "-q", "-m", "fieldfit._kernels", "-o", str(out)],
        ["ruff", "format", "-q", "--config", str(ROOT / "pyproject.toml"), str(out)],
    ):
        subprocess.run([sys.executable, "-m", *command], check=True)
    written = (Path(fieldfit.__file__).parent / "_kernels.pyi").read_text()  # as it is installed
    assert out.read_text() == written, "src/fieldfit/_kernels.pyi is out of date: run `make stubs`"
