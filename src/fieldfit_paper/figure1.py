"""Figure 1: three policies on a five-node Boltzmann machine and fourteen samples.

    θ = (−1, −1, −1, −1, −1, 1, 1, 1, 1, 1),   pairs in row-major order
    FLOPs of a component of order k = C(m,2)·2^k + C(m,2)/C(m,k)

The data are the draw of Z that the figure shows for 0.7PL+0.3PL2 and the three variances printed in it. FLOPs, sums and
variances are computed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fieldfit import BoltzmannMachine, Policy, component_flops, theory
from fieldfit.plots import PlainTable, SelectionBox, draw_boxes, make_folder, save_figure
from fieldfit.types import BoolArray, FloatArray, Plain
from fieldfit_paper.tables import Reproduction

NODES = 5
SAMPLES = 14
THETA = np.repeat([-1.0, 1.0], 5)

#: Z of the third box: a line for each component (five PL1, ten PL2), a mark for each selected sample.
DRAWN = """
.####...####..
.#.##.#####.##
##...###.#####
..#..##...####
#...#####.##.#
..##.#....#...
#.#.#...#..#..
....###..#....
#.....#...##..
...##.#..##...
.##...##.###..
#..#.#.#......
#......#......
..#.##.#......
......####.#..
"""

NOTE = (
    "The variances printed in the paper for the second and third box do not follow from its Proposition 2 at this θ: "
    "with the pairs in row-major order that formula gives the values in the column 'published'. The column 'exact' also "
    "counts the noise of selecting components at random, which Proposition 2 leaves out. Second readings, found by "
    "searching towards the printed numbers: θ in column-major order for PL, and each family averaged over its components "
    "for the mixture. No reading gives both numbers."
)


@dataclass(frozen=True)
class Box:
    """A box of the figure: its policy, the Z it shows (None: everything selected) and the variance it prints.

    ``second`` is the second reading: what it is, its θ and its policy.
    """

    title: str
    policy: str
    printed_variance: float
    drawn: BoolArray | None = None
    second: tuple[str, FloatArray, str] | None = None


def column_major(theta: FloatArray) -> FloatArray:
    """θ given in column-major order of the pairs (12, 13, 23, 14, …), in our row-major order."""
    pairs = list(itertools.combinations(range(NODES), 2))
    place = {pair: k for k, pair in enumerate(sorted(pairs, key=lambda pair: pair[::-1]))}
    return np.array([theta[place[pair]] for pair in pairs])


def variance_of(policy: str, theta: FloatArray, formula: str) -> float:
    """det of the variance relative to maximum likelihood; ``formula`` is "published" or "exact"."""
    chosen = theory(BoltzmannMachine(NODES), theta, policy, formula="exact" if formula == "exact" else "published")
    return chosen.efficiency("det")


def drawn_selection() -> BoolArray:
    """Z of the third box (15 components, 14 samples)."""
    return np.array([[mark == "#" for mark in line] for line in DRAWN.split()])


def paper_boxes() -> tuple[Box, ...]:
    """The three boxes in the order of the figure."""
    return (
        Box("FL", "FL", 1.0),
        Box("PL", "PL1", 1.83, None, ("θ in column-major order", column_major(THETA), "PL1")),
        Box(
            "0.7PL+0.3PL2",
            "0.7*PL1 + 0.3*PL2",
            1.48,
            drawn_selection(),
            ("each family averaged", THETA, "0.7*Mean(PL1) + 0.3*Mean(PL2)"),
        ),
    )


def _captions(box: Box, variance: dict[str, float]) -> tuple[str, ...]:
    first = (
        f"Variance (det, relative to FL): {variance['exact']:.2f} exact, {variance['published']:.2f} by the published "
        f"formula, {box.printed_variance:g} printed"
    )
    if box.second is None:
        return (first,)
    name, theta, policy = box.second
    exact, published = (variance_of(policy, theta, formula) for formula in ("exact", "published"))
    return first, f"Second reading ({name}): {exact:.2f} exact, {published:.2f} by the published formula"


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it as well. It has the same size at every scale."""
    folder = None if out is None else make_folder(out)
    model = BoltzmannMachine(NODES)
    boxes, records, rows = [], [], []
    for box in paper_boxes():
        bound = Policy.parse(box.policy).bind(model.structure())
        names, cost = [], component_flops(model, box.policy).tolist()
        for family in bound.families:
            size = family.size or 0
            names += [_component_name(*family.component(j)) for j in range(size)]
        selected = np.ones((len(names), SAMPLES), dtype=bool) if box.drawn is None else box.drawn
        results = {form: theory(model, THETA, box.policy, formula=form) for form in ("published", "exact")}
        variance = {form: results[form].efficiency("det") for form in results}
        trace = {form: results[form].efficiency("trace") for form in results}
        picture = SelectionBox(
            box.title,
            tuple(names),
            selected,
            np.array(cost),
            _captions(box, variance),
        )
        boxes.append(picture)
        sizes = [family.size or 0 for family in bound.families]
        counts = np.add.reduceat(selected.sum(axis=1), np.cumsum([0, *sizes[:-1]]))
        records.append(_record(box, picture, [f.name for f in bound.families], counts.tolist(), variance, trace))
        rows.append(
            (
                box.title,
                int(selected.sum()),
                round(picture.total),
                variance["exact"],
                variance["published"],
                box.printed_variance,
            )
        )
    summary = PlainTable(
        "Figure 1: five-node Boltzmann machine, 14 samples",
        ("policy", "selected", "FLOPs", "exact", "published", "printed"),
        tuple(rows),
        "Variance: determinant relative to maximum likelihood (FL).",
    )
    files: list[Path] = []
    if folder is not None:
        files = save_figure(draw_boxes(boxes), folder, "figure-1")
    document = {"experiment": "figure-1", "theta": THETA.tolist(), "boxes": records, "note": NOTE}
    return Reproduction(document, (summary, *map(_selection_table, boxes)), (NOTE,), tuple(files))


