"""Sentence sentiment by a CRF: Figure 4, train and test NLL over (λ, β), and Figure 5, NLL against FLOPs."""

from __future__ import annotations

from pathlib import Path

from fieldfit.plots import Cloud, Drawable, PlainTable, TradeOffPanel, draw_surfaces, make_folder, save_figure
from fieldfit_paper.chain_figures import (
    COST_AXES,
    COST_NAMES,
    NLL,
    READING_NOTES,
    contour_rows,
    grid_table,
    numbered,
    scale_note,
)
from fieldfit_paper.chain_folds import FLOPS
from fieldfit_paper.chain_sweeps import POLICIES
from fieldfit_paper.chain_tables import SweepTables, at_sigma2
from fieldfit_paper.tables import Reproduction, columns_of, write_tables

CONTOUR_SIGMA2 = (1.0, 10.0)
TRADE_OFF_SIGMA2 = 0.5


def _name(number: int, reading: str) -> str:
    """The name of a figure's files."""
    return f"figure-{number}" if reading == "sums" else f"figure-{number}-means"


def reproduce_contours(out: Path | None, scale: str = "small", reading: str = "sums") -> Reproduction:
    """Figure 4; with ``out``, draw it and write its table."""
    figure_name = _name(4, reading)
    by_policy = {}
    for higher in POLICIES:
        rows = SweepTables(out, scale).grid("sentiment", "crf", higher, reading)
        by_policy[higher] = [row for row in rows if row["sigma2"] in CONTOUR_SIGMA2]
    note = (
        f"NLL in nats per document. {scale_note(scale, 'sentiment', reading)} The paper's reviews are not public: this is "
        f"the fine-grained set of product reviews, so only the shape can be compared. {READING_NOTES[reading]}"
    )
    table = grid_table(f"{numbered(4)}: sentiment CRF, best cells of the grid", by_policy, note)
    caption = (
        f"{numbered(4)}. Train (left) and test (right) negative log-likelihood for the sentiment CRF. Rows 1 and 2: σ² = "
        f"1; rows 3 and 4: σ² = 10. Rows 1 and 3: PL1/FL; rows 2 and 4: PL1/PL2. The cross is the least value. {note}"
    )
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        drawn: list[list[Drawable]] = []
        for sigma2 in CONTOUR_SIGMA2:
            for higher, of_policy in by_policy.items():
                train, test = contour_rows(of_policy, higher, [sigma2])
                drawn.append([train[0], test[0]])
        files = save_figure(draw_surfaces(drawn, caption, width=4.2, height=2.6), folder, figure_name)
        joined = [{"policy": f"PL1/{h}"} | r for h, of_policy in by_policy.items() for r in of_policy]
        files += write_tables(folder, figure_name, joined, caption)
    document = {"experiment": figure_name, "scale": scale, "reading": reading, "grids": by_policy}
    return Reproduction(document, (table,), (note,), tuple(files))


def reproduce_trade_off(out: Path | None, scale: str = "small", reading: str = "sums") -> Reproduction:
    """Figure 5; with ``out``, draw it (against FLOPs and against seconds) and write its table."""
    figure_name = _name(5, reading)
    tables = SweepTables(out, scale)
    by_policy = {
        higher: at_sigma2(tables.grid("sentiment", "crf", higher, reading), TRADE_OFF_SIGMA2) for higher in POLICIES
    }
    rows = []
    for higher, records in by_policy.items():
        best = min(records, key=lambda r: float(r["test_nll"]))
        values = (
            best["lam"],
            best["beta"],
            best["flops"],
            best["train_nll"],
            best["test_nll"],
            best["test_nll_error"],
        )
        rows.append((f"PL1/{higher}", *values))
    table = PlainTable(
        f"{numbered(5)}: sentiment CRF, σ² = 1/2, the policy of least test NLL",
        ("policy", "λ", "β", "FLOPs", "train NLL", "test NLL", "±"),
        tuple(rows),
        FLOPS["crf"],
        ("", "g", "g", ",.0f", ".3f", ".3f", ".3f"),
    )
    files: list[Path] = []
    subject = (
        "of an evaluation and negative log-likelihood (left: train, right: test) of the sentiment CRF with σ² = 1/2. Each "
        "point is a policy (λ, β); large marks and steps: no cheaper one is as good. The shaded region was not reached by "
        f"any. {scale_note(scale, 'sentiment', reading)} {READING_NOTES[reading]}"
    )
    if out is not None:
        folder = make_folder(out)
        for axis, suffix, unit_note in (("flops", "", FLOPS["crf"]), ("evaluation_seconds", "-seconds", "")):
            label, unit = COST_AXES[axis]
            panels: list[Drawable] = []
            for value, name in NLL.items():
                clouds = [
                    Cloud(f"PL1/{higher}", unit * columns_of(of_policy, axis), columns_of(of_policy, value))
                    for higher, of_policy in by_policy.items()
                ]
                panels.append(TradeOffPanel(name, clouds, label, f"{name} (nats per document)", frontier=True))
            caption = f"{numbered(5)}. {COST_NAMES[axis]} {subject} {unit_note}".strip()
            drawing = draw_surfaces([panels], caption, width=4.8, height=3.6)
            files += save_figure(drawing, folder, f"{figure_name}{suffix}")
        joined = [{"policy": f"PL1/{higher}"} | r for higher, of_policy in by_policy.items() for r in of_policy]
        files += write_tables(folder, figure_name, joined, caption)
    document = {"experiment": figure_name, "scale": scale, "reading": reading, "points": by_policy}
    return Reproduction(document, (table,), (), tuple(files))
