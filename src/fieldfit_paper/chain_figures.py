"""Pictures of the chain experiments: contours and β-curves, trade-offs, and the heuristic against the grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

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
from fieldfit_paper.chain_sweeps import POLICIES, SCALES, mean_over_folds
from fieldfit_paper.chain_tables import GRID_AXES, SweepTables, at_sigma2, best_cell, sigma2_of
from fieldfit_paper.claim_rows import MODEL_NAMES, Records
from fieldfit_paper.tables import FORMULAS, Reproduction, columns_of, write_tables

NLL = {"train_nll": "train NLL", "test_nll": "test NLL"}
#: What a policy costs: the label of the axis, and the factor that brings the column to its unit.
COST_AXES = {
    "flops": ("million FLOPs of value and gradient", 1e-6),
    "evaluation_seconds": ("milliseconds of value and gradient", 1000.0),
}
#: How captions name it.
COST_NAMES = {"flops": "FLOPs", "evaluation_seconds": "Milliseconds (measured on one thread)"}
UNIT = "nats a sentence"
#: The paper's numbers of our figures.
PAPER_NUMBERS = {
    4: "Figure 5",
    5: "Figure 6",
    6: "Figure 7",
    7: "Figures 10 to 13",
    8: "Figure 9",
    9: "Figure 14",
    10: "Figures 16 to 19",
    11: "Figure 15",
    12: "Figure 20",
    13: "Figure 21",
}
#: Figures that have the paper's number, and one that is ours.
SAME_NUMBER, OURS = (1, 2, 3), 14
READING_NOTES = {
    "sums": "First reading: a family counts with the sum over its windows.",
    "means": "Second reading: PL1 and PL2 count with the average over their windows.",
}


def numbered(number: int) -> str:
    """Our number of a figure and the paper's."""
    if number in SAME_NUMBER:
        return f"Figure {number}"
    return f"Figure {number} " + (
        "(not in the paper)" if number == OURS else f"(the paper's {PAPER_NUMBERS[number]})"
    )


def scale_note(scale: str, source: str = "conll2000", reading: str = "sums") -> str:
    """What the scale is, in a sentence; the sentiment set has a number of splits for each reading."""
    size = SCALES[scale]
    if source == "sentiment":
        train = "half of the documents" if size.n_documents == 0 else f"{size.n_documents} documents"
        return (
            f"Scale {scale!r}: {train} to train on, the other half to test on, mean of {size.splits[reading]} splits."
        )
    test = "the whole test part" if size.n_test is None else f"{size.n_test} sentences of the test part"
    return f"Scale {scale!r}: {size.n_train} training sentences, {test}, mean of {size.folds} folds."


def contour_rows(rows: Records, higher: str, sigma2: Sequence[float]) -> list[list[Drawable]]:
    """Train above test, a column for each σ²; levels are the same across a row."""
    drawn: list[list[Drawable]] = []
    for value, name in NLL.items():
        (_, lam, beta), surface = mean_over_folds(rows, GRID_AXES, value)
        places = _places(rows, sigma2)
        levels = contour_levels([surface[place] for place in places])
        drawn.append(
            [
                ContourPanel(
                    f"PL1/{higher}: {name}, σ² = {s:g}", beta, lam, surface[place], levels, f"β ({higher})",
                    f"λ ({higher})", bar=place == places[-1],
                )
                for s, place in zip(sigma2, places, strict=True)
            ]
        )  # fmt: skip
    return drawn


def curve_rows(rows: Records, higher: str, sigma2: Sequence[float]) -> list[list[Drawable]]:
    """NLL against β, a curve for each λ; the range is the same across a row."""
    drawn: list[list[Drawable]] = []
    for value, name in NLL.items():
        (_, lam, beta), surface = mean_over_folds(rows, GRID_AXES, value)
        places = _places(rows, sigma2)
        shown = np.stack([surface[place] for place in places])
        # β = 1 with few selected sentences is far above everything else and would flatten the rest.
        low, high = float(shown.min()), float(np.quantile(shown, 0.9))
        ends = (low - 0.05 * (high - low), high + 0.1 * (high - low))
        drawn.append(
            [
                ShadedCurves(
                    f"{name}, σ² = {s:g}", beta, lam, surface[place], f"β ({higher})", name, "λ", ends,
                    legend=place == places[-1],
                )
                for s, place in zip(sigma2, places, strict=True)
            ]
        )  # fmt: skip
    return drawn


def _places(rows: Records, sigma2: Sequence[float]) -> list[int]:
    known = np.unique([row["sigma2"] for row in rows])
    return [int(place) for place in np.searchsorted(known, sigma2)]


