"""What an experiment returns, the data of a figure as files beside its picture, and the scales of figures."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fieldfit.plots import PlainTable, write_file
from fieldfit.sweep import versions
from fieldfit.types import FieldfitError, FloatArray, Plain

SCALES = ("small", "paper")
#: Formulas of the asymptotic variance: Proposition 2 as printed, and with the noise of selecting components at random.
FORMULAS = ("published", "exact")


@dataclass(frozen=True)
class Reproduction:
    """Results as a JSON document, as tables and sentences for a reader, and the files that were written."""

    document: Plain
    tables: tuple[PlainTable, ...]
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()


def check_scale(scale: str) -> str:
    """The scale itself, if it is one."""
    if scale not in SCALES:
        raise FieldfitError(f"The scale is {scale!r}; it must be 'small' or 'paper'.")
    return scale


def now() -> str:
    """The date and time in UTC, as text."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def columns_of(records: Sequence[Plain], name: str) -> FloatArray:
    """One column of numbers of some records."""
    return np.array([record[name] for record in records], dtype=np.float64)


def write_tables(folder: Path, name: str, records: Sequence[Plain], caption: str) -> list[Path]:
    """``name.csv`` and ``name.json`` (with the caption and what it was made with) in ``folder``."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    columns = {key: [record[key] for record in records] for key in records[0]}
    document = {"name": name, "caption": caption, "date": now(), "versions": versions(), "columns": columns}
    written = []
    for suffix, content in (("csv", text.getvalue()), ("json", json.dumps(document, ensure_ascii=False))):
        path = folder / f"{name}.{suffix}"
        write_file(path, content.encode())
        written.append(path)
    return written
