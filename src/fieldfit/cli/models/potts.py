"""`fieldfit fit potts` and `fieldfit plan potts`: a pairwise field of variables with the same q states."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.fitting import FitOptions, run_fit
from fieldfit.cli.options import with_options
from fieldfit.cli.planning import PlanOptions, run_plan
from fieldfit.cli.tables import DataFile, EdgesOption, TableOptions, TiedOption

if TYPE_CHECKING:
    from fieldfit.data.labels import States
    from fieldfit.data.samples import Table
    from fieldfit.models.potts import Potts
    from fieldfit.shards.folder import ShardFolder
    from fieldfit.shards.pieces import TableFiles


#: A column with more states than this, and than half of the rows, is not a variable of a Potts model.
_MANY_STATES = 20


class CouplingForm(StrEnum):
    """Parameters of an edge."""

    table = "table"
    agree = "agree"


@dataclass(frozen=True)
class PottsOptions:
    """The options that describe a Potts model."""

    states: Annotated[
        str | None,
        typer.Option("--states", metavar="S0,S1,…", help="The values of a site. Default: all values in the data."),
    ] = None
    couplings: Annotated[
        CouplingForm,
        typer.Option("--couplings", help="A q × q table for each edge, or one parameter for equal states."),
    ] = CouplingForm.table
    fields: Annotated[bool, typer.Option("--fields/--no-fields", help="Whether each site has a field.")] = True
    edges: EdgesOption = None
    tied: TiedOption = False

    def read(self, data: Path, table: TableOptions) -> tuple[Potts, Table | ShardFolder | TableFiles]:
        """The model and its samples."""
        from fieldfit.cli.values import as_edges, as_states
        from fieldfit.models.potts import Potts

        given = None if self.states is None else as_states(self.states)
        samples = table.read(data, given)
        values = _shared_states(samples) if given is None else given
        pairs, directions = as_edges(self.edges, samples.names)
        model = Potts(
            samples.m,
            len(values),
            pairs,
            couplings=self.couplings.value,
            fields=self.fields,
            tied=(directions or True) if self.tied else False,
            states=values,
        )
        return model, samples


def _shared_states(samples: Table | ShardFolder | TableFiles) -> States:
    """The states that all columns share; identifiers and columns without a state in common are no Potts model."""
    from fieldfit.shards.pieces import TableFiles
    from fieldfit.types import DataError

    if isinstance(samples, TableFiles):
        raise DataError(
            "The states of a Potts model are not known before all files are read. List them with --states."
        )
    states = dict(zip(samples.names, samples.states, strict=True))
    if many := [name for name in states if len(states[name]) > max(_MANY_STATES, samples.n // 2)]:
        told = "; ".join(f"{name!r} has {len(states[name])} different values" for name in many)
        raise DataError(
            f"{told} in {samples.n} rows, like identifiers or measurements. Leave such columns out "
            f"(--leave-out {shlex.quote(','.join(many))}), or put their values into bins."
        )
    first, *rest = states
    if apart := [name for name in rest if not set(states[name]) & set(states[first])]:
        told = "; ".join(f"{name!r}: {_few(states[name])}" for name in apart)
        raise DataError(
            f"These columns have no value in common with {first!r:.80} ({_few(states[first])}): {told}. Every column of a "
            f"Potts model has the same states. Leave columns out (--leave-out {shlex.quote(','.join(apart))}), or list the "
            "states (--states). If the columns have states of their own, use ff.MarkovRandomField in Python."
        )
    return samples.common_states


def _few(states: States) -> str:
    return ", ".join(map(str, states[:3])) + (", …" if len(states) > 3 else "")


@with_options
def fit(data: DataFile, model: PottsOptions, table: TableOptions, options: FitOptions) -> None:
    """Fit a Potts model (variables with the same q states)."""
    run_fit(lambda: model.read(data, table), options)


@with_options
def plan(data: DataFile, model: PottsOptions, table: TableOptions, options: PlanOptions) -> None:
    """Compare policies for a Potts model."""
    run_plan(lambda _: model.read(data, table), options)
