"""Claims that need no fit to data: the theory of Figures 1 to 3 and the counts of Section 7.2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fieldfit_paper.chain_data import chain_data
from fieldfit_paper.claim_rows import CLOSE, Row
from fieldfit_paper.tables import FORMULAS


def theory_claims(scale: str) -> Iterator[Row]:
    """Figures 1 to 3, which need no data, and our fits beside Proposition 2."""
    from fieldfit import BoltzmannMachine, asymptotics
    from fieldfit_paper import figure1, figure3, selection_noise

    model = BoltzmannMachine(figure1.NODES)
    for box in figure1.paper_boxes()[1:]:
        efficiency = {f: asymptotics(model, figure1.THETA, box.policy, formula=f).efficiency("det") for f in FORMULAS}
        yield Row(
            "Figure 1",
            f"The variance of {box.title} is {box.printed_variance:g} times that of maximum likelihood (det).",
            f"{efficiency['published']:.3f} by the printed formula, {efficiency['exact']:.3f} by the exact one",
            abs(efficiency["published"] / box.printed_variance - 1) < CLOSE,
            "The printed numbers do not follow from the printed formula at this θ; the exact one counts selection noise.",
        )
    records = figure3.compute("small")
    pl1 = next(point for point in figure3.pure_policies() if point["policy"] == "PL1")["det"]
    share = {f: float(np.mean([r["det"] < pl1 for r in records if r["formula"] == f])) for f in FORMULAS}
    yield Row(
        "Figure 3",
        "Mixing in higher-order components moves along the frontier: more computation, more accuracy than PL1.",
        f"more accurate than plain PL1 (nine nodes): {share['published']:.0%} of the policies by the published "
        f"formula, {share['exact']:.0%} by the exact one",
        share["exact"] > 0.5,
        "Random selection adds noise that the published variance omits; a policy that skips samples of PL1 loses "
        "what the higher order gains (right panel of figure-3).",
    )
    rows = selection_noise.comparison(selection_noise.compute(scale))
    away = {f: max(abs(row["fits"] - row[f]) / row["error"] for row in rows) for f in FORMULAS}
    middle = next(row for row in rows if row["alpha"] == 0.5)
    yield Row(
        "Proposition 2, Figure 2",
        "The asymptotic variance of (1−α)PL1 + αPL2 falls as α grows (five nodes).",
        f"det^(1/r) at α = 1/2, relative to maximum likelihood: {middle['published']:.3f} by the printed formula, "
        f"{middle['exact']:.3f} by the exact one, {middle['fits']:.3f} ± {middle['error']:.3f} in fits; the farthest α is "
        f"{away['published']:.1f} standard errors from the printed formula, {away['exact']:.1f} from the exact one",
        away["published"] < 3,
        "The printed formula omits the selection noise (figure selection-noise).",
    )


def data_claims() -> Iterator[Row]:
    """Counts of Section 7.2."""
    data = chain_data("conll2000")
    assert data.symbols is not None
    first = int(data.features.offsets[data.n_train])
    before, after = data.features.labels[:-1].astype(np.int64), data.features.labels[1:]
    inside = np.ones(data.features.n_tokens - 1, dtype=bool)
    inside[data.features.offsets[1:-1] - 1] = False
    seen = len(np.unique((before * len(data.labels) + after)[inside]))
    for claim, printed, counted, why in (
        ("tokens of the training part", 211_727, first, ""),
        ("tokens of the test part", 47_377, data.features.n_tokens - first, ""),
        ("different tokens", 21_589, data.symbols.n_features, ""),
        ("binary features", 273_571, data.features.n_features, ""),
        ("feature/label pairs", 297_041, data.n_pairs, ""),
        (
            "transitions",
            847,
            seen,
            f"{len(data.labels)} labels make {len(data.labels) ** 2} possible; {seen} are seen.",
        ),
    ):
        yield Row("Section 7.2", f"{printed:,} {claim}", f"{counted:,}", printed == counted, why)
