"""What an experiment hands back, and how `fieldfit reproduce` finds the experiments.

An experiment is a module of this package with a function ``reproduce(out, scale)``: figure1.py is called figure-1,
selection_noise.py, which the paper does not have, selection-noise, and claims.py, which compares the paper's sentences
with the figures' numbers, report. ``out`` is a folder for its pictures and tables, or None for none;
``scale`` is "small" (seconds) or "paper".
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldfit.experiments.tables import check_scale
from fieldfit.report.table import PlainTable
from fieldfit.types import FieldfitError


@dataclass(frozen=True)
class Reproduction:
    """Results as a JSON document, as tables and sentences for a reader, and the files that were written."""

    document: dict[str, Any]
    tables: tuple[PlainTable, ...]
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()


def experiment_names() -> dict[str, str]:
    """The names of the experiments and their modules: figure-1 is figure1."""
    import fieldfit.experiments

    found = {}
    for module in pkgutil.iter_modules(fieldfit.experiments.__path__):
        match = re.fullmatch(r"(figure|table)(\d+)", module.name)
        if match:
            found[f"{match[1]}-{match[2]}"] = module.name
    ordered = sorted(found.items(), key=lambda item: (item[0].split("-")[0], int(item[0].split("-")[1])))
    # The report is last: it reads what the figures have left in their stores.
    return {**dict(ordered), "selection-noise": "selection_noise", "report": "claims"}


def reproduce(name: str, out: Path | None, scale: str = "small") -> Reproduction:
    """Run one experiment."""
    check_scale(scale)
    names = experiment_names()
    if name not in names:
        raise FieldfitError(f"There is no experiment {name!r}; there are: {', '.join(names)}.")
    module = importlib.import_module(f"fieldfit.experiments.{names[name]}")
    result: Reproduction = module.reproduce(out, scale)
    return result
