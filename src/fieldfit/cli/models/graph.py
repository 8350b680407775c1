"""`fieldfit fit graph`: a conditional field on the nodes of one labelled graph. Plans need several samples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.fitting import FitOptions, run_fit
from fieldfit.cli.graphs import GraphOptions, NodesFile
from fieldfit.cli.options import LeaveOutOption, with_options

if TYPE_CHECKING:
    from fieldfit.data.samples import Table
    from fieldfit.models.tied import TiedField


@dataclass(frozen=True, kw_only=True)
class LabelledGraphOptions(GraphOptions):
    """The labels of a graph and their covariates."""

    label: Annotated[str, typer.Option("--label", metavar="COLUMN", help="Column with the labels of nodes.")]
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B,…", help="Columns to use as covariates. Default: all others."),
    ] = None
    leave_out: LeaveOutOption = None
    states: Annotated[
        str | None,
        typer.Option("--states", metavar="S0,S1,…", help="The labels, with the reference first. Default: sorted."),
    ] = None

    def graph(self, path: Path) -> tuple[TiedField, Table]:
        """The model and its one sample."""
        from fieldfit.cli.values import as_list, as_states
        from fieldfit.data.samples import Table
        from fieldfit.types import DataError

        nodes = self.read(path)
        states = nodes.states(self.label) if self.states is None else as_states(self.states)
        codes = nodes.labels(self.label, "--label", states)
        if (codes < 0).any():
            raise DataError(
                f"{path}: {self.label} is missing for {int((codes < 0).sum())} of {nodes.n} nodes, and a fit needs all "
                "labels. Leave the others out of NODES and --edges; `fieldfit label --given` predicts them."
            )
        no_covariates = as_list(self.leave_out) or []
        for name in no_covariates:
            nodes.column(name, "--leave-out")
        covariates = as_list(self.columns)
        if covariates is None:
            covariates = [name for name in nodes.cells if name not in (self.label, self.identifier)]
        covariates = [name for name in covariates if name not in no_covariates]
        model = self.field(nodes, covariates, states)
        return model, Table(codes[None, :].copy(), model.names, model.states)


@with_options
def fit(nodes: NodesFile, graph: LabelledGraphOptions, options: FitOptions) -> None:
    """Fit a conditional field to labelled nodes of a graph.

    `fieldfit label` labels other nodes with it.
    """
    run_fit(lambda: graph.graph(nodes), options)
