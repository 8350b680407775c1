"""Figure 3: computation against accuracy for nine nodes and three families of policies.

    λ1 β1 PL1 + λ2 (1−β1) PL2,     λ1 β1 PL1 + λ2 (1−β1) PL3,     λ1 β1 PL2 + λ2 (1−β1) PL3

for a grid of selection probabilities λ1, λ2 and weights β1. x is the normalised asymptotic variance (the ratio of
determinants), y the paper's FLOPs of one sample in the mean over Z. θ is not given in the paper; here 18 pairs have −1 and
then 18 have +1, in row-major order. Thousands of points take a second, because the families' moments are computed once (see
`fieldfit.family_mixtures`); so this is no sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from fieldfit import BoltzmannMachine, FamilyMixtures, component_flops, family_mixtures
from fieldfit.plots import Level, Panel, PlainTable, Series, draw_panels, lower_left, make_folder, save_figure
from fieldfit.types import FloatArray, Plain
from fieldfit_paper.tables import FORMULAS, Reproduction, check_scale, columns_of, write_tables

NODES = 9
THETA = np.repeat([-1.0, 1.0], 18)
FAMILIES = ("PL1", "PL2", "PL3")
PAIRS = (("PL1", "PL2"), ("PL1", "PL3"), ("PL2", "PL3"))
PURE = ("PL1", "PL2")
#: How many values of λ1 and λ2 (the largest is 1) and of β1 (strictly between 0 and 1).
GRIDS = {"small": (8, 7), "paper": (12, 11)}
COLUMNS = ("first", "second", "lam1", "lam2", "beta1", "formula", "det", "root", "trace", "flops")
#: Where the exact panel ends: beyond it are policies that hardly select anything.
LARGEST_SHOWN = 1e6

CAPTION = (
    "Figure 3. Computation–accuracy diagram for three SCL families: λ1β1PL1 + λ2(1−β1)PL2, λ1β1PL1 + λ2(1−β1)PL3, "
    "λ1β1PL2 + λ2(1−β1)PL3 (for multiple values of λ1, λ2, β1) for the Boltzmann machine with 9 binary nodes. The pure "
    "policies PL1 and PL2 are indicated by black circles and the computational complexity of the full likelihood by a "
    "dashed line (its normalised asymptotic variance is 1). Left: the published formula. Right: the exact one, on a "
    "logarithmic scale, up to a variance of 10⁶."
)


def policy_grid(scale: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """All combinations of λ1, λ2 and β1 as three vectors."""
    lams, betas = GRIDS[check_scale(scale)]
    lam = np.arange(1, lams + 1) / lams
    beta = np.arange(1, betas + 1) / (betas + 1)
    first_lam, two, weight = np.meshgrid(lam, lam, beta, indexing="ij")
    return first_lam.ravel(), two.ravel(), weight.ravel()


@cache
def _moments() -> FamilyMixtures:
    return family_mixtures(BoltzmannMachine(NODES), THETA, FAMILIES)


def compute(scale: str = "small") -> list[Plain]:
    """One record for each family, point of the grid and formula."""
    moments = _moments()
    lam1, lam2, beta1 = policy_grid(scale)
    records = []
    for first, second in PAIRS:
        lam, beta = np.zeros((2, len(lam1), len(FAMILIES)))
        for name, own_lam, own_beta in ((first, lam1, beta1), (second, lam2, 1 - beta1)):
            lam[:, FAMILIES.index(name)], beta[:, FAMILIES.index(name)] = own_lam, own_beta
        records += _records(moments, (first, second), lam, beta, (lam1, lam2, beta1))
    return records


def _records(
    moments: FamilyMixtures, pair: tuple[str, str], lam: FloatArray, beta: FloatArray, grid: Sequence[FloatArray]
) -> list[Plain]:
    flops = moments.cost(lam)
    records = []
    for formula in FORMULAS:
        efficiencies = moments.efficiencies(lam, beta, formula)
        numbers = (
            *(np.round(axis, 10) for axis in grid),
            efficiencies["det"],
            efficiencies["root"],
            efficiencies["trace"],
            flops,
        )
        for lam1, lam2, beta1, det, root, trace, cost in zip(*(n.tolist() for n in numbers), strict=True):
            values = (*pair, lam1, lam2, beta1, formula, det, root, trace, cost)
            records.append(dict(zip(COLUMNS, values, strict=True)))
    return records


def pure_policies() -> list[Plain]:
    """Each family alone, everything selected, and FL: the two formulas agree on these."""
    moments = _moments()
    efficiencies = moments.efficiencies(np.eye(len(FAMILIES)), np.ones((len(FAMILIES),) * 2), "exact")
    records: list[Plain] = [
        {
            "policy": name,
            "det": float(efficiencies["det"][k]),
            "root": float(efficiencies["root"][k]),
            "flops": float(moments.flops[k]),
        }
        for k, name in enumerate(FAMILIES)
    ]
    model = BoltzmannMachine(NODES)
    return [*records, {"policy": "FL", "det": 1.0, "root": 1.0, "flops": float(component_flops(model, "FL")[0])}]


def draw(records: list[Plain], pure: list[Plain], folder: Path) -> list[Path]:
    """Published and exact side by side."""
    shown = [point for point in pure if point["policy"] in PURE]
    full = next(point["flops"] for point in pure if point["policy"] == "FL")
    panels = []
    dropped = sum(r["formula"] == "exact" and r["det"] > LARGEST_SHOWN for r in records)
    for formula in FORMULAS:
        series: list[Series] = []
        for first, second in PAIRS:
            mixed = [r for r in records if (r["first"], r["second"], r["formula"]) == (first, second, formula)]
            mixed = [r for r in mixed if formula == "published" or r["det"] <= LARGEST_SHOWN]
            label = rf"$\lambda_1\beta_1${first} + $\lambda_2(1-\beta_1)${second}"
            series.append(Series(label, columns_of(mixed, "det"), columns_of(mixed, "flops"), "points"))
        edge = [r for r in boundary(records, pure, formula) if formula == "published" or r["det"] <= LARGEST_SHOWN]
        x, y = columns_of(edge, "det"), columns_of(edge, "flops")
        series.append(Series("boundary of the region", x, y, "edge"))
        circles = (columns_of(shown, "det"), columns_of(shown, "flops"))
        series.append(Series("pure policies", *circles, "circles", tuple(point["policy"] for point in shown)))
        panels.append(
            Panel(
                f"{formula} formula",
                "normalised asymptotic variance (det)",
                "complexity (FLOPs of a sample)",
                series,
                [Level("FL", full)],
                log_x=formula == "exact",
                x_range=_room_for_labels(series) if formula == "published" else None,
                legend="upper right",
                y_range=(0.0, 1.05 * max(r["flops"] for r in records)),
            )
        )
    beyond = f" ({dropped} policies lie beyond it)" if dropped else ""
    return save_figure(
        draw_panels([panels], CAPTION.rstrip(".") + beyond + ".", width=5.0, height=4.4), folder, "figure-3"
    )


def _room_for_labels(series: list[Series]) -> tuple[float, float]:
    """The range of x with room to the right of the last point for its name."""
    x = np.concatenate([line.x for line in series])
    span = float(np.ptp(x))
    return float(x.min()) - 0.05 * span, float(x.max()) + 0.1 * span


def boundary(records: list[Plain], pure: list[Plain], formula: str) -> list[Plain]:
    """The lower left boundary of the achievable region: policies that no other of the figure beats in both.

    Families alone, everything selected (λ1 = β1 = 1), belong to it.
    """
    of_formula = [r for r in records if r["formula"] == formula] + [p for p in pure if p["policy"] in FAMILIES]
    return [of_formula[k] for k in lower_left(columns_of(of_formula, "det"), columns_of(of_formula, "flops"))]


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its table."""
    records, pure = compute(scale), pure_policies()
    pl1 = next(point for point in pure if point["policy"] == "PL1")
    rows = []
    for formula in FORMULAS:
        for first, second in PAIRS:
            mixed = [r for r in records if (r["first"], r["second"], r["formula"]) == (first, second, formula)]
            det = columns_of(mixed, "det")
            better = sum(r["det"] < pl1["det"] for r in mixed)
            rows.append((formula, f"{first}/{second}", len(mixed), float(det.min()), float(np.median(det)), better))
    families = PlainTable(
        "Figure 3: nine-node Boltzmann machine, det of the variance relative to maximum likelihood",
        ("formula", "family", "policies", "least", "median", "better than PL1"),
        tuple(rows),
    )
    alone = PlainTable(
        "Pure policies",
        ("policy", "det", "FLOPs"),
        tuple((point["policy"], point["det"], point["flops"]) for point in pure),
    )
    better = {f: sum(r["det"] < pl1["det"] for r in records if r["formula"] == f) for f in FORMULAS}
    total = len(records) // 2
    note = (
        f"By the published formula {better['published']:,} of the {total:,} policies are more accurate than plain PL1; "
        f"by the exact one, which counts the noise of selecting components at random, {better['exact']:,} are."
    )
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        files = [*draw(records, pure, folder), *write_tables(folder, "figure-3", records, CAPTION)]
    edge = {formula: boundary(records, pure, formula) for formula in FORMULAS}
    document = {
        "experiment": "figure-3",
        "scale": scale,
        "theta": THETA.tolist(),
        "pure": pure,
        "points": records,
        "boundary": edge,
        "note": note,
    }
    return Reproduction(document, (alone, families), (note,), tuple(files))
