"""Selections as a picture: a row for each component, a column for each sample, a shaded diamond if it is selected.

The shade is the cost of a component (darker: more expensive), on one scale for all boxes; the margins have the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.report.figures import INK, MUTED, figure
from fieldfit.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.235  # inches
_CELL = 0.42
_LABELS = 1.75
_RIGHT = 0.85


@dataclass(frozen=True)
class SelectionBox:
    """Which components of which samples a policy selects, for `draw_boxes`.

    Parameters
    ----------
    title : str
        The policy.
    components : tuple of str
        Names of the components.
    selected : ndarray of bool, shape (components, samples)
        The selection.
    cost : ndarray of shape (components,)
        Cost of each component.
    captions : tuple of str, default: ()
        Lines below the box.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> box = plots.SelectionBox("PL1", ("x0 | rest", "x1 | rest"), np.ones((2, 5), dtype=bool), np.array([3.0, 3.0]))
    >>> box.total
    30.0
    """

    title: str
    components: tuple[str, ...]
    selected: BoolArray
    cost: FloatArray
    captions: tuple[str, ...] = ()

    @property
    def by_component(self) -> FloatArray:
        """Cost of each row."""
        sums: FloatArray = self.selected.sum(axis=1) * self.cost
        return sums

    @property
    def by_sample(self) -> FloatArray:
        """Cost of each column."""
        return self.cost @ self.selected

    @property
    def total(self) -> float:
        """Cost of all."""
        return float(self.by_component.sum())


def draw_boxes(boxes: Sequence[SelectionBox]) -> Figure:
    """Draw which components of which samples some policies select, one box for each policy.

    Parameters
    ----------
    boxes : sequence of SelectionBox
        The boxes, from top to bottom. They share one scale of shades for the cost of a component.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> box = plots.SelectionBox("PL1", ("x0 | rest", "x1 | rest"), np.ones((2, 5), dtype=bool), np.array([3.0, 3.0]))
    >>> type(plots.draw_boxes([box])).__name__
    'Figure'
    """
    samples = boxes[0].selected.shape[1]
    heights = [_box_rows(box) * _ROW for box in boxes]
    head = 1.5 * _ROW
    width = _LABELS + samples * _CELL + _RIGHT
    height = head + sum(heights)
    low = min(float(box.cost.min()) for box in boxes)
    high = max(float(box.cost.max()) for box in boxes)
    with figure(width, height) as drawing:
        axes = drawing.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        axes.axis("off")
        for i in range(samples):
            axes.text(_center(i), head / 2, f"$X^{{({i + 1})}}$", ha="center", va="center", fontsize=8.5)
        axes.text(0.14, head / 2, "◇ selected", va="center", fontsize=7.5, color=MUTED)
        axes.text(_margin(samples), head / 2, "FLOPs", ha="right", va="center", fontsize=8, color=MUTED)
        top = head
        for box, box_height in zip(boxes, heights, strict=True):
            axes.plot([0.06, width - 0.06], [top, top], color=INK, linewidth=0.9)
            _draw_box(axes, box, top, low, high)
            top += box_height
        axes.plot([0.06, width - 0.06], [0.02, 0.02], color=INK, linewidth=0.9)
        axes.plot([0.06, width - 0.06], [height - 0.02, height - 0.02], color=INK, linewidth=0.9)
    return drawing


def _box_rows(box: SelectionBox) -> float:
    """Height in rows: title, components, sums, captions and margins."""
    return 1.5 + len(box.components) + 1.15 + 0.95 * len(box.captions) + 0.6


def _center(sample: int) -> float:
    return _LABELS + (sample + 0.5) * _CELL


def _margin(samples: int) -> float:
    return _LABELS + samples * _CELL + 0.68


def _shade(cost: float, low: float, high: float) -> float:
    """Grey level: logarithmic in cost from a light grey to nearly black."""
    position = 1.0 if high == low else float(np.log(cost / low) / np.log(high / low))
    return 0.88 - 0.76 * position


def _draw_box(axes: Axes, box: SelectionBox, top: float, low: float, high: float) -> None:
    from matplotlib.patches import Rectangle

    samples = box.selected.shape[1]
    y = top + 0.8 * _ROW
    axes.text(0.14, y, box.title, va="center", fontsize=10, fontweight="bold")
    y = top + 1.5 * _ROW
    for j, name in enumerate(box.components):
        middle = y + 0.5 * _ROW
        axes.text(0.24, middle, name, va="center", fontsize=8.5)
        grey = _shade(float(box.cost[j]), low, high)
        for i in range(samples):
            corner = (_LABELS + i * _CELL + 0.025, y + 0.018)
            size = (_CELL - 0.05, _ROW - 0.036)
            if box.selected[j, i]:
                axes.add_patch(Rectangle(corner, *size, facecolor=str(grey), edgecolor="none"))
                ink = "white" if grey < 0.45 else INK
                axes.plot(_center(i), middle, marker="D", markersize=3.6, markerfacecolor="none",
                          markeredgecolor=ink, markeredgewidth=0.75)  # fmt: skip
            else:
                axes.add_patch(Rectangle(corner, *size, facecolor="none", edgecolor="0.9", linewidth=0.5))
        axes.text(_margin(samples), middle, f"{box.by_component[j]:,.0f}", ha="right", va="center", fontsize=8)
        y += _ROW
    middle = y + 0.62 * _ROW
    axes.plot([_LABELS, _margin(samples)], [y + 0.06, y + 0.06], color="0.7", linewidth=0.6)
    axes.text(0.24, middle, "FLOPs", va="center", fontsize=8, color=MUTED)
    for i, value in enumerate(box.by_sample):
        axes.text(_center(i), middle, f"{value:,.0f}", ha="center", va="center", fontsize=8)
    axes.text(_margin(samples), middle, f"{box.total:,.0f}", ha="right", va="center", fontsize=8, fontweight="bold")
    y += 1.15 * _ROW
    for caption in box.captions:
        axes.text(0.24, y + 0.5 * _ROW, caption, va="center", fontsize=8.5)
        y += 0.95 * _ROW
