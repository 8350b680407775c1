"""The report of the soak test on a page."""

import pytest

from tests.soak_page import END, START, write_page

MEASURE = {"tenths": list(range(100, 110)), "most": 120.0, "slope_per_hour": [0.5, 0.25]}
REPORT = {
    "minutes": 61.2, "processor_minutes": 7.5, "actions": 1234, "failures": [], "steps": [],
    "resident_mb": MEASURE, "resident_without_files_mb": MEASURE, "heaps_mb": MEASURE, "arenas_mb": MEASURE,
    "allocated_mb": MEASURE, "free_mb": MEASURE, "python_blocks": MEASURE,
}  # fmt: skip


def test_the_report_takes_the_place_of_the_last_one(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n\n{START}\nold\n{END}\n\nAfter.\n", encoding="utf-8")
    for _ in range(2):
        write_page(page, REPORT, "abc1234")
        text = page.read_text(encoding="utf-8")
        assert text.startswith(
            f"Before.\n\n{START}\nA run of 61 minutes at commit abc1234 (1,234 actions, 7.5 CPU min"
        )
        assert text.endswith(f"20 MB in no action.\n{END}\n\nAfter.\n")
        assert "ended without a failure" in text
        assert "| half of them | 104.0 MB | 104.0 MB | 104.0 MB | 104 |" in text
        assert "old" not in text
    write_page(page, REPORT | {"failures": ["action 7 (shards): AssertionError: "]}, "abc1234")
    assert "ended with 1 failure." in page.read_text(encoding="utf-8")
    assert "\n- action 7 (shards): AssertionError:\n" in page.read_text(encoding="utf-8")
    rise = {"action": 40, "name": "threads", "resident_mb": 64.2, "allocated_mb": 0.1, "free_mb": 63.9}
    write_page(page, REPORT | {"steps": [rise]}, "abc1234")
    assert "in 1 action:\n" in page.read_text(encoding="utf-8")
    assert "| 40 (threads) | +64.2 MB | +0.1 MB | +63.9 MB |" in page.read_text(encoding="utf-8")
    page.write_text("Nothing.")
    with pytest.raises(SystemExit, match="has no <!-- soak -->"):
        write_page(page, REPORT, "abc1234")
