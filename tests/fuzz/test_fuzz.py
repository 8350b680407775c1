"""A bounded run of the fuzzer: `python -m tests.fuzz` runs a million cases of each target."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
targets = importlib.import_module("tests.fuzz.targets")

CASES = {targets.use: 60, targets.saved_fit: 100}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", targets.SEEDS, ids=lambda target: target.__name__)
def test_only_errors_of_fieldfit_come_out(target):
    seeds = targets.SEEDS[target]()
    refused = sum(targets.run_case(target, seeds, number) for number in range(CASES.get(target, 200)))
    assert refused > 0
