"""Figure 14 (our own of Section 7.4): where a cheaper policy has the better test NLL, with intervals over folds.

For each policy (λ, β) of a grid, the difference of its test NLL from that of the higher-order family alone (λ = β = 1)
on the same fold. Folds share sentences of the test part, so intervals are about the draw of training sentences and Z.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fieldfit.plots import Cloud, Drawable, PlainTable, TradeOffPanel, draw_surfaces, make_folder, save_figure
from fieldfit_paper.chain_figures import TITLES, scale_note
from fieldfit_paper.chain_sweeps import POLICIES, records_of
from fieldfit_paper.reproduction import Reproduction
from fieldfit_paper.tables import columns_of, write_tables

CASES = (("conll2000", "boltzmann-chain"), ("conll2000", "crf"), ("sentiment", "crf"))
LEVEL = 0.95


def differences(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Test NLL minus that of the higher-order family alone, paired by fold, with t intervals."""
    from scipy.stats import t

    rows = []
    for sigma2 in sorted({record["sigma2"] for record in records}):
        at_sigma2 = [record for record in records if record["sigma2"] == sigma2]
        top = {r["fold"]: r for r in at_sigma2 if r["lam"] == 1.0 and r["beta"] == 1.0}
        for lam, beta in sorted({(r["lam"], r["beta"]) for r in at_sigma2}):
            cells = [r for r in at_sigma2 if (r["lam"], r["beta"]) == (lam, beta)]
            away = np.array([r["test_nll"] - top[r["fold"]]["test_nll"] for r in cells])
            cost = float(np.mean([r["flops"] / top[r["fold"]]["flops"] for r in cells]))
            half = float("nan")
            if len(away) > 1:
                half = float(t.ppf((1 + LEVEL) / 2, len(away) - 1) * away.std(ddof=1) / np.sqrt(len(away)))
            win = cost < 1.0 and float(away.mean()) + half < 0
            rows.append(
                {
                    "sigma2": sigma2, "lam": lam, "beta": beta, "relative_flops": cost,
                    "difference": float(away.mean()), "half_interval": half, "win_win": bool(win), "folds": len(away),
                }
            )  # fmt: skip
    return rows


def compute(out: Path | None, scale: str) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The differences of every experiment and policy."""
    return {
        (source, model, higher): differences(records_of("grid", source, model, higher, scale, out))
        for source, model in CASES
        for higher in POLICIES
    }


def _title(source: str, model: str, higher: str) -> str:
    return f"{'Sentiment ' if source == 'sentiment' else ''}{TITLES[model]}, PL1/{higher}"


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its table."""
    by_case = compute(out, scale)
    rows = []
    for case, of_case in by_case.items():
        for sigma2 in sorted({r["sigma2"] for r in of_case}):
            cells = [r for r in of_case if r["sigma2"] == sigma2 and r["relative_flops"] < 1]
            best = min(cells, key=lambda r: float(r["difference"]))
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
        "Figure 14. Where a cheaper policy has the better test NLL: each point is a policy (λ, β), x its FLOPs relative to "
        f"FL (PL2) alone, y its test NLL minus theirs; bars: {LEVEL:.0%} intervals over folds. Below 0 it wins twice. "
        f"{scale_note(scale)} {scale_note(scale, 'sentiment')}"
    )
    files: list[Path] = []
    joined = [
        {"source": source, "model": model, "policy": f"PL1/{higher}"} | r
        for (source, model, higher), of_case in by_case.items()
        for r in of_case
    ]
    if out is not None:
        folder = make_folder(out)
        drawn: list[list[Drawable]] = []
        for source, model in CASES:
            row: list[Drawable] = []
            for higher in POLICIES:
                cheaper = [r for r in by_case[source, model, higher] if r["relative_flops"] < 1]
                clouds = []
                for sigma2 in sorted({r["sigma2"] for r in cheaper}):
                    part = [r for r in cheaper if r["sigma2"] == sigma2]
                    bars = columns_of(part, "half_interval")
                    y = columns_of(part, "difference")
                    clouds.append(Cloud(f"σ² = {sigma2:g}", columns_of(part, "relative_flops"), y, bars))
                y = np.concatenate([cloud.y for cloud in clouds])
                low, high = min(float(y.min()), 0.0), max(float(np.quantile(y, 0.8)), 0.0)
                ends = (low - 0.3 * (high - low) - 1e-6, high + 0.2 * (high - low) + 1e-6)
                row.append(
                    TradeOffPanel(
                        _title(source, model, higher),
                        clouds,
                        "relative FLOPs",
                        "test NLL difference",
                        y_range=ends,
                        zero=True,
                    )
                )
            drawn.append(row)
        files = save_figure(draw_surfaces(drawn, caption, width=4.6, height=3.2), folder, "figure-14")
        files += write_tables(folder, "figure-14", joined, caption)
    document = {"experiment": "figure-14", "scale": scale, "points": joined}
    return Reproduction(document, (table,), (), tuple(files))
