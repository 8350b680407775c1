"""The trajectory of the weights β over the rounds of Algorithm 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Lines up to which each has its name beside it.
_MOST_NAMED = 12


def plot_weights(
    history: pd.DataFrame, chosen: Sequence[float] | None = None, *, title: str = "Automatic weights"
) -> Figure:
    """β by round above; below what that β loses against the best at the round's θ.

    ``history`` has the columns ``round`` and ``loss``, and one column ``β[name]`` for each weight; ``chosen`` are the
    weights that were taken in the end, drawn as open marks (the last round's if left out).
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    columns = [name for name in history.columns if str(name).startswith("β[")]
    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [2, 1]})
    rounds = history["round"].to_numpy()
    ends: list[tuple[float, str, Any]] = []
    for place, name in enumerate(columns):
        colour = _COLOURS[place % len(_COLOURS)]
        values = history[name].to_numpy()
        above.plot(rounds, values, color=colour, marker="o", markersize=4, linewidth=1.8, clip_on=False)
        taken = float(values[-1] if chosen is None else chosen[place])
        above.scatter(
            [rounds[-1]], [taken], s=70, marker="D", facecolors="none", edgecolors=colour, linewidths=1.5, zorder=3,
            clip_on=False,
        )  # fmt: skip
        ends.append((taken, str(name)[2:-1], colour))
    if len(columns) <= _MOST_NAMED:
        _name_ends(above, ends)
    above.set_ylabel("weight β (◇ taken)")
    above.set_ylim(bottom=0)
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


def _name_ends(axis: Any, ends: list[tuple[float, str, Any]]) -> None:
    """The name of each line at its end, moved apart where they would overlap."""
    top = max((value for value, _, _ in ends), default=1.0) or 1.0
    gap, height = 0.065 * top, -1.0
    for value, name, colour in sorted(ends, key=lambda end: end[0]):
        height = max(value, height + gap)
        axis.annotate(
            f" {name} {value:.3g}", (1.0, height), xycoords=("axes fraction", "data"), color=colour, va="center",
            fontsize=9, annotation_clip=False,
        )  # fmt: skip
