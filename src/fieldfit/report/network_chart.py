"""The network of a fit's page: the strongest couplings first, and a slider for how many of them are drawn."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from fieldfit.report.network import DRAWN_FOR_EACH, control_point, layout, radius, strongest_of, widest
from fieldfit.report.page import Page
from fieldfit.report.svg import Chart
from fieldfit.types import FloatArray

#: Couplings that can be drawn at most.
_MOST_DRAWN = 400
#: Letters of a name.
_LETTERS = 12


def add_network(page: Page, names: Sequence[str], values: FloatArray, what: str, caption: str) -> None:
    """Variables as circles and couplings as lines: blue and solid for positive ones, red and dashed for negative ones.

    Lines beyond the first ones are in the page, but hidden until the slider asks for them.
    """
    m = len(names)
    sizes = np.abs(np.triu(values, 1))
    ordered = np.argsort(-sizes, axis=None, kind="stable")[: int(np.count_nonzero(sizes))]
    ranked = [(int(place) // m, int(place) % m) for place in ordered]
    shown = min(len(ranked), DRAWN_FOR_EACH * m)
    chart = _chart(names, values, what, ranked[:_MOST_DRAWN], shown)
    picture = chart.svg(
        f"Network of {m} variables with {len(ranked)} couplings. The table of estimates has the numbers."
    )
    if shown < len(ranked):
        drawn = min(len(ranked), _MOST_DRAWN)
        page.parts.append(
            f'<div class="controls only-screen"><label>Number of couplings in the picture, the strongest first'
            f'<input type="range" data-edges="{len(ranked)}" min="1" max="{drawn}" value="{shown}"></label></div>'
            f'<p class="note"><output id="edges-shown" aria-live="polite">The {shown} strongest of {len(ranked)} '
            f"couplings are shown, down to a size of {sizes[ranked[shown - 1]]:.2g}.</output></p>"
        )
    page.chart(picture, caption)


def _chart(
    names: Sequence[str], values: FloatArray, what: str, ranked: Sequence[tuple[int, int]], shown: int
) -> Chart:
    size = radius(len(names))
    width, room = 640.0, 30 + 640 * size
    chart = Chart.of((0, 1), (0, 1), size=(width, width))
    # Springs along the lines that are seen at first: the weak ones would pull all variables into one heap.
    points = room + layout(strongest_of(values, shown)) * (width - 2 * room)
    drawn_radius = max(7.0, 300 * size)
    largest = widest(values) or 1.0
    for rank, (j, k) in reversed(list(enumerate(ranked, 1))):
        kind, dash = ("blue", "") if values[j, k] > 0 else ("red", ' stroke-dasharray="7 4"')
        note = html.escape(f"{names[j]} – {names[k]}: {what} {values[j, k]:.3g}", quote=True)
        strength = abs(values[j, k])
        share = min(1.0, strength / largest)
        hidden = "" if rank <= shown else ' display="none"'
        chart.add(
            f'<path class="{kind} none" data-tip="{note}" data-rank="{rank}" data-size="{strength:.2g}"{hidden} '
            f'd="{_line(points, j, k, 1.3 * drawn_radius)}" stroke-width="{0.6 + 7 * share:.1f}" '
            f'opacity="{0.15 + 0.75 * share:.2f}"{dash}/>'
        )
    for j, (x, y) in enumerate(points):
        strongest = np.argsort(-np.abs(values[j]))[:3]
        told = ", ".join(f"{names[k]} {values[j, k]:+.2g}" for k in strongest if values[j, k] != 0)
        note = html.escape(f"{names[j]}: {told or 'no couplings'}", quote=True)
        chart.add(
            f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="{drawn_radius:.1f}" data-tip="{note}" '
            f'aria-label="{note}" role="img" tabindex="0"/>'
        )
    for j, (x, y) in enumerate(points):
        chart.text(x, y + 4, cut_name(names[j]), "halo", anchor="middle")
    return chart


def _line(points: FloatArray, j: int, k: int, room: float) -> str:
    """A straight line, or a curve around a circle in its way."""
    (x, y), (u, v) = points[j], points[k]
    control = control_point(points, j, k, room)
    bend = "L" if control is None else f"Q{control[0]:.1f} {control[1]:.1f} "
    return f"M{x:.1f} {y:.1f}{bend}{u:.1f} {v:.1f}"


def cut_name(name: str) -> str:
    """The name, or its beginning where there is no room for more."""
    return name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"
