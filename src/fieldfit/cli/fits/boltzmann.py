"""`fieldfit fit boltzmann`: a pairwise field of binary variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.fitting import DataFile, EdgesOption, FitOptions, TiedOption, fit_options, read_data, run_fit
from fieldfit.cli.shared import takes

if TYPE_CHECKING:
    from fieldfit.data.samples import Table
    from fieldfit.models.base import Model


@takes(fit_options)
def boltzmann(
    data: DataFile,
    biases: Annotated[bool, typer.Option("--biases/--no-biases", help="A parameter for each variable too.")] = False,
    states: Annotated[str, typer.Option("--states", metavar="S0,S1", help="The two values, such as -1,1.")] = "0,1",
    edges: EdgesOption = None,
    tied: TiedOption = False,
    *,
    common: FitOptions,
) -> None:
    """Fit a Boltzmann machine (binary variables, a coupling for each edge)."""

    def build() -> tuple[Model, Table]:
        from fieldfit.cli.values import as_edges, as_states
        from fieldfit.models.boltzmann import BoltzmannMachine
        from fieldfit.types import ModelError

        values = as_states(states)
        if len(values) != 2 or any(isinstance(value, str) for value in values):
            raise ModelError(
                f"--states {states!r}: a Boltzmann machine has two numbers as states, such as 0,1 or -1,1."
            )
        table = read_data(data, common, values)
        pairs, directions = as_edges(edges, table.names)
        groups = None
        if tied:
            count = table.m * (table.m - 1) // 2 if pairs is None else len(pairs)
            groups = directions or ["coupling"] * count
        model = BoltzmannMachine(
            table.m,
            pairs,
            biases,
            (values[0], values[1]),
            edge_groups=groups,
            bias_groups=["bias"] * table.m if tied and biases else None,
        )
        return model, table

    run_fit(build, common)


def register(app: typer.Typer) -> None:
    """Add `fit boltzmann`."""
    app.command("boltzmann")(boltzmann)
