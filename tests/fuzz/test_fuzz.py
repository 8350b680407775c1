"""Bounded runs of the fuzzers: `make fuzz` runs a million cases of each target."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
targets = importlib.import_module("tests.fuzz.targets")

CASES = {targets.use: 60, targets.saved_fit: 100, targets.store_values: 30, targets.sweep_store: 60}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", targets.SEEDS, ids=lambda target: target.__name__)
def test_only_errors_of_fieldfit_come_out(target):
    seeds = targets.beginnings(target)
    refused = sum(targets.run_case(target, seeds, number) for number in range(CASES.get(target, 200)))
    assert refused > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", targets.SEEDS, ids=lambda target: target.__name__)
def test_cases_that_were_found_end_as_they_must(target):
    for content in targets.beginnings(target):
        targets.accepted(target, content)


@pytest.mark.slow
def test_a_run_that_follows_coverage():
    pytest.importorskip("atheris")
    command = [sys.executable, "-m", "tests.fuzz.guided", "all", "--cases", "1500", "--seconds", "20"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert " cov: " in ran.stderr
