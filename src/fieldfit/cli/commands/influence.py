"""`fieldfit influence MODEL.ff DATA`: the samples that change a fit most, and the largest effect that one can have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fieldfit.cli.options import Json, SavedFit, with_options
from fieldfit.cli.saved import FittedData, ParameterOption, SampleOptions


@with_options
def influence(
    path: SavedFit,
    data: FittedData,
    parameter: ParameterOption = None,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="Number of samples to print and to label in the plot.")
    ] = 10,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the plot of all distances. Default: no plot."),
    ] = None,
    json: Json = False,
    *,
    samples: SampleOptions,
) -> None:
    """Show which samples change a fit most. Also the largest effect that one observation can have."""
    from fieldfit.api.accuracies import fits_matrices
    from fieldfit.api.robustness import distances
    from fieldfit.cli.output import note, print_json, print_table, say
    from fieldfit.cli.saved import frame_table, load_with, records, write_picture
    from fieldfit.cli.saving import check_folder

    check_folder(out)
    fit = load_with(path, data, samples)
    everything = bool(parameter) or fits_matrices(fit)
    frame = distances(fit, parameter) if everything else fit.influential(rows)
    worst = fit.gross_error_sensitivity(parameter) if everything else None
    files = []
    if out is not None:
        from matplotlib.figure import Figure

        drawing = Figure(figsize=(7.2, 3.8), layout="constrained")
        fit.plot_influence(rows, drawing.subplots(), parameters=parameter)
        files = write_picture(drawing, frame, out, "influence")
    if json:
        print_json(
            {
                "measure": frame.columns[0],
                "samples": records(frame.head(rows), "row"),
                "gross_error_sensitivity": worst
                and {
                    "total": worst.total,
                    "standardised": worst.standardised,
                    "exact": worst.exact,
                    "state": worst.state,
                    "each": worst.to_frame()["sensitivity"].to_dict(),
                },
                "files": files,
            }
        )
        return
    formats = {frame.columns[0]: ".4f", "parameter": "", "change": ".4f", "in_errors": ".3f"}
    what = (
        "Cook's distance, and the parameter that the sample changes most: change, and change in standard errors."
        if frame.columns[0] == "distance"
        else "Displacement: twice the loss of the objective without the sample; then the parameter that it changes most."
    )
    print_table(frame_table(frame, formats, index="sample", rows=rows, note=what))
    if worst is not None:
        say("")
        say(str(worst).split("\n\n")[0])
    for file in files:
        note(f"written: {file}")
