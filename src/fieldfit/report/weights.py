"""The trajectory of the weights β over the rounds of Algorithm 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.report.figures import INK
from fieldfit.report.panels import COLOURS, MARKS
from fieldfit.types import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Most lines with a label. If there are more, those with the largest weights have one.
_MOST_NAMED_WEIGHTS, _NAMED_OF_MANY = 12, 6
#: Width of a line, and the extra width for each later line on top of it, so that it shows at the sides.
_WIDTH, _WIDER = 1.7, 2.0


def plot_weights(
    history: pd.DataFrame, chosen: Sequence[float] | None = None, *, title: str = "Automatic weights"
) -> Figure:
    """Draw β by round (top) and the loss of that β compared with the best at the round's θ (bottom).

    ``history`` has the columns ``round`` and ``loss``, and one column ``β[name]`` for each weight; ``chosen`` are the
    final weights, drawn as open marks (default: those of the last round).
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    columns = [name for name in history.columns if str(name).startswith("β[")]
    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [2, 1]})
    rounds = history["round"].to_numpy()
    ends: list[tuple[float, str, str]] = []
    many = len(columns) > _MOST_NAMED_WEIGHTS
    covered = np.minimum(_covering(history[columns].to_numpy(dtype=float)), 0 if many else 3)
    for place, name in enumerate(columns):
        colour, mark = COLOURS[place % len(COLOURS)], MARKS[place % len(MARKS)]
        values = history[name].to_numpy()
        width = _WIDTH + _WIDER * float(covered[place])
        above.plot(rounds, values, color=colour, marker=mark, markersize=2.8 + width, linewidth=width, clip_on=False)
        taken = float(values[-1] if chosen is None else chosen[place])
        above.scatter(
            [rounds[-1]], [taken], s=90, marker="D", facecolors="none", edgecolors=colour, linewidths=1.5, zorder=3,
            clip_on=False,
        )  # fmt: skip
        ends.append((taken, str(name)[2:-1], colour))
    weights = [*history[columns].to_numpy().ravel(), *(value for value, _, _ in ends)]
    low, high = float(np.min(weights, initial=np.inf)), float(np.max(weights, initial=0.0))
    # A line at 0 must be visible, and lines close together far from 0 must be distinct.
    pad = 0.06 * (high - low if low > 0.5 * high else high) + 1e-9
    above.set_ylim(low - pad if low > 0.5 * high else min(0.0, low) - 0.5 * pad, high + pad)
    _name_ends(above, sorted(ends, reverse=True)[:_NAMED_OF_MANY] if many else ends)
    if many:
        title += f"; the {_NAMED_OF_MANY} largest of {len(columns)} named"
    above.set_ylabel("weight β (◇ taken)")
    above.set_title(title, loc="left", fontsize=11)
    below.plot(
        rounds, history["loss"].to_numpy(), color="#444444", marker="o", markersize=4, linewidth=1.8, clip_on=False
    )
    below.set_ylabel("J(β) − least J\nat the round's θ")
    below.set_ylim(bottom=0)
    below.set_xlabel("round of Algorithm 1")
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in (above, below):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#dddddd", linewidth=0.8)
        axis.set_axisbelow(True)
    return figure


def _covering(values: FloatArray) -> IntArray:
    """Number of later columns of ``values`` (rounds, lines) that equal each column in every round."""
    near = 0.02 * max(float(np.ptp(values)), 1e-9) if values.size else 0.0
    gaps = np.abs(values[:, :, None] - values[:, None, :]).max(axis=0, initial=0.0)
    counts: IntArray = np.triu(gaps <= near, 1).sum(axis=1).astype(np.int64)
    return counts


def _name_ends(axis: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Write the name of each line at its end. Names that would overlap are moved apart and connected by a thin line."""
    low, high = axis.get_ylim()
    ordered = sorted(ends, key=lambda end: end[0])
    heights = apart([value for value, _, _ in ordered], 0.07 * (high - low))
    for (value, name, colour), height in zip(ordered, heights, strict=True):
        axis.annotate(
            f"{name} {value:.3g}", (1.0, value), (1.06, height), xycoords=("axes fraction", "data"),
            textcoords=("axes fraction", "data"), va="center", fontsize=9, color=INK, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 1.2, "shrinkA": 1, "shrinkB": 0,
                        "relpos": (0, 0.5)},
        )  # fmt: skip


def apart(values: Sequence[float], gap: float) -> list[float]:
    """Positions at least ``gap`` apart that are closest to increasing ``values`` (least squares)."""
    blocks: list[tuple[float, int]] = []  # mean of values[i] − i·gap over a run of touching names, and its length
    for place, value in enumerate(values):
        mean, count = value - place * gap, 1
        while blocks and blocks[-1][0] >= mean:
            before, more = blocks.pop()
            mean, count = (mean * count + before * more) / (count + more), count + more
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return [mean + place * gap for place, mean in enumerate(means)]
