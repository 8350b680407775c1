"""Labels next to points, at the nearest position without overlap with labels, points or the border."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fieldfit.report.figures import INK, MUTED
from fieldfit.types import Plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Half the size of a marker and the gap between names, in points (1/72 inch).
_MARKER, _GAP = 4.0, 1.5
Box = tuple[float, float, float, float]


def name_points(
    axes: Axes,
    names: Sequence[tuple[str, float, float]],
    points: Sequence[tuple[float, float]],
    size: float = 8.0,
    *,
    below: bool = True,
    backed: bool = False,
) -> list[str]:
    """Write ``names`` (text, x, y), the most important first, and return those that were written.

    The limits and scales of the axes must be final. ``points`` are all drawn points. A name far from its point gets a
    thin line; names without a free position are left out. ``below`` allows names under their points. ``backed`` names
    have a white box behind them, for axes with lines that names may cross.
    """
    scale = 72.0 / axes.figure.dpi
    corner = axes.transAxes.transform([(0.0, 0.0), (1.0, 1.0)]) * scale
    frame: Box = (corner[0][0], corner[0][1], corner[1][0], corner[1][1])
    centres = [tuple(axes.transData.transform(point) * scale) for point in points]
    taken: list[Box] = [(x - _MARKER, y - _MARKER, x + _MARKER, y + _MARKER) for x, y in centres]
    written = []
    for text, x, y in names:
        px, py = axes.transData.transform((x, y)) * scale
        wide, high = _extent(text, size)
        for dx, dy in _places(wide, high, below):
            box = (px + dx - _GAP, py + dy - _GAP, px + dx + wide + _GAP, py + dy + high + _GAP)
            if not _inside(box, frame) or any(_overlap(box, other) for other in taken):
                continue
            taken.append(box)
            written.append(text)
            far = (dy if dy >= 0 else -dy - high) > 8  # points between the name and its own point
            line = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 4} if far else None
            axes.annotate(text, (x, y), (dx, dy), textcoords="offset points", fontsize=size, color=INK, zorder=5,
                          va="bottom", arrowprops=line, bbox=backing() if backed else None)  # fmt: skip
            break
    return written


def backing(colour: str = "white") -> Plain:
    """A box behind a text in the background colour, so that no line crosses the letters."""
    return {"boxstyle": "square,pad=0.08", "facecolor": colour, "edgecolor": "none", "alpha": 0.85}


def _places(wide: float, high: float, below: bool) -> Iterator[tuple[float, float]]:
    """Offsets of a name's lower left corner from its point, nearest first."""
    for away in (0.0, 10.0, 20.0, 31.0, 43.0, 56.0):
        for dx in (7.0, -wide - 7.0, -wide / 2):
            for dy in (away + 3.0, -away - high - 3.0)[: 1 + below]:
                yield dx, dy


def _extent(text: str, size: float) -> tuple[float, float]:
    """Width and height of a text in points."""
    from matplotlib.textpath import TextPath

    box = TextPath((0, 0), text, size=size).get_extents()
    return float(box.width), 1.1 * size


def _inside(box: Box, frame: Box) -> bool:
    return box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]


def _overlap(first: Box, other: Box) -> bool:
    return first[0] < other[2] and other[0] < first[2] and first[1] < other[3] and other[1] < first[3]
