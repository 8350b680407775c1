"""`fieldfit fit mrf`: the parameters of any discrete field whose cliques are given by a UAI file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.fitting import DataFile, FitOptions, fit_options, read_data, run_fit
from fieldfit.cli.shared import takes

if TYPE_CHECKING:
    from fieldfit.data.samples import Table
    from fieldfit.models.base import Model


@takes(fit_options)
def mrf(
    network: Annotated[Path, typer.Argument(metavar="MODEL.uai", help="The cliques, in the UAI format.")],
    data: DataFile,
    *,
    common: FitOptions,
) -> None:
    """Fit a field with the cliques of a UAI file: a table for each, entries of 0 stay forbidden."""

    def build() -> tuple[Model, Table]:
        from fieldfit.models.mrf import MarkovRandomField

        model, _ = MarkovRandomField.from_uai(network)
        return model, read_data(data, common, model.states)

    run_fit(build, common)


def register(app: typer.Typer) -> None:
    """Add `fit mrf`."""
    app.command("mrf")(mrf)
