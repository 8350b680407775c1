"""Figure 13: how the best σ² of the CRF depends on λ, with β by Algorithm 1, beside that of FL and of PL2 alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fieldfit.plots import (
    ContourPanel,
    Panel,
    PlainTable,
    Series,
    contour_levels,
    draw_panels,
    draw_surfaces,
    make_folder,
    save_figure,
)
from fieldfit.types import Plain
from fieldfit_paper.chain_figures import READING_NOTES, numbered, scale_note
from fieldfit_paper.chain_sweeps import POLICIES, averaged, mean_over_folds
from fieldfit_paper.chain_tables import SweepTables
from fieldfit_paper.tables import Reproduction, columns_of, write_tables


def best_sigma2(records: list[Plain]) -> Plain:
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


def _by_lam(records: list[Plain], higher: str) -> list[Plain]:
    """The best σ² at each λ, and the mean β of Algorithm 1 there."""
    rows = []
    for lam in sorted({record["lam"] for record in records}):
        at_lam = [record for record in records if record["lam"] == lam]
        at_best = best_sigma2(at_lam)
        beta = float(np.mean([r["beta"] for r in at_lam if r["sigma2"] == at_best["best_sigma2"]]))
        rows.append({"policy": f"PL1/{higher}", "lam": lam, "beta": beta} | at_best)
    return rows


def compute(tables: SweepTables) -> tuple[list[Plain], dict[str, Plain]]:
    """A record for each policy and λ, and the best σ² of each higher-order family alone."""
    rows, alone = [], {}
    for higher in POLICIES:
        rows += _by_lam(tables.interplay(higher), higher)
        alone[higher] = best_sigma2(tables.pure("crf", higher))
    return rows, alone


def of_grids(tables: SweepTables) -> list[Plain]:
    """The second reading: for each policy and λ the best σ² of the CRF's grids, with the β of least train NLL.

    ``alone`` is the best σ² of the higher-order family alone, everything selected.
    """
    rows = []
    for higher in POLICIES:
        records = tables.wide(higher)
        alone = best_sigma2(tables.pure("crf", higher, "means"))["best_sigma2"]
        for lam in sorted({record["lam"] for record in records}):
            chosen: dict[tuple[object, object], Plain] = {}
            for record in records:
                key = (record["fold"], record["sigma2"])
                if record["lam"] == lam and (key not in chosen or record["train_nll"] < chosen[key]["train_nll"]):
                    chosen[key] = record
            at_best = best_sigma2(list(chosen.values()))
            beta = float(np.mean([r["beta"] for r in chosen.values() if r["sigma2"] == at_best["best_sigma2"]]))
            rows.append({"policy": f"PL1/{higher}", "lam": lam, "beta": beta, "alone": alone} | at_best)
    return rows


def _panels(rows: list[Plain], alone: dict[str, float], reading: str, ends: tuple[float, float]) -> list[Panel]:
    """One reading: a panel for each policy; ``ends`` of σ² are those of all panels."""
    panels = []
    for higher in POLICIES:
        of_policy = [r for r in rows if r["policy"] == f"PL1/{higher}"]
        lam, best = columns_of(of_policy, "lam"), columns_of(of_policy, "best_sigma2")
        bars = [
            Series("", np.array([at, at]), np.array([r["least_of_folds"], r["largest_of_folds"]]), "bar")
            for at, r in zip(lam, of_policy, strict=True)
            if r["least_of_folds"] < r["largest_of_folds"]
        ]
        mark = Series(f"{higher} alone", np.array([1.0]), np.array([alone[higher]]), "marks")
        panels.append(
            Panel(
                f"PL1/{higher}, {reading}", "λ", "σ² of least test NLL", [Series(f"PL1/{higher}", lam, best), mark, *bars],
                log_y=True, y_range=ends, legend="upper right",
            )
        )  # fmt: skip
    return panels


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its table."""
    tables = SweepTables(out, scale)
    rows, alone = compute(tables)
    second = of_grids(tables)
    among = [
        f"σ² of {', '.join(f'{v:g}' for v in sorted({float(r['sigma2']) for r in tables.wide(higher)}))} ({higher})"
        for higher in POLICIES
    ]
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
        f"{numbered(13)}: the CRF's best σ² by test NLL, with β by Algorithm 1 (exact J)",
        ("policy", "λ", "β there", "best σ²", "least of folds", "largest of folds", "test NLL"),
        tuple(shown),
        scale_note(scale),
        ("", "g", ".2f", "g", "g", "g", ".3f"),
    )
    subject = "with β by Algorithm 1 (exact J), for PL1/FL (left) and PL1/PL2 (right) of the CRF"
    caption = (
        f"{numbered(13)}. The σ² of least test NLL by λ for PL1/FL (left) and PL1/PL2 (right) of the CRF: mean over "
        "folds (line), and the least and the largest of single folds (bars). Triangle: FL (left) and PL2 (right) alone. "
        "Above: first reading, β by Algorithm 1 (exact J). Below: second reading, the β of the grid with the least train "
        f"NLL, for {'; '.join(among)}. {scale_note(scale)}"
    )
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        surfaces = []
        values = [r[column] for r in (*rows, *second) for column in ("least_of_folds", "largest_of_folds")]
        ends = (0.5 * min(values), 4 * max(values))
        panels = [
            _panels(rows, {higher: best["best_sigma2"] for higher, best in alone.items()}, "first reading", ends),
            _panels(second, {r["policy"].removeprefix("PL1/"): r["alone"] for r in second}, "second reading", ends),
        ]
        for higher in POLICIES:
            (sigma2, lams), surface = mean_over_folds(tables.interplay(higher), ("sigma2", "lam"), "test_nll")
            surfaces.append((higher, lams, np.log10(sigma2), surface))
        files = save_figure(draw_panels(panels, caption), folder, "figure-13")
        levels = contour_levels([surface for *_, surface in surfaces])
        drawn = [
            ContourPanel(f"PL1/{higher}: test NLL", x, y, z, levels, "λ", "log₁₀ σ²", bar=higher == surfaces[-1][0])
            for higher, x, y, z in surfaces
        ]
        other = (
            f"{numbered(13)}, the surface behind it. Test NLL over λ and σ², {subject}. The cross is the least "
            f"value. {scale_note(scale)} {READING_NOTES['sums']}"
        )
        files += save_figure(draw_surfaces([drawn], other, width=4.3, height=3.3), folder, "figure-13-contours")
        files += write_tables(folder, "figure-13", rows, caption)
        files += write_tables(folder, "figure-13-means", second, caption)
    document = {"experiment": "figure-13", "scale": scale, "rows": rows, "alone": alone, "second": second}
    return Reproduction(document, (table,), (), tuple(files))
