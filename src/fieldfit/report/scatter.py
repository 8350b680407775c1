"""Policies in the plane of cost and variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldfit.report.figures import ACCENT, BLUE, MUTED, figure
from fieldfit.report.labels import name_points
from fieldfit.report.ticks import plain_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ScatterPoint:
    """A policy: its cost, its variance and the standard error of the variance."""

    name: str
    cost: float
    variance: float
    error: float = 0.0


def frontier(points: Sequence[ScatterPoint]) -> list[ScatterPoint]:
    """The points that no other beats in both cost and variance, by cost."""
    best: list[ScatterPoint] = []
    for point in sorted(points, key=lambda p: (p.cost, p.variance)):
        if not best or point.variance < best[-1].variance:
            best.append(point)
    return best


def draw_cost_variance(points: Sequence[ScatterPoint], cost: str, variance: str) -> Figure:
    """Draw cost (log scale) against variance with two standard errors; steps connect the points on the frontier."""
    best = frontier(points)
    with figure(6.6, 4.2) as drawing:
        axes = drawing.add_axes((0.11, 0.14, 0.86, 0.8))
        axes.step(
            [p.cost for p in best], [p.variance for p in best], where="post", color=ACCENT, linewidth=1, alpha=0.7
        )
        for point in points:
            colour = ACCENT if point in best else BLUE
            axes.errorbar(point.cost, point.variance, 2 * point.error, fmt="o", color=colour, markersize=5, capsize=2,
                          elinewidth=0.9)  # fmt: skip
        axes.set_xscale("log")
        low, high = min(p.cost for p in points), max(p.cost for p in points)
        axes.set_xlim(low / 1.25, high * 1.9)
        top = max(p.variance + 2 * p.error for p in points)
        axes.set_ylim(min(0.95, 0.97 * min(p.variance - 2 * p.error for p in points)), top + 0.08 * (top - 0.9))
        axes.axhline(1.0, color=MUTED, linewidth=0.7, linestyle=(0, (4, 4)))
        name_points(axes, [(p.name, p.cost, p.variance) for p in points], [(p.cost, p.variance) for p in points], 8.5)
        axes.set_xlabel(cost)
        axes.set_ylabel(variance)
        plain_ticks(axes.xaxis)
    return drawing
