"""Claims about text chunking, each judged in both readings (Section 8.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

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
#: Test NLLs near the best, relative to the larger of two best ones: areas of contours, and where a contour begins.
AREA, TIP = 1.02, 1.005
#: The σ² of FL alone and the test NLL of the CRF that the paper prints.
FULL_SIGMA2, PRINTED_CRF = 500.0, 5.5
#: What Figures 9 and 15 show by their shaded regions, and why a result may differ.
TRADE_OFF = (
    "Accuracy and complexity are traded off: no policy is the cheapest and the most accurate at the same time."
)
TRADE_OFF_WHY = (
    f"The cheapest policies of a picture are within {CLOSE:.0%} of its least train NLL: with PL1/PL2 the cheapest is PL1 "
    "alone (β = 0), and under these weak penalties it fits the training sentences nearly as closely as any other."
)
TRADE_OFF_RULE = (
    f"Judged by train NLL, as Figure 6: the cheapest policies must miss the least one by more than {CLOSE:.0%}. On the "
    "test set a cheap policy can be as good: see Section 8.4 below."
)
Grids = dict[tuple[str, str], Records]
Judge = Callable[[Grids], tuple[str, bool | None]]


class BothReadings:
    """Judges a claim by the grids of the two readings."""

    def __init__(self, tables: SweepTables) -> None:
        self.grids = {
            reading: {(m, h): tables.grid("conll2000", m, h, reading) for m in (BC, "crf") for h in POLICIES}
            for reading in READINGS
        }

    def row(self, where: str, claim: str, judge: Judge, why: str = "", rule: str = "") -> Row:
        """The findings of both readings; ``why`` is shown where one of them does not agree, ``rule`` in any case."""
        first, second = (Finding.of(*judge(self.grids[reading])) for reading in READINGS)
        agree = first.verdict is Verdict.AGREES and second.verdict is Verdict.AGREES
        return Row(where, claim, first, " ".join(text for text in (rule, "" if agree else why) if text), second)


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
    """The gap between test and train NLL at each point of the panels."""

    def judge(grids: Grids) -> tuple[str, bool | None]:
        means, least = [], []
        for higher in POLICIES:
            rows = grids[model, higher]
            for sigma2 in sigma2_of(rows):
                gaps = [float(r["test_nll"] - r["train_nll"]) for r in at_sigma2(rows, sigma2)]
                means.append(float(np.mean(gaps)))
                least.append(min(gaps))
        text = f"by {min(means):.2f} nats or more in the mean of each of {len(means)} panels, by {min(least):.2f} or more"
        return f"{text} at every (λ, β)", min(least) > 0

    return judge


def range_by_lam(grids: Grids) -> tuple[str, bool | None]:
    """Whether the range of train NLL that λ spans in a panel grows with each σ², and whether its lower bound falls.

    The text also has the verdicts by two earlier rules: the range at most of the β, and that of the mean over β.
    """
    (columns, _, beta), surface = mean_over_folds(grids[BC, "FL"], GRID_AXES, "train_nll")
    spans, lows = np.ptp(surface, axis=1), surface.min(axis=(1, 2))
    widest = spans.max(axis=1)  # λ spans most at one β, as a rule at β = 1
    falls = bool(np.all(np.diff(lows) < 0))
    matters = beta > 0  # at β = 0 λ changes nothing
    grows = (spans[-1] > spans[0]) & matters
    middle = int(np.argmin(np.abs(beta - 0.5)))
    inside = (beta > TENTH - 1e-9) & (beta < 1)
    before = np.ptp(surface[:, :, inside].mean(axis=2), axis=1) if inside.any() else np.zeros(len(columns))
    by_beta, by_mean = (
        Verdict.of(bool(holds) and falls).value
        for holds in (grows.sum() > 0.5 * matters.sum(), before[-1] > before[0])
    )
    text = (
        f"at σ² = {_listed(columns, 'g')} λ spans {_listed(widest, '.1f')} nats in the panel, and its least train NLL is "
        f"{_listed(lows, '.1f')}. By the earlier rules: at a given β the range grows at {grows.sum()} of {matters.sum()} β "
        f"(at β = {beta[middle]:g} from {spans[0, middle]:.1f} to {spans[-1, middle]:.1f}): {by_beta}; in the mean over β "
        f"from {before[0]:.1f} to {before[-1]:.1f}: {by_mean}"
    )
    return text, bool(np.all(np.diff(widest) > 0)) and falls


def _listed(values: Iterable[float], form: str) -> str:
    return ", ".join(f"{value:{form}}" for value in values)


def trade_off(model: str) -> Judge:
    """Whether the policies with the least FLOPs, at any σ², clearly miss the least train NLL; test NLLs are shown too."""

    def judge(grids: Grids) -> tuple[str, bool | None]:
        texts, misses = [], []
        for higher in POLICIES:
            rows = grids[model, higher]
            least = best_cell(rows, "flops")["flops"]
            cheapest = [row for row in rows if row["flops"] == least]
            parts = []
            for value, name in (("train_nll", "train"), ("test_nll", "test")):
                floor, best = best_cell(cheapest, value)[value], best_cell(rows, value)
                more = best["flops"] / least
                parts.append(f"{name} {floor:.2f} against {best[value]:.2f} at {more:.1f} times the FLOPs")
            texts.append(f"PL1/{higher}: {', '.join(parts)}")
            of_cheapest, of_all = (min(float(r["train_nll"]) for r in part) for part in (cheapest, rows))
            misses.append(of_cheapest > (1 + CLOSE) * of_all)
        return f"least NLL of the cheapest policies against that of all: {'; '.join(texts)}", all(misses)

    return judge


def outperforms(tables: SweepTables, reading: str) -> Finding:
    """The best policy of PL1/PL2 against that of PL1/FL at σ² = 5000, on the same sentences."""
    best, folds = {}, {}
    for higher in POLICIES:
        chosen = ("conll2000", BC, higher, reading)
        best[higher] = cell = best_cell(at_sigma2(tables.grid(*chosen), 5000), "test_nll")
        same = [r for r in tables.grid_cells(*chosen) if all(r[axis] == cell[axis] for axis in GRID_AXES)]
        folds[higher] = np.array([r["test_nll"] for r in sorted(same, key=lambda r: float(r["fold"]))])
    away = best["PL2"]["test_nll"] - best["FL"]["test_nll"]
    error = float(np.std(folds["PL2"] - folds["FL"], ddof=1) / np.sqrt(len(folds["FL"])))
    values = f"{best['PL2']['test_nll']:.2f} against {best['FL']['test_nll']:.2f}"
    text = f"{values} ({away:+.2f} ± {error:.2f}, paired by fold)"
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
    rows = {higher: [r for r in grids[BC, higher] if r["beta"] > TENTH - 1e-9] for higher in POLICIES}
    worse = max(float(best_cell(part, "test_nll")["test_nll"]) for part in rows.values())
    texts, shares, lams = [], {}, {}
    for level in (AREA * worse, TIP * worse):
        for higher in POLICIES:
            reached = [r["test_nll"] <= level for r in rows[higher]]
            shares[higher, level] = float(np.mean(reached))
            lams[higher, level] = min(r["lam"] for r, near in zip(rows[higher], reached, strict=True) if near)
        texts.append(
            f"a test NLL of {level:.1f} or less: "
            + ", ".join(
                f"PL1/{h} in {shares[h, level]:.0%} of the panels, from λ = {lams[h, level]:g} on" for h in POLICIES
            )
        )
    larger = shares["PL2", AREA * worse] > shares["FL", AREA * worse]
    return "; ".join(texts), larger and lams["PL2", TIP * worse] < lams["FL", TIP * worse]


def matters_less(grids: Grids) -> tuple[str, bool | None]:
    """The range of NLL over β of the CRF against that of the Boltzmann chain."""
    spread, relative = {}, {}
    for model in (BC, "crf"):
        parts, shares = [], []
        for higher in POLICIES:
            for value in ("train_nll", "test_nll"):
                _, surface = mean_over_folds(grids[model, higher], GRID_AXES, value)
                parts.append(np.ptp(surface, axis=2).ravel())
                if value == "test_nll":
                    shares.append((np.ptp(surface, axis=2) / surface.min(axis=2)).ravel())
        spread[model] = float(np.median(np.concatenate(parts)))
        relative[model] = float(np.median(np.concatenate(shares)))
    text = (
        f"median range of NLL over β: {spread['crf']:.2f} nats (CRF), {spread[BC]:.2f} (Boltzmann chain); of the test NLL "
        f"relative to its least value {relative['crf']:.1%} and {relative[BC]:.1%}"
    )
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
    """How much λ changes the train and the test NLL of the CRF with PL1/PL2 at their best β."""
    rows = grids["crf", "PL2"]
    changes, texts = [], []
    for value, name in (("test_nll", "test"), ("train_nll", "train")):
        parts = []
        for sigma2 in sigma2_of(rows):
            here = at_sigma2(rows, sigma2)
            lams = sorted({float(row["lam"]) for row in here})
            least, most = (
                best_cell([r for r in here if r["lam"] == lam], value)[value] for lam in (lams[0], lams[-1])
            )
            changes.append(1 - most / least)
            parts.append(f"{changes[-1]:+.1%} ({least:.2f} to {most:.2f}) at σ² = {sigma2:g}")
        texts.append(f"the best {name} NLL improves by {', '.join(parts)}")
    return f"from the smallest λ to 1 {'; '.join(texts)}", max(map(abs, changes)) < MINOR


def chain_claims(judged: BothReadings, tables: SweepTables) -> Iterator[Row]:
    """Figures 9 to 13 of the paper: the Boltzmann chain."""
    scale = (
        "In the first reading a sentence counts once for each of its tokens in PL1 and PL2, so a given σ² penalises them "
        "far less than FL; the second reading divides by the number of windows."
    )
    yield judged.row("Figure 9", TRADE_OFF, trade_off(BC), TRADE_OFF_WHY, TRADE_OFF_RULE)
    yield judged.row(
        "Figure 10", "PL1/FL: best test NLL about 190.", best_number(BC, "FL", 190.0), "More than 3% away."
    )
    yield judged.row("Figure 12", "PL1/PL2: best test NLL about 189.5.", best_number(BC, "PL2", 189.5), scale)
    yield judged.row(
        "Figure 12",
        "Test contours of PL1/PL2 have less NLL for larger areas than those of PL1/FL, and at smaller λ.",
        larger_areas,
        f"Areas are compared 2% above the larger of the two best test NLLs, λ 0.5% above it; β from 0.1 on. {scale}",
    )
    yield judged.row("Figure 10", "Test NLL lies above train NLL at each σ².", test_above_train(BC))
    yield judged.row(
        "Figure 11",
        "As the regulariser weakens, the range of train NLL spanned by λ grows and its lower bound falls.",
        range_by_lam,
        rule="The caption speaks of the panels: their lower bound, and the range that λ spans in them. So the rule is the "
        "range over λ of a whole panel, which is at β = 1, where both readings are the same: only the selected sentences "
        "count there, and a weaker penalty lets them be fitted at the cost of the others. At a given β below 1 the range "
        "mostly shrinks, because PL1 has all sentences: once a weak penalty lets PL1 fit them, λ changes little.",
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
    yield judged.row("Figure 15", TRADE_OFF, trade_off("crf"), TRADE_OFF_WHY, TRADE_OFF_RULE)
    yield judged.row(
        "Figure 16",
        "PL1/FL: best test NLL about 5.5.",
        best_number("crf", "FL", PRINTED_CRF),
        "Not explained by the scale of families alone: the paper's 847 transitions are label trigrams, which this CRF of "
        f"first order does not have. {second_order_text(tables)}",
    )
    yield judged.row("Figure 16", "Test NLL lies above train NLL at each σ².", test_above_train("crf"))
    yield judged.row(
        "Figure 16",
        "β matters less for the CRF than for the Boltzmann chain.",
        matters_less,
        rule="Judged in nats; relative to the NLL, which is 30 times smaller for the CRF, it is the other way round.",
    )
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
        f"'Minor' is read as a change of the train and of the test NLL by less than {MINOR:.0%} at every σ², in either "
        "direction. More of PL2 always fits the training sentences closer; their NLL is 1.5 nats or less, so that a small "
        "difference is a large share. On the test set, second reading: λ matters most at σ² = 10,000, which is the best σ² "
        "of PL2 alone. First reading: σ² is 20 to 80 times the best one of PL2 alone, and more of PL2 overfits more.",
    )
