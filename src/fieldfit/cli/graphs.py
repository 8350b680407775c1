"""Labelled graphs in files: a table with one line for each node, and a grid or a file of edges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fieldfit.data.labels import States
    from fieldfit.data.rawtable import RawTable
    from fieldfit.data.samples import Table
    from fieldfit.models.field import FieldModel
    from fieldfit.models.tied import TiedField
    from fieldfit.types import FloatArray, Int32Array

NodesFile = Annotated[
    Path, typer.Argument(metavar="NODES", help="CSV or TSV file with names in line 1 and one node per line.")
]


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """The edges of a graph, and how its table of nodes is read."""

    edges: Annotated[
        str,
        typer.Option(
            "--edges",
            metavar="GRAPH",
            help="A file with two nodes per line, or grid:20x20 (grid:20x20:8 for 8 neighbours), whose sites are the lines "
            "of NODES, row by row.",
        ),
    ]
    identifier: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="Column with the names of nodes. Default: nodes are numbered from 0."
        ),
    ] = None
    impute: Annotated[
        bool, typer.Option("--impute", help="Replace missing covariates by the median of their column.")
    ] = False

    def read(self, path: Path) -> Nodes:
        """The table of nodes."""
        from fieldfit.data.delimited import read_delimited
        from fieldfit.types import DataError

        nodes = Nodes.of(path, read_delimited(path, True, (), frozenset()))
        if self.identifier is not None:
            names = nodes.column(self.identifier, "--id")
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise DataError(
                    f"{path}: two nodes are called {twice!r:.80} in the column of --id. Names must differ."
                )
        return nodes

    def names(self, nodes: Nodes) -> list[str]:
        """The names of the nodes."""
        if self.identifier is None:
            return [str(number) for number in range(nodes.n)]
        return nodes.column(self.identifier, "--id")

    def field(self, nodes: Nodes, covariates: Sequence[str], states: Sequence[object]) -> TiedField:
        """The conditional field of the graph. Each direction of a grid has its own coupling."""
        from fieldfit.cli.values import as_edges
        from fieldfit.models.tied import TiedField

        names = self.names(nodes)
        edges, directions = as_edges(self.edges, names, "nodes", "Keep the rows of one grid")
        return TiedField.pairwise(
            edges or [],
            nodes.numbers(covariates, impute=self.impute),
            states=states,
            covariate_names=covariates,
            edge_groups=directions,
            names=None if self.identifier is None else names,
        )


@dataclass(frozen=True)
class Nodes:
    """The cells of a table of nodes, by column."""

    path: Path
    cells: dict[str, list[str]]
    n: int

    @classmethod
    def of(cls, path: Path, raw: RawTable) -> Nodes:
        """The cells of a file that was read as text."""
        cells = {
            name: [column.values[index].strip() for index in column.indices.tolist()]
            for name, column in zip(raw.names, raw.columns or (), strict=True)
        }
        return cls(path, cells, raw.n)

    def column(self, name: str, option: str) -> list[str]:
        """A column. Raises DataError if there is no column of this name."""
        if name not in self.cells:
            from fieldfit.named import nearest_names
            from fieldfit.types import DataError

            raise DataError(
                f"{option}: {self.path} has no column {name!r:.80}; {nearest_names(name, list(self.cells))}."
            )
        return self.cells[name]

    def numbers(self, names: Sequence[str], *, impute: bool) -> FloatArray:
        """Columns of numbers (n, columns); missing ones are refused, or replaced by the median."""
        import numpy as np

        from fieldfit.types import DataError

        columns = []
        for name in names:
            texts = self.column(name, "--columns")
            values = np.array([_number(text) for text in texts])
            bad = [row for row, value in enumerate(values.tolist()) if value != value and not _missing(texts[row])]
            if bad:
                raise DataError(
                    f"{self.path}, node {bad[0]}: {name} is {texts[bad[0]][:40]!r}, and covariates are numbers. Code "
                    "categories as columns of 0 and 1, or leave the column out with --leave-out."
                )
            gaps = np.isnan(values)
            if gaps.all() or (gaps.any() and not impute):
                raise DataError(
                    f"{self.path}: {name} is missing for {int(gaps.sum())} of {self.n} nodes. Fill these cells, leave the "
                    "column out with --leave-out, or replace missing values by the median with --impute."
                )
            columns.append(np.where(gaps, np.median(values[~gaps]), values))
        return np.column_stack(columns) if columns else np.empty((self.n, 0))

    def labels(self, name: str, option: str, states: Sequence[object]) -> Int32Array:
        """The codes of a column of labels (n,); −1 where it has none."""
        import numpy as np

        from fieldfit.types import DataError

        code = {str(state): place for place, state in enumerate(states)}
        codes = np.full(self.n, -1, dtype=np.int32)
        for row, text in enumerate(self.column(name, option)):
            if text in code:
                codes[row] = code[text]
            elif not _missing(text):
                raise DataError(
                    f"{self.path}, node {row}: {name} is {text[:40]!r}, and the labels are {', '.join(code)}."
                )
        return codes

    def states(self, name: str) -> States:
        """All labels of a column, sorted; integers if all labels are integers."""
        from fieldfit.types import DataError

        labels = {text for text in self.column(name, "--label") if not _missing(text)}
        if len(labels) < 2:
            raise DataError(f"{self.path}: the column {name} has {len(labels)} different labels; give at least two.")
        try:
            numbers = sorted(int(text) for text in labels)
        except ValueError:
            return tuple(sorted(labels))
        return tuple(numbers) if {str(number) for number in numbers} == labels else tuple(sorted(labels))


def read_labels(model: FieldModel, path: Path, label: str) -> Table:
    """The labels of a file of nodes as the one sample of a field that `fieldfit fit graph` fitted."""
    from fieldfit.data.delimited import read_delimited
    from fieldfit.data.samples import Table
    from fieldfit.types import DataError

    nodes = Nodes.of(path, read_delimited(path, True, (), frozenset()))
    if nodes.n != model.m:
        raise DataError(
            f"{path} has {nodes.n} nodes, and the graph of the fit has {model.m}. Give the nodes of the fit."
        )
    codes = nodes.labels(label, "--label", model.states[0])
    return Table(codes[None, :].copy(), model.names, model.states)


def covariates_of(model: TiedField) -> list[str]:
    """The names of the covariates of nodes in a field that `GraphOptions.field` built."""
    group = model.groups[0]
    ending = "" if len(model.states[0]) == 2 else f"={model.states[0][1]}"
    return [name.removesuffix(ending) for name in group.parameters[1 : group.covariates.shape[1]]]


def _missing(text: str) -> bool:
    return text.lower() in ("", "na", "nan")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
