"""What Figures 4 to 12 have in common: contours and β-curves, trade-offs, and the heuristic against the grid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fieldfit.plots import (
    Cloud,
    ContourPanel,
    DiagonalPanel,
    Drawable,
    PlainTable,
    ShadedCurves,
    TradeOffPanel,
    contour_levels,
    draw_surfaces,
    make_folder,
    save_figure,
)
from fieldfit_paper.chain_folds import FLOPS
from fieldfit_paper.chain_sweeps import (
    POLICIES,
    SCALES,
    averaged,
    mean_over_folds,
    records_of,
    with_least_seconds,
)
from fieldfit_paper.reproduction import Reproduction
from fieldfit_paper.tables import columns_of, write_tables

TITLES = {"boltzmann-chain": "Boltzmann chain", "crf": "CRF"}
NLL = {"train_nll": "train NLL", "test_nll": "test NLL"}
#: What a policy costs: the label of the axis, and the factor that brings the column to its unit.
COST_AXES = {
    "flops": ("FLOPs of value and gradient", 1.0),
    "evaluation_seconds": ("milliseconds of value and gradient (measured, one thread)", 1000.0),
}
GRID_AXES = ("sigma2", "lam", "beta")
UNIT = "nats a sentence"


def scale_note(scale: str, source: str = "conll2000") -> str:
    """What the scale is, in a sentence."""
    size = SCALES[scale]
    if source == "sentiment":
        train = "half of the documents" if size.n_documents == 0 else f"{size.n_documents} documents"
        return f"Scale {scale!r}: {train} to train on, the other half to test on, mean of {size.splits} splits."
    test = "the whole test part" if size.n_test is None else f"{size.n_test} sentences of the test part"
    return f"Scale {scale!r}: {size.n_train} training sentences, {test}, mean of {size.folds} folds."


def contour_rows(records: list[dict[str, Any]], higher: str, sigma2: Sequence[float]) -> list[list[Drawable]]:
    """Train above test, a column for each σ²; levels are the same across a row."""
    rows: list[list[Drawable]] = []
    for value, name in NLL.items():
        (_, lam, beta), surface = mean_over_folds(records, GRID_AXES, value)
        places = _places(records, sigma2)
        levels = contour_levels([surface[place] for place in places])
        rows.append(
            [
                ContourPanel(f"{name}, σ² = {s:g}", beta, lam, surface[place], levels, f"β ({higher})", "λ")
                for s, place in zip(sigma2, places, strict=True)
            ]
        )
    return rows


def curve_rows(records: list[dict[str, Any]], higher: str, sigma2: Sequence[float]) -> list[list[Drawable]]:
    """NLL against β, a curve for each λ; the range is the same across a row."""
    rows: list[list[Drawable]] = []
    for value, name in NLL.items():
        (_, lam, beta), surface = mean_over_folds(records, GRID_AXES, value)
        places = _places(records, sigma2)
        shown = np.stack([surface[place] for place in places])
        # β = 1 with few selected sentences is far above everything else and would flatten the rest.
        low, high = float(shown.min()), float(np.quantile(shown, 0.9))
        ends = (low - 0.05 * (high - low), high + 0.1 * (high - low))
        rows.append(
            [
                ShadedCurves(f"{name}, σ² = {s:g}", beta, lam, surface[place], f"β ({higher})", name, "λ", ends)
                for s, place in zip(sigma2, places, strict=True)
            ]
        )
    return rows


def _places(records: list[dict[str, Any]], sigma2: Sequence[float]) -> list[int]:
    known = np.unique([record["sigma2"] for record in records])
    return [int(place) for place in np.searchsorted(known, sigma2)]


def best_cell(records: list[dict[str, Any]], value: str) -> dict[str, Any]:
    """The point of the grid with the least mean NLL."""
    return min(averaged(records, GRID_AXES), key=lambda row: float(row[value]))


def grid_table(title: str, by_policy: dict[str, list[dict[str, Any]]], note: str) -> PlainTable:
    """For each policy and σ²: the best test NLL and where it is."""
    rows = []
    for higher, records in by_policy.items():
        for sigma2 in sorted({record["sigma2"] for record in records}):
            at_sigma2 = [record for record in records if record["sigma2"] == sigma2]
            best = best_cell(at_sigma2, "test_nll")
            train = best_cell(at_sigma2, "train_nll")["train_nll"]
            error = best["test_nll_error"]
            rows.append((f"PL1/{higher}", f"{sigma2:g}", train, best["test_nll"], error, best["lam"], best["beta"]))
    columns = ("policy", "σ²", "best train NLL", "best test NLL", "± (folds)", "λ there", "β there")
    return PlainTable(title, columns, tuple(rows), note, ("", "", ".3f", ".3f", ".3f", ".2g", ".2g"))


def reproduce_grids(number: int, source: str, model: str, out: Path | None, scale: str) -> Reproduction:
    """Figures 7 and 10: contours and β-curves of PL1/FL and PL1/PL2."""
    name = f"figure-{number}"
    by_policy = {higher: records_of("grid", source, model, higher, scale, out) for higher in POLICIES}
    note = f"NLL in {UNIT}. {scale_note(scale, source)} σ² belongs to the mean log-likelihood of a sentence."
    table = grid_table(f"Figure {number}: {TITLES[model]}, best cells of the grid", by_policy, note)
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        for higher, records in by_policy.items():
            sigma2 = sorted({record["sigma2"] for record in records})
            suffix = f"pl1-{higher.lower()}"
            caption = (
                f"Figure {number}. Train (top) and test (bottom) negative log-likelihood for the {TITLES[model]} with the "
                f"selection policy PL1/{higher}. x: weight β of {higher}; y: probability λ of its selection. PL1 is "
                f"always selected and has the weight 1−β. Columns: σ². Levels are the same across columns; the cross "
                f"is the least value. {note}"
            )
            contours = draw_surfaces(contour_rows(records, higher, sigma2), caption)
            files += save_figure(contours, folder, f"{name}-{suffix}-contours")
            caption = (
                f"Figure {number}. Train (top) and test (bottom) negative log-likelihood for the {TITLES[model]} with the "
                f"policy PL1/{higher} against β; a lighter curve has a larger λ. Columns: σ². {note}"
            )
            curves = draw_surfaces(curve_rows(records, higher, sigma2), caption)
            files += save_figure(curves, folder, f"{name}-{suffix}-curves")
            files += write_tables(folder, f"{name}-{suffix}", averaged(records, GRID_AXES), caption)
    document = {
        "experiment": name,
        "scale": scale,
        "model": model,
        "grids": {higher: averaged(records, GRID_AXES) for higher, records in by_policy.items()},
    }
    return Reproduction(document, (table,), (), tuple(files))


def reproduce_trade_off(number: int, source: str, model: str, out: Path | None, scale: str) -> Reproduction:
    """Figures 8 and 11: NLL against FLOPs, and against measured seconds."""
    name = f"figure-{number}"
    by_policy = {
        higher: averaged(with_least_seconds(records_of("grid", source, model, higher, scale, out)), GRID_AXES)
        for higher in POLICIES
    }
    rows = []
    for higher, records in by_policy.items():
        cheapest = min(records, key=lambda r: float(r["flops"]))
        best = min(records, key=lambda r: float(r["test_nll"]))
        for what, cell in (("cheapest", cheapest), ("best test NLL", best)):
            values = (cell["sigma2"], cell["lam"], cell["beta"], cell["flops"], 1000 * cell["evaluation_seconds"])
            rows.append((f"PL1/{higher}", what, *values, cell["train_nll"], cell["test_nll"]))
    columns = ("policy", "which", "σ²", "λ", "β", "FLOPs", "ms", "train NLL", "test NLL")
    formats = ("", "", "g", "g", "g", ",.0f", ".2f", ".3f", ".3f")
    table = PlainTable(f"Figure {number}: {TITLES[model]}, trade-off", columns, tuple(rows), FLOPS[model], formats)
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        for axis, suffix in (("flops", ""), ("evaluation_seconds", "-seconds")):
            caption = (
                f"Figure {number}. Accuracy and complexity for the {TITLES[model]} with the policies PL1/FL (left) and "
                f"PL1/PL2 (right). Each point is a policy (λ, β) at one σ², mean over folds. The shaded region was not "
                f"reached by any. {scale_note(scale, source)} {FLOPS[model] if axis == 'flops' else ''}"
            )
            drawing = draw_surfaces(trade_off_rows(by_policy, axis), caption, width=4.6, height=3.2)
            files += save_figure(drawing, folder, f"{name}{suffix}")
        joined = [{"policy": f"PL1/{higher}"} | r for higher, of_policy in by_policy.items() for r in of_policy]
        files += write_tables(folder, name, joined, caption)
    document = {"experiment": name, "scale": scale, "model": model, "flops": FLOPS[model], "points": by_policy}
    return Reproduction(document, (table,), (FLOPS[model],), tuple(files))


def trade_off_rows(by_policy: dict[str, list[dict[str, Any]]], axis: str) -> list[list[Drawable]]:
    """Train above test, a column for each policy, a cloud for each σ²."""
    label, unit = COST_AXES[axis]
    rows: list[list[Drawable]] = []
    for value, name in NLL.items():
        row: list[Drawable] = []
        for higher, records in by_policy.items():
            clouds = []
            for sigma2 in sorted({record["sigma2"] for record in records}):
                at_sigma2 = [record for record in records if record["sigma2"] == sigma2]
                clouds.append(
                    Cloud(f"σ² = {sigma2:g}", unit * columns_of(at_sigma2, axis), columns_of(at_sigma2, value))
                )
            y = np.concatenate([cloud.y for cloud in clouds])
            low, high = float(y.min()), float(np.quantile(y, 0.95))
            ends = (low - 0.12 * (high - low), high + 0.08 * (high - low))
            row.append(TradeOffPanel(f"PL1/{higher}, {name}", clouds, label, name, y_range=ends))
        rows.append(row)
    return rows


def heuristic_pairs(
    grid: list[dict[str, Any]], heuristic: list[dict[str, Any]], formula: str
) -> list[dict[str, Any]]:
    """For each (σ², λ): means over folds at the heuristic's β and at the β of the grid with the least train NLL."""
    chosen = [record for record in heuristic if record["formula"] == formula]
    rows = []
    cells = averaged(grid, GRID_AXES)
    for cell in averaged(chosen, ("sigma2", "lam")):
        same = [c for c in cells if c["sigma2"] == cell["sigma2"] and c["lam"] == cell["lam"]]
        best = min(same, key=lambda c: float(c["train_nll"]))
        rows.append(
            {
                "formula": formula,
                "sigma2": cell["sigma2"],
                "lam": cell["lam"],
                "heuristic_beta": cell["beta"],
                "best_beta": best["beta"],
                "heuristic_train_nll": cell["train_nll"],
                "best_train_nll": best["train_nll"],
                "heuristic_test_nll": cell["test_nll"],
                "best_test_nll": best["test_nll"],
                "least_test_nll": min(float(c["test_nll"]) for c in same),
            }
        )
    return rows