def _component_name(target: tuple[int, ...], given: tuple[int, ...]) -> str:
    """In the paper's notation, counting from 1, as matplotlib's mathematics."""
    nodes = [v + 1 for v in target]
    if not given:
        return f"$X_{nodes[0]},\\ldots,X_{nodes[-1]}$"
    if len(nodes) == 1:
        return f"$X_{nodes[0]}\\,|\\,X_{{-{nodes[0]}}}$"
    block = r"\{" + "{,}".join(map(str, nodes)) + r"\}"
    return f"$X_{{{block}}}\\,|\\,X_{{{block}^c}}$"


def _plain_name(name: str) -> str:
    """The component's name without the mathematics' marks, its condition left out."""
    block = name.strip("$").split(r"\,|")[0].replace(r",\ldots,X_", "–").replace("X_", "X").replace("{,}", ",")
    return block.replace("{", "").replace("}", "").replace("\\", "")


def _selection_table(box: SelectionBox) -> PlainTable:
    """Diamonds as text, with the sums at the right and below."""
    rows: list[tuple[str | int, ...]] = []
    for j, name in enumerate(box.components):
        marks = " ".join("◆" if on else "·" for on in box.selected[j])
        rows.append((_plain_name(name), round(float(box.cost[j])), marks, round(float(box.by_component[j]))))
    note = "FLOPs of each sample: " + " ".join(f"{v:.0f}" for v in box.by_sample)
    return PlainTable(box.title, ("component", "each", "X1 … X14", "FLOPs"), tuple(rows), note)


def _record(
    box: Box,
    picture: SelectionBox,
    families: list[str],
    counts: list[int],
    variance: dict[str, float],
    trace: dict[str, float],
) -> Plain:
    return {
        "title": box.title,
        "policy": box.policy,
        "components": [_plain_name(name) for name in picture.components],
        "component_flops": picture.cost.tolist(),
        "selected": picture.selected.astype(int).tolist(),
        "selected_by_family": dict(zip(families, counts, strict=True)),
        "flops_by_component": picture.by_component.tolist(),
        "flops_by_sample": picture.by_sample.tolist(),
        "flops": picture.total,
        "variance": {**variance, "printed": box.printed_variance},
        "trace": trace,
    }
