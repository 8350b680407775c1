"""Binary answers: read from a table, recoded to 0 and 1, and checked for columns that a network cannot use."""

from __future__ import annotations

import shlex
from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from fieldfit.arguments import has_entries
from fieldfit.callers import warn_caller
from fieldfit.data.group_labels import group_like
from fieldfit.data.samples import Table
from fieldfit.data.table import read_table
from fieldfit.named import closest_names
from fieldfit.properties import cached_property
from fieldfit.types import BoolArray, DataError, FieldfitWarning, IntArray, ModelError
from fieldfit.words import counted

#: Fewest rows of a network. A value that occurs less often than `_RARE` times gets a warning.
LEAST_ROWS, _RARE = 10, 8
#: Most values of a column that may say which group a row belongs to.
_MOST_GROUPS = 20


@dataclass(frozen=True, eq=False, repr=False)
class Responses:
    """Answers as codes (n, m): 1 for the larger of a column's two values, 0 for the smaller, −1 if missing.

    Parameters
    ----------
    names : tuple of str
        Names of the columns.
    codes : ndarray of int8, shape (n, m)
        The answers.
    values : tuple of pairs
        The two values of each column, as they were in the table.
    groups : ndarray of str, shape (n,), or None
        The group of each row.

    Examples
    --------
    >>> from fieldfit import networks
    >>> rows = [["no", 0, "a"], ["yes", 1, "a"], ["yes", 0, "b"], ["no", 1, "b"]] * 3
    >>> answers = networks.read_responses(rows, by="x2")
    >>> answers.n, answers.m, answers.groups[:3].tolist()
    (12, 2, ['a', 'a', 'b'])
    """

    names: tuple[str, ...]
    codes: NDArray[np.int8]
    values: tuple[tuple[object, object], ...]
    groups: NDArray[np.str_] | None = None

    def __repr__(self) -> str:
        groups = "" if self.groups is None else f", {len(np.unique(self.groups))} groups"
        return f"<Responses: {counted(self.n, 'rows')}, {counted(self.m, 'variables')}{groups}>"

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def m(self) -> int:
        """Number of columns."""
        return len(self.names)

    @cached_property
    def whole(self) -> BoolArray:
        """Which rows have no missing value (n,)."""
        return np.asarray((self.codes >= 0).all(axis=1))

    @cached_property
    def distinct(self) -> tuple[NDArray[np.uint8], IntArray]:
        """The distinct rows without missing values, and the number of the distinct row for each such row of the table."""
        complete = np.ascontiguousarray(self.codes[self.whole].astype(np.uint8))
        keys = np.packbits(complete, axis=1)
        _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        return complete[first], inverse.reshape(-1).astype(np.int64)

    @cached_property
    def counts(self) -> IntArray:
        """The count of each distinct row without missing values."""
        rows, inverse = self.distinct
        return np.bincount(inverse, minlength=len(rows))

    def subset(self, rows: BoolArray | IntArray) -> Responses:
        """Return the same columns in some of the rows.

        Parameters
        ----------
        rows : ndarray of bool, shape (n,), or of int
            A mask, or the numbers of the rows.

        Returns
        -------
        Responses

        Examples
        --------
        >>> from fieldfit import networks
        >>> rows = [["no", 0, "a"], ["yes", 1, "a"], ["yes", 0, "b"], ["no", 1, "b"]] * 3
        >>> answers = networks.read_responses(rows, by="x2")
        >>> answers.subset(answers.groups == "a").n
        6
        """
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, codes=self.codes[rows], groups=groups)

    def by_group(self) -> dict[str, Responses]:
        """Return the rows of each group.

        Returns
        -------
        dict of Responses
            By the label of the group, in sorted order.

        Examples
        --------
        >>> from fieldfit import networks
        >>> rows = [["no", 0, "a"], ["yes", 1, "a"], ["yes", 0, "b"], ["no", 1, "b"]] * 3
        >>> answers = networks.read_responses(rows, by="x2")
        >>> {label: part.n for label, part in answers.by_group().items()}
        {'a': 6, 'b': 6}
        """
        if self.groups is None:
            raise DataError("The table has no groups. Read it with by=, the name of the column with the groups.")
        return {label: self.subset(self.groups == label) for label in np.unique(self.groups).tolist()}

    def table(self) -> Table:
        """Return the answers as samples of a `fieldfit.BoltzmannMachine`.

        Returns
        -------
        Table

        Examples
        --------
        >>> from fieldfit import networks
        >>> rows = [["no", 0, "a"], ["yes", 1, "a"], ["yes", 0, "b"], ["no", 1, "b"]] * 3
        >>> answers = networks.read_responses(rows, by="x2")
        >>> answers.table().states
        ((0, 1), (0, 1))
        """
        return Table(np.ascontiguousarray(self.codes, dtype=np.int32), self.names, ((0, 1),) * self.m)


