"""The report: the paper's claims against the sweeps' tables, as a Markdown and an HTML page.

`fieldfit reproduce report --out DIR` writes it; `fieldfit_paper.publish` writes that of the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from fieldfit.plots import PlainTable, make_folder
from fieldfit.types import DataError
from fieldfit_paper.chain_figures import numbered, scale_note
from fieldfit_paper.chain_tables import SweepTables
from fieldfit_paper.chunking_claims import BothReadings, chain_claims, crf_claims
from fieldfit_paper.claim_page import write_page
from fieldfit_paper.claim_rows import Finding, Row, Section, Verdict
from fieldfit_paper.complexity_claims import complexity_claims
from fieldfit_paper.data_claims import chunking_counts, sentiment_counts
from fieldfit_paper.heuristic_claims import heuristic_claims, regulariser_claims
from fieldfit_paper.sentiment_claims import sentiment_claims
from fieldfit_paper.tables import Reproduction
from fieldfit_paper.theory_claims import figure1_claims, figure2_claims, figure3_claims, proposition_claims
from fieldfit_paper.win_win_claims import win_win_claims

Claims = Callable[[], Iterator[Row]]


def _grids(number: int, name: str, reading: str) -> tuple[tuple[str, str], ...]:
    """The contours and curves of both policies in one reading."""
    suffix = "" if reading == "first" else "-means"
    shapes = (("contours", "contours of train and test NLL over β and λ"), ("curves", "train and test NLL against β"))
    return tuple(
        (
            f"figure-{number}{suffix}-pl1-{higher.lower()}-{shape}",
            f"{name}, PL1/{higher}, {reading} reading: {text}, a column for each σ²",
        )
        for higher in ("FL", "PL2")
        for shape, text in shapes
    )


def _trade_offs(number: int, name: str) -> tuple[tuple[str, str], ...]:
    """NLL against FLOPs and against seconds in both readings."""
    return tuple(
        (
            f"figure-{number}{suffix}{axis}",
            f"{name}, {reading} reading: train and test NLL against {cost} for each σ²",
        )
        for reading, suffix in (("first", ""), ("second", "-means"))
        for axis, cost in (("", "FLOPs"), ("-seconds", "measured milliseconds"))
    )


def _of_sentiment(number: int, axis: str, text: str) -> tuple[tuple[str, str], ...]:
    """A picture of the sentiment set in both readings."""
    return tuple(
        (f"figure-{number}{suffix}{axis}", f"{text}, {reading} reading")
        for reading, suffix in (("first", ""), ("second", "-means"))
    )


def _with_number(name: str, text: str) -> str:
    """The text of a picture after our number of the figure and the paper's."""
    if name == "graphs":
        return f"The paper's Figures 4 and 8: {text}"
    number = re.match(r"figure-(\d+)", name)
    return f"{numbered(int(number.group(1)))}: {text}" if number else text


