"""The transition weights of a chain as a matrix of colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.report.figures import figure
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_transitions(names: Sequence[str], values: FloatArray, what: str) -> Figure:
    """Draw the weights (K, K) of a label (row) with the next one (column); blue is positive, red negative."""
    from matplotlib.colors import CenteredNorm

    side = float(np.clip(0.28 * len(names) + 1.8, 3.6, 14.0))
    with figure(side + 0.8, side) as drawing:
        axes = drawing.add_axes((0.18, 0.18, 0.62, 0.78))
        shown = axes.imshow(values, cmap="RdBu", norm=CenteredNorm(), interpolation="nearest")
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(length=0, labelsize=8)
        axes.set_xlabel("label after")
        axes.set_ylabel("label before")
        bar = drawing.colorbar(shown, cax=drawing.add_axes((0.83, 0.3, 0.025, 0.5)))
        bar.set_label(what)
        bar.outline.set_linewidth(0.4)
    return drawing
