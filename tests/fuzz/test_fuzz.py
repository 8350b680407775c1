"""Bounded runs of the fuzzers: `make fuzz` runs a million cases of each target."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from properties import examples

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
targets = importlib.import_module("tests.fuzz.targets")

CASES = {targets.use: 60, targets.saved_fit: 100, targets.stores.store_values: 30, targets.sweep_store: 60}
CASES |= {targets.files.sentence_shards: 30, targets.files.text_shards: 60, targets.files.shard_file: 60}
CASES |= {targets.files.checkpoint: 60, targets.files.changed_checkpoint: 60}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", targets.SEEDS, ids=lambda target: target.__name__)
def test_only_errors_of_fieldfit_come_out(target):
    seeds = targets.beginnings(target)
    refused = sum(targets.run_case(target, seeds, number) for number in range(examples(CASES.get(target, 200))))
    assert refused > 0


#: Targets that change what they read: the content decides how.
CHANGING = (targets.files.changed_checkpoint, targets.use, targets.kept.kept_work, targets.stores.store_values)
#: Targets of several readers, of which one at least refuses each content, and those that change what they read.
REFUSING = (targets.files.option_texts, targets.files.packed_text, *CHANGING)


@pytest.mark.parametrize("target", [target for target in targets.SEEDS if target not in REFUSING])
def test_contents_without_changes_are_accepted(target):
    """Otherwise a target would fuzz its first check only."""
    assert all(targets.accepted(target, content) for content in targets.SEEDS[target]())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", CHANGING, ids=lambda target: target.__name__)
def test_some_changes_are_accepted_and_some_are_refused(target):
    assert {targets.accepted(target, content) for content in targets.SEEDS[target]()} == {True, False}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", CHANGING[:3], ids=lambda target: target.__name__)
def test_a_change_has_the_same_result_with_an_archive_and_without(target, monkeypatch):
    """Most cases skip the archive."""
    for content in targets.SEEDS[target]()[:25]:
        monkeypatch.setattr(targets.changed, "ARCHIVES", 0.0)
        without = outcome(target, content)
        monkeypatch.setattr(targets.changed, "ARCHIVES", 1.0)
        assert outcome(target, content) == without


def outcome(target, content):
    """The message of the refusal, without the place of the file; None if the content is accepted."""
    try:
        target(content)
    except targets.FieldfitError as error:
        return re.sub(r"/\S*fieldfit-fuzz-\w+\.ff", "", str(error))
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", targets.SEEDS, ids=lambda target: target.__name__)
def test_cases_that_were_found_end_as_they_must(target):
    for content in targets.beginnings(target):
        targets.accepted(target, content)


@pytest.mark.slow
def test_a_run_that_follows_coverage(tmp_path):
    """A failure counts if its case fails alone too: libFuzzer also ends when something else ends its process.

    All cases that a run starts from, then changed ones. Only the branches of the readers are counted: to prepare those of
    all functions takes longer than the cases.
    """
    pytest.importorskip("atheris")
    names = sorted(target.__name__ for target in targets.SEEDS)
    starts = sum(len(targets.beginnings(target)) for target in targets.SEEDS)
    command = [sys.executable, "-m", "tests.fuzz.guided", "all", "--cases", str(starts + 200)]
    command += ["--package", "fieldfit.data", "--seconds", "60"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert " cov: " in ran.stderr, ran.stderr[-3000:]
    assert "Uncaught Python exception" not in ran.stderr, ran.stderr[-3000:]
    assert "timeout after" not in ran.stderr, ran.stderr[-3000:]
    assert int(re.findall(r"number_of_executed_units: (\d+)", ran.stderr)[0]) > starts + 1, ran.stderr[-3000:]
    by_name = {target.__name__: target for target in targets.SEEDS}
    for file in tmp_path.iterdir():  # crash-…, oom-…, timeout-…
        data = file.read_bytes()
        targets.accepted(by_name[names[(data[0] if data else 0) % len(names)]], data[1:])


@pytest.mark.slow
def test_the_command_runs_cases_in_processes_of_its_own():
    command = [sys.executable, "-m", "tests.fuzz", "--target", "template", "--cases", "20", "--jobs", "2"]
    ran = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True, timeout=300
    )
    assert ran.stdout.startswith("template: 20 cases, ")
    assert " 0 failed" in ran.stdout


@pytest.mark.slow
def test_a_changed_store_has_the_same_result_in_a_file_and_in_memory(monkeypatch):
    """Most cases have no file."""
    stores = targets.stores
    for content in targets.SEEDS[stores.store_values]()[:40]:
        monkeypatch.setattr(stores, "FILES", -1.0)
        without = outcome(stores.store_values, content)
        monkeypatch.setattr(stores, "FILES", 2.0)
        assert outcome(stores.store_values, content) == without
