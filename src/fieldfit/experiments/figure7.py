"""Figure 7: the Boltzmann chain's train and test NLL over (λ, β): contours and β-curves for PL1/FL and PL1/PL2."""

from __future__ import annotations

from pathlib import Path

from fieldfit.experiments.chain_figures import reproduce_grids
from fieldfit.experiments.reproduction import Reproduction


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its tables."""
    return reproduce_grids(7, "conll2000", "boltzmann-chain", out, scale)
