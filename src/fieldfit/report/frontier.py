"""The frontier of cost against variance with the region that no policy reaches, as a picture.

`fieldfit.report.frontier_chart` is the interactive version, with sliders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldfit.report.figures import ACCENT, BLUE, INK, MUTED, figure
from fieldfit.report.labels import backing, name_points
from fieldfit.report.ticks import plain_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHADE = "#e9e4dc"
_MOST_NAMED_POINTS = 7
#: Least ratio of the largest and the smallest variance shown: smaller differences do not matter.
_NARROWEST = 1.06
#: Share of the height above the points for the note on those that are not shown.
_ROOM_FOR_NOTE = 0.08
#: Length of error bars in standard errors, and the largest factor by which they may extend the axis of variances.
ERRORS, _LONGER = 2.0, 3.0


@dataclass(frozen=True)
class FrontierPoint:
    """A policy: its cost, its variance with a standard error, and whether no other policy beats it."""

    name: str
    cost: float
    variance: float
    error: float
    on_frontier: bool
    why: str = ""
    cost_text: str = ""

    @property
    def bar(self) -> tuple[float, float]:
        """The ends of its error bar."""
        return max(self.variance - ERRORS * self.error, 1e-3 * self.variance), self.variance + ERRORS * self.error


@dataclass(frozen=True)
class Limits:
    """The limits of both axes."""

    left: float
    right: float
    bottom: float
    top: float

    @classmethod
    def of(cls, points: Sequence[FrontierPoint], floor: float | None) -> Limits:
        """Limits with room for names and for error bars, unless the bars are far longer than the range of the points."""
        least, most = min(point.variance for point in points), max(point.variance for point in points)
        if floor is not None:
            least = min(least, floor)
        most = max(most, _NARROWEST * least)
        longest = (most / least) ** _LONGER
        low = max(min(point.bar[0] for point in points), least / longest)
        high = min(max(point.bar[1] for point in points), most * longest)
        least, most = min(least, low), max(most, high)
        room = (most / least) ** 0.1
        costs = [point.cost for point in points]
        return cls(min(costs) / 1.6, max(costs) * 2.6, least / room, most * room)


def visible(points: Sequence[FrontierPoint], best: str) -> list[FrontierPoint]:
    """The points without very inaccurate ones, which would compress the axis."""
    least = min(point.variance for point in points)
    chosen = next((point.variance for point in points if point.name == best), least)
    plain = next((point.variance for point in points if point.name == "PL1"), least)  # readers expect it
    top = max(1.5 * least, 1.25 * chosen, 1.1 * min(plain, 4 * least))
    return [point for point in points if point.variance <= top]


def draw_frontier(
    points: Sequence[FrontierPoint],
    edge: Sequence[tuple[float, float]],
    best: str,
    cost: str,
    variance: str,
    *,
    budget: float | None = None,
    floor: float | None = None,
) -> Figure:
    """Draw cost against variance on log scales. No policy reaches the region below ``edge`` (cost, least variance).

    ``budget`` is a vertical line, ``floor`` the smallest possible variance.
    """
    shown = visible(points, best)
    limits = Limits.of(shown, floor)
    left, right, bottom, top = limits.left, limits.right, limits.bottom, limits.top
    if len(shown) < len(points):
        top *= (top / bottom) ** _ROOM_FOR_NOTE
    with figure(7.4, 5.0) as drawing:
        axes = drawing.add_axes((0.1, 0.12, 0.87, 0.8))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        if edge:
            x, y = outline(edge, left, right, 2 * top)
            axes.fill_between(x, y, bottom, step="pre", color=_SHADE, linewidth=0, zorder=0)
            axes.step(x, y, where="pre", color=ACCENT, linewidth=1.2, zorder=2)
            axes.text(0.015, 0.02, "no policy is here", transform=axes.transAxes, fontsize=8.5, color=MUTED, zorder=5,
                      bbox=backing(_SHADE))  # fmt: skip
        if len(shown) < len(points):
            more = len(points) - len(shown)
            text = f"{more} less accurate polic{'y is' if more == 1 else 'ies are'} above"
            axes.text(0.99, 0.98, text, transform=axes.transAxes, fontsize=8.5, color=MUTED, ha="right", va="top", zorder=5,
                      bbox=backing())  # fmt: skip
        if floor is not None:
            axes.axhline(
                floor, color=MUTED, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1, label="maximum likelihood"
            )
        if budget is not None and left < budget < right:
            axes.axvline(budget, color=INK, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1, label="budget left")
        for label, colour, mark, size, group in (
            ("recommended", ACCENT, "D", 8.0, [p for p in shown if p.name == best]),
            ("on the frontier", ACCENT, "o", 5.0, [p for p in shown if p.on_frontier and p.name != best]),
            ("beaten by another policy", BLUE, "^", 4.5, [p for p in shown if not p.on_frontier and p.name != best]),
        ):
            if not group:
                continue
            costs, sizes = [p.cost for p in group], [p.variance for p in group]
            axes.vlines(
                costs, [p.bar[0] for p in group], [p.bar[1] for p in group], color=colour, linewidth=0.8, zorder=2
            )
            axes.plot(costs, sizes, mark, color=colour, markersize=size, markeredgewidth=0, zorder=4 if size > 6 else 3,
                      alpha=1 if colour is ACCENT else 0.75, label=label)  # fmt: skip
        axes.set_xlabel(cost)
        axes.set_ylabel(variance)
        plain_ticks(axes.xaxis)
        plain_ticks(axes.yaxis)
        # Above the axes: inside, the legend would cover points.
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, fontsize=8, frameon=False, borderaxespad=0.3,
                    handletextpad=0.3, handlelength=1.6, columnspacing=0.9)  # fmt: skip
        names = [(short(point.name), point.cost, point.variance) for point in named(shown, best)]
        name_points(axes, names, [(point.cost, point.variance) for point in shown], backed=True)
    return drawing


def outline(
    edge: Sequence[tuple[float, float]], left: float, right: float, top: float
) -> tuple[list[float], list[float]]:
    """The edge from border to border. Between two costs the variance is that of the lower cost."""
    x, y = [cost for cost, _ in edge], [variance for _, variance in edge]
    return [left, x[0], *x, right], [top, top, *y, y[-1]]


def named(points: Sequence[FrontierPoint], best: str) -> list[FrontierPoint]:
    """The recommended point and the simplest other policies: many names would hide the points."""
    ranked = sorted(
        points, key=lambda point: (point.name != best, "+" in point.name or "*" in point.name, not point.on_frontier)
    )
    plain = [point for point in ranked if point.name == best or ("+" not in point.name and "*" not in point.name)]
    edge = [point for point in ranked if point.on_frontier and point not in plain]
    return [*plain, *edge[: max(0, _MOST_NAMED_POINTS - len(plain))]]


def short(name: str) -> str:
    """A name of at most 33 letters."""
    return name if len(name) < 34 else name[:32] + "…"
