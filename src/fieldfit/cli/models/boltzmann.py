"""`fieldfit fit boltzmann` and `fieldfit plan boltzmann`: a pairwise field of binary variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.fitting import FitOptions, run_fit
from fieldfit.cli.options import with_options
from fieldfit.cli.planning import PlanOptions, run_plan
from fieldfit.cli.tables import DataFile, EdgesOption, TableOptions, TiedOption

if TYPE_CHECKING:
    from fieldfit.data.samples import Table
    from fieldfit.models.boltzmann import BoltzmannMachine
    from fieldfit.shards.folder import ShardFolder
    from fieldfit.shards.pieces import TableFiles


BiasesOption = Annotated[bool, typer.Option("--biases/--no-biases", help="Whether each variable has a bias.")]


@dataclass(frozen=True)
class BoltzmannOptions:
    """The options that describe a Boltzmann machine for data."""

    biases: BiasesOption = True
    states: Annotated[
        str, typer.Option("--states", metavar="S0,S1", help="The two values of a variable, such as -1,1.")
    ] = "0,1"
    edges: EdgesOption = None
    tied: TiedOption = False

    @property
    def values(self) -> tuple[float, float]:
        """The two states."""
        from fieldfit.cli.values import as_states
        from fieldfit.types import ModelError

        states = as_states(self.states)
        values = [state for state in states if not isinstance(state, str)]
        if len(states) != 2 or len(values) != 2:
            raise ModelError(
                f"--states {self.states!r:.80}: a Boltzmann machine has two numbers as states, such as 0,1 or -1,1."
            )
        return values[0], values[1]

    def model(self, names: Sequence[str]) -> BoltzmannMachine:
        """The model of variables with these names; the data name them in the model."""
        from fieldfit.cli.values import as_edges
        from fieldfit.models.boltzmann import BoltzmannMachine

        m = len(names)
        pairs, directions = as_edges(self.edges, names)
        groups = None
        if self.tied:
            groups = directions or ["coupling"] * (m * (m - 1) // 2 if pairs is None else len(pairs))
        biases = ["bias"] * m if self.tied and self.biases else None
        return BoltzmannMachine(m, pairs, self.biases, self.values, edge_groups=groups, bias_groups=biases)

    def read(self, data: Path, table: TableOptions) -> tuple[BoltzmannMachine, Table | ShardFolder | TableFiles]:
        """The model and its samples."""
        samples = table.read(data, self.values)
        return self.model(samples.names), samples


@dataclass(frozen=True)
class TheoryOptions(BoltzmannOptions):
    """The same for theory, where θ is given: couplings alone unless biases are requested."""

    biases: BiasesOption = False


@with_options
def fit(data: DataFile, model: BoltzmannOptions, table: TableOptions, options: FitOptions) -> None:
    """Fit a Boltzmann machine (binary variables)."""
    run_fit(lambda: model.read(data, table), options)


@with_options
def plan(data: DataFile, model: BoltzmannOptions, table: TableOptions, options: PlanOptions) -> None:
    """Compare policies for a Boltzmann machine."""
    run_plan(lambda _: model.read(data, table), options)
