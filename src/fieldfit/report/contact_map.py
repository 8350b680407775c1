"""A contact map: predicted pairs on one side of the diagonal, the structure's contacts on the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.report.figures import ACCENT, BLUE, MUTED, figure
from fieldfit.report.svg import Chart
from fieldfit.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Area of a mark in the legend, in square points: larger ones touch each other.
_LARGEST_IN_LEGEND = 60.0


def draw_contact_map(
    scores: FloatArray,
    edges: IntArray,
    numbers: IntArray,
    distances: FloatArray | None = None,
    *,
    axis: str = "column",
    closest: float = 8.0,
    separation: int = 6,
    top: int | None = None,
) -> Figure:
    """Draw the pairs with the highest scores above the diagonal, and below it the contacts of the structure.

    ``scores`` (pairs,), ``edges`` (pairs, 2), ``distances`` (length, length) or None; ``top`` pairs, by default ``length``.
    ``numbers`` (length,) are those of the columns along the axes, increasing, and ``axis`` says what they count.
    Predicted pairs that are contacts are filled, the others open; grey are pairs without a known distance.
    """
    length = len(numbers)
    far = np.abs(edges[:, 1] - edges[:, 0]) >= separation
    order = np.argsort(-np.where(far, scores, -np.inf), kind="stable")[: min(top or length, int(far.sum()))]
    i, j = edges[order].T
    with figure(5.2, 5.2) as drawing:
        from matplotlib.ticker import MaxNLocator

        axes = drawing.add_axes((0.11, 0.1, 0.86, 0.82))
        first, last = int(numbers[0]), int(numbers[-1])
        size = 2400.0 / (last - first + 1)
        if distances is None:
            axes.scatter(numbers[j], numbers[i], s=size, color=BLUE, linewidths=0)
        else:
            distance = distances[i, j]
            close, unknown = distance < closest, np.isnan(distance)
            wrong = ~close & ~unknown
            x, y = numbers[j], numbers[i]
            axes.scatter(x[close], y[close], s=size, color=BLUE, linewidths=0, label="predicted, in contact")
            axes.scatter(x[wrong], y[wrong], s=size, facecolors="none", edgecolors=ACCENT, linewidths=0.9,
                         label="predicted, not in contact")  # fmt: skip
            if unknown.any():
                axes.scatter(x[unknown], y[unknown], s=size, color="0.75", linewidths=0, label="distance unknown")
            row, column = np.nonzero(np.nan_to_num(distances, nan=np.inf) < closest)
            below = row - column >= separation
            axes.scatter(numbers[column[below]], numbers[row[below]], s=size, color=MUTED, linewidths=0, marker="s",
                         label=f"structure, below {closest:g} Å")  # fmt: skip
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.1), ncols=2, frameon=False, fontsize=8,
                        markerscale=min(1.0, (_LARGEST_IN_LEGEND / size) ** 0.5))  # fmt: skip
        axes.plot([first, last], [first, last], color="0.8", linewidth=0.8)
        margin = max(0.7, 0.085 * (last - first + 1) ** 0.5 + 0.1)  # marks at the edge are whole
        axes.set_xlim(first - margin, last + margin)
        axes.set_ylim(last + margin, first - margin)
        axes.set_aspect("equal")
        for each in (axes.xaxis, axes.yaxis):
            each.set_major_locator(MaxNLocator("auto", integer=True))
        axes.set_xlabel(axis)
        axes.set_ylabel(axis)
    return drawing


def contact_chart(pairs: IntArray, scores: FloatArray, numbers: IntArray, axis: str = "column") -> str:
    """Predicted pairs (count, 2) of columns on both sides of the diagonal, as a chart of a page.

    Pairs have the ``numbers`` of their columns, and ``axis`` says what they count. As in
    `draw_contact_map`, the first column is at the top and on the left.
    """
    limits = (float(numbers.min()) - 1.0, float(numbers.max()) + 1.0)
    chart = Chart.of(limits, limits, size=(560, 540))
    chart.y = replace(chart.y, start=chart.y.stop, stop=chart.y.start)
    chart.axes(axis, axis)
    ends = f"M{chart.x(limits[0]):.1f} {chart.y(limits[0]):.1f}L{chart.x(limits[1]):.1f} {chart.y(limits[1]):.1f}"
    chart.add(f'<path class="axis" d="{ends}"/>')
    size = min(max(180.0 / (limits[1] - limits[0]), 2.5), 6.0)
    largest = float(scores.max()) or 1.0
    for (i, j), score in reversed(list(zip(pairs.tolist(), scores.tolist(), strict=True))):
        share = 0.25 + 0.75 * max(score, 0.0) / largest
        place = f'cx="{chart.x(i):.1f}" cy="{chart.y(j):.1f}" r="{size:.1f}"'
        chart.add(f'<circle class="blue" {place} opacity="{share:.2f}"/>')
        chart.mark(j, i, "blue", f"{i} and {j}: score {score:.3f}", radius=size, opacity=share)
    best = ", ".join(f"{i} and {j}" for i, j in pairs[:5].tolist())
    return chart.svg(f"Contact map of {len(pairs)} predicted pairs, by {axis}. The first ones: {best}.")
