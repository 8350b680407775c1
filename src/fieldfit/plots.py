"""Plots, tables and pages for experiments of your own.

A plot is described by plain arrays and drawn in two steps, so that the numbers are easy to test:

    from fieldfit import plots

    panel = plots.Panel("variance", "λ", "variance", [plots.Series("PL1 + λ·PL2", lam, variance)])
    plots.save_figure(plots.draw_panels([[panel]], "What selection costs."), "out", "selection")

- Lines and points: `Panel` with `Series` and `Level`, `draw_panels`; `lower_left` finds the points that no other one beats.
- Surfaces over a grid and clouds of points: `ContourPanel`, `ShadedCurves`, `TradeOffPanel`, `DiagonalPanel`, `BarPanel`,
  all drawn by `draw_surfaces`.
- Which component of which sample a policy selects: `SelectionBox`, `draw_boxes`.
- Files: `save_figure` (PNG and SVG), `write_file`, `make_folder`; `PlainTable` and `Page` for tables and HTML pages.
"""

from __future__ import annotations

import os

from fieldfit.data.atomic import atomic_writer
from fieldfit.report.boxes import SelectionBox, draw_boxes
from fieldfit.report.figures import figure_bytes, make_folder, save_figure
from fieldfit.report.page import Page
from fieldfit.report.panels import Level, Panel, Series, draw_panels, lower_left
from fieldfit.report.surfaces import (
    BarPanel,
    Cloud,
    ContourPanel,
    DiagonalPanel,
    Drawable,
    ShadedCurves,
    TradeOffPanel,
    contour_levels,
    draw_surfaces,
)
from fieldfit.report.table import PlainTable

__all__ = [
    "BarPanel",
    "Cloud",
    "ContourPanel",
    "DiagonalPanel",
    "Drawable",
    "Level",
    "Page",
    "Panel",
    "PlainTable",
    "SelectionBox",
    "Series",
    "ShadedCurves",
    "TradeOffPanel",
    "contour_levels",
    "draw_boxes",
    "draw_panels",
    "draw_surfaces",
    "figure_bytes",
    "lower_left",
    "make_folder",
    "save_figure",
    "write_file",
]


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file in one step: a reader sees the old content or the new, never a part of it.

    Parameters
    ----------
    path : str or Path
        The file.
    content : bytes
        Its content.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit import plots
    >>> plots.write_file("table.csv", b"a,b")
    >>> Path("table.csv").read_text()
    'a,b'
    """
    with atomic_writer(path) as file:
        file.write(content)