def read_responses(
    data: object,
    *,
    by: str | None = None,
    columns: Sequence[str] | None = None,
    leave_out: Sequence[str] = (),
    header: bool | None = None,
) -> Responses:
    """Read a table of columns with two values each.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        A row for each person, vote or time bin. A text is the path of a CSV or TSV file. Missing values are allowed.
    by : str or None, default: None
        The column with the group of each row. It is not part of the network.
    columns : sequence of str or None, default: None
        The columns to use. None: all but ``by``.
    leave_out : sequence of str, default: ()
        Columns to leave out.
    header : bool or None, default: None
        Whether line 1 of a file has names. None: auto-detect.

    Returns
    -------
    Responses

    Raises
    ------
    DataError
        If a column does not have two values, if it looks like a group label, such as "group" or "sex" (unless
        ``columns`` names it), or if there are fewer than 10 rows.

    Examples
    --------
    >>> from fieldfit import networks
    >>> rows = [["no", 0], ["yes", 1], ["yes", 0]] * 4
    >>> answers = networks.read_responses(rows)
    >>> answers.names, answers.values
    (('x0', 'x1'), (('no', 'yes'), (0, 1)))
    >>> answers.codes[0]
    array([0, 0], dtype=int8)
    """
    if isinstance(data, Responses):
        return data
    if by is not None and not isinstance(by, str):
        raise DataError(f"by is {by!r:.80}; it must be the name of a column, or None.")
    if columns is not None and (isinstance(columns, str) or not has_entries(columns)):
        raise DataError(f"columns is {columns!r:.80}; it must be a list of columns.")
    wanted = None if columns is None else [*columns, *([by] if by is not None and by not in columns else [])]
    table = read_table(data, columns=wanted, leave_out=leave_out, header=header)
    places = {name: place for place, name in enumerate(table.names)}
    if by is not None and by not in places:
        near = closest_names(str(by), table.names)
        meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise DataError(f"The table has no column {by!r:.80}; its columns are {_listed(table.names)}.{meant}")
    used = [name for name in table.names if name != by]
    if len(used) < 2:
        raise DataError(f"A network needs at least two columns; the table has {len(used)} to use.")
    if table.n < LEAST_ROWS:
        raise DataError(f"The table has {counted(table.n, 'rows')}; a network needs at least {LEAST_ROWS}.")
    two = [name for name in used if len(table.states[places[name]]) == 2]
    labels = group_like(read_table(table, columns=two)) if columns is None and two else {}
    if len(two) < len(used):
        _refuse_columns({name: table.states[places[name]] for name in used if name not in two}, list(labels), by)
    if labels:
        _refuse_groups(labels)
    kept = [places[name] for name in used]
    groups = None
    if by is not None:
        groups = _labels(table, places[by], by)
    codes = table.codes[:, kept].astype(np.int8)
    values = tuple((table.states[place][0], table.states[place][1]) for place in kept)
    return Responses(tuple(used), codes, values, groups)


def answers_to(data: object, names: tuple[str, ...]) -> Responses:
    """Read the answers to the variables of a network. Raises an error for other columns, or another order."""
    answers = read_responses(data)
    if answers.names != names:
        raise ModelError("The columns of the table are not the variables of the network, in their order.")
    return answers


def checked_for_regressions(answers: Responses) -> Responses:
    """Raise an error for too few complete rows, or columns that hardly vary in them. Warn of rare values."""
    complete = answers.codes[answers.whole]
    if answers.n < LEAST_ROWS:
        group = _one_group(answers)
        what = "The table" if group is None else f"The group {group!r}"
        hint = "" if group is None else " Leave its rows out, or join it with another group."
        raise DataError(f"{what} has {counted(answers.n, 'rows')}; a network needs at least {LEAST_ROWS}.{hint}")
    if len(complete) < LEAST_ROWS:
        raise DataError(
            f"{len(complete)} of {answers.n} rows have no missing value; regressions of each variable on all others need "
            f"at least {LEAST_ROWS}. Leave out columns with many missing values, or use joint_network, which sums over "
            "missing values."
        )
    if len(complete) < answers.n:
        warn_caller(
            f"{answers.n - len(complete)} of {answers.n} rows have missing values and are left out of the regressions. "
            "joint_network sums over missing values instead.",
            FieldfitWarning,
        )
    ones = complete.sum(axis=0)
    rarer = np.minimum(ones, len(complete) - ones)
    for name, count, positive in zip(answers.names, rarer.tolist(), ones.tolist(), strict=True):
        if count < 2:
            pair = answers.values[answers.names.index(name)]
            common = pair[int(positive > len(complete) / 2)]
            raise DataError(
                f"The column {name!r:.80} has the value {common!r:.80} in {len(complete) - count} of "
                f"{len(complete)} rows, so its "
                f"edges cannot be estimated. Leave it out ({_leave_out(name)})."
            )
    rare = [name for name, count in zip(answers.names, rarer.tolist(), strict=True) if count < _RARE]
    if rare:
        warn_caller(
            f"In {len(rare)} column{'s' * (len(rare) != 1)} one of the values occurs fewer than {_RARE} times "
            f"{_in_group(answers)}({_listed(rare)}). Edges of such columns are unreliable.",
            FieldfitWarning,
        )
    _warn_of_equal(answers.names, complete)
    return answers


