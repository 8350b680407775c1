"""Claims about the sentiment experiments (Section 8.2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fieldfit_paper.chain_figures import PAPER_NUMBERS
from fieldfit_paper.chain_sweeps import POLICIES, mean_over_folds
from fieldfit_paper.chain_tables import SweepTables, at_sigma2, best_cell
from fieldfit_paper.claim_rows import CLOSE, Finding, Row, Verdict

MOSTLY = 0.9  # of the steps of a grid: then the train NLL "increases"


def sentiment_claims(tables: SweepTables) -> Iterator[Row]:
    """Figures 5 and 6 of the paper."""
    where = PAPER_NUMBERS[4]
    for higher in POLICIES:
        rows = tables.grid("sentiment", "crf", higher)
        lam_steps, beta_steps = [], []
        for sigma2 in (1.0, 10.0):
            _, surface = mean_over_folds(at_sigma2(rows, sigma2), ("lam", "beta"), "train_nll")
            lam_steps.append((np.diff(surface, axis=0) <= 1e-9).ravel())
            beta_steps.append((np.diff(surface, axis=1) <= 1e-9).ravel())
        by_lam, by_beta = (np.concatenate(steps) for steps in (lam_steps, beta_steps))
        for name, steps, why in (
            ("selection probability", by_lam, ""),
            (
                "weight",
                by_beta,
                "True at λ = 1. With λ < 1 a larger β takes weight from all sentences and gives it to the selected ones, "
                "so the train NLL rises.",
            ),
        ):
            share = float(np.mean(steps))
            yield Row(
                where,
                f"Train likelihood increases with the {name} of {higher} (PL1/{higher}).",
                Finding.of(f"{steps.sum()} of {len(steps)} steps of the grid lower the train NLL", share > MOSTLY),
                why if share <= MOSTLY else "",
            )
        yield _weak(tables, higher)
    yield _comparable(tables)
    for higher in POLICIES:
        points = at_sigma2(tables.grid("sentiment", "crf", higher), 0.5)
        cheapest, best = best_cell(points, "flops"), best_cell(points, "train_nll")
        floor = best_cell([p for p in points if p["flops"] == cheapest["flops"]], "train_nll")["train_nll"]
        yield Row(
            PAPER_NUMBERS[5],
            f"PL1/{higher}: no policy has high accuracy (train) and low computation at the same time.",
            Finding.of(
                f"train NLL {floor:.2f} at the least FLOPs ({cheapest['flops']:,.0f}), least train NLL "
                f"{best['train_nll']:.2f} at {best['flops']:,.0f}",
                bool(best["train_nll"] < floor and best["flops"] > cheapest["flops"]),
            ),
        )


def _comparable(tables: SweepTables) -> Row:
    """PL1/PL2 under the weak penalty against PL1/FL under the strong one."""
    weak = best_cell(at_sigma2(tables.grid("sentiment", "crf", "PL2"), 10.0), "test_nll")
    strong = best_cell(at_sigma2(tables.grid("sentiment", "crf", "FL"), 1.0), "test_nll")
    away = weak["test_nll"] / strong["test_nll"] - 1
    return Row(
        "Section 8.4",
        "The weaker regularisation (σ² = 10) with PL1/PL2 reaches a test NLL comparable to that of σ² = 1.",
        Finding.of(
            f"best test NLL {weak['test_nll']:.2f} (PL1/PL2, σ² = 10) against {strong['test_nll']:.2f} (PL1/FL, σ² = 1), "
            f"{away:+.1%}",
            bool(abs(away) < CLOSE),
        ),
        "Both are best at small λ. Ten times the variance of the penalty overfits these reviews, and the "
        "pseudo-likelihood makes up for a part of it only.",
    )


def _weak(tables: SweepTables, higher: str) -> Row:
    """Whether less of the higher order helps under weak regularisation."""
    gains = {
        sigma2: best_cell(at_sigma2(tables.differences("sentiment", "crf", higher), sigma2), "difference")
        for sigma2 in (1.0, 10.0)
    }
    best = gains[10.0]
    sure = best["difference"] + best["half_interval"] < 0
    verdict = Verdict.of(bool(best["difference"] < gains[1.0]["difference"]) if sure else None)
    return Row(
        f"{PAPER_NUMBERS[4]}, Section 8.2",
        f"Under weak regularisation (σ² = 10) less influence of {higher} improves the test likelihood.",
        Finding(
            f"test NLL against {higher} alone {best['difference']:+.2f} nats per document at λ = {best['lam']:g}, β = "
            f"{best['beta']:g} (95% interval over splits: ± {best['half_interval']:.2f}); at σ² = 1 "
            f"{gains[1.0]['difference']:+.2f}",
            verdict,
        ),
        "Not the paper's set of reviews. The best of all (λ, β) is shown, so its interval is too short.",
    )
