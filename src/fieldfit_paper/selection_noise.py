"""A figure of our own: what selecting components at random costs, which the published variance leaves out.

Left: (1−α)·PL1 + α·PL2 on the five nodes of Figure 2, by the published formula, by the exact one, and as seen in many fits
to samples that were drawn from the model. Right: three ways between PL1 and PL2, by the exact formula:

    (1−α)·PL1 + α·PL2        every component selected at random, as in Figures 2 and 3
    PL1 + λ·PL2, best β      the lower order always selected, β by the exact J (the policies of Section 7)
    λ·rows, PL2              all components of a share λ of the samples: 1/λ times the variance of PL2

The size of a variance matrix is det^(1/r), relative to maximum likelihood.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from fieldfit import BoltzmannMachine, FamilyMixtures, family_mixtures, fit
from fieldfit.plots import Panel, PlainTable, Series, draw_panels, make_folder, save_figure
from fieldfit.types import FloatArray, Plain
from fieldfit_paper.figure2 import NODES, THETA
from fieldfit_paper.tables import FORMULAS, Reproduction, check_scale, columns_of, write_tables

FAMILIES = ("PL1", "PL2")
SEED = 2010
SAMPLES = 2000  # of one fit
FITS = {"small": 60, "paper": 400}
ALPHAS = {"small": (0.25, 0.5, 0.75), "paper": (0.1, 0.25, 0.5, 0.75, 0.9)}
POINTS = 61
RANDOM, ALWAYS, ROWS = "(1−α)·PL1 + α·PL2", "PL1 + λ·PL2, best β", "λ·rows, PL2"

CAPTION = (
    "Selection noise. Five-node Boltzmann machine of Figure 2. Left: variance of (1−α)PL1 + αPL2 relative to maximum "
    "likelihood, det^(1/r), by the published formula (Proposition 2 as printed), by the exact one, and in fits to "
    "samples of the model (bars: two standard errors). Right: the exact variance against the FLOPs of a sample for three "
    "ways between PL1 and PL2: all components selected at random; PL1 always selected and PL2 with probability λ, with "
    "the best β; PL2 for a share λ of the samples."
)


def log_root_det(estimates: FloatArray) -> tuple[float, float]:
    """log det^(1/r) of the covariance of rows (R, r) without the bias of Wishart's law, and its standard error.

    For normal rows log det S − log det Σ has the mean Σ_k ψ((R−k)/2) − r log((R−1)/2), k = 1…r, and the variance
    Σ_k ψ'((R−k)/2).
    """
    from scipy.special import polygamma, psi

    count, r = estimates.shape
    half = (count - np.arange(1, r + 1)) / 2
    bias = float(np.sum(psi(half)) - r * np.log((count - 1) / 2))
    log_det = float(np.linalg.slogdet(np.cov(estimates, rowvar=False))[1])
    return (log_det - bias) / r, float(np.sqrt(np.sum(polygamma(1, half)))) / r


def simulate(alpha: float, fits: int, mle_covariance: FloatArray) -> tuple[float, float]:
    """det^(1/r) of n·Var(θ̂) over that of maximum likelihood in ``fits`` fits, and its standard error."""
    model = BoltzmannMachine(NODES)
    policy = f"{1 - alpha:.12g}*PL1 + {alpha:.12g}*PL2"
    codes = model.sample(THETA, SAMPLES * fits, SEED).codes.reshape(fits, SAMPLES, NODES)
    estimates = np.array([fit(model, sample, policy, random_state=SEED + k).theta for k, sample in enumerate(codes)])
    log_root, error = log_root_det(estimates)
    relative = SAMPLES * np.exp(log_root - np.linalg.slogdet(mle_covariance)[1] / len(mle_covariance))
    return float(relative), float(relative * error)


@cache
def compute(scale: str = "small") -> list[Plain]:
    """One record for each point: way, formula ("published", "exact", "simulated"), share, β, variance, error, FLOPs."""
    check_scale(scale)
    mixtures = family_mixtures(BoltzmannMachine(NODES), THETA, FAMILIES)
    records = _random(mixtures) + _always(mixtures) + _rows(mixtures)
    for alpha in ALPHAS[scale]:
        variance, error = simulate(alpha, FITS[scale], mixtures.mle_covariance)
        cost = float(mixtures.cost(np.array([1 - alpha, alpha])))
        records.append(_record(RANDOM, "simulated", alpha, np.nan, variance, cost, error))
    return records


def _record(
    way: str, formula: str, share: float, beta: float, variance: float, flops: float, error: float = 0.0
) -> Plain:
    names = ("way", "formula", "share", "beta", "variance", "error", "flops")
    values = (way, formula, float(share), float(beta), float(variance), float(error), float(flops))
    return dict(zip(names, values, strict=True))


def _random(mixtures: FamilyMixtures) -> list[Plain]:
    alpha = np.linspace(0.0, 1.0, POINTS)
    lam = np.column_stack([1 - alpha, alpha])
    flops = mixtures.cost(lam)
    records = []
    for formula in FORMULAS:
        roots = mixtures.efficiencies(lam, np.ones_like(lam), formula)["root"]
        records += [_record(RANDOM, formula, a, np.nan, v, c) for a, v, c in zip(alpha, roots, flops, strict=True)]
    return records


def _always(mixtures: FamilyMixtures) -> list[Plain]:
    """PL1 + λ·PL2 with the β of the smallest exact variance on a grid of 401."""
    beta = np.linspace(0.0, 1.0, 401)[:-1]  # β = 1 would leave PL1 out, which is computed anyway
    weights = np.column_stack([1 - beta, beta])
    records = []
    for share in np.linspace(0.0, 1.0, POINTS):
        lam = np.tile([1.0, share], (len(beta), 1))
        roots = mixtures.efficiencies(lam, weights, "exact")["root"]
        best = int(np.argmin(roots))
        records.append(_record(ALWAYS, "exact", share, beta[best], roots[best], float(mixtures.cost(lam[0]))))
    return records


def _rows(mixtures: FamilyMixtures) -> list[Plain]:
    """A share of the samples: n becomes λn, so that the variance is divided by λ."""
    whole = mixtures.efficiencies(np.array([[0.0, 1.0]]), np.ones((1, 2)), "exact")["root"][0]
    cost = mixtures.flops[1]
    shares = np.linspace(0.5, 1.0, POINTS)
    return [_record(ROWS, "exact", share, np.nan, whole / share, share * cost) for share in shares]


def draw(records: list[Plain], folder: Path) -> list[Path]:
    """Formulas and simulation on the left, ways between PL1 and PL2 on the right."""
    chosen = {f: [r for r in records if r["way"] == RANDOM and r["formula"] == f] for f in (*FORMULAS, "simulated")}
    left = [
        Series(f"{f} formula", columns_of(chosen[f], "share"), columns_of(chosen[f], "variance")) for f in FORMULAS
    ]
    seen = chosen["simulated"]
    errors = 2 * columns_of(seen, "error")
    left.append(
        Series("fits to samples", columns_of(seen, "share"), columns_of(seen, "variance"), "circles", error=errors)
    )
    right = []
    for way in (RANDOM, ALWAYS, ROWS):
        of_way = [r for r in records if r["way"] == way and r["formula"] == "exact"]
        right.append(Series(way, columns_of(of_way, "flops"), columns_of(of_way, "variance")))
    ends = [chosen["exact"][0], chosen["exact"][-1]]
    right.append(Series("all selected", columns_of(ends, "flops"), columns_of(ends, "variance"), "circles", FAMILIES))
    y = r"det$^{1/r}$ of the variance / maximum likelihood"
    panels = [
        Panel("(1−α)·PL1 + α·PL2", "α", y, left, x_range=(0.0, 1.0)),
        Panel("three ways between PL1 and PL2, exact", "complexity (FLOPs of a sample)", y, right),
    ]
    return save_figure(draw_panels([panels], CAPTION, width=4.8, height=3.9), folder, "selection-noise")


def comparison(records: list[Plain]) -> list[dict[str, float]]:
    """What the two formulas say, and what the fits did, at each α with fits."""
    seen = [r for r in records if r["formula"] == "simulated"]
    return [
        {"alpha": r["share"]}
        | {formula: _at(records, formula, r["share"]) for formula in FORMULAS}
        | {"fits": r["variance"], "error": r["error"]}
        for r in seen
    ]


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its table."""
    records = compute(scale)
    rows = comparison(records)
    find = {(r["way"], r["formula"], round(r["share"], 6)): r for r in records}
    table = PlainTable(
        "Selection noise: variance of (1−α)·PL1 + α·PL2 relative to maximum likelihood, det^(1/r)",
        ("α", "published", "exact", "fits", "standard error"),
        tuple(tuple(row.values()) for row in rows),
    )
    pl1, pl2 = (find[RANDOM, "exact", share]["variance"] for share in (0.0, 1.0))
    half = find[ALWAYS, "exact", 0.5]
    note = (
        f"PL1 alone has {pl1:.3f} and PL2 alone {pl2:.3f}. Half of each, selected at random, has "
        f"{_at(records, 'published', 0.5):.3f} by the published formula and {_at(records, 'exact', 0.5):.3f} by the "
        f"exact one. With PL1 always selected and half of PL2 it is {half['variance']:.3f} at the best β = "
        f"{half['beta']:.2f}: {(pl1 - half['variance']) / (pl1 - pl2):.0%} of the way from PL1 to PL2."
    )
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        files = [*draw(records, folder), *write_tables(folder, "selection-noise", records, CAPTION)]
    document = {"experiment": "selection-noise", "scale": scale, "seed": SEED, "points": records, "note": note}
    return Reproduction(document, (table,), (note,), tuple(files))


def _at(records: list[Plain], formula: str, alpha: float) -> float:
    """The curve at α, between the computed points by a straight line."""
    of_formula = [r for r in records if r["way"] == RANDOM and r["formula"] == formula]
    return float(np.interp(alpha, columns_of(of_formula, "share"), columns_of(of_formula, "variance")))