def grid_table(title: str, by_policy: dict[str, Records], note: str) -> PlainTable:
    """For each policy and σ²: the best test NLL and where it is."""
    rows = []
    for higher, of_policy in by_policy.items():
        for sigma2 in sigma2_of(of_policy):
            here = at_sigma2(of_policy, sigma2)
            best, train = best_cell(here, "test_nll"), best_cell(here, "train_nll")["train_nll"]
            error = best["test_nll_error"]
            rows.append((f"PL1/{higher}", f"{sigma2:g}", train, best["test_nll"], error, best["lam"], best["beta"]))
    columns = ("policy", "σ²", "best train NLL", "best test NLL", "± (folds)", "λ there", "β there")
    return PlainTable(title, columns, tuple(rows), note, ("", "", ".3f", ".3f", ".3f", ".2g", ".2g"))


def reproduce_grids(
    number: int, source: str, model: str, out: Path | None, scale: str, reading: str = "sums"
) -> Reproduction:
    """Figures 7 and 10: contours and β-curves of PL1/FL and PL1/PL2."""
    name = f"figure-{number}" if reading == "sums" else f"figure-{number}-means"
    tables = SweepTables(out, scale)
    by_policy = {higher: tables.grid(source, model, higher, reading) for higher in POLICIES}
    note = (
        f"NLL in {UNIT}. {scale_note(scale, source)} {READING_NOTES[reading]} σ² belongs to the mean log-likelihood of a "
        "sentence."
    )
    title = f"{numbered(number)}: {MODEL_NAMES[model]}, best cells of the grid"
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        for higher, rows in by_policy.items():
            sigma2 = sigma2_of(rows)
            suffix = f"pl1-{higher.lower()}"
            subject = (
                f"{numbered(number)}. Train (top) and test (bottom) negative log-likelihood for the {MODEL_NAMES[model]} "
                f"with the selection policy PL1/{higher}"
            )
            caption = (
                f"{subject}. x: weight β of {higher}; y: probability λ of its selection. PL1 is always selected and has "
                "the weight 1−β. Columns: σ². One scale of colours for each row; the cross is the least value of a "
                f"panel. {note}"
            )
            files += save_figure(
                draw_surfaces(contour_rows(rows, higher, sigma2), caption), folder, f"{name}-{suffix}-contours"
            )
            caption = (
                f"{subject} against β; a lighter curve has a larger λ. Columns: σ². A triangle at the top marks a curve "
                f"that goes on above. {note}"
            )
            files += save_figure(
                draw_surfaces(curve_rows(rows, higher, sigma2), caption), folder, f"{name}-{suffix}-curves"
            )
            files += write_tables(folder, f"{name}-{suffix}", rows, caption)
    document = {"experiment": name, "scale": scale, "model": model, "reading": reading, "grids": by_policy}
    return Reproduction(document, (grid_table(title, by_policy, note),), (), tuple(files))


def reproduce_trade_off(
    number: int, source: str, model: str, out: Path | None, scale: str, reading: str = "sums"
) -> Reproduction:
    """Figures 8 and 11: NLL against FLOPs, and against measured seconds."""
    name = f"figure-{number}" if reading == "sums" else f"figure-{number}-means"
    tables = SweepTables(out, scale)
    by_policy = {higher: tables.grid(source, model, higher, reading) for higher in POLICIES}
    rows = []
    for higher, of_policy in by_policy.items():
        cheapest, best = best_cell(of_policy, "flops"), best_cell(of_policy, "test_nll")
        for what, cell in (("cheapest", cheapest), ("best test NLL", best)):
            values = (cell["sigma2"], cell["lam"], cell["beta"], cell["flops"], 1000 * cell["evaluation_seconds"])
            rows.append((f"PL1/{higher}", what, *values, cell["train_nll"], cell["test_nll"]))
    columns = ("policy", "which", "σ²", "λ", "β", "FLOPs", "ms", "train NLL", "test NLL")
    formats = ("", "", "g", "g", "g", ",.0f", ".2f", ".3f", ".3f")
    title = f"{numbered(number)}: {MODEL_NAMES[model]}, trade-off"
    table = PlainTable(title, columns, tuple(rows), FLOPS[model], formats)
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        for axis, suffix, unit in (("flops", "", FLOPS[model]), ("evaluation_seconds", "-seconds", "")):
            caption = (
                f"{numbered(number)}. {COST_NAMES[axis]} of an evaluation and negative log-likelihood for the "
                f"{MODEL_NAMES[model]}: a row for each policy, train and test, a column for each σ². Each point is a "
                "policy (λ, β), mean over folds; large marks and steps: no cheaper one is as good. The shaded region was "
                f"not reached by any of this σ². 'Above': points above the frame. "
                f"{scale_note(scale, source)} {READING_NOTES[reading]} {unit}"
            )
            drawing = draw_surfaces(trade_off_rows(by_policy, axis), caption)
            files += save_figure(drawing, folder, f"{name}{suffix}")
        joined = [{"policy": f"PL1/{higher}"} | r for higher, of_policy in by_policy.items() for r in of_policy]
        files += write_tables(folder, name, joined, caption)
    document = {
        "experiment": name, "scale": scale, "model": model, "reading": reading, "flops": FLOPS[model], "points": by_policy,
    }  # fmt: skip
    return Reproduction(document, (table,), (FLOPS[model],), tuple(files))


