"""`fieldfit show MODEL.ff`: a saved fit with its standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.options import Json, SavedFit

if TYPE_CHECKING:
    from fieldfit.api.result import Fit


class Order(StrEnum):
    """Orders of the parameters."""

    z = "z"
    estimate = "estimate"
    name = "name"
    model = "model"


def show(
    path: SavedFit,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Number of parameters to print.")] = 20,
    sort: Annotated[
        Order, typer.Option("--sort", help="Order: largest |z|, largest |estimate|, name, or as in the model.")
    ] = Order.z,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            metavar="NAME",
            help="Parameters to show; '*:*' matches all couplings (may be repeated). Default: all.",
        ),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Level of the confidence intervals.")] = 0.95,
    weights_to: Annotated[
        Path | None,
        typer.Option(
            "--weights-to", metavar="DIR", help="Folder for the plot of the automatic weights. Default: no plot."
        ),
    ] = None,
    coefficients_to: Annotated[
        Path | None,
        typer.Option(
            "--coefficients-to",
            metavar="DIR",
            help="Folder for the plot of estimates with intervals. Default: no plot.",
        ),
    ] = None,
    fdr: Annotated[
        float | None,
        typer.Option(
            "--fdr",
            metavar="RATE",
            help="Add q-values, and mark parameters that differ from 0 at this false discovery rate. "
            "With --parameter, only the chosen parameters count. Default: no q-values.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show a saved fit: its parameters with standard errors."""
    from fieldfit.api.files import load
    from fieldfit.asymptotics.separation import separation_message
    from fieldfit.cli.output import collected_warnings, complain, note, print_json, print_table, say
    from fieldfit.cli.saved import frame_table, records
    from fieldfit.cli.saving import check_folder
    from fieldfit.cli.showing import fit_document, print_course, print_fit
    from fieldfit.cli.weighting import write_weights
    from fieldfit.types import FieldfitError

    if not 0 < level < 1:
        raise FieldfitError(f"--level is {level:g}; it must be between 0 and 1.")
    fit = load(path)
    for folder in (weights_to, coefficients_to):
        check_folder(folder)
    files = [] if weights_to is None else write_weights(fit, weights_to)
    if coefficients_to is not None:
        files += _draw_coefficients(fit, level, parameters or (), coefficients_to)
    with collected_warnings() as warned:
        discovered = None if fdr is None else fit.discoveries(fdr, parameters=parameters or None)
    if json:
        document = {**fit_document(fit, warned, path, level, parameters or ()), "files": files}
        if discovered is not None:
            document["discoveries"] = {
                "rate": fdr,
                "parameters": records(discovered[["p", "q", "discovered"]], "name"),
            }
        print_json(document)
        return
    if fit.separated:
        note(separation_message(fit.separated))
    if fit.runaway:
        complain(f"warning: {fit.runaway}")
    if discovered is None:
        print_fit(fit, rows, sort.value, level, parameters or ())
    else:
        print_course(fit, discovered["std_error"].to_numpy())
        formats = {"estimate": ".4f", "std_error": ".4f", "z": ".2f", "p": ".2g", "q": ".2g", "discovered": ""}
        count = int(discovered["discovered"].sum())
        note_text = f"{count} of {discovered['q'].notna().sum()} differ from 0 at a false discovery rate of {fdr:g}."
        say("")
        print_table(frame_table(discovered, formats, index="parameter", rows=rows, note=note_text))
    for file in files:
        note(f"written: {file}")


def _draw_coefficients(fit: Fit, level: float, parameters: Sequence[str], folder: Path) -> list[str]:
    import matplotlib as mpl

    mpl.use("Agg", force=False)
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    from fieldfit.api.estimate_table import identified_table
    from fieldfit.cli.saved import write_picture
    from fieldfit.named import places_of
    from fieldfit.report.coefficients import plot_coefficients

    frame = identified_table(fit, level)  # as in print_fit, names may be those of effects
    if parameters:
        frame = frame.iloc[places_of(parameters, list(frame.index))]
    axis = f"estimate and {level:.0%} confidence interval (robust), {fit.estimator}"
    drawing = plot_coefficients(frame, axis=axis).figure
    assert isinstance(drawing, Figure)  # a new one, not a part of another
    try:
        return write_picture(drawing, frame, folder, "coefficients")
    finally:
        plt.close(drawing)