def _one_group(answers: Responses) -> str | None:
    """The group of all rows, or None if there are no groups or several."""
    groups = [] if answers.groups is None else np.unique(answers.groups).tolist()
    return groups[0] if len(groups) == 1 else None


def _in_group(answers: Responses) -> str:
    """Which group the rows belong to, if they all belong to one."""
    group = _one_group(answers)
    return "" if group is None else f"in the group {group!r} "


def _warn_of_equal(names: Sequence[str], complete: NDArray[np.int8]) -> None:
    """Warn of columns that are equal, or opposite, in every row: regressions cannot tell them apart."""
    first: dict[bytes, str] = {}
    equal = []
    for name, column in zip(names, np.ascontiguousarray(complete.T), strict=True):
        other = first.setdefault((column ^ column[0]).tobytes(), name)  # a column and its opposite have the same key
        if other != name:
            equal.append((other, name))
    if equal:
        more = f" (and {len(equal) - 1} more such columns)" if len(equal) > 1 else ""
        other, name = equal[0]
        warn_caller(
            f"The columns {other!r} and {name!r} determine each other in every row{more}, so their pairs have no standard "
            f"error. Leave one of them out ({_leave_out(name)}).",
            FieldfitWarning,
        )


def _leave_out(*names: str, by: str | None = None) -> str:
    """How to leave columns out, in Python and on the command line."""
    groups = "" if by is None else f"by={by!r}, "
    return (
        f"networks.read_responses(data, {groups}leave_out={list(names)!r}), or "
        f"--leave-out {shlex.quote(','.join(names))} on the command line"
    )


def _as_groups(name: str) -> str:
    """How to compare the groups of a column, in Python and on the command line."""
    return f"networks.compare_groups(data, by={name!r}) (--by {shlex.quote(name)})"


def _refuse_columns(bad: dict[str, tuple[object, ...]], labels: Sequence[str], by: str | None) -> NoReturn:
    """Raise an error that names every column without two values, and those that look like the group of each row."""
    told = "; ".join(f"{name!r} has {_values(states)}" for name, states in bad.items())
    few = [name for name, states in bad.items() if 2 < len(states) <= _MOST_GROUPS]
    hint, others = "", [name for name in labels if by is not None and name != by and name not in bad]
    if others:
        told += "; " + "; ".join(f"{name!r} looks like the group of each row" for name in others)
    if by is None and (labels or few):
        name = [*labels, *few][0]
        hint = f" If {name!r} says which group a row belongs to, use {_as_groups(name)}."
    raise DataError(
        f"A network needs columns with two values: {told}. Recode {_them(bad)}, or leave {_them(bad)} out "
        f"({_leave_out(*bad, *others, by=by)}).{hint}"
    )


def _them(columns: Sized) -> str:
    return "it" if len(columns) == 1 else "them"


def _values(states: tuple[object, ...]) -> str:
    if len(states) == 1:
        return f"the value {states[0]!r} in every row"
    return f"{len(states)} different values ({', '.join(map(repr, states[:3]))}{', …' if len(states) > 3 else ''})"


def _refuse_groups(labels: dict[str, str]) -> NoReturn:
    """Raise an error for columns that look like the group of each row; ``labels`` has the reasons."""
    told = " and ".join(f"{name!r} looks like the group of each row ({reason})" for name, reason in labels.items())
    raise DataError(
        f"{told}, not like a variable. Compare the groups with {_as_groups(next(iter(labels)))}, or leave {_them(labels)} "
        f"out ({_leave_out(*labels)}). If {'it is a variable' if len(labels) == 1 else 'they are variables'}, name all "
        "variables in columns (--columns)."
    )


def _labels(table: Table, place: int, by: str) -> NDArray[np.str_]:
    codes, states = table.codes[:, place], table.states[place]
    if (codes < 0).any():
        missing = np.flatnonzero(codes < 0)
        more = f" and {counted(len(missing) - 1, 'other rows')}" if len(missing) > 1 else ""
        raise DataError(
            f"The column {by!r:.80} has no group in row {missing[0]} (counting from 0){more}. Give every row "
            "a group, or leave "
            "such rows out."
        )
    if len(states) < 2:
        raise DataError(f"The column {by!r:.80} has one group only, {states[0]!r:.80}. A comparison needs two.")
    return np.array([str(state) for state in states])[codes]


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
