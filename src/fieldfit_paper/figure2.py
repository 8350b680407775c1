"""Figure 2: how the asymptotic variance falls from PL1 over PL2, PL3 and PL4 to FL on five nodes.

    α·PL2 + (1−α)·PL1,   α·PL3 + (1−α)·PL2,   α·PL4 + (1−α)·PL3,   α·FL + (1−α)·PL4,      0 ≤ α ≤ 1

α and 1 − α are selection probabilities λ; θ has five entries −1 and then five +1, pairs in row-major order. Trace and
determinant are ratios to those of the MLE, by the published formula (Proposition 2 as printed) and by the exact one.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from fieldfit import BoltzmannMachine, family_mixtures
from fieldfit.plots import Level, Panel, PlainTable, Series, draw_panels, make_folder, save_figure
from fieldfit.types import Plain
from fieldfit_paper.tables import FORMULAS, Reproduction, check_scale, columns_of, write_tables

NODES = 5
THETA = np.repeat([-1.0, 1.0], 5)
FAMILIES = ("PL1", "PL2", "PL3", "PL4", "FL")
POINTS = {"small": 41, "paper": 201}
COLUMNS = ("lower", "higher", "alpha", "formula", "trace", "det", "root", "flops")

CAPTION = (
    "Figure 2. Asymptotic variance matrix, as measured by trace (left) and determinant (right), relative to maximum "
    "likelihood, as a function of the selection probability α. Above: the published formula, as in the paper. Below: the "
    "exact formula, which counts the noise of selecting components at random; note the other scale. Five-node Boltzmann "
    "machine, θ = (−1, −1, −1, −1, −1, 1, 1, 1, 1, 1), pairs in row-major order."
)
NOTE = (
    "By the published formula every curve falls as α grows and begins where the one before it ends, as the paper says. "
    "By the exact formula this holds for the ends only, where everything is selected: at α = 1/2 each mixture is less "
    "accurate than its lower order alone, because components that are selected independently add noise."
)


def compute(scale: str = "small") -> list[Plain]:
    """One record for each pair of families, α and formula."""
    check_scale(scale)
    moments = family_mixtures(BoltzmannMachine(NODES), THETA, FAMILIES)
    alpha = np.linspace(0.0, 1.0, POINTS[scale])
    beta = np.ones((len(alpha), len(FAMILIES)))
    records = []
    for place, (lower, higher) in enumerate(itertools.pairwise(FAMILIES)):
        lam = np.zeros_like(beta)
        lam[:, place], lam[:, place + 1] = 1 - alpha, alpha
        flops = moments.cost(lam)
        for formula in FORMULAS:
            sizes_by_kind = moments.efficiencies(lam, beta, formula)
            for k, value in enumerate(alpha):
                values = (lower, higher, round(float(value), 10), formula)
                sizes = (float(sizes_by_kind[kind][k]) for kind in ("trace", "det", "root"))
                records.append(dict(zip(COLUMNS, (*values, *sizes, float(flops[k])), strict=True)))
    return records


def draw(records: list[Plain], folder: Path) -> list[Path]:
    """Two rows (published, exact) of two panels (trace, determinant)."""
    rows = []
    plain = next(r for r in records if pure_family(r) == "PL1")
    for formula in FORMULAS:
        panels = []
        for kind, name in (("trace", "tr"), ("det", "det")):
            series = []
            for lower, higher in itertools.pairwise(FAMILIES[:-1]):
                curve = [r for r in records if (r["lower"], r["higher"], r["formula"]) == (lower, higher, formula)]
                label = rf"$\alpha\,${_name(higher)}$\,+\,(1-\alpha)\,${_name(lower)}"
                series.append(Series(label, columns_of(curve, "alpha"), columns_of(curve, kind)))
            rise = max(float(np.max(curve.y)) for curve in series) - 1
            panels.append(
                Panel(
                    f"{formula} formula",
                    r"$\alpha$",
                    rf"{name}(Var($\hat\theta^{{\,\mathrm{{msl}}}}$)) / {name}(Var($\hat\theta^{{\,\mathrm{{ml}}}}$))",
                    series,
                    [Level("FL", 1.0), Level("PL1", plain[kind])],
                    legend="upper right",
                    y_range=(1 - 0.05 * rise, 1 + (1.75 if formula == "published" else 1.15) * rise),
                    x_range=(0.0, 1.0),
                )
            )
        rows.append(panels)
    return save_figure(draw_panels(rows, CAPTION, height=3.3), folder, "figure-2")


def _name(family: str) -> str:
    return rf"PL$_{family[2:]}$" if family.startswith("PL") else family


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its table."""
    records = compute(scale)
    ends = []
    for family in FAMILIES:
        of_family = [r for r in records if pure_family(r) == family]
        find = {r["formula"]: r for r in of_family}
        published, exact = (find[formula] for formula in FORMULAS)
        ends.append((family, exact["flops"], published["trace"], published["det"], exact["trace"], exact["det"]))
    middles = []
    for lower, higher in itertools.pairwise(FAMILIES):
        find = {r["formula"]: r for r in records if (r["lower"], r["higher"], r["alpha"]) == (lower, higher, 0.5)}
        published, exact = (find[formula] for formula in FORMULAS)
        name = f"½{lower}+½{higher}"
        middles.append((name, exact["flops"], published["trace"], published["det"], exact["trace"], exact["det"]))
    summary = PlainTable(
        "Figure 2: five-node Boltzmann machine, variance relative to maximum likelihood",
        ("policy", "FLOPs", "published trace", "published det", "exact trace", "exact det"),
        (*ends, *middles),
    )
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        files = [*draw(records, folder), *write_tables(folder, "figure-2", records, CAPTION)]
    document = {"experiment": "figure-2", "scale": scale, "theta": THETA.tolist(), "points": records, "note": NOTE}
    return Reproduction(document, (summary,), (NOTE,), tuple(files))


def pure_family(record: Plain) -> str | None:
    """The family that is selected always, with the other never."""
    return {0.0: record["lower"], 1.0: record["higher"]}.get(record["alpha"])
