"""The experiments of `fieldfit reproduce`: a function (out, scale) for each name.

``out`` is a folder for pictures and tables, or None to write nothing. ``scale`` is "small" (seconds) or "paper". Adding a
figure: write a module with such a function and give it a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from fieldfit.types import FieldfitError
from fieldfit_paper import (
    claims,
    figure1,
    figure2,
    figure3,
    figure6,
    figure13,
    figure14,
    graphs,
    refined_frontier,
    selection_noise,
    sentiment_figures,
)
from fieldfit_paper.chain_figures import reproduce_grids, reproduce_heuristic, reproduce_trade_off
from fieldfit_paper.tables import Reproduction, check_scale

#: In the order of the paper. The report is last, because it reads the stores that the figures leave.
EXPERIMENTS: dict[str, Callable[[Path | None, str], Reproduction]] = {
    "figure-1": figure1.reproduce,
    "figure-2": figure2.reproduce,
    "figure-3": figure3.reproduce,
    "figure-4": sentiment_figures.reproduce_contours,
    "figure-4-means": partial(sentiment_figures.reproduce_contours, reading="means"),
    "figure-5": sentiment_figures.reproduce_trade_off,
    "figure-5-means": partial(sentiment_figures.reproduce_trade_off, reading="means"),
    "figure-6": figure6.reproduce,
    "figure-7": partial(reproduce_grids, 7, "conll2000", "boltzmann-chain"),
    "figure-7-means": partial(reproduce_grids, 7, "conll2000", "boltzmann-chain", reading="means"),
    "figure-8": partial(reproduce_trade_off, 8, "conll2000", "boltzmann-chain"),
    "figure-8-means": partial(reproduce_trade_off, 8, "conll2000", "boltzmann-chain", reading="means"),
    "figure-9": partial(reproduce_heuristic, 9, "conll2000", "boltzmann-chain"),
    "figure-9-means": partial(reproduce_heuristic, 9, "conll2000", "boltzmann-chain", reading="means"),
    "figure-10": partial(reproduce_grids, 10, "conll2000", "crf"),
    "figure-10-means": partial(reproduce_grids, 10, "conll2000", "crf", reading="means"),
    "figure-11": partial(reproduce_trade_off, 11, "conll2000", "crf"),
    "figure-11-means": partial(reproduce_trade_off, 11, "conll2000", "crf", reading="means"),
    "figure-12": partial(reproduce_heuristic, 12, "conll2000", "crf"),
    "figure-12-means": partial(reproduce_heuristic, 12, "conll2000", "crf", reading="means"),
    "figure-13": figure13.reproduce,
    "figure-14": figure14.reproduce,
    "figure-14-means": partial(figure14.reproduce, reading="means"),
    "graphs": graphs.reproduce,
    "selection-noise": selection_noise.reproduce,
    "refined-frontier": refined_frontier.reproduce,
    "report": claims.reproduce,
}


def reproduce(name: str, out: Path | None, scale: str = "small") -> Reproduction:
    """Run one experiment."""
    check_scale(scale)
    if name not in EXPERIMENTS:
        raise FieldfitError(f"There is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name](out, scale)
