"""The fits of a sweep as a small table, fold by fold: what a page needs of a store, in a form that can be committed.

A sweep at the paper's scale leaves ``cells/NAME.csv`` beside its store ``sweeps/NAME.sweep``. Where the store is missing,
the table is read in its place, so that a page can be judged and drawn again without hours of fits.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

from fieldfit.plots import write_file
from fieldfit.types import Plain

TEXTS = ("model", "formula")
NUMBERS = (
    "fold", "sigma2", "lam", "beta", "train_nll", "test_nll", "flops", "evaluation_seconds", "fit_seconds", "cpu_seconds",
)  # fmt: skip
DIGITS = 9


def kept_path(store: Path) -> Path:
    """Where the table of a store is kept."""
    return store.parent.parent / "cells" / f"{store.stem}.csv"


def write_cells(path: Path, records: list[Plain]) -> None:
    """Write the columns that claims and pictures use, numbers with nine digits; what a record lacks is left empty."""
    present = [name for name in (*TEXTS, *NUMBERS) if any(name in record for record in records)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(present)
    for record in records:
        writer.writerow([_text(name, record[name]) if name in record else "" for name in present])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.getvalue().encode())


def _text(name: str, value: str | float) -> str:
    return str(value) if name in TEXTS else f"{value:.{DIGITS}g}"


def read_cells(path: Path) -> list[Plain]:
    """The records of `write_cells`; a record has no value where the table is empty."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: value if name in TEXTS else float(value) for name, value in row.items() if value} for row in rows]
