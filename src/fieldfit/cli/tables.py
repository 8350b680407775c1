"""The options of commands that read a table of samples, and the options of a graph on its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.options import (
    ColumnsOption,
    GroupsOption,
    HeaderOption,
    KindOfWeight,
    LeaveOutOption,
    SampleWeight,
    WeightKind,
)

if TYPE_CHECKING:
    from fieldfit.data.samples import Table
    from fieldfit.shards.folder import ShardFolder
    from fieldfit.shards.pieces import TableFiles

DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV or Parquet file with one sample per line, a folder of shards, or a pattern 'DATA/*.csv'.",
    ),
]
EdgesOption = Annotated[
    str | None,
    typer.Option(
        "--edges",
        metavar="GRAPH",
        help="grid:8x8, grid:8x8:8 (8 neighbours) or a file of pairs. Default: all pairs.",
    ),
]
TiedOption = Annotated[
    bool,
    typer.Option(
        "--tied/--free", help="Share parameters between all edges; on a grid, between edges of one direction."
    ),
]


@dataclass(frozen=True)
class TableOptions:
    """Which columns are read, and how."""

    columns: ColumnsOption = None
    leave_out: LeaveOutOption = None
    header: HeaderOption = None
    sample_weight: SampleWeight = None
    weight_kind: KindOfWeight = WeightKind.importance
    groups: GroupsOption = None

    def read(
        self, path: Path, states: Sequence[object] | None = None, names: Sequence[str] | None = None
    ) -> Table | ShardFolder | TableFiles:
        """The table in a file, its values checked against the states (None: those that it has), or data in pieces.

        Pieces are a folder of shards, or the files that a pattern matches, which are read where they are evaluated.
        """
        if path.is_dir():
            return self._folder(path)
        if has_magic(str(path)) and not path.exists():
            return self._files(path)
        from fieldfit.cli.values import as_list
        from fieldfit.data.memory import told_lack
        from fieldfit.data.table import read_table
        from fieldfit.shards.pieces import advice_for_memory

        with told_lack(partial(advice_for_memory, path)):
            samples = read_table(
                path,
                states=states,
                names=names,
                columns=as_list(self.columns),
                leave_out=as_list(self.leave_out) or (),
                sample_weight=self.sample_weight,
                weight_kind=self.weight_kind.value,
                groups=self.groups,
                header=self.header,
            )
        if self.columns is None and names is None:
            _tell_group_labels(samples)
        return samples

    def _folder(self, path: Path) -> ShardFolder:
        from fieldfit.shards.folder import INDEX, open_folder
        from fieldfit.shards.pieces import no_shards
        from fieldfit.types import DataError

        if not (path / INDEX).exists():
            raise no_shards(str(path))
        if self.columns or self.leave_out or self.sample_weight or self.groups or self.header is not None:
            raise DataError(
                f"{path} is a folder of shards: its columns and weights were chosen when it was made. Use --columns, "
                "--leave-out, --sample-weight and --header with `fieldfit shard`; groups need the samples in one file."
            )
        return open_folder(path)

    def _files(self, path: Path) -> TableFiles:
        from fieldfit.shards.pieces import TableFiles
        from fieldfit.types import DataError

        if self.columns or self.leave_out or self.groups or self.header is not None:
            raise DataError(
                f"{path} is a pattern of files, whose columns are all read. Use --columns, --leave-out and --header with "
                "`fieldfit shard`, which takes patterns; groups need the samples in one file."
            )
        return TableFiles.matching(str(path), self.sample_weight, self.weight_kind.value)


def _tell_group_labels(samples: Table) -> None:
    """Warn of columns that look like labels of groups, which nobody chose as variables."""
    import shlex
    import warnings

    from fieldfit.data.group_labels import group_like
    from fieldfit.types import FieldfitWarning

    for name, reason in group_like(samples).items():
        warnings.warn(
            f"Column {name!r} looks like a group label ({reason}), and it is used as a variable here. To leave it out, "
            f"use --leave-out {shlex.quote(name)}. To compare the groups, use `fieldfit network DATA --by {name}`. If rows "
            f"of a group depend on each other, use --groups {name}. To keep it as a variable, name it in --columns.",
            FieldfitWarning,
            stacklevel=2,
        )
