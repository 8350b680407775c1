"""A figure of our own: refined estimators in the diagram of Figure 3, below everything that mixtures of components reach.

Two fields with nine nodes: the machine of Figure 3 with all 36 couplings, and a 3×3 grid with couplings ±0.8. x is the
paper's FLOPs of one sample, y the excess of the variance over maximum likelihood, det^(1/r) − 1. All variances are exact
sums over the 512 states. Dots with bars are fits to simulated samples. There the excess is that of

    det(1 + n I^½ S I^½)^(1/r),    S = the mean of (θ̂ − θ̂_FL)(θ̂ − θ̂_FL)ᵀ over the fits,    I = Fisher's information,

because the difference from an efficient estimate is not correlated with that estimate. Both are fitted to the same samples,
so that a hundred fits show an excess of a tenth of a percent.

A refined estimator is counted as one evaluation of the first stage, another of its residuals with one product for each of
p conditions, and its share of the weights: 512·p(p + r) products for all n samples together. A fit makes tens of
evaluations of the first stage and a few of the second, so this favours policies without a second stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from fieldfit import BoltzmannMachine, FamilyMixtures, condition_count, family_mixtures, fit, theory
from fieldfit.plots import Panel, PlainTable, Series, draw_panels, lower_left, make_folder, save_figure
from fieldfit.types import FloatArray, Plain
from fieldfit_paper.figure3 import FAMILIES, NODES, PAIRS, THETA, policy_grid
from fieldfit_paper.tables import Reproduction, check_scale, columns_of, write_tables

NAME = "refined-frontier"
SEED = 2010
FITS = {"small": 12, "paper": 200}
#: The likelihood of a share λ of the samples, with PL1's scores of all of them as control variates.
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
KINDS = ("mixture", "pure", "refined", "control", "full")
COLUMNS = ("field", "kind", "policy", "source", "excess", "error", "flops", "edge")


@dataclass(frozen=True)
class Case:
    """A field, the size n of simulated samples, graph distances of refined estimators, and the largest excess shown."""

    title: str
    model: BoltzmannMachine
    theta: FloatArray
    n: int
    distances: tuple[int, ...]
    largest: float


def cases() -> tuple[Case, ...]:
    """The machine of Figure 3 and a grid of as many nodes."""
    # The signs of benchmarks/refined_estimators.py.
    signs = np.array([1.0 if (5 * k + 3).bit_count() % 2 else -1.0 for k in range(12)])
    grid = BoltzmannMachine.grid(3, 3, states=(-1, 1))
    # In the field of Figure 3 two nodes are both 1 once in 100,000 samples, so its fits need many samples.
    return (
        Case("Figure 3: nine nodes, all pairs", BoltzmannMachine(NODES), THETA, 10_000_000, (1,), 0.004),
        Case("nine nodes in a 3×3 grid, couplings ±0.8", grid, 0.8 * signs, 2_000, (1, 2), 0.4),
    )


def caption(scale: str) -> str:
    """What the figure shows, with the numbers of this scale."""
    sizes = " and ".join(f"n = {case.n:,}" for case in cases())
    return (
        "Refined estimators in the diagram of Figure 3. Cost of a sample against the excess of the variance over maximum "
        "likelihood, det^(1/r) − 1 (0: as accurate as maximum likelihood). Small points: mixtures of two of PL1, PL2 and "
        "PL3, selection noise included; the line is the edge of what they reach. Below it lie the refined estimators. All "
        f"of these are exact. Black dots: {FITS[scale]} fits to simulated samples ({sizes}), bars: two standard errors."
    )


def mixtures_of(case: Case, moments: FamilyMixtures, scale: str = "small") -> list[Plain]:
    """The policies of Figure 3 by the exact formula, PL1, PL2 and PL3 alone among them; "edge" for those nothing beats."""
    lam1, lam2, beta1 = policy_grid(scale)
    points = [(np.eye(len(FAMILIES)), np.ones((len(FAMILIES),) * 2), list(FAMILIES))]
    for first, second in PAIRS:
        lam, beta = np.zeros((2, len(lam1), len(FAMILIES)))
        for name, own_lam, own_beta in ((first, lam1, beta1), (second, lam2, 1 - beta1)):
            lam[:, FAMILIES.index(name)], beta[:, FAMILIES.index(name)] = own_lam, own_beta
        numbers = zip(lam1, beta1, lam2, strict=True)
        names = [f"{a:.4g}*{first}@{b:.4g} + {c:.4g}*{second}@{1 - b:.4g}" for a, b, c in numbers]
        points.append((lam, beta, names))
    excess = np.concatenate([moments.efficiencies(lam, beta, "exact")["root"] for lam, beta, _ in points]) - 1
    flops = np.concatenate([moments.cost(lam) for lam, _, _ in points])
    names = [name for *_, policies in points for name in policies]
    edge = set(lower_left(flops, excess).tolist())
    kinds = ["pure" if k < len(FAMILIES) else "mixture" for k in range(len(names))]
    return [
        _record(case, kinds[k], names[k], "exact", excess[k], flops[k], edge=k in edge)
        for k in range(len(names))
        if k in edge or excess[k] <= case.largest
    ]


def refined_flops(case: Case, first: float, distance: int) -> float:
    """FLOPs of a sample of ``PL1 >> optimal(distance)``, by the count above."""
    p, r = condition_count(case.model, f"PL1 >> optimal({distance})"), case.model.n_parameters
    return float(2 * first + p + 2**NODES * p * (p + r) / case.n)


def exact(case: Case) -> list[Plain]:
    """Mixtures, refined estimators, and PL1 with the likelihood of a share of the samples."""
    moments = family_mixtures(case.model, case.theta, (*FAMILIES, "FL"))
    first, full = float(moments.flops[0]), float(moments.flops[-1])
    records = mixtures_of(case, family_mixtures(case.model, case.theta, FAMILIES))
    for distance in case.distances:
        policy = f"PL1 >> optimal({distance})"
        root = theory(case.model, case.theta, policy).efficiency("root")
        records.append(_record(case, "refined", policy, "exact", root - 1, refined_flops(case, first, distance)))
    for share in SHARES:
        policy = f"PL1 >> {share:g}*FL"
        root = theory(case.model, case.theta, policy).efficiency("root")
        records.append(_record(case, "control", policy, "exact", root - 1, 2 * first + share * full))
    records.append(_record(case, "full", "FL", "exact", 0.0, full))
    return records


def simulated(case: Case, known: list[Plain], fits: int) -> list[Plain]:
    """The same excess in fits of PL1, PL2 and the refined estimators to samples of the model."""
    codes, probability = case.model.joint_probabilities(case.theta)
    states = np.array(case.model.states[0])[codes]
    information = np.linalg.inv(family_mixtures(case.model, case.theta, ("PL1",)).mle_covariance)
    chosen = [r for r in known if r["kind"] == "refined" or r["policy"] in ("PL1", "PL2")]
    random = np.random.default_rng(SEED)
    away = np.zeros((len(chosen), fits, case.model.n_parameters))
    for k in range(fits):
        counts = random.multinomial(case.n, probability / probability.sum())
        rows, weight = states[counts > 0], counts[counts > 0].astype(float)
        full = fit(case.model, rows, "FL", sample_weight=weight, tol=1e-9).theta
        for j, record in enumerate(chosen):
            away[j, k] = fit(case.model, rows, record["policy"], sample_weight=weight, tol=1e-9).theta - full
    root = np.linalg.cholesky(information)
    records = []
    for record, differences in zip(chosen, away, strict=True):
        excess, error = excess_of(np.sqrt(case.n) * differences @ root)
        records.append(_record(case, record["kind"], record["policy"], "fits", excess, record["flops"], error))
    return records


def excess_of(differences: FloatArray) -> tuple[float, float]:
    """det(1 + S)^(1/r) − 1 for the second moments S of rows (fits, r), and its standard error by the derivative."""
    fits, r = differences.shape
    whole = np.eye(r) + differences.T @ differences / fits
    size = float(np.exp(np.linalg.slogdet(whole)[1] / r))
    lengths = np.sum(differences * np.linalg.solve(whole, differences.T).T, axis=1)
    return size - 1, size * float(lengths.std(ddof=1)) / np.sqrt(fits) / r


@cache
def compute(scale: str = "small") -> list[Plain]:
    """One record for each point of the figure."""
    check_scale(scale)
    records = []
    for case in cases():
        known = exact(case)
        records += [*known, *simulated(case, known, FITS[scale])]
    return records


def _record(
    case: Case,
    kind: str,
    policy: str,
    source: str,
    excess: float,
    flops: float,
    error: float = 0.0,
    edge: bool = False,
) -> Plain:
    values = (case.title, kind, policy, source, float(excess), float(error), float(flops), edge)
    return dict(zip(COLUMNS, values, strict=True))


def draw(records: list[Plain], scale: str, folder: Path) -> list[Path]:
    """A panel for each field."""
    panels = []
    for case in cases():
        of_case = [r for r in records if r["field"] == case.title]
        by = {kind: [r for r in of_case if r["kind"] == kind and r["source"] == "exact"] for kind in KINDS}
        edge = sorted((r for r in of_case if r["edge"]), key=lambda r: float(r["flops"]))
        right = 2 * max(r["flops"] for r in of_case)
        x = np.append(np.repeat(columns_of(edge, "flops"), 2)[1:], right)
        series = [
            _series(by["mixture"], "mixtures of PL1, PL2, PL3", "points"),
            Series("edge of what mixtures reach", x, 100 * np.repeat(columns_of(edge, "excess"), 2)),
            _series([*by["pure"], *by["full"]], "one family alone", "marks", named=True),
            _series(by["refined"], "refined: PL1 >> optimal", "marks", named=True),
            _series(by["control"], "PL1 >> λ·FL", "line"),
            _series([r for r in of_case if r["source"] == "fits"], "fits to samples", "circles"),
        ]
        panels.append(
            Panel(
                case.title,
                "complexity (FLOPs of a sample)",
                "excess variance over maximum likelihood (%)",
                series,
                log_x=True,
                x_range=(0.5 * by["pure"][0]["flops"], right),
                y_range=(-4 * case.largest, 100 * case.largest),
                legend="upper right",
            )
        )
    return save_figure(draw_panels([panels], caption(scale), width=5.2, height=4.2), folder, NAME)


def _series(records: list[Plain], label: str, kind: str, named: bool = False) -> Series:
    texts = tuple(record["policy"].removeprefix("PL1 >> ") for record in records) if named else ()
    error = 200 * columns_of(records, "error") if kind == "circles" else None
    return Series(label, columns_of(records, "flops"), 100 * columns_of(records, "excess"), kind, texts, error)


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its table."""
    records = compute(scale)
    seen = {(r["field"], r["policy"]): r for r in records if r["source"] == "fits"}
    rows, notes = [], []
    for case in cases():
        of_case = [r for r in records if r["field"] == case.title and r["source"] == "exact"]
        for r in of_case:
            if r["kind"] in ("pure", "refined", "full"):
                fits = seen.get((case.title, r["policy"]), {"excess": np.nan, "error": np.nan})
                values = (100 * r["excess"], 100 * fits["excess"], 100 * fits["error"])
                rows.append((case.title, r["policy"], r["flops"], *values))
        best = min(r["excess"] for r in of_case if r["kind"] in ("pure", "mixture"))
        last = [r for r in of_case if r["kind"] == "refined"][-1]
        notes.append(
            f"{case.title}: {last['policy']} has {100 * last['excess']:.3f}% more variance than maximum likelihood; the "
            f"best mixture or family of the figure has {100 * best:.3f}%, at any cost."
        )
    table = PlainTable(
        "Refined estimators: excess of the variance over maximum likelihood in %, det^(1/r) − 1",
        ("field", "policy", "FLOPs", "exact", "fits", "standard error"),
        tuple(rows),
    )
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        files = [*draw(records, scale, folder), *write_tables(folder, NAME, records, caption(scale))]
    document = {"experiment": NAME, "scale": scale, "seed": SEED, "points": records, "note": " ".join(notes)}
    return Reproduction(document, (table,), tuple(notes), tuple(files))
