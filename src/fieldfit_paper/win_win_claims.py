"""Claims about cheaper policies with the better test NLL (Section 8.4), by σ² and against FL at its own best σ²."""

from __future__ import annotations

from collections.abc import Iterator

from fieldfit_paper.chain_sweeps import POLICIES
from fieldfit_paper.chain_tables import LEVEL, SweepTables, at_sigma2, best_cell, sigma2_of
from fieldfit_paper.chunking import READINGS
from fieldfit_paper.claim_rows import MODEL_NAMES, Finding, Row, Verdict

#: A win of the mean is "striking" above this share of the test NLL, "minor" below.
STRIKING = 0.02


def win_win_claims(tables: SweepTables) -> Iterator[Row]:
    """The Boltzmann chain wins strikingly, the CRF to a minor extent."""
    for model, name in MODEL_NAMES.items():
        striking = model == "boltzmann-chain"
        findings = [_finding(tables, model, reading, striking) for reading in READINGS]
        yield Row(
            "Section 8.4",
            f"The {name} shows "
            + (
                "a striking win-win: cheaper policies, better test NLL."
                if striking
                else "the win-win to a minor extent."
            ),
            findings[0],
            "The rule: the largest gain over the higher-order family alone at the same σ² is "
            f"{'more' if striking else 'less'} than {STRIKING:.0%} of its test NLL, and some win is sure. A win is sure "
            f"if its whole {LEVEL:.0%} interval over folds is below 0; ± is half of that interval, without allowance for "
            "the choice of the best policy. Against FL (PL2) alone at its own best σ² the gain is smaller or none: at a "
            "given σ² most of the win is that of a regulariser over a penalty that is too weak.",
            findings[1],
        )


def _finding(tables: SweepTables, model: str, reading: str, striking: bool) -> Finding:
    texts, shares, any_win = [], [], False
    for higher in POLICIES:
        grid = tables.grid("conll2000", model, higher, reading)
        alone = {r["sigma2"]: r["test_nll"] for r in grid if r["lam"] == 1.0 and r["beta"] == 1.0}
        cheaper = [r for r in tables.differences("conll2000", model, higher, reading) if r["relative_flops"] < 1]
        counts = []
        for sigma2 in sigma2_of(cheaper):
            here = at_sigma2(cheaper, sigma2)
            wins, best = sum(bool(r["win_win"]) for r in here), best_cell(here, "difference")
            gain, half = -best["difference"] / alone[sigma2], best["half_interval"] / alone[sigma2]
            any_win = any_win or wins > 0
            shares.append(gain)
            counts.append(f"σ² = {sigma2:g}: {wins} of {len(here)}, {gain:+.1%} ± {half:.1%}")
        alone_best = tables.least_alone(model, higher, reading)
        best_cheaper = min(alone[r["sigma2"]] + r["difference"] for r in cheaper)
        away = 1 - best_cheaper / alone_best["test_nll"]
        texts.append(
            f"PL1/{higher} (sure wins of the cheaper policies, largest gain): {'; '.join(counts)}. The best of the cheaper "
            f"policies has a test NLL of {best_cheaper:.2f}, {higher} alone at its own best σ² = "
            f"{alone_best['sigma2']:g} has {alone_best['test_nll']:.2f}: a gain of {away:+.1%}"
        )
    large = max(shares) > STRIKING
    agrees = any_win and large if striking else any_win and not large
    return Finding(". ".join(texts), Verdict.of(agrees))
