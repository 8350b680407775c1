"""Influence plot: the effect of each observation on the fit, with labels for the largest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldfit.report.figures import ACCENT, BLUE, MUTED, axes_or_new
from fieldfit.report.labels import name_points

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: Most samples that are drawn with stems, and most points that are drawn as vectors.
_MOST_STEMS, _MOST_VECTORS = 600, 2_000


def draw_influence(
    table: pd.DataFrame, k: int = 10, *, axis: str = "Cook's distance", ax: Axes | None = None
) -> Axes:
    """Draw the distance of every sample and name the ``k`` largest.

    ``table`` has a line for each sample, the one with the largest distance (its first column) first, the sample's number
    as its index, and the ``parameter`` that it changes most (or None). Labels without room are left out.
    """
    ax = axes_or_new(ax, 7.2, 3.8)
    rows, distances = table.index.to_numpy(dtype=float), table.iloc[:, 0].to_numpy(dtype=float)
    n, top = len(rows), float(distances.max(initial=0.0))
    many = n > _MOST_STEMS
    if not many:
        ax.vlines(rows, 0.0, distances, color=BLUE, alpha=0.35, linewidth=0.8)
    ax.plot(
        rows, distances, ".", color=BLUE, markersize=3.5 if many else 4.5, markeredgewidth=0, alpha=0.6 if many else 0.9,
        rasterized=n > _MOST_VECTORS,
    )  # fmt: skip
    strongest = table.head(k)
    ax.plot(strongest.index.to_numpy(dtype=float), strongest.iloc[:, 0].to_numpy(dtype=float), "D", color=ACCENT,
            markersize=4.5, zorder=4)  # fmt: skip
    ax.set_xlabel(f"sample (0 to {n - 1:,})")
    ax.set_ylabel(axis)
    ax.set_ylim(0.0, 1.3 * top if top > 0 else 1.0)
    ax.set_xlim(-0.03 * n, 1.03 * n)
    ax.grid(axis="y", color="0.92", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    named = strongest["parameter"].notna().all()
    what = "sample: the parameter that it changes most" if named else "sample"
    ax.set_title(f"◆ the {len(strongest)} largest ({what})", fontsize=9, loc="left", color=MUTED)
    # Names are placed after the layout, when the positions of the axes are known, so that they do not overlap.
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    texts = [
        (f"{row}: {line['parameter']}" if named else f"{row}", float(str(row)), float(line.iloc[0]))
        for row, line in strongest.iterrows()
    ]
    high = [(float(x), float(y)) for x, y in zip(rows, distances, strict=True) if y > 0.6 * top]
    name_points(ax, texts, high[:400], below=False)
    return ax
