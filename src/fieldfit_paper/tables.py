"""The data of a figure as files beside its picture, and the scales at which figures are made."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fieldfit.data.atomic import atomic_writer
from fieldfit.types import FieldfitError, FloatArray

SCALES = ("small", "paper")


def check_scale(scale: str) -> str:
    """The scale itself, if it is one."""
    if scale not in SCALES:
        raise FieldfitError(f"The scale is {scale!r}; it must be 'small' or 'paper'.")
    return scale


def columns_of(records: Sequence[dict[str, Any]], name: str) -> FloatArray:
    """One column of numbers of some records."""
    return np.array([record[name] for record in records], dtype=np.float64)


def write_tables(folder: Path, name: str, records: Sequence[dict[str, Any]], caption: str) -> list[Path]:
    """``name.csv`` and ``name.json`` (with the caption and what it was made with) in ``folder``."""
    from fieldfit.sweep.database import now
    from fieldfit.sweep.runner import versions

    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    columns = {key: [record[key] for record in records] for key in records[0]}
    document = {"name": name, "caption": caption, "date": now(), "versions": versions(), "columns": columns}
    written = []
    for suffix, content in (("csv", text.getvalue()), ("json", json.dumps(document, ensure_ascii=False))):
        path = folder / f"{name}.{suffix}"
        with atomic_writer(path) as file:
            file.write(content.encode())
        written.append(path)
    return written
