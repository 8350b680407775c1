"""`fieldfit reproduce figure-1 | all`: the paper's figures.

They are a package of their own, `fieldfit_paper`, which uses fieldfit as any other program does. This is the one place of
fieldfit that knows of it, and imports it by name when the command runs.
"""

from __future__ import annotations

import importlib
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.options import Json, Threads, limit_threads

if TYPE_CHECKING:
    from fieldfit_paper.tables import Reproduction


class ReproductionScale(StrEnum):
    """How much is computed."""

    small = "small"
    paper = "paper"


def reproduce(
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="Experiment, such as figure-1, or all.")],
    scale: Annotated[
        ReproductionScale,
        typer.Option(
            "--scale", help="small takes seconds to minutes; paper has the size of the paper's experiments."
        ),
    ] = ReproductionScale.small,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for figures and their tables. Default: no files."),
    ] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Compute a figure of the paper, and draw it with --out."""
    from fieldfit.cli.output import note, print_json
    from fieldfit.cli.saving import check_folder
    from fieldfit.types import MissingDataError

    limit_threads(threads)
    check_folder(out)
    paper = importlib.import_module("fieldfit_paper.experiments")
    documents = []
    left_out: dict[str, str] = {}
    for experiment in paper.EXPERIMENTS if name == "all" else (name,):
        try:
            result = paper.reproduce(experiment, out, scale.value)
        except MissingDataError as error:
            if name != "all":
                raise
            left_out[experiment] = str(error)
            continue
        documents.append(result.document | {"files": [str(path) for path in result.files]})
        if not json:
            _show(result)
    if json:
        print_json({"experiments": documents, "left_out": left_out} if name == "all" else documents[0])
    for why in dict.fromkeys(left_out.values()):
        names = ", ".join(experiment for experiment, reason in left_out.items() if reason == why)
        note(f"Skipped because data are missing: {names}. {why}")


def _show(result: Reproduction) -> None:
    from fieldfit.cli.output import note, print_table, say

    for table in result.tables:
        print_table(table)
        say("")
    for sentence in result.notes:
        say(sentence)
    for path in result.files:
        note(f"written: {path}")
