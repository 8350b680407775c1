"""Figure 14 (our own, for Section 8.4): where a cheaper policy has the better test NLL, with intervals over folds.

For each policy (λ, β) of a grid, the difference of its test NLL from that of the higher-order family alone (λ = β = 1)
on the same fold. Folds share sentences of the test part, so intervals are about the draw of training sentences and Z.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fieldfit.plots import Cloud, PlainTable, TradeOffPanel, draw_surfaces, make_folder, save_figure
from fieldfit_paper.chain_figures import READING_NOTES, scale_note
from fieldfit_paper.chain_sweeps import POLICIES
from fieldfit_paper.chain_tables import LEVEL, SweepTables, at_sigma2, best_cell, sigma2_of
from fieldfit_paper.claim_rows import MODEL_NAMES, Records
from fieldfit_paper.tables import Reproduction, columns_of, write_tables

CASES = (("conll2000", "boltzmann-chain"), ("conll2000", "crf"), ("sentiment", "crf"))


def compute(out: Path | None, scale: str, reading: str = "sums") -> dict[tuple[str, str, str], Records]:
    """The differences of every experiment and policy."""
    tables = SweepTables(out, scale)
    return {
        (source, model, higher): tables.differences(source, model, higher, reading)
        for source, model in CASES
        for higher in POLICIES
    }


def _title(source: str, model: str, higher: str) -> str:
    return f"{'Sentiment ' if source == 'sentiment' else ''}{MODEL_NAMES[model]}, PL1/{higher}"


def panels(title: str, cheaper: Records) -> list[TradeOffPanel]:
    """A panel for each σ² with the best β of each λ; all have the same ranges."""
    clouds, ends = [], [0.0]
    for sigma2 in sigma2_of(cheaper):
        here = at_sigma2(cheaper, sigma2)
        lams = sorted({r["lam"] for r in here})
        best = [best_cell([r for r in here if r["lam"] == lam], "difference") for lam in lams]
        x, y, bars = (columns_of(best, name) for name in ("relative_flops", "difference", "half_interval"))
        clouds.append(Cloud("", x, y, bars))
        ends += [*(y - np.nan_to_num(bars)), *(y + np.nan_to_num(bars))]
    low, high = min(ends), max(ends)
    margin = 0.06 * (high - low)
    left = min(float(r["relative_flops"]) for r in cheaper)
    return [
        TradeOffPanel(
            f"{title}, σ² = {sigma2:g}", [cloud], "relative FLOPs", "test NLL difference",
            x_range=(left - 0.06, 1.04), y_range=(low - margin, high + margin), zero=True,
        )
        for sigma2, cloud in zip(sigma2_of(cheaper), clouds, strict=True)
    ]  # fmt: skip


def reproduce(out: Path | None, scale: str = "small", reading: str = "sums") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its table."""
    name = "figure-14" if reading == "sums" else "figure-14-means"
    by_case = compute(out, scale, reading)
    rows = []
    for case, of_case in by_case.items():
        for sigma2 in sigma2_of(of_case):
            cells = [r for r in at_sigma2(of_case, sigma2) if r["relative_flops"] < 1]
            best = best_cell(cells, "difference")
            wins = sum(r["win_win"] for r in cells)
            where = f"λ = {best['lam']:g}, β = {best['beta']:g}"
            values = (best["relative_flops"], best["difference"], best["half_interval"])
            rows.append((_title(*case), f"{sigma2:g}", len(cells), wins, where, *values))
    table = PlainTable(
        "Figure 14: policies that are cheaper and better on the test set than their higher-order family alone",
        ("experiment", "σ²", "cheaper", "sure to win", "best at", "FLOPs", "test NLL", "±"),
        tuple(rows),
        f"FLOPs relative to, and test NLL minus, those of FL (PL2) alone; ±: {LEVEL:.0%} over folds. 'Sure to win': the "
        "whole interval is below 0.",
        ("", "", "", "", "", ".2f", "+.3f", ".3f"),
    )
    caption = (
        "Figure 14 (not in the paper). Where a cheaper policy has the better test NLL: a row for each experiment and "
        "policy, a column for each σ². A point for each λ (one for all λ where β = 0, PL1 alone, is the best): the policy "
        "with the best β, x its FLOPs relative to FL (PL2) "
        f"alone, y its test NLL minus theirs; bars: {LEVEL:.0%} intervals over folds, without allowance for the choice of "
        f"β. Below 0 it wins twice. {scale_note(scale)} {scale_note(scale, 'sentiment', reading)} "
        f"{READING_NOTES[reading]}"
    )
    files: list[Path] = []
    joined = [
        {"source": source, "model": model, "policy": f"PL1/{higher}"} | r
        for (source, model, higher), of_case in by_case.items()
        for r in of_case
    ]
    if out is not None:
        folder = make_folder(out)
        drawn = [
            panels(_title(*case), [r for r in of_case if r["relative_flops"] < 1])
            for case, of_case in by_case.items()
        ]
        files = save_figure(draw_surfaces(drawn, caption, height=2.3), folder, name)
        files += write_tables(folder, name, joined, caption)
    document = {"experiment": name, "scale": scale, "points": joined}
    return Reproduction(document, (table,), (), tuple(files))
