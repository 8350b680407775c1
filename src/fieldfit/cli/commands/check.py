"""`fieldfit check MODEL.ff DATA`: goodness of fit by simulation from a saved fit."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldfit.cli.options import Json, SavedFit, Seed, Threads, limit_threads, with_options
from fieldfit.cli.saved import FittedData, SampleOptions


@with_options
def check(
    path: SavedFit,
    data: FittedData,
    simulated: Annotated[
        int, typer.Option("--simulated", min=2, help="Number of datasets to simulate from the fit.")
    ] = 199,
    refit: Annotated[
        bool, typer.Option("--refit", help="Fit each simulated dataset again. Otherwise p-values are conservative.")
    ] = False,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Number of statistics to print, smallest p first.")] = 20,
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
    *,
    samples: SampleOptions,
) -> None:
    """Check goodness of fit with datasets simulated from the fit."""
    from fieldfit.cli.output import collected_warnings, print_json, print_table
    from fieldfit.cli.saved import frame_table, load_with, records
    from fieldfit.steps import waiting

    limit_threads(threads)
    with collected_warnings() as warned, waiting("goodness of fit"):
        fit = load_with(path, data, samples)
        frame = fit.goodness_of_fit(n_simulated=simulated, random_state=seed, refit=refit)
    frame = frame.sort_values("p", kind="stable")
    if json:
        print_json({"simulated": simulated, "refit": refit, "statistics": records(frame, "statistic"),
                    "warnings": warned})  # fmt: skip
        return
    formats = {"observed": ".4f", "expected": ".4f", "std_dev": ".2g", "z": ".2f", "p": ".3g"}
    kind = "refitted: p is accurate to first order" if refit else "not refitted: p is conservative"
    note = f"{simulated} simulated datasets, {kind}."
    print_table(frame_table(frame, formats, index="statistic", rows=rows, note=note))
