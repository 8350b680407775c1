"""`fieldfit fit mrf` and `fieldfit plan mrf`: any discrete field whose cliques are given by a UAI file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.fitting import FitOptions, run_fit
from fieldfit.cli.options import with_options
from fieldfit.cli.planning import PlanOptions, run_plan
from fieldfit.cli.tables import DataFile, TableOptions

if TYPE_CHECKING:
    from fieldfit.data.samples import Table
    from fieldfit.models.mrf import MarkovRandomField
    from fieldfit.shards.folder import ShardFolder
    from fieldfit.shards.pieces import TableFiles

NetworkFile = Annotated[Path, typer.Argument(metavar="MODEL.uai", help="File with the cliques, in UAI format.")]


def read(
    network: Path, data: Path, table: TableOptions
) -> tuple[MarkovRandomField, Table | ShardFolder | TableFiles]:
    """The model of a UAI file and its samples."""
    from fieldfit.models.mrf import MarkovRandomField

    model, _ = MarkovRandomField.from_uai(network)
    return model, table.read(data, model.states)


@with_options
def fit(network: NetworkFile, data: DataFile, table: TableOptions, options: FitOptions) -> None:
    """Fit a field with the cliques of a UAI file. Each clique has a table; entries of 0 stay forbidden."""
    run_fit(lambda: read(network, data, table), options)


@with_options
def plan(network: NetworkFile, data: DataFile, table: TableOptions, options: PlanOptions) -> None:
    """Compare policies for a field of a UAI file."""
    run_plan(lambda _: read(network, data, table), options)
