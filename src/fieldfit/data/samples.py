"""Tables of discrete samples: one row for each sample, one column for each variable, values coded 0, 1, 2, …

A code c of variable j means the label states[j][c]; −1 is a missing value, which the likelihood sums out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import array_of
from fieldfit.data.dataset import Dataset
from fieldfit.data.labels import States
from fieldfit.properties import cached_property
from fieldfit.types import DataError, Int32Array, IntArray
from fieldfit.words import counted


@dataclass(frozen=True, eq=False, repr=False)
class Table(Dataset):
    """n samples of m discrete variables.

    codes: (n, m) int32, C-contiguous, read-only, −1 where missing. states[j][c]: the label of code c of variable j.
    sample_weight and weight_kind as in `Dataset`.
    """

    codes: Int32Array
    names: tuple[str, ...]
    states: tuple[States, ...]

    def __post_init__(self) -> None:
        codes = self.codes
        if codes.ndim != 2 or codes.dtype != np.int32 or not codes.flags.c_contiguous:
            raise DataError(
                f"The codes have dtype {codes.dtype} and shape {codes.shape}, and a table needs a C-contiguous int32 "
                "array (n, m). Use read_table to make one."
            )
        if len(self.names) != codes.shape[1] or len(self.states) != codes.shape[1]:
            raise DataError(
                f"{codes.shape[1]} columns of codes come with {len(self.names)} names and {len(self.states)} lists "
                "of states. Give one of each for every column."
            )
        if codes.size and (
            int(codes.min()) < -1
            or (codes.max(axis=0) >= np.array([len(column_states) for column_states in self.states])).any()
        ):
            raise DataError("A code is below −1 or beyond the states of its column. Use read_table to make codes.")
        codes.setflags(write=False)
        super().__post_init__()

    def __repr__(self) -> str:
        missing = ", with missing values" if self.has_missing else ""
        weighted = "" if self.sample_weight is None else ", weighted"
        return f"<Table: {counted(self.n, 'samples')}, {counted(self.m, 'variables')}{missing}{weighted}>"

    @property
    def n(self) -> int:
        """Number of samples (rows)."""
        return int(self.codes.shape[0])

    @property
    def m(self) -> int:
        """Number of variables (columns)."""
        return int(self.codes.shape[1])

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of states of each variable."""
        return tuple(len(column_states) for column_states in self.states)

    @property
    def common_states(self) -> States:
        """The states that any variable has, for models in which all variables have the same: numbers before text."""
        distinct: set[object] = {state for states in self.states for state in states}
        return tuple(sorted(distinct, key=lambda state: (isinstance(state, str), state)))

    @cached_property
    def has_missing(self) -> bool:
        """Whether any value is missing."""
        return bool(self.codes.size) and int(self.codes.min()) < 0

    @cached_property
    def empty_rows(self) -> IntArray:
        """Indices of the rows in which every value is missing: they are kept, and say nothing about θ."""
        if not self.has_missing:
            return np.empty(0, np.int64)
        return np.flatnonzero(self.codes.max(axis=1) < 0)

    def subset(self, rows: ArrayLike) -> Table:
        """The samples with these indices or this mask, in that order, with their weights and the same states."""
        chosen = array_of(rows, name="rows")
        if chosen.dtype.kind == "b" and chosen.shape != (self.n,):
            raise DataError(f"The mask of rows has shape {chosen.shape}, and the table has {self.n} rows.")
        if chosen.dtype.kind not in "biu" and chosen.size:
            raise DataError(f"Rows are chosen by integers or by a mask, not by {chosen.dtype} values.")
        if chosen.dtype.kind != "b":
            chosen = chosen.astype(np.int64).reshape(-1)
            if chosen.size and (int(chosen.min()) < 0 or int(chosen.max()) >= self.n):
                raise DataError(
                    f"Rows {int(chosen.min())} to {int(chosen.max())} were requested, and the table has rows 0 to "
                    f"{self.n - 1}."
                )
        weight = None if self.sample_weight is None else self.sample_weight[chosen]
        groups = None if self.groups is None else self.groups[chosen]
        return replace(self, codes=np.ascontiguousarray(self.codes[chosen]), sample_weight=weight, groups=groups)

    def followed_by(self, others: Sequence[Self]) -> Self:
        """These samples and those of other tables with the same columns, all without weights and groups."""
        return replace(self, codes=np.concatenate([table.codes for table in (self, *others)]))


def constant_columns(table: Table) -> list[str]:
    """Names of the columns in which the samples (those with a positive weight) show fewer than two states.

    Without a penalty their parameters have no finite optimum.
    """
    codes = table.codes
    if table.sample_weight is not None and not (table.sample_weight > 0).all():
        codes = codes[table.sample_weight > 0]
    if codes.shape[0] == 0:
        return list(table.names)
    highest = codes.max(axis=0)
    lowest = codes.min(axis=0)
    for j in np.flatnonzero(lowest < 0):
        seen = codes[:, j]
        lowest[j] = seen[seen >= 0].min(initial=highest[j])
    return [table.names[j] for j in np.flatnonzero(lowest >= highest)]


def as_table(dataset: Dataset) -> Table:
    """The dataset, which must be a table; DataError otherwise."""
    if not isinstance(dataset, Table):
        if isinstance(dataset, Dataset) and dataset.in_pieces:
            raise DataError(
                "This needs the samples in this process, and they are in several parts, on disk or on workers. Read them "
                "into a table first."
            )
        raise DataError(f"A field takes a Table; got {type(dataset).__name__}. Use the result of the model's read().")
    return dataset