def reproduce_heuristic(number: int, source: str, model: str, out: Path | None, scale: str) -> Reproduction:
    """Figures 9 and 12: the heuristic's β, train and test NLL against those of the grid's best β."""
    name = f"figure-{number}"
    pairs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for higher in POLICIES:
        grid = records_of("grid", source, model, higher, scale, out)
        heuristic = records_of("heuristic", source, model, higher, scale, out)
        pairs[higher] = {formula: heuristic_pairs(grid, heuristic, formula) for formula in ("published", "exact")}
    rows: list[tuple[str | float, ...]] = []
    for higher, by_formula in pairs.items():
        for formula, compared in by_formula.items():
            away = [abs(r["heuristic_beta"] - r["best_beta"]) for r in compared]
            train = [r["heuristic_train_nll"] - r["best_train_nll"] for r in compared]
            test = [r["heuristic_test_nll"] - r["best_test_nll"] for r in compared]
            beta = [r["heuristic_beta"] for r in compared]
            values = (
                np.median(beta),
                np.median(away),
                np.median(train),
                np.median(test),
                np.mean(np.array(test) < 0),
            )
            rows.append((f"PL1/{higher}", formula, *map(float, values)))
    columns = ("policy", "J", "median β", "|β − best|", "train NLL − best", "test NLL − best", "better on test")
    table = PlainTable(
        f"Figure {number}: {TITLES[model]}, Algorithm 1 against the β of the grid with the least train NLL",
        columns,
        tuple(rows),
        "Medians over σ² and λ of means over folds; the last column is the fraction of points with a smaller test NLL.",
        ("", "", ".3f", ".3f", "+.3f", "+.3f", ".2f"),
    )
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        caption = (
            f"Figure {number}. The β heuristic (Algorithm 1, diagonal form) for the {TITLES[model]} with PL1/FL (top) and "
            f"PL1/PL2 (bottom). x: the value at the heuristic's β; y: the value at the β of the grid with the least "
            f"train NLL; a point for each σ² and λ, mean over folds. Published: J as printed; exact: with the noise of "
            f"selection. Dashed: equal. {scale_note(scale, source)}"
        )
        drawn: list[list[Drawable]] = []
        for higher, by_formula in pairs.items():
            row: list[Drawable] = []
            for value, label in (("beta", "β"), ("train_nll", "train NLL"), ("test_nll", "test NLL")):
                clouds = [
                    Cloud(f"{f} J", columns_of(compared, f"heuristic_{value}"), columns_of(compared, f"best_{value}"))
                    for f, compared in by_formula.items()
                ]
                row.append(DiagonalPanel(f"PL1/{higher}: {label}", clouds, "heuristic", "best of the grid"))
            drawn.append(row)
        files += save_figure(draw_surfaces(drawn, caption, width=3.6, height=3.1), folder, name)
        joined = [
            {"policy": f"PL1/{higher}"} | r
            for higher, by_formula in pairs.items()
            for compared in by_formula.values()
            for r in compared
        ]
        files += write_tables(folder, name, joined, caption)
    document = {"experiment": name, "scale": scale, "model": model, "points": pairs}
    return Reproduction(document, (table,), (), tuple(files))
