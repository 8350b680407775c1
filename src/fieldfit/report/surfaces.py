"""Panels for numbers over a grid: contours, a curve for each row, clouds above an unreachable region, and diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fieldfit.report.figures import ACCENT, BLUE, INK, MUTED, draw_grid
from fieldfit.report.panels import COLOURS, lower_left
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = ("o", "^", "s", "D", "v", "P")


class Drawable(Protocol):
    """A panel that draws itself on a pair of axes."""

    def draw(self, axes: Axes) -> None:
        """Draw on matplotlib axes."""


@dataclass(frozen=True)
class ContourPanel:
    """z (len(y), len(x)) as labelled contours; ``best`` marks the smallest z."""

    title: str
    x: FloatArray
    y: FloatArray
    z: FloatArray
    levels: FloatArray
    x_label: str = "β"
    y_label: str = "λ"

    def draw(self, axes: Axes) -> None:
        """Filled contours, lighter is less, with a cross at the least z."""
        levels = np.asarray(self.levels)
        axes.contourf(self.x, self.y, self.z, levels=levels, cmap="viridis_r", extend="both", alpha=0.75)
        lines = axes.contour(self.x, self.y, self.z, levels=levels, colors=INK, linewidths=0.6)
        axes.clabel(lines, fontsize=6.5, fmt="%.4g")
        row, column = np.unravel_index(int(np.nanargmin(self.z)), self.z.shape)
        axes.plot(self.x[column], self.y[row], "x", color=ACCENT, markersize=7, markeredgewidth=1.8, clip_on=False)
        _frame(axes, self.title, self.x_label, self.y_label)


@dataclass(frozen=True)
class ShadedCurves:
    """z (len(values), len(x)): one curve for each value, lighter for larger values."""

    title: str
    x: FloatArray
    values: FloatArray
    z: FloatArray
    x_label: str = "β"
    y_label: str = "NLL"
    name: str = "λ"
    y_range: tuple[float, float] | None = None

    def draw(self, axes: Axes) -> None:
        """Grey curves; the legend has the first and the last."""
        count = len(self.values)
        for k, (value, row) in enumerate(zip(self.values, self.z, strict=True)):
            shade = str(0.75 * k / max(count - 1, 1))
            label = f"{self.name} = {value:g}" if k in (0, count - 1) else None
            axes.plot(self.x, row, "-", color=shade, linewidth=1.2, marker=".", markersize=3, label=label)
        if self.y_range is not None:
            axes.set_ylim(*self.y_range)
        axes.legend(fontsize=7, frameon=False)
        _frame(axes, self.title, self.x_label, self.y_label)


@dataclass(frozen=True)
class Cloud:
    """Named points of a trade-off, with half-lengths of vertical bars where they have some."""

    label: str
    x: FloatArray
    y: FloatArray
    bars: FloatArray | None = None


@dataclass(frozen=True)
class TradeOffPanel:
    """Clouds of points; what no point reaches (further down and to the left than all of them) is shaded."""

    title: str
    clouds: Sequence[Cloud]
    x_label: str
    y_label: str
    log_x: bool = False
    y_range: tuple[float, float] | None = None
    zero: bool = False  # a line at 0 in place of the region: what is below it is better

    def draw(self, axes: Axes) -> None:
        """The region is a staircase below the points that nothing beats."""
        axes.set_xscale("log" if self.log_x else "linear")
        for k, cloud in enumerate(self.clouds):
            colour, mark = COLOURS[k % len(COLOURS)], _MARKS[k % len(_MARKS)]
            if cloud.bars is not None:
                axes.errorbar(cloud.x, cloud.y, cloud.bars, fmt="none", ecolor=colour, elinewidth=0.8, alpha=0.6)
            axes.plot(cloud.x, cloud.y, mark, color=colour, markersize=3.5, markeredgewidth=0, alpha=0.7,
                      label=cloud.label)  # fmt: skip
        x = np.concatenate([cloud.x for cloud in self.clouds])
        y = np.concatenate([cloud.y for cloud in self.clouds])
        edge = lower_left(x, y)
        if self.y_range is None:
            low, high = float(y.min()), float(y.max())
            axes.set_ylim(low - 0.12 * (high - low + 1e-12), high + 0.06 * (high - low + 1e-12))
        else:
            axes.set_ylim(*self.y_range)
        left = float(x.min()) * 0.7 if self.log_x else float(x.min()) - 0.08 * float(np.ptp(x) + 1e-12)
        right = float(x.max()) * 1.1 if self.log_x else float(x.max()) + 0.04 * float(np.ptp(x) + 1e-12)
        axes.set_xlim(left, right)
        bottom, top = axes.get_ylim()
        if self.zero:
            axes.axhline(0.0, color=MUTED, linewidth=1.0, linestyle="--", zorder=1)
            _legend_below(axes)
            _frame(axes, self.title, self.x_label, self.y_label)
            return
        steps_x = np.concatenate([[left], x[edge], [right]])
        steps_y = np.concatenate([[top], y[edge], [float(y[edge][-1])]])
        axes.fill_between(steps_x, bottom, steps_y, step="post", color="0.85", linewidth=0, zorder=0)
        axes.plot([], [], "s", color="0.85", markersize=7, label="not reached by any policy")
        _legend_below(axes)
        _frame(axes, self.title, self.x_label, self.y_label)


@dataclass(frozen=True)
class DiagonalPanel:
    """Clouds around the line y = x."""

    title: str
    clouds: Sequence[Cloud]
    x_label: str
    y_label: str

    def draw(self, axes: Axes) -> None:
        """Points, and the diagonal dashed."""
        values = np.concatenate([np.concatenate([c.x, c.y]) for c in self.clouds])
        low, high = float(values.min()), float(values.max())
        margin = 0.05 * (high - low) + 1e-9
        ends = (low - margin, high + margin)
        axes.plot(ends, ends, "--", color=MUTED, linewidth=1.0, zorder=1)
        for k, cloud in enumerate(self.clouds):
            axes.plot(cloud.x, cloud.y, _MARKS[k % len(_MARKS)], color=COLOURS[k % len(COLOURS)], markersize=4,
                      markeredgewidth=0, alpha=0.7, label=cloud.label)  # fmt: skip
        axes.set_xlim(*ends)
        axes.set_ylim(*ends)
        axes.legend(fontsize=7, frameon=False)
        _frame(axes, self.title, self.x_label, self.y_label)


@dataclass(frozen=True)
class BarPanel:
    """Named numbers as horizontal bars with the numbers beside them, on a logarithmic scale."""

    title: str
    names: Sequence[str]
    values: FloatArray
    x_label: str

    def draw(self, axes: Axes) -> None:
        """The first name on top."""
        places = np.arange(len(self.names))[::-1]
        axes.barh(places, self.values, color=BLUE, height=0.7)
        axes.set_yticks(places, self.names, fontsize=7.5)
        axes.set_xscale("log")
        axes.set_xlim(0.7, float(self.values.max()) * 4)
        for place, value in zip(places, self.values.tolist(), strict=True):
            axes.text(value * 1.1, place, f"{value:,.0f}", va="center", fontsize=7)
        _frame(axes, self.title, self.x_label, "")


def _legend_below(axes: Axes) -> None:
    """Under the axis, because a cloud leaves no free corner."""
    axes.legend(fontsize=7, frameon=False, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.17), handletextpad=0.3)


def _frame(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)


def contour_levels(values: Sequence[FloatArray], count: int = 9) -> FloatArray:
    """Compute contour levels for several panels: quantiles of all values, so that steep and flat parts both show lines.

    Parameters
    ----------
    values : sequence of ndarray
        The values of each panel; those that are not finite are ignored.
    count : int, default: 9
        Number of levels.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> plots.contour_levels([np.arange(101.0)], 3).round(1).tolist()
    [2.0, 48.5, 95.0]
    """
    pooled = np.concatenate([np.ravel(v) for v in values])
    pooled = pooled[np.isfinite(pooled)]
    levels = np.unique(np.quantile(pooled, np.linspace(0.02, 0.95, count)))
    if len(levels) < 2:
        return np.array([levels[0] - 0.5, levels[0] + 0.5])
    return np.asarray(levels)


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
    # Legends under the axes need room.
    below = 0.85 if any(isinstance(panel, TradeOffPanel) for row in rows for panel in row) else 0.5
    return draw_grid(drawers, caption, width=width, height=height, margins=(below, 0.3), gaps=(0.33, 0.5))