def sections(tables: SweepTables) -> list[Section]:
    """All claims by experiment, with their pictures; claims about data that are missing have one row that says so."""
    scale = tables.scale
    chunking = "CoNLL-2000"
    parts: tuple[tuple[str, str, str | None, tuple[Claims, ...], tuple[tuple[str, str], ...]], ...] = (
        (
            "Five and nine nodes: Figures 1 to 3 (Sections 3 and 8.1)",
            "five and nine nodes",
            None,
            (figure1_claims, complexity_claims, lambda: figure2_claims(scale), lambda: figure3_claims(scale)),
            (
                ("figure-1", "Three tables of selected components on five nodes, with FLOPs and variances"),
                ("figure-2", "Variance against the selection probability α by the printed and by the exact formula"),
                ("figure-3", "FLOPs against variance on nine nodes, by the printed and by the exact formula"),
            ),
        ),
        (
            "Propositions (Sections 4 and 5)",
            "the propositions",
            None,
            (lambda: proposition_claims(scale),),
            (("selection-noise", "Variance of fits beside the printed and the exact formula, against α"),),
        ),
        (
            "Sentence sentiment (Section 8.2)",
            "sentence sentiment",
            "the sentiment set",
            (sentiment_counts, lambda: sentiment_claims(tables)),
            (
                ("graphs", "Graphs of a four-token CRF and of a four-token Boltzmann chain"),
                *_of_sentiment(4, "", "Contours of train and test NLL of the sentiment CRF for σ² = 1 and 10"),
                *_of_sentiment(5, "", "Train and test NLL of the sentiment CRF against FLOPs"),
                *_of_sentiment(5, "-seconds", "Train and test NLL of the sentiment CRF against milliseconds"),
            ),
        ),
        (
            "Text chunking: the data (Section 8.3)",
            "the chunking data",
            chunking,
            (chunking_counts,),
            (("figure-6", "How often each of the chunk labels occurs"),),
        ),
        (
            "Text chunking: the Boltzmann chain (Section 8.3.1)",
            "the Boltzmann chain",
            chunking,
            (lambda: chain_claims(BothReadings(tables), tables),),
            (*_grids(7, "Boltzmann chain", "first"), *_grids(7, "Boltzmann chain", "second"),
             *_trade_offs(8, "Boltzmann chain")),
        ),
        (
            "Text chunking: the CRF (Section 8.3.2)",
            "the CRF",
            chunking,
            (lambda: crf_claims(BothReadings(tables), tables),),
            (*_grids(10, "CRF", "first"), *_grids(10, "CRF", "second"), *_trade_offs(11, "CRF")),
        ),
        (
            "Cheaper and better (Section 8.4)",
            "cheaper and better policies",
            chunking,
            (lambda: win_win_claims(tables),),
            (
                ("figure-14", "First reading: test NLL of cheaper policies minus that of FL or PL2 alone"),
                ("figure-14-means", "Second reading: test NLL of cheaper policies minus that of FL or PL2 alone"),
            ),
        ),
        (
            "Algorithm 1 (Sections 7 and 8.3)",
            "Algorithm 1",
            chunking,
            (lambda: heuristic_claims(tables),),
            (
                ("figure-9", "Boltzmann chain, first reading: β and NLLs of Algorithm 1 against the best"),
                ("figure-9-means", "Boltzmann chain, second reading: β and NLLs of Algorithm 1 against the best"),
                ("figure-12", "CRF, first reading: β and NLLs of Algorithm 1 against the best"),
                ("figure-12-means", "CRF, second reading: β and NLLs of Algorithm 1 against the best"),
            ),
        ),
        (
            "λ and σ² (Section 8.5)",
            "the best σ² by λ",
            chunking,
            (lambda: regulariser_claims(tables),),
            (
                ("figure-13", "The best σ² of the CRF by λ in both readings, with FL and PL2 alone as triangles"),
                ("figure-13-contours", "CRF, first reading: test NLL over λ and σ² with β by Algorithm 1"),
            ),
        ),
    )  # fmt: skip
    made = []
    for title, subject, data, claims, pictures in parts:
        try:
            rows = tuple(row for claim in claims for row in claim())
        except DataError as error:
            rows = (Row("", f"Claims about {data}", Finding("not measured", Verdict.NOT_MEASURED), str(error)),)
        made.append(Section(title, subject, rows, tuple((name, _with_number(name, text)) for name, text in pictures)))
    return made


def reproduce(out: Path | None, scale: str = "small", page_path: Path | None = None) -> Reproduction:
    """Compare every claim; with ``out``, write reproduction.md and .html there, or as ``page_path`` says."""
    tables = SweepTables(out, scale)
    made = sections(tables)
    rows = [row for section in made for row in section.rows]
    texts = tuple((r.where, r.claim, r.measured, r.verdict, r.why) for r in rows)
    columns = ("where", "the paper", "measured", "verdict", "why")
    table = PlainTable(f"Claims of the paper, scale {scale!r}", columns, texts, scale_note(scale))
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        target = folder / "reproduction.md" if page_path is None else page_path
        files = write_page(made, tables, folder, target)
    listed = [dict(zip(("where", "claim", "measured", "verdict", "why"), text, strict=True)) for text in texts]
    return Reproduction({"experiment": "report", "scale": scale, "claims": listed}, (table,), (), tuple(files))
