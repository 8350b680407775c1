"""The frontier of cost against variance with the region that no policy reaches, as a picture and as a page."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldfit.report.figures import ACCENT, BLUE, INK, MUTED, figure, figure_bytes
from fieldfit.report.labels import backing, name_points
from fieldfit.report.page import Page
from fieldfit.report.table import PlainTable
from fieldfit.report.ticks import plain_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHADE = "#e9e4dc"
_MOST_NAMED_POINTS = 7
#: The least ratio of the largest variance shown to the smallest: closer ones are the same for every purpose.
_NARROWEST = 1.06


@dataclass(frozen=True)
class FrontierPoint:
    """A policy: its cost, its variance with a standard error, and whether nothing beats it."""

    name: str
    cost: float
    variance: float
    error: float
    on_frontier: bool
    why: str = ""


def _visible(points: Sequence[FrontierPoint], best: str) -> list[FrontierPoint]:
    """Without points so inaccurate that all others would be squeezed together."""
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
    """Cost against variance, both logarithmic; below ``edge`` (cost, least variance) is what no policy reaches.

    ``budget`` is a vertical line, ``floor`` the variance that nothing can go below.
    """
    shown = _visible(points, best)
    low, high = min(point.cost for point in shown), max(point.cost for point in shown)
    least, most = min(point.variance for point in shown), max(point.variance for point in shown)
    if floor is not None:
        least = min(least, floor)
    left, right = low / 1.6, high * 2.6
    most = max(most, _NARROWEST * least)
    bottom, top = least * (most / least) ** -0.12, most * (most / least) ** 0.12
    with figure(7.4, 5.0) as drawing:
        axes = drawing.add_axes((0.1, 0.12, 0.87, 0.8))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        if edge:
            x, y = _outline(edge, left, right, 2 * top)
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
            lower = [max(p.variance - 2 * p.error, bottom / 2) for p in group]
            axes.vlines(
                costs, lower, [p.variance + 2 * p.error for p in group], color=colour, linewidth=0.8, zorder=2
            )
            axes.plot(costs, sizes, mark, color=colour, markersize=size, markeredgewidth=0, zorder=4 if size > 6 else 3,
                      alpha=1 if colour is ACCENT else 0.75, label=label)  # fmt: skip
        axes.set_xlabel(cost)
        axes.set_ylabel(variance)
        plain_ticks(axes.xaxis)
        plain_ticks(axes.yaxis)
        # Above the axes: inside, the legend would cover points.
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, fontsize=8, frameon=False, borderaxespad=0.3,
                    handletextpad=0.4, columnspacing=1.2)  # fmt: skip
        named = [(_short(point.name), point.cost, point.variance) for point in _named(shown, best)]
        name_points(axes, named, [(point.cost, point.variance) for point in shown], backed=True)
    return drawing


def _outline(
    edge: Sequence[tuple[float, float]], left: float, right: float, top: float
) -> tuple[list[float], list[float]]:
    """The edge from border to border. Between two costs the variance is that of the lower cost."""
    x, y = [cost for cost, _ in edge], [variance for _, variance in edge]
    return [left, x[0], *x, right], [top, top, *y, y[-1]]


def _named(points: Sequence[FrontierPoint], best: str) -> list[FrontierPoint]:
    """The recommended point and the plainest others: many names would hide the points."""
    ranked = sorted(
        points, key=lambda point: (point.name != best, "+" in point.name or "*" in point.name, not point.on_frontier)
    )
    plain = [point for point in ranked if point.name == best or ("+" not in point.name and "*" not in point.name)]
    edge = [point for point in ranked if point.on_frontier and point not in plain]
    return [*plain, *edge[: max(0, _MOST_NAMED_POINTS - len(plain))]]


def _short(name: str) -> str:
    return name if len(name) < 34 else name[:32] + "…"


def frontier_html(
    path: str | os.PathLike[str],
    *,
    title: str,
    paragraphs: Sequence[str],
    table: PlainTable,
    points: Sequence[FrontierPoint],
    edge: Sequence[tuple[float, float]],
    best: str,
    labels: tuple[str, str],
    budget: float | None,
    drawing: Callable[[], Figure],
) -> None:
    """A page with nothing to load from elsewhere: the picture moves where plotly is installed, else it is drawn."""
    page = Page(title)
    for paragraph in paragraphs:
        page.paragraph(paragraph)
    moving = _plotly(_visible(points, best), edge, best, labels, budget)
    if moving is not None:
        page.parts.append(f"<figure>{moving}</figure>")
    else:
        svg = figure_bytes(drawing(), "svg").decode()
        page.parts.append(f"<figure>{svg[svg.index('<svg') :]}</figure>")
    page.table(table)
    page.write(path)


def _plotly(
    points: Sequence[FrontierPoint],
    edge: Sequence[tuple[float, float]],
    best: str,
    labels: tuple[str, str],
    budget: float | None,
) -> str | None:
    """The frontier as a plotly figure with its script inside, or None where plotly is missing."""
    try:
        import plotly.graph_objects as go
    except ImportError:
        return None
    least, most = min(point.variance for point in points), max(point.variance for point in points)
    bottom, top = least - 0.1 * (most - least + 0.02), most + 0.1 * (most - least + 0.02)
    low, high = min(point.cost for point in points) / 1.6, max(point.cost for point in points) * 2.6
    drawing = go.Figure()
    x, y = _outline(edge, low, high, 2 * top)
    drawing.add_scatter(
        x=[low, high], y=[bottom, bottom], mode="lines", line={"width": 0}, hoverinfo="skip", showlegend=False
    )
    drawing.add_scatter(
        x=x, y=y, mode="lines", line={"shape": "vh", "color": ACCENT}, fill="tonexty", fillcolor=_SHADE,
        name="frontier (no policy below it)", hoverinfo="skip",
    )  # fmt: skip
    for name, colour, size, group in (
        ("not on the frontier", BLUE, 7, [p for p in points if not p.on_frontier and p.name != best]),
        ("on the frontier", ACCENT, 9, [p for p in points if p.on_frontier and p.name != best]),
        ("recommended", INK, 13, [p for p in points if p.name == best]),
    ):
        drawing.add_scatter(
            x=[p.cost for p in group], y=[p.variance for p in group], mode="markers", name=name,
            marker={"color": colour, "size": size, "symbol": "diamond" if name == "recommended" else "circle"},
            text=[f"{html.escape(p.name)}<br>{html.escape(p.why)}" for p in group],
            hovertemplate="%{text}<br>cost %{x:.3g}<br>variance %{y:.4g}<extra></extra>",
        )  # fmt: skip
    if budget is not None and low < budget < high:
        drawing.add_vline(x=budget, line={"dash": "dot", "color": INK}, annotation_text="budget left")
    drawing.update_layout(
        xaxis={"type": "log", "title": labels[0]}, yaxis={"title": labels[1], "range": [bottom, top]},
        plot_bgcolor="white", legend={"orientation": "h", "y": 1.1}, height=520, margin={"t": 40, "r": 20},
    )  # fmt: skip
    text: str = drawing.to_html(full_html=False, include_plotlyjs=True, div_id="frontier")
    return text
