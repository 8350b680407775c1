"""Means, correlations and triplets of a model against those of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.report.figures import ACCENT, BLUE, MUTED, figure
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_moments(
    means: FloatArray, correlations: FloatArray, triplets: FloatArray, rows: int, draws: int, runs_away: bool = False
) -> Figure:
    """Draw three panels; each array (2, count) has the data's moments, then the model's. NaN are left out.

    ``rows`` of the data and ``draws`` of the model are stated: their noise is a part of the differences.
    """
    with figure(9.6, 3.5) as drawing:
        for place, (name, pair) in enumerate(
            (("mean", means), ("correlation", correlations), ("triplet (central)", triplets))
        ):
            axes = drawing.add_axes((0.065 + 0.325 * place, 0.15, 0.26, 0.71))
            _panel(axes, name, pair, ACCENT if runs_away and place == 0 else BLUE)
            if place == 0:
                axes.set_xlabel(f"{name} in the data ({rows:,} rows)")
                axes.set_ylabel(f"{name} in the model ({draws:,} draws)")
        if runs_away:
            drawing.text(0.5, 0.97, "The model's means are far from the data's: do not simulate from it.",
                         ha="center", va="center", color=ACCENT, fontsize=9)  # fmt: skip
    return drawing


def _panel(axes: Axes, name: str, pair: FloatArray, colour: str) -> None:
    data, model = pair[:, np.isfinite(pair).all(axis=0)]
    axes.set_xlabel(f"{name} in the data")
    axes.set_ylabel(f"{name} in the model")
    if not len(data):
        axes.text(0.5, 0.5, "constant in the model", ha="center", va="center", transform=axes.transAxes, fontsize=8.5)
        return
    low, high = float(min(data.min(), model.min())), float(max(data.max(), model.max()))
    room = 0.06 * (high - low) or 0.05
    axes.plot([low - room, high + room], [low - room, high + room], color=MUTED, linewidth=0.8)
    axes.scatter(data, model, s=14 if len(data) < 200 else 6, color=colour, alpha=0.6, linewidths=0)
    axes.set_xlim(low - room, high + room)
    axes.set_ylim(low - room, high + room)
    axes.set_aspect("equal")
    axes.locator_params(nbins=5)
    apart = float(np.sqrt(np.mean(np.square(model - data))))
    axes.set_title(f"root mean square difference {apart:.2g}", fontsize=8, color=MUTED)
