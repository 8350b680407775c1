"""`fieldfit plan saved`: the model of a saved fit, for other samples, a budget or a penalty."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fieldfit.cli.options import SavedFit, with_options
from fieldfit.cli.planning import PlanOptions, run_plan
from fieldfit.cli.saved import SampleOptions, read_samples

NewData = Annotated[
    Path, typer.Argument(metavar="DATA", help="A table or a file of sentences, in the form of the fit's data.")
]


@with_options
def plan(path: SavedFit, data: NewData, samples: SampleOptions, options: PlanOptions) -> None:
    """Compare policies for the model of a saved fit."""
    from fieldfit.api.files import load

    fitted = load(path)
    run_plan(lambda _: (fitted.model, read_samples(fitted, data, samples)), options)
