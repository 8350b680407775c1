"""The frontier of cost against variance with the region that no policy reaches, as a picture and as a page."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldfit.report.figures import ACCENT, BLUE, INK, MUTED, figure, figure_bytes
from fieldfit.report.labels import name_points
from fieldfit.report.page import Page
from fieldfit.report.table import PlainTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHADE = "#e9e4dc"
_MOST_NAMED = 7


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
    least = min(own.variance for own in points)
    chosen = next((own.variance for own in points if own.name == best), least)
    top = max(2.5 * least, 1.3 * chosen)
    return [own for own in points if own.variance <= top]


def draw_frontier(
    points: Sequence[FrontierPoint],
    best: str,
    cost: str,
    variance: str,
    *,
    budget: float | None = None,
    floor: float | None = None,
) -> Figure:
    """Cost (logarithmic) against variance (logarithmic); below the frontier is what no policy reaches.

    ``budget`` is a vertical line, ``floor`` the variance that nothing can go below.
    """
    shown = _visible(points, best)
    edge = sorted((own for own in shown if own.on_frontier), key=lambda own: own.cost)
    low, high = min(own.cost for own in shown), max(own.cost for own in shown)
    least, most = min(own.variance for own in shown), max(own.variance for own in shown)
    if floor is not None:
        least = min(least, floor)
    left, right = low / 1.6, high * 2.6
    bottom, top = least - 0.12 * (most - least + 0.02), most + 0.1 * (most - least + 0.02)
    with figure(7.4, 4.7) as drawing:
        axes = drawing.add_axes((0.1, 0.13, 0.87, 0.82))
        axes.set_xscale("log")
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        if edge:
            x = [left, *(own.cost for own in edge), right]
            y = [top, *(own.variance for own in edge), edge[-1].variance]
            axes.fill_between(x, y, bottom, step="post", color=_SHADE, linewidth=0, zorder=0)
            axes.step(x, y, where="post", color=ACCENT, linewidth=1.2, zorder=2)
            axes.text(left * 1.08, bottom + 0.03 * (top - bottom), "no policy is here", fontsize=8.5, color=MUTED)
        if floor is not None:
            axes.axhline(floor, color=MUTED, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
        if budget is not None and left < budget < right:
            axes.axvline(budget, color=INK, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
            axes.annotate(
                "budget left", (budget, 0.985), (4, 0), xycoords=("data", "axes fraction"), textcoords="offset points",
                fontsize=8, va="top", color=INK,
            )  # fmt: skip
        for own in shown:
            chosen = own.name == best
            axes.errorbar(
                own.cost, own.variance, 2 * own.error, fmt="D" if chosen else "o",
                color=ACCENT if own.on_frontier else BLUE, markersize=8 if chosen else 4.5 if own.on_frontier else 3.5,
                elinewidth=0.8, capsize=0, alpha=1 if own.on_frontier or chosen else 0.55, zorder=4 if chosen else 3,
            )  # fmt: skip
        named = [(_short(own.name), own.cost, own.variance) for own in _named(shown, best)]
        name_points(axes, named, [(own.cost, own.variance) for own in shown])
        axes.set_xlabel(cost)
        axes.set_ylabel(variance)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
    return drawing


def _named(points: Sequence[FrontierPoint], best: str) -> list[FrontierPoint]:
    """The recommended point and the plainest others: many names would hide the points."""
    ranked = sorted(
        points, key=lambda own: (own.name != best, "+" in own.name or "*" in own.name, not own.on_frontier)
    )
    plain = [own for own in ranked if own.name == best or ("+" not in own.name and "*" not in own.name)]
    edge = [own for own in ranked if own.on_frontier and own not in plain]
    return [*plain, *edge[: max(0, _MOST_NAMED - len(plain))]]


def _short(name: str) -> str:
    return name if len(name) < 34 else name[:32] + "…"


def frontier_html(
    path: str | os.PathLike[str],
    *,
    title: str,
    paragraphs: Sequence[str],
    table: PlainTable,
    points: Sequence[FrontierPoint],
    best: str,
    labels: tuple[str, str],
    budget: float | None,
    drawing: Callable[[], Figure],
) -> None:
    """A page with nothing to load from elsewhere: the picture moves where plotly is installed, else it is drawn."""
    page = Page(title)
    for paragraph in paragraphs:
        page.paragraph(paragraph)
    moving = _plotly(_visible(points, best), best, labels, budget)
    if moving is not None:
        page.parts.append(f"<figure>{moving}</figure>")
    else:
        svg = figure_bytes(drawing(), "svg").decode()
        page.parts.append(f"<figure>{svg[svg.index('<svg') :]}</figure>")
    page.table(table)
    page.write(path)


def _plotly(points: Sequence[FrontierPoint], best: str, labels: tuple[str, str], budget: float | None) -> str | None:
    """The frontier as a plotly figure with its script inside, or None where plotly is missing."""
    try:
        import plotly.graph_objects as go
    except ImportError:
        return None
    edge = sorted((own for own in points if own.on_frontier), key=lambda own: own.cost)
    least, most = min(own.variance for own in points), max(own.variance for own in points)
    bottom, top = least - 0.1 * (most - least + 0.02), most + 0.1 * (most - least + 0.02)
    low, high = min(own.cost for own in points) / 1.6, max(own.cost for own in points) * 2.6
    drawing = go.Figure()
    x = [low, *(own.cost for own in edge), high]
    y = [top, *(own.variance for own in edge), edge[-1].variance if edge else least]
    drawing.add_scatter(
        x=[low, high], y=[bottom, bottom], mode="lines", line={"width": 0}, hoverinfo="skip", showlegend=False
    )
    drawing.add_scatter(
        x=x, y=y, mode="lines", line={"shape": "hv", "color": ACCENT}, fill="tonexty", fillcolor=_SHADE,
        name="frontier (nothing below it)", hoverinfo="skip",
    )  # fmt: skip
    for name, colour, size, own in (
        ("not on the frontier", BLUE, 7, [p for p in points if not p.on_frontier and p.name != best]),
        ("on the frontier", ACCENT, 9, [p for p in edge if p.name != best]),
        ("recommended", INK, 13, [p for p in points if p.name == best]),
    ):
        drawing.add_scatter(
            x=[p.cost for p in own], y=[p.variance for p in own], mode="markers", name=name,
            marker={"color": colour, "size": size, "symbol": "diamond" if name == "recommended" else "circle"},
            text=[f"{html.escape(p.name)}<br>{html.escape(p.why)}" for p in own],
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
