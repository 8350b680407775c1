"""One claim of the paper beside what we measured, and the tables that claims are judged by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldfit_paper.chain_sweeps import records_of

Records = list[dict[str, Any]]
CLOSE = 0.03  # a number of the paper counts as reproduced within 3%


@dataclass(frozen=True)
class Row:
    """One claim. ``agrees`` None: our data cannot tell."""

    where: str
    claim: str
    measured: str
    agrees: bool | None
    why: str = ""

    @property
    def verdict(self) -> str:
        """In one word."""
        return "cannot tell" if self.agrees is None else "agrees" if self.agrees else "differs"


class SweepTables:
    """The tables of one scale, read when a claim needs them."""

    def __init__(self, out: Path | None, scale: str) -> None:
        self.out, self.scale = out, scale

    def grid(self, source: str, model: str, higher: str) -> Records:
        """Cells of PL1/``higher``."""
        return records_of("grid", source, model, higher, self.scale, self.out)

    def heuristic(self, model: str, higher: str) -> Records:
        """Cells with β by Algorithm 1."""
        return records_of("heuristic", "conll2000", model, higher, self.scale, self.out)

    def pure(self, model: str, higher: str) -> Records:
        """One family alone over a wide range of σ²."""
        return records_of("pure", "conll2000", model, higher, self.scale, self.out)
