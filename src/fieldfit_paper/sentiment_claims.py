"""Claims about the sentiment experiments (Section 8.2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fieldfit_paper.chain_figures import PAPER_NUMBERS
from fieldfit_paper.chain_sweeps import POLICIES, mean_over_folds
from fieldfit_paper.chain_tables import SweepTables, at_sigma2, best_cell
from fieldfit_paper.chunking import READINGS
from fieldfit_paper.claim_rows import CLOSE, Finding, Row, Verdict

MOSTLY = 0.9  # of the steps of a grid: then the train NLL "increases"


def sentiment_claims(tables: SweepTables) -> Iterator[Row]:
    """Figures 5 and 6 of the paper in both readings."""
    for higher in POLICIES:
        yield from _train_rows(tables, higher)
        first, second = (_weak(tables, higher, reading) for reading in READINGS)
        yield Row(
            f"{PAPER_NUMBERS[4]}, Section 8.2",
            f"Under weak regularisation (σ² = 10) less influence of {higher} improves the test likelihood.",
            first,
            "Not the paper's set of reviews. The best of all (λ, β) is shown, so its interval is too short.",
            second,
        )
    first, second = (_comparable(tables, reading) for reading in READINGS)
    yield Row(
        "Section 8.4",
        "The weaker regularisation (σ² = 10) with PL1/PL2 reaches a test NLL comparable to that of σ² = 1.",
        first,
        f"The rule: a difference below {CLOSE:.0%}. Ten times the variance of the penalty overfits these reviews. The "
        "pseudo-likelihood makes up for a part of it, in the second reading for most of it.",
        second,
    )
    for higher in POLICIES:
        first, second = (_trade_off(tables, higher, reading) for reading in READINGS)
        yield Row(
            PAPER_NUMBERS[5],
            f"PL1/{higher}: no policy has high accuracy (train) and low computation at the same time.",
            first,
            second=second,
        )


def _train_rows(tables: SweepTables, higher: str) -> Iterator[Row]:
    """Whether the train likelihood increases with λ and with β."""
    names = {"lam": "selection probability", "beta": "weight"}
    for place, name in enumerate(names.values()):
        first, second = (_steps(tables, higher, reading, place) for reading in READINGS)
        differs = Verdict.DIFFERS in (first.verdict, second.verdict)
        yield Row(
            PAPER_NUMBERS[4],
            f"Train likelihood increases with the {name} of {higher} (PL1/{higher}).",
            first,
            "True at λ = 1. With λ < 1 a larger β takes weight from all sentences and gives it to the selected ones, so "
            "the train NLL rises."
            if differs
            else "",
            second,
        )


def _steps(tables: SweepTables, higher: str, reading: str, place: int) -> Finding:
    """How many steps of the grid along an axis (0: λ, 1: β) lower the train NLL; at β = 0 λ changes nothing."""
    rows = [r for r in tables.grid("sentiment", "crf", higher, reading) if place == 1 or r["beta"] > 0]
    surfaces = [mean_over_folds(at_sigma2(rows, s), ("lam", "beta"), "train_nll")[1] for s in (1.0, 10.0)]
    steps = np.concatenate([(np.diff(surface, axis=place) < 0).ravel() for surface in surfaces])
    return Finding.of(
        f"{steps.sum()} of {len(steps)} steps of the grid lower the train NLL", float(np.mean(steps)) > MOSTLY
    )


def _trade_off(tables: SweepTables, higher: str, reading: str) -> Finding:
    """The train NLL of the cheapest policies against the least of all."""
    points = at_sigma2(tables.grid("sentiment", "crf", higher, reading), 0.5)
    cheapest, best = best_cell(points, "flops"), best_cell(points, "train_nll")
    floor = best_cell([p for p in points if p["flops"] == cheapest["flops"]], "train_nll")["train_nll"]
    return Finding.of(
        f"train NLL {floor:.2f} at the least FLOPs ({cheapest['flops']:,.0f}), least train NLL {best['train_nll']:.2f} at "
        f"{best['flops']:,.0f}",
        bool(best["train_nll"] < floor and best["flops"] > cheapest["flops"]),
    )


def _comparable(tables: SweepTables, reading: str) -> Finding:
    """PL1/PL2 under the weak penalty against PL1/FL under the strong one."""
    weak = best_cell(at_sigma2(tables.grid("sentiment", "crf", "PL2", reading), 10.0), "test_nll")
    strong = best_cell(at_sigma2(tables.grid("sentiment", "crf", "FL", reading), 1.0), "test_nll")
    away = weak["test_nll"] / strong["test_nll"] - 1
    return Finding.of(
        f"best test NLL {weak['test_nll']:.2f} (PL1/PL2, σ² = 10, λ = {weak['lam']:g}, β = {weak['beta']:g}) against "
        f"{strong['test_nll']:.2f} (PL1/FL, σ² = 1, λ = {strong['lam']:g}, β = {strong['beta']:g}), {away:+.1%}",
        bool(abs(away) < CLOSE),
    )


def _weak(tables: SweepTables, higher: str, reading: str) -> Finding:
    """Whether less of the higher order helps under weak regularisation."""
    gains = {
        sigma2: best_cell(at_sigma2(tables.differences("sentiment", "crf", higher, reading), sigma2), "difference")
        for sigma2 in (1.0, 10.0)
    }
    best = gains[10.0]
    sure = best["difference"] + best["half_interval"] < 0
    return Finding.of(
        f"test NLL against {higher} alone {best['difference']:+.2f} nats per document at λ = {best['lam']:g}, β = "
        f"{best['beta']:g} (95% interval over splits: ± {best['half_interval']:.2f}); at σ² = 1 "
        f"{gains[1.0]['difference']:+.2f}",
        bool(best["difference"] < gains[1.0]["difference"]) if sure else None,
    )
