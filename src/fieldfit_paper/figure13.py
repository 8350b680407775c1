"""Figure 13: how the best σ² of the CRF depends on λ, with β by Algorithm 1, beside that of FL and of PL2 alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fieldfit.plots import (
    ContourPanel,
    Level,
    Panel,
    PlainTable,
    Series,
    contour_levels,
    draw_panels,
    draw_surfaces,
    make_folder,
    save_figure,
)
from fieldfit_paper.chain_figures import scale_note
from fieldfit_paper.chain_sweeps import POLICIES, averaged, mean_over_folds, records_of
from fieldfit_paper.reproduction import Reproduction
from fieldfit_paper.tables import columns_of, write_tables


def best_sigma2(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The σ² of least mean test NLL, and the smallest and largest best σ² of single folds."""
    mean = min(averaged(records, ("sigma2",)), key=lambda r: float(r["test_nll"]))
    single = []
    for fold in sorted({record["fold"] for record in records}):
        of_fold = [record for record in records if record["fold"] == fold]
        single.append(float(min(of_fold, key=lambda r: float(r["test_nll"]))["sigma2"]))
    return {
        "best_sigma2": float(mean["sigma2"]),
        "least_of_folds": min(single),
        "largest_of_folds": max(single),
        "test_nll": mean["test_nll"],
        "train_nll": mean["train_nll"],
    }


def compute(out: Path | None, scale: str) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """A record for each policy and λ, and the best σ² of each higher-order family alone."""
    rows, alone = [], {}
    for higher in POLICIES:
        records = records_of("interplay", "conll2000", "crf", higher, scale, out)
        for lam in sorted({record["lam"] for record in records}):
            at_lam = [record for record in records if record["lam"] == lam]
            at_best = best_sigma2(at_lam)
            beta = float(np.mean([r["beta"] for r in at_lam if r["sigma2"] == at_best["best_sigma2"]]))
            rows.append({"policy": f"PL1/{higher}", "lam": lam, "beta": beta} | at_best)
        alone[higher] = best_sigma2(records_of("pure", "conll2000", "crf", higher, scale, out))
    return rows, alone


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its table."""
    rows, alone = compute(out, scale)
    shown = [(r["policy"], r["lam"], r["beta"], r["best_sigma2"], r["least_of_folds"], r["largest_of_folds"], r["test_nll"])
             for r in rows]  # fmt: skip
    shown += [
        (
            f"{higher} alone",
            None,
            None,
            best["best_sigma2"],
            best["least_of_folds"],
            best["largest_of_folds"],
            best["test_nll"],
        )
        for higher, best in alone.items()
    ]
    table = PlainTable(
        "Figure 13: the CRF's best σ² by test NLL, with β by Algorithm 1 (exact J)",
        ("policy", "λ", "β there", "best σ²", "least of folds", "largest of folds", "test NLL"),
        tuple(shown),
        scale_note(scale),
        ("", "g", ".2f", "g", "g", "g", ".3f"),
    )
    caption = (
        "Figure 13. σ² of least test NLL by λ, with the heuristic's β, for PL1/FL (left) and PL1/PL2 (right) of "
        f"the CRF; also the smallest and largest of single folds, and FL or PL2 alone. {scale_note(scale)}"
    )
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        panels, surfaces = [], []
        for higher in POLICIES:
            of_policy = [r for r in rows if r["policy"] == f"PL1/{higher}"]
            lam = columns_of(of_policy, "lam")
            series = [
                Series("best σ²", lam, columns_of(of_policy, "best_sigma2")),
                Series("least of folds", lam, columns_of(of_policy, "least_of_folds")),
                Series("largest of folds", lam, columns_of(of_policy, "largest_of_folds")),
            ]
            level = [Level(f"{higher} alone", alone[higher]["best_sigma2"])]
            panels.append(Panel(f"PL1/{higher}", "λ", "σ²", series, level, log_y=True))
            records = records_of("interplay", "conll2000", "crf", higher, scale, out)
            (sigma2, lams), surface = mean_over_folds(records, ("sigma2", "lam"), "test_nll")
            logs = np.log10(sigma2)
            surfaces.append(
                ContourPanel(
                    f"PL1/{higher}: test NLL", lams, logs, surface, contour_levels([surface]), "λ", "log₁₀ σ²"
                )
            )
        files = save_figure(draw_panels([panels], caption), folder, "figure-13")
        files += save_figure(draw_surfaces([surfaces], caption, width=4.3, height=3.3), folder, "figure-13-contours")
        files += write_tables(folder, "figure-13", rows, caption)
    document = {"experiment": "figure-13", "scale": scale, "rows": rows, "alone": alone}
    return Reproduction(document, (table,), (), tuple(files))
