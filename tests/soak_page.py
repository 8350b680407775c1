"""The report of `python -m tests.soak` as text, between two marks of a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

START, END = "<!-- soak -->", "<!-- end of soak -->"
#: Rows of the table: the tenths of the actions whose medians they have.
ROWS = (("a tenth of the actions", 0), ("half of them", 4), ("all of them", 9))


def page_text(report: dict[str, Any], commit: str) -> str:
    """The run in a sentence, a table of memory, its growth, and its failures."""
    failures = report["failures"]
    ended = "without a failure" if not failures else f"with {len(failures)} failure{'s' * (len(failures) > 1)}"
    lines = [
        f"A run of {report['minutes']:.0f} minutes at commit {commit} ({report['actions']:,} actions, "
        f"{report['processor_minutes']} CPU minutes, on a busy machine) ended {ended}. Medians over tenths of the actions:",
        "",
        "| after | resident | allocated by C code | free in the C library | blocks of Python |",
        "|---|---|---|---|---|",
    ]
    for name, tenth in ROWS:
        resident, allocated, free, blocks = (
            report[measure]["tenths"][tenth]
            for measure in ("resident_mb", "allocated_mb", "free_mb", "python_blocks")
        )
        lines.append(f"| {name} | {resident:.1f} MB | {allocated:.1f} MB | {free:.1f} MB | {blocks:,.0f} |")
    names = ("resident_mb", "resident_without_files_mb", "heaps_mb", "arenas_mb", "allocated_mb", "python_blocks")
    measures = [report[name] for name in names]
    if all("slope_per_hour" in measure for measure in measures):
        resident, own, heaps, arenas, allocated, blocks = (measure["slope_per_hour"] for measure in measures)
        lines += [
            "",
            f"Growth per hour in the second half: resident {resident[0]:+.1f} ± {resident[1]:.1f} MB, "
            f"without pages of files {own[0]:+.1f} ± {own[1]:.1f} MB, in heaps of the C library {heaps[0]:+.1f} ± "
            f"{heaps[1]:.1f} MB, in arenas of Python {arenas[0]:+.1f} ± {arenas[1]:.1f} MB, "
            f"allocated {allocated[0]:+.2f} ± {allocated[1]:.2f} MB, {blocks[0]:+,.0f} ± {blocks[1]:,.0f} blocks.",
        ]
    rises = report["steps"]
    lines += [
        "",
        "After the first of each kind, resident memory grew by more than 20 MB in "
        + (f"{len(rises)} action{'s' * (len(rises) > 1)}:" if rises else "no action."),
    ]
    if rises:
        lines += ["", "| action | resident | allocated by C code | free in the C library |", "|---|---|---|---|"]
        lines += [
            f"| {rise['action']} ({rise['name']}) | {rise['resident_mb']:+.1f} MB | {rise['allocated_mb']:+.1f} MB "
            f"| {rise['free_mb']:+.1f} MB |"
            for rise in rises
        ]
    if failures:
        lines += ["", *(f"- {failure.rstrip()}" for failure in failures)]
    return "\n".join(lines)


def write_page(path: Path, report: dict[str, Any], commit: str) -> None:
    """Replace what is between the marks."""
    text = path.read_text(encoding="utf-8")
    if START not in text or END not in text:
        raise SystemExit(f"{path} has no {START} and {END}.")
    block = f"{START}\n{page_text(report, commit)}\n{END}"
    path.write_text(re.sub(f"{START}.*?{END}", lambda _: block, text, flags=re.DOTALL), encoding="utf-8")
