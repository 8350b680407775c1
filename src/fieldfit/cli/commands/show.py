"""`fieldfit show MODEL.ff`: a saved fit with its standard errors."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fieldfit.cli.shared import Json, SavedFit


class Order(StrEnum):
    """Orders of the parameters."""

    z = "z"
    estimate = "estimate"
    name = "name"
    model = "model"


def show(
    path: SavedFit,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Parameters to print.")] = 20,
    sort: Annotated[
        Order, typer.Option("--sort", help="Largest |z|, largest |estimate|, name, or as in θ.")
    ] = Order.z,
    level: Annotated[float, typer.Option("--level", help="Level of the confidence intervals.")] = 0.95,
    weights_to: Annotated[
        Path | None, typer.Option("--weights-to", metavar="DIR", help="Draw how automatic weights were found there.")
    ] = None,
    json: Json = False,
) -> None:
    """Show a saved fit: how it went, and its parameters with standard errors."""
    from fieldfit.api.files import load
    from fieldfit.cli.output import note, print_json
    from fieldfit.cli.showing import fit_document, print_fit
    from fieldfit.cli.weighting import write_weights
    from fieldfit.types import FieldfitError

    if not 0 < level < 1:
        raise FieldfitError(f"--level is {level:g}; a confidence level lies between 0 and 1.")
    fit = load(path)
    files = [] if weights_to is None else write_weights(fit, weights_to)
    if json:
        print_json({**fit_document(fit, (), path, level), "files": files})
        return
    print_fit(fit, rows, sort.value, level)
    for file in files:
        note(f"written: {file}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("show")(show)
