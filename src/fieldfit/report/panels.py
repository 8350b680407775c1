"""Grids of panels with curves and points and one caption, as in the paper's figures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from fieldfit.report.figures import INK, MUTED, draw_grid
from fieldfit.report.ticks import plain_ticks
from fieldfit.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import LineStyleType

#: Okabe and Ito's colours without yellow: distinct for colour-blind readers, and distinguished by marks in greyscale.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_DASHES: tuple[LineStyleType, ...] = ("-", (0, (6, 2)), (0, (6, 2, 1, 2)), (0, (2, 1.5)), (0, (1, 1)), "-")
MARKS = ("o", "^", "s", "D", "v", "P")


@dataclass(frozen=True)
class Series:
    """One curve or cloud of points of a `Panel`.

    Parameters
    ----------
    label : str
        Its name in the legend.
    x, y : ndarray
        Coordinates of the points.
    kind : str, default: "line"
        "line" for a curve, "points" for a cloud, "marks" for large marks, "circles" for black circles, "bar" for a
        thin grey line between two points and "edge" for a black staircase through points from left to right.
    texts : tuple of str, default: ()
        A text beside each point.
    error : ndarray or None, default: None
        Half the length of a bar through each circle.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> plots.Series("y = x²", np.arange(3.0), np.arange(3.0) ** 2).kind
    'line'
    """

    label: str
    x: FloatArray
    y: FloatArray
    kind: str = "line"
    texts: tuple[str, ...] = ()  # one beside each point
    error: FloatArray | None = None  # half the length of a bar through each circle


@dataclass(frozen=True)
class Level:
    """A horizontal line of a `Panel` with its name. The first of a panel is dashed, the second dotted.

    Parameters
    ----------
    label : str
        Its name.
    y : float
        Its height.

    Examples
    --------
    >>> from fieldfit import plots
    >>> plots.Level("maximum likelihood", 1.0)
    Level(label='maximum likelihood', y=1.0)
    """

    label: str
    y: float


@dataclass(frozen=True)
class Panel:
    """One pair of axes with curves, points and levels.

    Parameters
    ----------
    title, x_label, y_label : str
        Texts of the axes.
    series : sequence of Series
        Curves and clouds of points.
    levels : sequence of Level, default: ()
        Horizontal lines.
    log_x, log_y : bool, default: False
        Whether an axis is logarithmic.
    x_range, y_range : tuple of float, or None, default: None
        Ends of an axis. None: chosen from the data.
    legend : {"best", "upper right"} or None, default: "best"
        Where the legend is. None: no legend.
    plain_ticks : bool, default: False
        With ``log_y`` and ``y_range``: ticks such as 1, 1.2, 1.5, 2 instead of powers of ten.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> panel = plots.Panel("a parabola", "x", "y", [plots.Series("y = x²", np.arange(3.0), np.arange(3.0) ** 2)])
    >>> figure = plots.draw_panels([[panel]])
    >>> figure.axes[0].get_title(loc="left")
    'a parabola'
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    levels: Sequence[Level] = ()
    log_x: bool = False
    log_y: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    legend: Literal["best", "upper right"] | None = field(default="best")
    plain_ticks: bool = False  # with log_y and y_range: 1, 1.2, 1.5, 2 instead of powers of ten


def draw_panels(
    rows: Sequence[Sequence[Panel]], caption: str = "", *, width: float = 4.3, height: float = 3.5
) -> Figure:
    """Draw a grid of panels with lines and points.

    Parameters
    ----------
    rows : sequence of sequences of Panel
        The panels of each row.
    caption : str, default: ""
        Text below the panels.
    width, height : float
        Size of one panel in inches.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> x = np.linspace(0, 1, 11)
    >>> panel = plots.Panel("a parabola", "x", "y", [plots.Series("y = x²", x, x**2)], [plots.Level("one", 1.0)])
    >>> len(plots.draw_panels([[panel, panel]], "The same curve twice.").axes)
    2
    """
    drawers = [[partial(_draw, panel=panel) for panel in row] for row in rows]
    return draw_grid(drawers, caption, width=width, height=height, margins=(0.55, 0.35), gaps=(0.27, 0.42))


def _draw(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title, fontsize=9.5, loc="left")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_xscale("log" if panel.log_x else "linear")
    axes.set_yscale("log" if panel.log_y else "linear")
    axes.grid(True, color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    coloured = 0
    for series in panel.series:
        if series.kind == "bar":
            axes.plot(series.x, series.y, "-", color=MUTED, linewidth=1.2, marker="_", markersize=6, zorder=2)
        elif series.kind == "edge":
            axes.step(series.x, series.y, where="post", color="black", linewidth=1.8, label=series.label, zorder=4)
        elif series.kind == "circles":
            axes.plot(series.x, series.y, "o", color="black", markersize=7 if series.error is None else 4,
                      label=series.label, zorder=5)  # fmt: skip
            if series.error is not None:
                axes.errorbar(series.x, series.y, series.error, fmt="none", ecolor="black", capsize=3, zorder=5)
        else:
            _draw_coloured(axes, series, coloured)
            coloured += 1
        for x, y, text in zip(series.x, series.y, series.texts, strict=bool(series.texts)):
            axes.annotate(text, (x, y), (7, 5), textcoords="offset points", fontsize=8.5, color=INK, zorder=6,
                          bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8})  # fmt: skip
    for level, dash in zip(panel.levels, itertools.cycle(("--", ":")), strict=False):
        axes.axhline(level.y, color=MUTED, linewidth=1.1, linestyle=dash, label=level.label, zorder=1)
    if panel.x_range is not None:
        axes.set_xlim(*panel.x_range)
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)
    if panel.plain_ticks:
        plain_ticks(axes.yaxis)
    if panel.legend is not None:
        # No place may be free of curves: what lies below stays to be guessed, the words are read.
        axes.legend(
            fontsize=7.5, loc=panel.legend, handlelength=3, facecolor="white", edgecolor="none", framealpha=0.85
        )


def _draw_coloured(axes: Axes, series: Series, number: int) -> None:
    colour = COLOURS[number % len(COLOURS)]
    if series.kind == "line":
        dash = _DASHES[number % len(_DASHES)]
        axes.plot(series.x, series.y, color=colour, linewidth=1.5, linestyle=dash, label=series.label)
    elif series.kind == "marks":
        mark = MARKS[number % len(MARKS)]
        axes.plot(series.x, series.y, mark, color=colour, markersize=9, label=series.label, zorder=4)
    else:
        mark = MARKS[number % len(MARKS)]
        # Many points take less space as pixels, also in vector files.
        axes.plot(series.x, series.y, mark, color=colour, markersize=2.6, markeredgewidth=0, alpha=0.55,
                  label=series.label, zorder=2, rasterized=len(series.x) > 300)  # fmt: skip


def lower_left(x: FloatArray, y: FloatArray) -> IntArray:
    """Find the points that no other point is below and to the left of.

    Parameters
    ----------
    x, y : ndarray of shape (n,)
        Coordinates of the points.

    Returns
    -------
    ndarray of shape (k,)
        Indices of these points, from left to right.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> plots.lower_left(np.array([1.0, 2.0, 3.0]), np.array([5.0, 6.0, 2.0])).tolist()
    [0, 2]
    """
    order = np.lexsort((y, x))
    before = np.concatenate([[np.inf], np.minimum.accumulate(y[order])[:-1]])
    chosen: IntArray = order[y[order] < before]
    return chosen
