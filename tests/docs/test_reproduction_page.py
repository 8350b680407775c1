"""The reproduction as Markdown and as one HTML file say the same, and all that they should."""

import html
import re
from pathlib import Path

import pytest

from fieldfit_paper.chain_tables import SweepTables
from fieldfit_paper.chunking_claims import BothReadings, crf_claims
from fieldfit_paper.claim_page import COLUMNS
from fieldfit_paper.claim_rows import Verdict
from fieldfit_paper.heuristic_claims import regulariser_claims
from fieldfit_paper.run_times import LIMIT, PROCESSORS, time_table
from fieldfit_paper.sentiment_claims import sentiment_claims
from fieldfit_paper.win_win_claims import win_win_claims

DOCS = Path(__file__).parents[2] / "docs"
LARGEST = 3_000_000  # bytes of the HTML file, pictures included
#: Pictures of sweeps, which depend on the reading; Figure 6 counts labels.
OF_SWEEPS = re.compile(r"figure-(4|5|7|8|9|10|11|12|13|14)\b")


@pytest.fixture(scope="module")
def lines():
    return (DOCS / "reproduction.md").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def page():
    return (DOCS / "reproduction.html").read_text(encoding="utf-8")


def cells_of(lines):
    """The rows of all Markdown tables, without their rules."""
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if line.startswith("| ")
    ]


def claims_of(lines):
    return [row for row in cells_of(lines) if len(row) == len(COLUMNS) and row[3].split(" ")[0] in _VERDICTS]


_VERDICTS = {verdict.value.split(" ")[0] for verdict in Verdict}


def pictures_of(lines):
    """(alt text, file) of each picture."""
    return [tuple(line[2:].rstrip(")").split("](")) for line in lines if line.startswith("![")]


def test_both_pages_have_the_same_rows_and_pictures(lines, page):
    texts = [html.escape(part) for row in cells_of(lines) for cell in row for part in cell.split("<br>")]
    assert len(texts) > 200
    assert [text for text in texts if text not in page] == []
    pictures = [text for text, _ in pictures_of(lines)]
    assert len(pictures) > 20
    assert [text for text in pictures if f'alt="{html.escape(text)}"' not in page] == []
    assert page.count("<img ") == len(pictures)


def test_the_page_and_its_pictures_are_small_and_there(lines):
    assert (DOCS / "reproduction.html").stat().st_size < LARGEST
    assert [name for _, name in pictures_of(lines) if not (DOCS / name).is_file()] == []


def test_the_page_opens_with_five_sentences_and_the_counts_of_its_rows(lines, page):
    assert lines[0].startswith("# ")
    assert len(re.findall(r"[.:;]?[^.]*\.(?= [A-Z]|$)", lines[2])) == 5
    assert html.escape(lines[2]) in page
    counts = {row[0]: (int(row[1]), int(row[2])) for row in cells_of(lines[4:10]) if row[0] != "verdict"}
    claims = claims_of(lines)
    assert len(claims) > 50
    for reading, place in (("first", 0), ("second", 1)):
        found = dict.fromkeys(counts, 0)
        for claim in claims:
            parts = re.split(r" in (?:the first reading, |the second|both readings)", claim[3])
            said = [part for part in parts if part]
            found[said[place] if len(said) > 1 else said[0]] += 1
        assert {verdict: both[place] for verdict, both in counts.items()} == found, reading


def test_every_claim_that_differs_has_its_reason(lines):
    unlike = [row for row in claims_of(lines) if "differs" in row[3] or "refuted" in row[3]]
    assert len(unlike) > 10
    assert [row[:2] for row in unlike if len(row[4]) < len("x is not y.")] == []


def test_how_it_was_computed_is_in_the_html_too(lines, page):
    how = [
        line[2:].replace("`", "") for line in lines[lines.index("## How it was computed") :] if line.startswith("- ")
    ]
    assert len(how) > 8
    assert [text for text in how if html.escape(text) not in page] == []


def test_pictures_of_sweeps_name_their_reading(lines):
    named = [(text, name) for text, name in pictures_of(lines) if OF_SWEEPS.search(name)]
    assert len(named) > 25
    for text, name in named:
        means = "-means" in name
        assert re.search("second reading" if means else "first reading|both readings", text, re.IGNORECASE), name


@pytest.mark.slow
def test_the_page_has_what_its_command_computes_from_the_kept_fits(lines):
    tables = SweepTables(DOCS / "figures", "paper")
    rows = [
        *crf_claims(BothReadings(tables), tables),
        *win_win_claims(tables),
        *regulariser_claims(tables),
        *sentiment_claims(tables),
    ]
    there = {(row[0], row[1]): row for row in claims_of(lines)}
    assert len(rows) > 20
    for row in rows:
        _, _, measured, verdict, why = there[row.where, row.claim]
        assert measured.replace("<br>", " ") == row.measured
        assert (verdict, why) == (row.verdict, row.why)


@pytest.mark.slow
def test_each_reading_stays_within_its_time(lines):
    times = time_table(DOCS / "figures", "paper")
    rows = cells_of(lines)
    assert [row for row in times if list(row) not in rows] == []
    for place in (2, 4):
        assert not times[-1][place].startswith("at least")
        seconds = float(times[-1][place].removeprefix("about ").replace(",", ""))
        assert 0 < seconds / 60 / PROCESSORS < LIMIT
