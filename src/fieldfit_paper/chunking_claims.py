"""Claims about text chunking, each judged in both readings (Section 8.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fieldfit.types import Plain
from fieldfit_paper.chain_folds import UNSEEN
from fieldfit_paper.chain_sweeps import POLICIES, averaged, mean_over_folds
from fieldfit_paper.chain_tables import GRID_AXES, SweepTables, at_sigma2, best_cell, sigma2_of
from fieldfit_paper.chunking import READINGS
from fieldfit_paper.claim_rows import CLOSE, Finding, Records, Row, Verdict
from fieldfit_paper.stationary_mass import explanation

BC = "boltzmann-chain"
#: A change of the test NLL by less than this share is "minor".
MINOR = 0.03
TENTH = 0.1
#: The σ² of FL alone and the test NLL of the CRF that the paper prints.
FULL_SIGMA2, PRINTED_CRF = 500.0, 5.5
Grids = dict[tuple[str, str], Records]
Judge = Callable[[Grids], tuple[str, bool | None]]


class BothReadings:
    """Judges a claim by the grids of the two readings."""

    def __init__(self, tables: SweepTables) -> None:
        self.grids = {
            reading: {(m, h): tables.grid("conll2000", m, h, reading) for m in (BC, "crf") for h in POLICIES}
            for reading in READINGS
        }

    def row(self, where: str, claim: str, judge: Judge, why: str = "") -> Row:
        """The findings of both readings; ``why`` is shown where one of them does not agree."""
        first, second = (Finding.of(*judge(self.grids[reading])) for reading in READINGS)
        agree = first.verdict is Verdict.AGREES and second.verdict is Verdict.AGREES
        return Row(where, claim, first, "" if agree else why, second)


def best_number(model: str, higher: str, printed: float) -> Judge:
    """The least test NLL of a grid against the number that the paper prints."""

    def judge(grids: Grids) -> tuple[str, bool | None]:
        best = best_cell(grids[model, higher], "test_nll")
        at = f"σ² = {best['sigma2']:g}, λ = {best['lam']:g}, β = {best['beta']:g}"
        measured = float(best["test_nll"])
        text = f"{measured:.2f} ± {best['test_nll_error']:.2f} ({at}), {measured / printed - 1:+.1%}"
        return text, abs(measured / printed - 1) < CLOSE

    return judge


def test_above_train(model: str) -> Judge:
    """The gap between test and train NLL in the mean over each panel."""

    def judge(grids: Grids) -> tuple[str, bool | None]:
        gaps = []
        for higher in POLICIES:
            rows = grids[model, higher]
            for sigma2 in sigma2_of(rows):
                gaps.append(float(np.mean([r["test_nll"] - r["train_nll"] for r in at_sigma2(rows, sigma2)])))
        return f"by {min(gaps):.2f} nats or more in each of {len(gaps)} panels", min(gaps) > 0

    return judge


def range_by_lam(grids: Grids) -> tuple[str, bool | None]:
    """Whether at most β the range of train NLL over λ grows with σ², and whether its lower bound falls."""
    (columns, _, beta), surface = mean_over_folds(grids[BC, "FL"], GRID_AXES, "train_nll")
    spans, lows = np.ptp(surface, axis=1), surface.min(axis=(1, 2))
    matters = beta > 0  # at β = 0 λ changes nothing
    grows = (spans[-1] > spans[0]) & matters
    middle, end = int(np.argmin(np.abs(beta - 0.5))), len(beta) - 1
    inside = (beta > TENTH - 1e-9) & (beta < 1)
    before = np.ptp(surface[:, :, inside].mean(axis=2), axis=1) if inside.any() else np.zeros(len(columns))
    falls = bool(lows[-1] < lows[0])
    text = (
        f"from σ² = {columns[0]:g} to {columns[-1]:g} the range grows at {grows.sum()} of {matters.sum()} β (at β = "
        f"{beta[middle]:g} from {spans[0, middle]:.1f} to {spans[-1, middle]:.1f}, at β = {beta[end]:g} from "
        f"{spans[0, end]:.1f} to {spans[-1, end]:.1f}); least train NLL from {lows[0]:.2f} to {lows[-1]:.2f}; by the "
        f"earlier rule the range goes from {before[0]:.1f} to {before[-1]:.1f}: "
        f"{Verdict.of(bool(before[-1] > before[0]) and falls).value}"
    )
    return text, bool(grows.sum() > 0.5 * matters.sum()) and falls


def outperforms(tables: SweepTables, reading: str) -> Finding:
    """The best policy of PL1/PL2 against that of PL1/FL at σ² = 5000; where folds are known, on the same sentences."""
    best, folds = {}, {}
    for higher in POLICIES:
        chosen = ("conll2000", BC, higher, reading)
        best[higher] = cell = best_cell(at_sigma2(tables.grid(*chosen), 5000), "test_nll")
        if tables.has_folds(*chosen):
            same = [r for r in tables.grid_cells(*chosen) if all(r[axis] == cell[axis] for axis in GRID_AXES)]
            folds[higher] = np.array([r["test_nll"] for r in sorted(same, key=lambda r: float(r["fold"]))])
    away = best["PL2"]["test_nll"] - best["FL"]["test_nll"]
    if len(folds) == len(POLICIES):
        error, how = float(np.std(folds["PL2"] - folds["FL"], ddof=1) / np.sqrt(len(folds["FL"]))), ", paired by fold"
    else:
        error, how = float(np.hypot(*(best[h]["test_nll_error"] for h in POLICIES))), ""
    text = f"{best['PL2']['test_nll']:.2f} against {best['FL']['test_nll']:.2f} ({away:+.2f} ± {error:.2f}{how})"
    return Finding.of(text, None if abs(away) < 2 * error else bool(away < 0))


def keeps_improving(grids: Grids) -> tuple[str, bool | None]:
    """Whether the best test NLL of PL1/PL2 falls with every weaker penalty."""
    rows = grids[BC, "PL2"]
    best = [float(best_cell(at_sigma2(rows, s), "test_nll")["test_nll"]) for s in sigma2_of(rows)]
    return "best test NLL by σ²: " + ", ".join(f"{v:.2f}" for v in best), bool(np.all(np.diff(best) < 0))


def pulled_to_axis(grids: Grids) -> tuple[str, bool | None]:
    """Whether a given test NLL needs a smaller λ where the penalty is weaker; by the earlier rule with all β."""
    texts, falling = [], {}
    for least in (TENTH, 0.0):
        falls = []
        for higher in POLICIES:
            # Near β = 0 every λ gives the same, and no contour can move.
            rows = [r for r in grids[BC, higher] if r["beta"] > least - 1e-9]
            first, last = (at_sigma2(rows, s) for s in (sigma2_of(rows)[0], sigma2_of(rows)[-1]))
            # The level that both panels reach: the worse of the two best values, with 1% to spare.
            level = 1.01 * max(best_cell(part, "test_nll")["test_nll"] for part in (first, last))
            lams = [min(r["lam"] for r in part if r["test_nll"] <= level) for part in (first, last)]
            share = [float(np.mean([r["test_nll"] <= level for r in part])) for part in (first, last)]
            falls.append(lams[1] < lams[0])
            if least > 0:
                texts.append(
                    f"PL1/{higher}: a test NLL of {level:.1f} or less from λ = {lams[0]:g} on and in {share[0]:.0%} of the "
                    f"panel at the smallest σ², from λ = {lams[1]:g} on and in {share[1]:.0%} at the largest"
                )
        falling[least] = all(falls)
    return "; ".join([*texts, f"by the earlier rule: {Verdict.of(falling[0.0]).value}"]), falling[TENTH]


def larger_areas(grids: Grids) -> tuple[str, bool | None]:
    """Whether more of the panels of PL1/PL2 than of PL1/FL has a test NLL near the best, and from a smaller λ."""
    shares, lams = {}, {}
    level = 1.02 * max(best_cell(grids[BC, higher], "test_nll")["test_nll"] for higher in POLICIES)
    for higher in POLICIES:
        rows = [r for r in grids[BC, higher] if r["beta"] > TENTH - 1e-9]
        shares[higher] = float(np.mean([r["test_nll"] <= level for r in rows]))
        lams[higher] = min(r["lam"] for r in rows if r["test_nll"] <= level)
    text = "; ".join(
        f"PL1/{h}: a test NLL of {level:.1f} or less in {shares[h]:.0%} of the panels, from λ = {lams[h]:g} on"
        for h in POLICIES
    )
    return text, shares["PL2"] > shares["FL"] and lams["PL2"] <= lams["FL"]


def matters_less(grids: Grids) -> tuple[str, bool | None]:
    """The range of NLL over β of the CRF against that of the Boltzmann chain."""
    spread = {}
    for model in (BC, "crf"):
        parts = []
        for higher in POLICIES:
            for value in ("train_nll", "test_nll"):
                _, surface = mean_over_folds(grids[model, higher], GRID_AXES, value)
                parts.append(np.ptp(surface, axis=2).ravel())
        spread[model] = float(np.median(np.concatenate(parts)))
    text = f"median range of NLL over β: {spread['crf']:.2f} nats (CRF), {spread[BC]:.2f} (Boltzmann chain)"
    return text, spread["crf"] < spread[BC]


def not_one(grids: Grids) -> tuple[str, bool | None]:
    """The best β of the CRF at the largest σ²."""
    rows = grids["crf", "FL"]
    best = best_cell(at_sigma2(rows, sigma2_of(rows)[-1]), "test_nll")
    text = f"σ² = {sigma2_of(rows)[-1]:g}: best test NLL at β = {best['beta']:g}, λ = {best['lam']:g}"
    return text, bool(best["beta"] < 1)


def meets(grids: Grids) -> tuple[str, bool | None]:
    """PL1/PL2 of the CRF against PL1/FL."""
    ends = {h: float(best_cell(grids["crf", h], "test_nll")["test_nll"]) for h in POLICIES}
    away = ends["PL2"] / ends["FL"] - 1
    return f"{ends['PL2']:.3f} against {ends['FL']:.3f} ({away:+.1%})", away < CLOSE


def lam_is_minor(grids: Grids) -> tuple[str, bool | None]:
    """How much λ changes the test NLL of the CRF with PL1/PL2 at the best β, and where PL1 alone (β = 0) is."""
    rows = grids["crf", "PL2"]
    changes, texts = [], []
    for sigma2 in sigma2_of(rows):
        here = at_sigma2(rows, sigma2)
        best = [best_cell([r for r in here if r["lam"] == lam], "test_nll")["test_nll"] for lam in _lams(here)]
        alone = [r["test_nll"] for r in here if r["beta"] == 0]
        changes.append(1 - best[-1] / best[0])
        texts.append(f"{changes[-1]:+.1%} at σ² = {sigma2:g}" + (f" (PL1 alone {alone[0]:.2f})" if alone else ""))
    return (
        "from the smallest λ to 1 the best test NLL improves by " + ", ".join(texts),
        max(map(abs, changes)) < MINOR,
    )


def _lams(rows: Records) -> list[float]:
    return sorted({float(row["lam"]) for row in rows})


def chain_claims(judged: BothReadings, tables: SweepTables) -> Iterator[Row]:
    """Figures 9 to 13 of the paper: the Boltzmann chain."""
    scale = (
        "In the first reading a sentence counts once for each of its tokens in PL1 and PL2, so a given σ² penalises them "
        "far less than FL; the second reading divides by the number of windows."
    )
    yield judged.row(
        "Figure 10", "PL1/FL: best test NLL about 190.", best_number(BC, "FL", 190.0), "More than 3% away."
    )
    yield judged.row("Figure 12", "PL1/PL2: best test NLL about 189.5.", best_number(BC, "PL2", 189.5), scale)
    yield judged.row(
        "Figure 12",
        "Test contours of PL1/PL2 have less NLL for larger areas than those of PL1/FL, and at smaller λ.",
        larger_areas,
        f"The level is 2% above the larger of the two best test NLLs, β from 0.1 on. {scale}",
    )
    yield judged.row("Figure 10", "Test NLL lies above train NLL at each σ².", test_above_train(BC))
    yield judged.row(
        "Figure 11",
        "As the regulariser weakens, the range of train NLL spanned by λ grows and its lower bound falls.",
        range_by_lam,
        "The lower bound falls in both, and at β near 1 the range grows in both: there only the selected sentences "
        "count, and a weaker penalty lets them be fitted at the cost of the others. At smaller β PL1 has all sentences. "
        "Once a weak penalty lets PL1 fit them, λ has little left to change, in the first reading already at small σ², "
        "because a sentence counts once for each of its tokens.",
    )
    yield Row(
        "Figure 13",
        "PL1/PL2 outperforms PL1/FL on the test set at σ² = 5000.",
        outperforms(tables, READINGS[0]),
        "'Undecided' within two standard errors, without allowance for the choice of the best cells. Second reading: "
        "at σ² = 5000 the best policy of PL1/FL has FL for all sentences and PL1 as a regulariser; the best σ² of "
        f"PL1/PL2 is 10,000, and it does not reach PL1/FL there either. {scale}",
        outperforms(tables, READINGS[1]),
    )
    yield judged.row(
        "Figure 13",
        "PL1/PL2 continues to improve with weaker regularisers.",
        keeps_improving,
        "Second reading: it improves to σ² = 10,000 and is nearly level beyond, because the best σ² lies between those "
        "of the panels. First reading: pseudo-likelihood never sees the global normaliser, and under a weak penalty a "
        "rare label can take nearly all of the stationary mass of the chain, which costs test likelihood and makes the "
        "surfaces jump. " + explanation(),
    )
    yield judged.row(
        "Figures 10 and 12, Section 8.4",
        "As regularisation decreases, the contours are pulled closer to the x-axis.",
        pulled_to_axis,
        "The rule, for both policies and β from 0.1 on: a test NLL that the first and the last panel reach must need a "
        "smaller λ in the last. In the first reading the smallest λ of the grid reaches it in both panels, so nothing is "
        "left to be pulled closer; the first panel has the best σ², and a weaker penalty costs test likelihood at every "
        "λ.",
    )


def second_order_text(tables: SweepTables) -> str:
    """FL alone by first-order and second-order CRFs at the σ² that the paper names."""
    first = averaged([r for r in tables.pure("crf", "FL") if r["sigma2"] == FULL_SIGMA2], ("sigma2",))[0]
    second = {r["model"]: r for r in tables.second_order()}
    forbidden, zero = (second[name] for name in UNSEEN)

    def text(row: Plain) -> str:
        return f"{row['test_nll']:.2f} ± {row['test_nll_error']:.2f}"

    return (
        f"FL alone at σ² = {FULL_SIGMA2:g}, which the paper names as the best, has {text(first)} with transitions "
        f"between pairs of labels, {text(forbidden)} with the 847 trigrams if no other is possible, and {text(zero)} if "
        "the others have weight 0."
    )


def crf_claims(judged: BothReadings, tables: SweepTables) -> Iterator[Row]:
    """Figures 15 to 19 of the paper: the CRF."""
    yield judged.row(
        "Figure 16",
        "PL1/FL: best test NLL about 5.5.",
        best_number("crf", "FL", PRINTED_CRF),
        "Not explained by the scale of families alone: the paper's 847 transitions are label trigrams, which this CRF of "
        f"first order does not have. {second_order_text(tables)}",
    )
    yield judged.row("Figure 16", "Test NLL lies above train NLL at each σ².", test_above_train("crf"))
    yield judged.row("Figure 16", "β matters less for the CRF than for the Boltzmann chain.", matters_less)
    yield judged.row(
        "Figure 17",
        "For large enough σ² the best β is not 1: PL1 acts as a regulariser.",
        not_one,
        "FL alone is best there.",
    )
    yield judged.row(
        "Figure 19",
        "The test NLL with PL1/PL2 meets that with PL1/FL.",
        meets,
        "The two are about as far apart as our limit of 3%.",
    )
    yield judged.row(
        "Figure 19",
        "PL1/PL2: increasing λ only brings minor improvement.",
        lam_is_minor,
        f"'Minor' is read as a change of the test NLL by less than {MINOR:.0%} at every σ², in either direction. Second "
        "reading: PL1 alone has nearly the same NLL in all panels, and λ matters most at σ² = 10,000, which is the best "
        "σ² of PL2 alone. First reading: σ² is 20 to 80 times the best one of PL2 alone, and more of PL2 overfits more.",
    )
