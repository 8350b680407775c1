"""What an experiment returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fieldfit.plots import PlainTable
from fieldfit.types import Plain


@dataclass(frozen=True)
class Reproduction:
    """Results as a JSON document, as tables and sentences for a reader, and the files that were written."""

    document: Plain
    tables: tuple[PlainTable, ...]
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
