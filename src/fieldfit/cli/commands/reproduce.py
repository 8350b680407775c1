"""`fieldfit reproduce figure-1`: the paper's figures. The experiments are found by their files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fieldfit.cli.shared import Json, Threads, use_threads


def reproduce(
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="Which one, such as figure-1.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for the pictures.")] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Compute a figure of the paper, and draw it with --out."""
    from fieldfit.cli.output import note, print_json, print_table, say
    from fieldfit.experiments.reproduction import reproduce as run

    use_threads(threads)
    result = run(name, out)
    if json:
        print_json(result.document | {"files": [str(path) for path in result.files]})
        return
    for table in result.tables:
        print_table(table)
        say("")
    for sentence in result.notes:
        say(sentence)
    for path in result.files:
        note(f"written: {path}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reproduce")(reproduce)
