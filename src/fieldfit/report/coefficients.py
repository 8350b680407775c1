"""Coefficient plot: estimates with their confidence intervals, one line for each parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.report.figures import BLUE, INK, MUTED, axes_or_new

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: Sizes in inches, and the points that a line needs for a name. With less room, names would overlap.
_TALLEST, _SMALLEST_NAME = 14.0, 8.0
#: Most characters of a name, and most characters for which the figure has its normal width.
_LONGEST, _NORMAL = 44, 14


def plot_coefficients(
    table: pd.DataFrame,
    *,
    most: int = 40,
    sort: bool = True,
    axis: str = "estimate and confidence interval",
    ax: Axes | None = None,
) -> Axes:
    """Draw a table with the columns estimate, lower and upper (and q or p, if it has them); ``axis`` is below.

    At most ``most`` parameters are drawn, those with the largest |z|; intervals that contain 0 are grey, others
    coloured. Parameters without an interval (NaN) are counted in the title. Names are left out if lines are too
    close.
    """
    drawn = table[table["lower"].notna()]
    left_out = len(table) - len(drawn)
    if len(drawn) > most:
        drawn = drawn.loc[drawn["z"].abs().sort_values(ascending=False).index[:most]]
    if sort:
        drawn = drawn.sort_values("estimate")
    estimate, lower, upper = (drawn[name].to_numpy(dtype=float) for name in ("estimate", "lower", "upper"))
    names = [_cut(str(name)) for name in drawn.index]
    width = 6.4 + 0.085 * max(0, max(map(len, names), default=0) - _NORMAL)
    ax = axes_or_new(ax, width, min(max(2.0, 0.8 + 0.24 * len(drawn)), _TALLEST))
    room = 72 * ax.bbox.height / ax.figure.dpi / max(1, len(drawn))  # points for each line
    places = np.arange(len(drawn))
    away = (lower > 0) | (upper < 0)
    for chosen, colour, fill, label in (
        (away, BLUE, BLUE, "interval without 0"),
        (~away, "#8c8c8c", "white", "interval with 0"),
    ):
        if chosen.any():
            ax.hlines(places[chosen], lower[chosen], upper[chosen], color=colour, linewidth=min(1.6, 0.4 * room))
            size = min(4.5, max(1.5, 0.6 * room))
            ax.plot(
                estimate[chosen],
                places[chosen],
                "o",
                color=colour,
                markerfacecolor=fill,
                markersize=size,
                label=label,
            )
    ax.axvline(0.0, color=INK, linewidth=0.8, zorder=1)
    if room >= _SMALLEST_NAME:
        ax.set_yticks(places, names, fontsize=min(10.0, 0.8 * room))
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(drawn)} parameters" + (", by estimate" if sort else ""))
    ax.set_ylim(-0.7, len(drawn) - 0.3)
    ax.set_xlabel(axis)
    ax.grid(axis="x", color="#e0e0e0", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    notes = []
    if len(table) - left_out > len(drawn):
        notes.append(f"{len(drawn)} of {len(table) - left_out} parameters, the largest |z|")
    if left_out:
        notes.append(f"{left_out} without an interval")
    if notes:
        ax.set_title("; ".join(notes), fontsize=9, loc="left")
    if len(drawn):
        ax.legend(frameon=False, fontsize=8, loc="best")
    else:
        ax.set_yticks([])
        ax.text(0.5, 0.5, "no single parameter is identified", transform=ax.transAxes, ha="center", color=MUTED)
    return ax


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
