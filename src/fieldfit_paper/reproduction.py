"""What an experiment returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldfit.plots import PlainTable


@dataclass(frozen=True)
class Reproduction:
    """Results as a JSON document, as tables and sentences for a reader, and the files that were written."""

    document: dict[str, Any]
    tables: tuple[PlainTable, ...]
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