def sigma2_labels(tables: Iterable[Records]) -> list[str]:
    """The names of all σ² of some tables in their order: panels that share them show a σ² by one colour."""
    return [f"σ² = {value:g}" for value in sorted({value for rows in tables for value in sigma2_of(rows)})]


def trade_off_rows(by_policy: dict[str, Records], axis: str) -> list[list[Drawable]]:
    """For each policy train above test, a column for each σ²; the vertical range is the same across a row."""
    label, unit = COST_AXES[axis]
    drawn: list[list[Drawable]] = []
    for higher, of_policy in by_policy.items():
        for value, name in NLL.items():
            y = columns_of(of_policy, value)
            low, high = float(y.min()), float(np.quantile(y, 0.9))
            ends = (low - 0.12 * (high - low), high + 0.08 * (high - low))
            row: list[Drawable] = []
            for sigma2 in sigma2_of(of_policy):
                here = at_sigma2(of_policy, sigma2)
                title = f"PL1/{higher}, σ² = {sigma2:g}"
                cloud = Cloud(title, unit * columns_of(here, axis), columns_of(here, value))
                row.append(TradeOffPanel(title, [cloud], label, name, y_range=ends, frontier=True))
            drawn.append(row)
    return drawn


def reproduce_heuristic(
    number: int, source: str, model: str, out: Path | None, scale: str, reading: str = "sums"
) -> Reproduction:
    """Figures 9 and 12: the heuristic's β, train and test NLL against those of the grid's best β."""
    name = f"figure-{number}" if reading == "sums" else f"figure-{number}-means"
    tables = SweepTables(out, scale)
    pairs = {
        (higher, formula): tables.heuristic(source, model, higher, formula, reading)
        for higher in POLICIES
        for formula in FORMULAS
    }
    rows: list[tuple[str | float, ...]] = []
    for (higher, formula), compared in pairs.items():
        away = [abs(r["heuristic_beta"] - r["best_beta"]) for r in compared]
        train = [r["heuristic_train_nll"] - r["best_train_nll"] for r in compared]
        test = [r["heuristic_test_nll"] - r["best_test_nll"] for r in compared]
        beta = [r["heuristic_beta"] for r in compared]
        medians = map(float, map(np.median, (beta, away, train, test)))
        rows.append((f"PL1/{higher}", formula, *medians, float(np.mean(np.array(test) < 0))))
    columns = ("policy", "J", "median β", "|β − best|", "train NLL − best", "test NLL − best", "better on test")
    table = PlainTable(
        f"{numbered(number)}: {MODEL_NAMES[model]}, Algorithm 1 against the β of the grid with the least train NLL",
        columns,
        tuple(rows),
        "Medians over σ² and λ of means over folds; the last column is the fraction of points with a smaller test NLL.",
        ("", "", ".3f", ".3f", "+.3f", "+.3f", ".2f"),
    )
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        counts = {int(r.get("folds", SCALES[scale].folds)) for compared in pairs.values() for r in compared}
        folds = " to ".join(str(count) for count in sorted({min(counts), max(counts)}))
        caption = (
            f"{numbered(number)}. The β heuristic (Algorithm 1, diagonal form) for the {MODEL_NAMES[model]}. x: the "
            "value at the heuristic's β; y: the value at the β of the grid with the least train NLL; a point for each σ² "
            f"and λ, mean over folds ({folds}). A row for each policy and form of J: published, as "
            f"printed; exact, with the noise of selection. Dashed: equal. {READING_NOTES[reading]}"
        )
        drawn: list[list[Drawable]] = []
        order = sigma2_labels(pairs.values())
        for (higher, formula), compared in pairs.items():
            row: list[Drawable] = []
            for value, label in (("beta", "β"), ("train_nll", "train NLL"), ("test_nll", "test NLL")):
                clouds = []
                for sigma2 in sigma2_of(compared):
                    here = at_sigma2(compared, sigma2)
                    x, y = columns_of(here, f"heuristic_{value}"), columns_of(here, f"best_{value}")
                    clouds.append(Cloud(f"σ² = {sigma2:g}", x, y))
                title = f"PL1/{higher}, {formula} J: {label}"
                row.append(DiagonalPanel(title, clouds, "heuristic", "best of the grid", ordered=order))
            drawn.append(row)
        files += save_figure(draw_surfaces(drawn, caption, width=3.6, height=3.1), folder, name)
        joined = [{"policy": f"PL1/{higher}"} | r for (higher, _), compared in pairs.items() for r in compared]
        files += write_tables(folder, name, joined, caption)
    points = {f"PL1/{higher}, {formula} J": compared for (higher, formula), compared in pairs.items()}
    document = {"experiment": name, "scale": scale, "model": model, "reading": reading, "points": points}
    return Reproduction(document, (table,), (), tuple(files))
