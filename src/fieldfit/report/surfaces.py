"""Panels for numbers over a grid: contours, a curve for each row, clouds above an unreachable region, and diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fieldfit.report.figures import ACCENT, BLUE, MUTED, draw_grid
from fieldfit.report.panels import COLOURS, lower_left
from fieldfit.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: From light to dark, for ordered labels.
_SHADES = ("#e8b04a", "#d1495b", "#7b2d8b", "#1b1b4b")
#: Inches from an axis to the legend under its text.
_LEGEND_BELOW = 0.43
_MARKS = ("o", "^", "s", "D", "v", "P", "<")


class Drawable(Protocol):
    """A panel that draws itself on a pair of axes. `draw_surfaces` takes any object with this method.

    Examples
    --------
    >>> from fieldfit import plots
    >>> class Text(plots.Drawable):
    ...     def draw(self, axes):
    ...         axes.set_title("nothing here")
    >>> len(plots.draw_surfaces([[Text()]]).axes)
    1
    """

    def draw(self, axes: Axes) -> None:
        """Draw on matplotlib axes.

        Parameters
        ----------
        axes : matplotlib.axes.Axes
            The axes.

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import plots
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plots.BarPanel("costs", ["PL1", "FL"], np.array([21.0, 27.0]), "FLOPs").draw(axes)
        >>> axes.get_xlabel()
        'FLOPs'
        """


@dataclass(frozen=True)
class ContourPanel(Drawable):
    """Numbers over a grid as filled contours with a cross at the smallest one.

    Parameters
    ----------
    title : str
        Title of the panel.
    x, y : ndarray
        Coordinates of the grid.
    z : ndarray of shape (len(y), len(x))
        The numbers.
    levels : ndarray
        Levels of the contours; see `contour_levels`.
    x_label, y_label : str
        Texts of the axes.
    bar : bool, default: True
        Whether to draw the scale of colours.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> x = np.linspace(0, 1, 5)
    >>> z = x + x[:, None] ** 2
    >>> panel = plots.ContourPanel("NLL", x, x, z, plots.contour_levels([z]))
    >>> len(plots.draw_surfaces([[panel]]).axes)
    1
    """

    title: str
    x: FloatArray
    y: FloatArray
    z: FloatArray
    levels: FloatArray
    x_label: str = "β"
    y_label: str = "λ"
    bar: bool = True

    def draw(self, axes: Axes) -> None:
        """Draw the contours: lighter is less, and values above the last level have the darkest colour."""
        levels = np.asarray(self.levels)
        filled = axes.contourf(self.x, self.y, self.z, levels=levels, cmap="viridis_r", extend="both")
        axes.contour(self.x, self.y, self.z, levels=levels, colors="white", linewidths=0.4)
        if self.bar:
            # Outside the axes, so that all panels of a row have the same size.
            scale = axes.figure.colorbar(filled, cax=axes.inset_axes((1.05, 0.0, 0.045, 1.0)), ticks=levels)
            scale.ax.tick_params(labelsize=7)
        row, column = np.unravel_index(int(np.nanargmin(self.z)), self.z.shape)
        axes.plot(self.x[column], self.y[row], "x", color=ACCENT, markersize=7, markeredgewidth=1.8, clip_on=False)
        _frame(axes, self.title, self.x_label, self.y_label)


@dataclass(frozen=True)
class ShadedCurves(Drawable):
    """One curve for each value, lighter for larger values.

    Parameters
    ----------
    title : str
        Title of the panel.
    x : ndarray
        Coordinates.
    values : ndarray
        The value of each curve.
    z : ndarray of shape (len(values), len(x))
        The curves.
    x_label, y_label : str
        Texts of the axes.
    name : str, default: "λ"
        Name of the values in the legend.
    y_range : tuple of float, or None, default: None
        Ends of the vertical axis. A curve that leaves it has a triangle at the edge.
    legend : bool, default: True
        Whether there is a legend, with the first and the last value.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> x = np.linspace(0, 1, 5)
    >>> panel = plots.ShadedCurves("NLL", x, np.array([0.1, 0.5]), np.stack([x, x**2]))
    >>> len(plots.draw_surfaces([[panel]]).axes)
    1
    """

    title: str
    x: FloatArray
    values: FloatArray
    z: FloatArray
    x_label: str = "β"
    y_label: str = "NLL"
    name: str = "λ"
    y_range: tuple[float, float] | None = None
    legend: bool = True

    def draw(self, axes: Axes) -> None:
        """Draw grey curves; the legend, on the right, has the first and the last value."""
        count = len(self.values)
        for k, (value, row) in enumerate(zip(self.values, self.z, strict=True)):
            shade = str(0.75 * k / max(count - 1, 1))
            label = f"{self.name} = {value:g}" if k in (0, count - 1) else None
            axes.plot(self.x, row, "-", color=shade, linewidth=1.2, marker=".", markersize=3, label=label)
        if self.y_range is not None:
            axes.set_ylim(*self.y_range)
            self._mark_ends(axes, self.y_range[1])
        if self.legend:
            axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        _frame(axes, self.title, self.x_label, self.y_label)

    def _mark_ends(self, axes: Axes, top: float) -> None:
        """Draw triangles where curves leave the axes at the top."""
        places = []
        for row in self.z:
            for k in np.flatnonzero((row[:-1] > top) != (row[1:] > top)).tolist():
                share = (top - row[k]) / (row[k + 1] - row[k])
                places.append(self.x[k] + share * (self.x[k + 1] - self.x[k]))
        axes.plot(places, [top] * len(places), "^", color=ACCENT, markersize=4, clip_on=False, zorder=5)


@dataclass(frozen=True)
class Cloud:
    """Named points of a trade-off.

    Parameters
    ----------
    label : str
        Its name in the legend.
    x, y : ndarray
        Coordinates of the points.
    bars : ndarray or None, default: None
        Half-lengths of vertical bars.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> len(plots.Cloud("PL1", np.array([1.0, 2.0]), np.array([2.0, 1.0])).x)
    2
    """

    label: str
    x: FloatArray
    y: FloatArray
    bars: FloatArray | None = None


@dataclass(frozen=True)
class TradeOffPanel(Drawable):
    """Clouds of points, with the region below and to the left of all of them shaded.

    Parameters
    ----------
    title : str
        Title of the panel.
    clouds : sequence of Cloud
        The points. A single cloud has no legend.
    x_label, y_label : str
        Texts of the axes.
    log_x : bool, default: False
        Whether the horizontal axis is logarithmic.
    x_range, y_range : tuple of float, or None, default: None
        Ends of the axes.
    zero : bool, default: False
        Whether to draw a line at 0 instead of the region: what is below it is better.
    ordered : sequence of str, default: ()
        Labels of clouds in their order, shown by colours from light to dark. Panels with the same sequence show a label
        by the same colour and mark. Empty: the clouds have no order.
    frontier : bool, default: False
        Whether to draw each cloud faintly, with a staircase through its frontier, and the number of points above the
        axes.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> cloud = plots.Cloud("PL1", np.array([1.0, 2.0]), np.array([2.0, 1.0]))
    >>> len(plots.draw_surfaces([[plots.TradeOffPanel("costs", [cloud], "seconds", "variance")]]).axes)
    1
    """

    title: str
    clouds: Sequence[Cloud]
    x_label: str
    y_label: str
    log_x: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    zero: bool = False  # a line at 0 instead of the region: what is below it is better
    ordered: Sequence[str] = ()
    frontier: bool = False

    def draw(self, axes: Axes) -> None:
        """Draw the clouds. The region is a staircase below the points on the frontier."""
        axes.set_xscale("log" if self.log_x else "linear")
        for k, cloud in enumerate(self.clouds):
            colour, mark = _colour_and_mark(cloud.label, k, self.ordered)
            if cloud.bars is not None:
                axes.errorbar(cloud.x, cloud.y, cloud.bars, fmt="none", ecolor=colour, elinewidth=0.9, capsize=2)
            faint = self.frontier
            axes.plot(cloud.x, cloud.y, mark, color=colour, markersize=2 if faint else 3.5, markeredgewidth=0,
                      alpha=0.35 if faint else 0.8, label=None if faint else cloud.label)  # fmt: skip
            if faint:
                best = lower_left(cloud.x, cloud.y)
                x, y = np.append(cloud.x[best], np.max(cloud.x)), np.append(cloud.y[best], np.min(cloud.y))
                axes.step(x, y, where="post", color=colour, linewidth=1.2)
                x, y = cloud.x[best], cloud.y[best]
                # Marks in the frame are drawn whole, also at its edge.
                shown = _inside(x, self.x_range) & _inside(y, self.y_range)
                axes.plot(x[shown], y[shown], mark, color=colour, markersize=4.5, label=cloud.label, clip_on=False)
        x = np.concatenate([cloud.x for cloud in self.clouds])
        y = np.concatenate([cloud.y for cloud in self.clouds])
        edge = lower_left(x, y)
        if self.y_range is None:
            half = np.concatenate(
                [np.zeros(len(c.y)) if c.bars is None else np.nan_to_num(c.bars) for c in self.clouds]
            )
            low, high = float((y - half).min()), float((y + half).max())
            axes.set_ylim(low - 0.12 * (high - low + 1e-12), high + 0.06 * (high - low + 1e-12))
        else:
            axes.set_ylim(*self.y_range)
            above = int(np.sum(y > self.y_range[1]))
            if above:
                axes.text(1.0, 1.01, f"{above} above", transform=axes.transAxes, ha="right", fontsize=7, color=MUTED)
        left = float(x.min()) * 0.7 if self.log_x else float(x.min()) - 0.08 * float(np.ptp(x) + 1e-12)
        right = float(x.max()) * 1.1 if self.log_x else float(x.max()) + 0.04 * float(np.ptp(x) + 1e-12)
        left, right = self.x_range or (left, right)
        axes.set_xlim(left, right)
        bottom, top = axes.get_ylim()
        if self.zero:
            axes.axhline(0.0, color=MUTED, linewidth=1.0, linestyle="--", zorder=1)
        else:
            steps_x = np.concatenate([[left], x[edge], [right]])
            steps_y = np.concatenate([[top], y[edge], [float(y[edge][-1])]])
            axes.fill_between(steps_x, bottom, steps_y, step="post", color="0.85", linewidth=0, zorder=0)
            axes.plot([], [], "s", color="0.85", markersize=7, label="not reached by any policy")
        if self.has_legend:
            _legend_below(axes)
        _frame(axes, self.title, self.x_label, self.y_label)

    @property
    def has_legend(self) -> bool:
        """Whether there are several clouds to name."""
        return len(self.clouds) > 1


@dataclass(frozen=True)
class DiagonalPanel(Drawable):
    """Clouds of points around the line y = x.

    Parameters
    ----------
    title : str
        Title of the panel.
    clouds : sequence of Cloud
        The points.
    x_label, y_label : str
        Texts of the axes.
    ordered : sequence of str, default: ()
        Labels of clouds in their order, shown by colours from light to dark. Panels with the same sequence show a label
        by the same colour and mark. Empty: the clouds have no order.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> cloud = plots.Cloud("PL1", np.array([1.0, 2.0]), np.array([2.0, 1.0]))
    >>> len(plots.draw_surfaces([[plots.DiagonalPanel("errors", [cloud], "predicted", "measured")]]).axes)
    1
    """

    title: str
    clouds: Sequence[Cloud]
    x_label: str
    y_label: str
    ordered: Sequence[str] = ()

    def draw(self, axes: Axes) -> None:
        """Draw the points and a dashed diagonal. Marks are hollow, so that coinciding points can be distinguished."""
        values = np.concatenate([np.concatenate([c.x, c.y]) for c in self.clouds])
        low, high = float(values.min()), float(values.max())
        margin = 0.05 * (high - low) + 1e-9
        ends = (low - margin, high + margin)
        axes.plot(ends, ends, "--", color=MUTED, linewidth=1.0, zorder=1)
        for k, cloud in enumerate(self.clouds):
            colour, mark = _colour_and_mark(cloud.label, k, self.ordered)
            axes.plot(cloud.x, cloud.y, mark, color=colour, markersize=4.5, markerfacecolor="none", markeredgewidth=1.0,
                      label=cloud.label)  # fmt: skip
        axes.set_xlim(*ends)
        axes.set_ylim(*ends)
        axes.locator_params(nbins=5)  # more numbers would touch
        _legend_below(axes, 4)
        _frame(axes, self.title, self.x_label, self.y_label)


@dataclass(frozen=True)
class BarPanel(Drawable):
    """Named numbers as horizontal bars, the first name on top.

    Parameters
    ----------
    title : str
        Title of the panel.
    names : sequence of str
        The names.
    values : ndarray
        The numbers, which are also written next to the bars.
    x_label : str
        Text of the axis.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> panel = plots.BarPanel("costs", ["PL1", "FL"], np.array([21.0, 27.0]), "FLOPs")
    >>> len(plots.draw_surfaces([[panel]]).axes)
    1
    """

    title: str
    names: Sequence[str]
    values: FloatArray
    x_label: str

    def draw(self, axes: Axes) -> None:
        """The first name on top."""
        places = np.arange(len(self.names))[::-1]
        axes.barh(places, self.values, color=BLUE, height=0.7)
        axes.set_yticks(places, self.names, fontsize=7.5)
        largest = float(self.values.max())
        axes.set_xlim(0, 1.15 * largest)
        for place, value in zip(places, self.values.tolist(), strict=True):
            axes.text(value + 0.01 * largest, place, f"{value:,.0f}", va="center", fontsize=7)
        _frame(axes, self.title, self.x_label, "")


def _inside(values: FloatArray, ends: tuple[float, float] | None) -> BoolArray:
    """Which values lie in a range; all do if there is none."""
    return np.ones(len(values), dtype=bool) if ends is None else (values >= ends[0]) & (values <= ends[1])


def _colour_and_mark(label: str, number: int, ordered: Sequence[str]) -> tuple[str, str]:
    """Colour by the rank of the label, from light to dark, or by the number of the cloud if there is no order."""
    if not ordered:
        return COLOURS[number % len(COLOURS)], _MARKS[number % len(_MARKS)]
    place = list(ordered).index(label)
    # Two neighbouring shades, mixed.
    at = place * (len(_SHADES) - 1) / max(len(ordered) - 1, 1)
    low = min(int(at), len(_SHADES) - 2)
    first, second = ([int(shade[k : k + 2], 16) for k in (1, 3, 5)] for shade in _SHADES[low : low + 2])
    mixed = (round(a + (at - low) * (b - a)) for a, b in zip(first, second, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed), _MARKS[place % len(_MARKS)]


def _legend_below(axes: Axes, columns: int = 3) -> None:
    """Put the legend under the text of the axis, at the same distance for any height: no corner may be free."""
    from matplotlib.transforms import ScaledTranslation

    below = axes.transAxes + ScaledTranslation(0, -_LEGEND_BELOW, axes.figure.dpi_scale_trans)
    axes.legend(
        fontsize=7, frameon=False, ncol=columns, loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below,
        handletextpad=0.3, handlelength=1.2, columnspacing=1.2,
    )  # fmt: skip


def _frame(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)


def contour_levels(values: Sequence[FloatArray], count: int = 9) -> FloatArray:
    """Compute contour levels for several panels: round numbers from the smallest value to the 90% quantile.

    Parameters
    ----------
    values : sequence of ndarray
        The values of each panel; those that are not finite are ignored.
    count : int, default: 9
        Approximate largest number of levels.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> plots.contour_levels([np.arange(101.0)], 5).tolist()
    [0.0, 25.0, 50.0, 75.0, 100.0]
    """
    pooled = np.concatenate([np.ravel(v) for v in values])
    pooled = pooled[np.isfinite(pooled)]
    low, high = float(pooled.min()), float(np.quantile(pooled, 0.9))
    if not high > low:
        return np.array([low - 0.5, low + 0.5])
    rough = (high - low) / max(count - 1, 1)
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= rough * (1 - 1e-9))
    first, last = np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9)
    # Fifteen digits, so that 0.1 + 0.2 prints as 0.3.
    return np.array([float(f"{step * k:.15g}") for k in np.arange(first, last + 1)])


def draw_surfaces(
    rows: Sequence[Sequence[Drawable]], caption: str = "", *, width: float = 2.9, height: float = 2.6
) -> Figure:
    """Draw a grid of panels such as `ContourPanel` and `TradeOffPanel`.

    Parameters
    ----------
    rows : sequence of sequences of panels
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
    >>> x = np.linspace(0, 1, 5)
    >>> z = x + x[:, None] ** 2
    >>> panel = plots.ContourPanel("NLL", x, x, z, plots.contour_levels([z]))
    >>> len(plots.draw_surfaces([[panel]]).axes)
    1
    """
    drawers = [[panel.draw for panel in row] for row in rows]
    # Make room for legends under the axes.
    legends = any(
        isinstance(panel, DiagonalPanel) or (isinstance(panel, TradeOffPanel) and panel.has_legend)
        for row in rows
        for panel in row
    )
    below, apart = (0.9, 0.62) if legends else (0.5, 0.5)
    # Make room for a colour bar between two panels.
    bars = any(isinstance(panel, ContourPanel) and panel.bar for row in rows for panel in row[:-1])
    gaps = (0.5 if bars else 0.33, apart)
    return draw_grid(drawers, caption, width=width, height=height, margins=(below, 0.3), gaps=gaps)
