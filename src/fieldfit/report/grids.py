"""Pictures on grids: small binary images in rows and columns, and couplings drawn on the sites they join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.report.figures import INK, MUTED, figure
from fieldfit.types import Array, FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BELOW, _ABOVE = "#2166ac", "#b2182b"


def draw_images(groups: Sequence[tuple[str, Array]], columns: Sequence[str]) -> Figure:
    """Draw groups of images below each other: (label, images (rows, columns, height, width)), values from 0 to 1."""
    from matplotlib.patches import Rectangle

    rows = sum(len(images) for _, images in groups)
    cell, left, gap, top = 0.62, 0.95, 0.2, 0.3
    width = left + cell * len(columns)
    height = top + cell * rows + gap * (len(groups) - 1)
    with figure(width, height) as drawing:
        axes = drawing.add_axes((0, 0, 1, 1))
        y = top
        for place, name in enumerate(columns):
            axes.text(left + (place + 0.47) * cell, y - 0.1, name, ha="center", fontsize=10, color=MUTED)
        for label, images in groups:
            middle = y + cell * len(images) / 2
            axes.text(left - 0.15, middle, label, ha="right", va="center", fontsize=9.5)
            for line in images:
                for place, image in enumerate(line):
                    x = left + place * cell
                    frame = (x, x + cell - 0.06, y + cell - 0.06, y)
                    axes.imshow(image, cmap="Greys", vmin=0, vmax=1, interpolation="nearest", extent=frame)
                    side = cell - 0.06
                    axes.add_patch(Rectangle((x, y), side, side, fill=False, edgecolor="0.8", linewidth=0.6))
                y += cell
            y += gap
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        axes.axis("off")
    return drawing


def draw_couplings(
    shape: tuple[int, int],
    edges: Sequence[tuple[int, int]],
    values: FloatArray,
    z: FloatArray,
    background: FloatArray,
    meaning: str,
) -> Figure:
    """Edges between the sites of a grid: colour is the coupling, width its |z|; ``background`` (rows, columns) shades."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.lines import Line2D

    rows, columns = shape
    colours = LinearSegmentedColormap.from_list("couplings", [_BELOW, "#e8e8e8", _ABOVE])
    limit = float(np.quantile(np.abs(values), 0.97)) or 1.0
    norm = Normalize(-limit, limit)
    strength = np.clip(np.abs(np.nan_to_num(z)), 0, 12)
    order = np.argsort(strength)
    ends = [[divmod(v, columns)[::-1] for v in edges[e]] for e in order]
    with figure(6.6, 5.6) as drawing:
        axes = drawing.add_axes((0.02, 0.02, 0.78, 0.9))
        axes.imshow(background, cmap="Greys", vmin=0, vmax=2.4, interpolation="nearest", zorder=0)
        lines = LineCollection(
            ends,
            colors=[colours(norm(float(values[e]))) for e in order],
            linewidths=[0.4 + 0.45 * float(strength[e]) for e in order],
            capstyle="round",
            zorder=1,
        )
        axes.add_collection(lines)
        grid_y, grid_x = np.divmod(np.arange(rows * columns), columns)
        axes.scatter(grid_x, grid_y, s=16, color="white", edgecolor=INK, linewidth=0.7, zorder=2)
        axes.set_xlim(-0.6, columns - 0.4)
        axes.set_ylim(rows - 0.4, -0.6)
        axes.axis("off")
        axes.set_title(meaning, fontsize=10, loc="left")
        bar_axes = drawing.add_axes((0.84, 0.42, 0.025, 0.44))
        bar = drawing.colorbar(ScalarMappable(norm, colours), cax=bar_axes, extend="both")
        bar.set_label("coupling", fontsize=9)
        bar.outline.set_visible(False)
        samples = [Line2D([], [], color=MUTED, linewidth=0.4 + 0.45 * size, label=f"{size}") for size in (2, 5, 12)]
        drawing.legend(handles=samples, title="|z|", loc="lower left", bbox_to_anchor=(0.815, 0.1), frameon=False)
    return drawing
