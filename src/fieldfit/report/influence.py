"""Influence plot: how far each observation moves the fit, with the strongest ones named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: Samples up to which each has a stem of its own.
_MOST_STEMS = 2_000


def plot_influence(distances: FloatArray, strongest: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw Cook's distance of every sample (n,) and name the rows of ``strongest`` (columns distance and parameter)."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    rows = np.arange(len(distances))
    if len(distances) <= _MOST_STEMS:
        ax.vlines(rows, 0.0, distances, color="#9db7d5", linewidth=0.8)
    ax.plot(rows, distances, ".", color="#1f5a99", markersize=3 if len(distances) <= _MOST_STEMS else 1.5)
    top = float(np.max(distances, initial=0.0))
    taken: list[tuple[float, float]] = []
    for row, line in strongest.iterrows():
        x, y = float(str(row)), float(line["distance"])
        ax.plot([x], [y], "o", color="#c23b22", markersize=4.5)
        # Names of neighbours would lie on each other: only the first of them is written.
        if all(abs(x - u) > 0.09 * len(distances) or abs(y - v) > 0.06 * top for u, v in taken):
            right = x < 0.8 * len(distances)
            ax.annotate(
                f"{row} ({line['parameter']})",
                (x, y),
                xytext=(5 if right else -5, 2),
                textcoords="offset points",
                ha="left" if right else "right",
                fontsize=8,
            )
            taken.append((x, y))
    ax.set_xlabel("sample")
    ax.set_ylabel("Cook's distance")
    ax.set_ylim(0.0, 1.12 * top if top > 0 else 1.0)
    ax.margins(x=0.02)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
