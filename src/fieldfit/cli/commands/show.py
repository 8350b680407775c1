"""`fieldfit show MODEL.ff`: a saved fit with its standard errors."""

from __future__ import annotations

from enum import StrEnum
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
    json: Json = False,
) -> None:
    """Show a saved fit: how it went, and its parameters with standard errors."""
    from fieldfit.api.files import load
    from fieldfit.cli.output import print_json
    from fieldfit.cli.showing import fit_document, print_fit
    from fieldfit.types import FieldfitError

    if not 0 < level < 1:
        raise FieldfitError(f"--level is {level:g}; a confidence level lies between 0 and 1.")
    fit = load(path)
    if json:
        print_json(fit_document(fit, (), path, level))
    else:
        print_fit(fit, rows, sort.value, level)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("show")(show)
