"""`fieldfit fit potts`: a pairwise field of variables with the same q states."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.fitting import DataFile, EdgesOption, FitOptions, TiedOption, fit_options, read_data, run_fit
from fieldfit.cli.shared import takes

if TYPE_CHECKING:
    from fieldfit.data.samples import Table
    from fieldfit.models.base import Model


class Couplings(StrEnum):
    """Parameters of an edge."""

    table = "table"
    agree = "agree"


@takes(fit_options)
def potts(
    data: DataFile,
    states: Annotated[
        str | None, typer.Option("--states", metavar="S0,S1,…", help="The values of a site (all in the data).")
    ] = None,
    couplings: Annotated[
        Couplings, typer.Option("--couplings", help="A q × q table for each edge, or one number for equal states.")
    ] = Couplings.table,
    fields: Annotated[bool, typer.Option("--fields/--no-fields", help="Parameters for each site too.")] = True,
    edges: EdgesOption = None,
    tied: TiedOption = False,
    *,
    common: FitOptions,
) -> None:
    """Fit a Potts model (variables with the same q states)."""

    def build() -> tuple[Model, Table]:
        from fieldfit.cli.values import as_edges, as_states
        from fieldfit.models.potts import Potts

        if states is not None:
            values = as_states(states)
            table = read_data(data, common, values)
        else:
            table = read_data(data, common, None)
            found = dict.fromkeys(value for own in table.states for value in own)
            values = tuple(sorted(found, key=lambda value: (isinstance(value, str), value)))
        pairs, directions = as_edges(edges, table.names)
        model = Potts(
            table.m,
            len(values),
            pairs,
            couplings=couplings.value,
            fields=fields,
            tied=(directions or True) if tied else False,
            states=values,
        )
        return model, table

    run_fit(build, common)


def register(app: typer.Typer) -> None:
    """Add `fit potts`."""
    app.command("potts")(potts)
