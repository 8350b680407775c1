"""The page of benchmarks holds what its scripts have printed and what benchmarks/sections.py says, and nothing else."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def write_page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    before = set(sys.modules)
    import write_page

    yield write_page
    for name in {"write_page", "sections", "peers"} - before:
        sys.modules.pop(name, None)


def test_nothing_on_the_page_is_written_by_hand(write_page):
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert write_page.rendered(page) == page


def test_parts_have_distinct_commands_and_an_order(write_page):
    runs = write_page.RUNS
    assert sorted(write_page.ORDER) == sorted(runs)
    assert set(write_page.QUICK) <= set(runs)
    scripts = {section.command[0] for section in runs.values()}
    assert all((ROOT / "benchmarks" / script).is_file() for script in scripts)


def test_a_hand_written_remark_is_dropped_and_the_rest_kept(write_page):
    section = write_page.RUNS["inference"]
    outputs = ["ratio: 3.0\n", "ratio: 4.0\n", "ratio: 5.0\n"]
    part = write_page.block(section, {"outputs": outputs, "machine": "today, a machine"})
    assert "Over 3 runs, in this order, median (lowest to highest): 4 (3 to 5)." in part
    page = write_page.whole_page({"inference": part})
    assert write_page.rendered(page) == page
    assert write_page.rendered(page + "\nBy hand.\n") == page


def test_ratios_that_have_fallen_are_marked(write_page):
    before = "```text\nratio 10.0\nratio 2.0\n```\n\nOver 3 runs, in this order: ratio 99"
    lines = write_page.compare(before, ["ratio 7.0, 2.1 times", "ratio 7.5, 2.0 times"])
    assert "SLOWER" in lines[0]
    assert "SLOWER" not in lines[1]


def test_two_runs_of_the_parts_with_ratios_fit_the_time(write_page):
    wanted = [write_page.RUNS[name] for name in write_page.ORDER if name not in write_page.BY_NAME_ONLY]
    assert min(section.seconds for section in wanted) > 0
    assert sum(section.seconds * min(section.runs, 2) for section in wanted) < 60 * write_page.MINUTES


def test_a_block_says_when_and_at_which_commit_it_was_run(write_page):
    where = write_page.machine("0123456789abcdef")
    part = write_page.block(write_page.RUNS["grids"], {"outputs": ["ratio 2.0\n"], "machine": where})
    assert re.search(r"\(20[0-9]{2}-[0-9]{2}-[0-9]{2}, commit 01234567, .*load [0-9.]+", part)
    page = write_page.whole_page({"grids": part})
    assert write_page.rendered(page) == page


def test_short_forms_are_compared_by_the_labels_of_their_lines(write_page):
    before = """note, 3 times
A, all pairs: 100 tokens
  above the sentences: ours 3 MB: ratio 9.0
B: 50 tokens
  above the sentences: ours 2 MB: ratio 2.0
C (load 3.1)
  chain     one thread 3 ms: ratio 4.0 (3.9 to 4.1)
"""
    short = """B: 50 tokens
  above the sentences: ours 2 MB: ratio {}
C (load 9.0)
  chain   one thread 9 ms: ratio {}
D: ratio 7
"""
    lines = write_page.compare(before, [short.format(1.9, 3.0), short.format(2.1, 3.1)])
    assert lines == [
        "above the sentences: ratio 2 (1.9 to 2.1), committed 2",
        "chain: ratio 3.05 (3 to 3.1), committed 4   SLOWER",
        "1 of 3 ratios are not on the committed page",
    ]
