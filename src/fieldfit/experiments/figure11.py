"""Figure 11: accuracy against complexity for the CRF."""

from __future__ import annotations

from pathlib import Path

from fieldfit.experiments.chain_figures import reproduce_trade_off
from fieldfit.experiments.reproduction import Reproduction


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its tables."""
    return reproduce_trade_off(11, "conll2000", "crf", out, scale)
