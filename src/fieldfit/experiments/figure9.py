"""Figure 9: the β heuristic for the Boltzmann chain against the best β of the grid."""

from __future__ import annotations

from pathlib import Path

from fieldfit.experiments.chain_figures import reproduce_heuristic
from fieldfit.experiments.reproduction import Reproduction


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its tables."""
    return reproduce_heuristic(9, "conll2000", "boltzmann-chain", out, scale)
