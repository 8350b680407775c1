"""`fieldfit label MODEL.ff NODES`: the labels of the nodes of a graph, as more columns of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.graphs import GraphOptions, NodesFile
from fieldfit.cli.options import Json, Out, SavedFit, Seed, Threads, limit_threads, with_options
from fieldfit.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fieldfit.cli.graphs import Nodes
    from fieldfit.types import FloatArray


@with_options
def label(
    path: SavedFit,
    nodes: NodesFile,
    graph: GraphOptions,
    given: Annotated[
        str | None,
        typer.Option(
            "--given",
            metavar="COLUMN",
            help="Column with known labels; empty cells are predicted. Default: all labels are predicted.",
        ),
    ] = None,
    draws: Annotated[
        int,
        typer.Option(
            "--draws", min=1, help="Number of Gibbs draws if the graph is too wide for exact probabilities."
        ),
    ] = 1000,
    seed: Seed = 0,
    threads: Threads = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Label the nodes of a graph.

    Writes NODES with the predicted label and the probability of each label, from a model of `fieldfit fit graph`.
    """
    from fieldfit.api.files import load
    from fieldfit.cli.graphs import covariates_of
    from fieldfit.cli.output import note, print_json
    from fieldfit.cli.saving import check_target
    from fieldfit.data.atomic import atomic_writer
    from fieldfit.estimators.graph_crf import node_probabilities

    limit_threads(threads)
    check_target(out, path, nodes)
    fit = load(path)
    model = fit.model.as_tied(f"This command, given {path},")
    states = model.states[0]
    table = graph.read(nodes)
    there = graph.field(table, covariates_of(model), states)
    field = model.on(there.m, there.groups)
    labels = None
    if given is not None:
        codes = table.labels(given, "--given", states).tolist()
        labels = {place: states[code] for place, code in enumerate(codes) if code >= 0}
    chances, exact = node_probabilities(field, fit.theta, labels, draws, seed)
    predicted = [str(states[place]) for place in chances.argmax(axis=1).tolist()]
    how = "exact probabilities" if exact else f"probabilities from {draws:,} Gibbs draws"
    if out is not None:
        with atomic_writer(out) as target:
            target.write(_csv(table, predicted, states, chances).encode())
    if json:
        document = {"labels": states, "nodes": graph.names(table), "predicted": predicted, "probability": chances}
        print_json(document | {"exact": exact, "file": None if out is None else str(out)})
        return
    if out is None:
        typer.echo(_csv(table, predicted, states, chances), nl=False)
    note(f"{counted(table.n, 'nodes')}, {how}" + (f"; written to {out}" if out else ""))


def _csv(table: Nodes, predicted: Sequence[str], states: Sequence[object], chances: FloatArray) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*table.cells, "predicted", *(f"p({state})" for state in states)])
    for line, best, row in zip(zip(*table.cells.values(), strict=True), predicted, chances.tolist(), strict=True):
        writer.writerow([*line, best, *(f"{chance:.6f}" for chance in row)])
    return text.getvalue()
