"""Read tables of discrete samples: arrays, lists of rows, DataFrames, and CSV, TSV or Parquet files.

Each source becomes a `RawTable`; its distinct values are matched with the states that the model expects, or the
states are inferred; the result is a `Table` of codes. See docs/data.md for what is accepted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldfit.arguments import array_of, has_entries, is_integer
from fieldfit.callers import warn_caller
from fieldfit.data import numeric
from fieldfit.data.alignments import Alignment
from fieldfit.data.delimited import DelimitedText, read_delimited
from fieldfit.data.labels import (
    MAX_INFERRED_STATES,
    BadValueError,
    RawColumn,
    States,
    as_number,
    checked_states,
    codes_for_states,
    infer_states,
    label_of,
)
from fieldfit.data.parquet import is_parquet, read_parquet
from fieldfit.data.rawtable import ADVICE, RawTable, default_names, exact_frame, raw_array, raw_frame, raw_rows
from fieldfit.data.samples import Table, constant_columns
from fieldfit.named import closest_names
from fieldfit.types import DataError, FieldfitWarning, FloatArray, Int32Array, IntArray
from fieldfit.words import counted

if TYPE_CHECKING:
    import pandas as pd

#: Names of columns with the number of samples of each row.
_COUNT_NAMES = frozenset({"cases", "count", "counts", "freq", "frequency", "n", "number", "weight", "weights"})
#: A column of integers with more values than this may have counts.
_FEW_VALUES = 5
#: Most entries of an array in which a refusal lists all columns with values that are not states.
_MOST_CHECKED_ENTRIES = 10_000_000

__all__ = ["Table", "constant_columns", "read_table"]


def read_table(
    source: object,
    *,
    states: Iterable[object] | None = None,
    names: Sequence[str] | None = None,
    columns: Sequence[str | int] | None = None,
    leave_out: Sequence[str | int] = (),
    sample_weight: ArrayLike | str | None = None,
    weight_kind: str = "importance",
    groups: ArrayLike | str | None = None,
    header: bool | None = None,
    allow_missing_columns: bool = False,
    part: bool = False,
    rename: bool = True,
) -> Table:
    """Read samples of discrete variables from an array, a list of rows, a DataFrame, a Table or a CSV, TSV or Parquet file.

    states: what the model expects, one list for all variables, as (0, 1), or one list for each; None: the sorted values
    of each column. columns: names or positions of those to read, in the model's order. leave_out: those that are no
    variables. names: the variables' names; if the source has columns with all of them, those are read, in that order,
    otherwise they are new names for the columns that are read. sample_weight: (n,) numbers, or the name of the column
    with them, which is then no variable. groups: (n,) labels of the samples' groups, or the name of the column with
    them. header: whether line 1 of a file has the names; None: auto-detect. allow_missing_columns: accept variables
    without a single value, which needs `states`; a fit refuses them, but a conditional probability sums them out. part:
    the rows are some of a larger table, in which a column may have no value (and then no states, if none are given);
    there may be no rows at all, and none are returned of rows whose weights are all 0.
    rename: whether `names` may replace other names that the source has; a model says no, because columns with other
    names could be in any order.
    """
    if isinstance(source, Table) and sample_weight is None:
        sample_weight, weight_kind = source.sample_weight, source.weight_kind
    for what, given in (("names", names), ("columns", columns), ("leave_out", leave_out)):
        if (given is not None or what == "leave_out") and (isinstance(given, str) or not has_entries(given)):
            raise DataError(f"{what} is {given!r:.80}; it must be a list of columns.")
    wanted = None if states is None else _listed_states(states)
    if isinstance(source, Table) and groups is None:
        groups = source.groups
    raw = _raw_table(source, names, columns, [sample_weight, groups, *leave_out], wanted, header)
    if names is not None and columns is None and not rename:
        _refuse_foreign_names(raw, names)
    raw, weight, group = _choose_columns(raw, names, columns, leave_out, sample_weight, groups)
    if isinstance(sample_weight, str) and weight_kind == "importance":
        _tell_counts(sample_weight, np.asarray(weight, dtype=float))
    if raw.n == 0 and not part:
        raise DataError(f"No rows: {raw.source} has no samples. Give at least one row.")
    if raw.m == 0:
        raise DataError(f"No columns: {raw.source} has no variables. Give at least one column.")
    if isinstance(wanted, list) and raw.m != len(wanted):
        raise DataError(
            f"Wrong number of columns: {raw.source} has {raw.m} and the model has {counted(len(wanted), 'variables')}. "
            "Choose the columns first, as in data[[…]]."
        )
    known_states = [wanted] * raw.m if isinstance(wanted, tuple) else wanted
    if raw.n == 0:
        return Table(np.empty((0, raw.m), np.int32), tuple(raw.names), tuple(known_states or [()] * raw.m))
    codes, column_states = _codes(raw, known_states)
    empty = np.flatnonzero(codes.max(axis=0) < 0)
    if len(empty) and not part and not (allow_missing_columns and known_states is not None):
        raise DataError(
            f"Missing everywhere: {raw.source} has no value in the column {raw.names[empty[0]]!r:.80}"
            f"{f' and {len(empty) - 1} more' if len(empty) > 1 else ''}. Leave such columns out of the data."
        )
    if part and weight is not None and not np.any(weight):
        codes, weight = codes[:0], None  # no sample of this part counts
    return Table(
        codes,
        tuple(raw.names),
        tuple(column_states),
        sample_weight=cast(FloatArray | None, weight),  # the table checks both and makes arrays of them
        weight_kind=weight_kind,
        groups=cast(IntArray | None, group),
    )


def _listed_states(states: Iterable[object]) -> States | list[States]:
    """A tuple of labels that holds for every variable, or a list with one tuple for each."""
    if isinstance(states, str):
        raise DataError(f"states={states!r} is a string. Give a list of states, for example (0, 1).")
    if not has_entries(states):
        raise DataError(f"states is {states!r:.80}; it must be a list of states, for example (0, 1).")
    given = list(states)
    nested = [isinstance(item, list | tuple | range | np.ndarray) for item in given]
    if not any(nested):
        return checked_states(given, "the variables")
    if not all(nested):
        raise DataError("states mixes labels and lists. Give one list of labels for all variables, or one for each.")
    # Models share one list between all variables: it is checked once.
    checked: dict[int, States] = {}
    for j, column_states in enumerate(given):
        if id(column_states) not in checked:
            checked[id(column_states)] = checked_states(cast("Iterable[object]", column_states), f"variable {j}")
    return [checked[id(column_states)] for column_states in given]


def _raw_table(
    source: object,
    names: Sequence[str] | None,
    columns: Sequence[str | int] | None,
    beside: Sequence[ArrayLike | str | int | None],
    wanted: States | list[States] | None,
    header: bool | None,
) -> RawTable:
    if isinstance(source, str | os.PathLike) and is_parquet(source):
        return replace(raw_frame(read_parquet(source)), path=os.fspath(source))
    if isinstance(source, str | os.PathLike | DelimitedText):
        expected = [name for name in columns or () if isinstance(name, str)]
        expected += [name for name in beside if isinstance(name, str)]
        lists = [wanted] if isinstance(wanted, tuple) else wanted or []
        known = frozenset(str(label) for labels in lists for label in labels)
        return read_delimited(source, header, expected or list(names or ()), known)
    if isinstance(source, Table):
        kept = [RawColumn(source.codes[:, j], source.states[j], ordered=True) for j in range(source.m)]
        named = list(source.names) != default_names(source.m)
        return RawTable(list(source.names), source.n, columns=kept, named=named)
    if isinstance(source, np.ndarray):
        return raw_array(source)
    if isinstance(source, list | tuple):
        return raw_rows(source)
    module = type(source).__module__.partition(".")[0]
    if module == "pandas" and hasattr(source, "columns"):
        return raw_frame(cast("pd.DataFrame", source))
    if hasattr(source, "__arrow_c_stream__") and hasattr(source, "to_pandas") and hasattr(source, "columns"):
        return raw_frame(_from_arrow(cast("_ToPandas", source)))
    if hasattr(source, "__array__") and module not in ("numpy", "pandas"):
        return raw_array(array_of(source))  # draws of a model, tensors
    if isinstance(source, Alignment):
        raise DataError(
            "An Alignment is not a table. fieldfit.proteins.fit_family(alignment) fits one, and "
            "fieldfit.proteins.load_family(fit, alignment) joins one with the saved fit of its family."
        )
    hint = {
        "pandas": "Use .to_frame() to make it one. ",
        "scipy": "Use .toarray() to make it one. ",
        "polars": "Use .collect() to make it one. ",
        "fieldfit": "Only fits and plans accept data in several parts. ",
    }.get(module, "")
    raise DataError(f"A {type(source).__name__} is not a table. {hint}{ADVICE}")


class _ToPandas(Protocol):
    @property
    def columns(self) -> Sequence[str]: ...

    def to_pandas(self, **options: bool) -> pd.DataFrame: ...


class _Wrapped(Protocol):
    def to_native(self) -> object: ...


def _from_arrow(source: _ToPandas) -> pd.DataFrame:
    """A polars data frame or a pyarrow table as one of pandas; missing values stay apart from numbers."""
    library = type(source).__module__.partition(".")[0]
    if library == "narwhals":
        native = cast("_Wrapped", source).to_native()
        return _from_arrow(cast("_ToPandas", native)) if hasattr(native, "to_pandas") else source.to_pandas()
    if library == "polars":
        for name in source.columns:
            if "\0" in name:  # its conversion would end the program
                raise DataError(f"The name of the column {name!r:.80} has a zero byte. Give the column another name.")
    try:
        if library in ("polars", "pyarrow"):
            return exact_frame(source.to_pandas)
        return source.to_pandas()
    except ImportError as error:
        raise DataError(f"A table of {library} needs pyarrow ({error}). Install it: pip install pyarrow") from error
    except ValueError as error:  # pyarrow's own errors: types and values that it does not have
        raise DataError(
            f"The table of {library} cannot be read ({error}). Give its columns as integers, booleans, floating-point "
            "numbers or texts."
        ) from error


def _choose_columns(
    raw: RawTable,
    names: Sequence[str] | None,
    columns: Sequence[str | int] | None,
    leave_out: Sequence[str | int],
    sample_weight: ArrayLike | str | None,
    groups: ArrayLike | str | None,
) -> tuple[RawTable, ArrayLike | None, ArrayLike | None]:
    """The variables, in order and under their names, the weights and the groups."""
    if len(set(raw.names)) < len(raw.names):
        double = next(name for name in raw.names if raw.names.count(name) > 1)
        raise DataError(f"Two columns of {raw.source} are called {double!r:.80}. Give each column a different name.")
    weight: ArrayLike | None
    group: ArrayLike | None
    if columns is None and names is not None:
        wanted = [str(name) for name in names]
        if len(set(wanted)) == len(wanted) and set(wanted) <= set(raw.names):
            columns = wanted
    place = {name: j for j, name in enumerate(raw.names)}
    positions = list(range(raw.m)) if columns is None else [_position(raw, place, column) for column in columns]
    if len(set(positions)) < len(positions):
        raise DataError(f"columns={list(columns or ())!r} names a column twice. Give each column once.")
    no_variables = {_position(raw, place, column) for column in leave_out}
    if isinstance(sample_weight, str):
        j = _position(raw, place, sample_weight)
        weight = _weight_column(raw, j)
        if columns is None:
            no_variables.add(j)
    else:
        weight = sample_weight
    if isinstance(groups, str):
        j = _position(raw, place, groups)
        group = _group_column(raw, j)
        if columns is None:
            no_variables.add(j)
    else:
        group = groups
    positions = [j for j in positions if j not in no_variables]
    chosen = [raw.names[j] for j in positions]
    if names is not None:
        if len(names) != len(chosen):
            raise DataError(f"{raw.source} has {len(chosen)} columns, and {len(names)} are expected: {_some(names)}.")
        chosen = [str(name) for name in names]
        if len(set(chosen)) < len(chosen):
            double = next(name for name in chosen if chosen.count(name) > 1)
            raise DataError(f"names has {double!r:.80} twice. Give each column a different name.")
    return raw.select(positions, chosen), weight, group


def _refuse_foreign_names(raw: RawTable, names: Sequence[str]) -> None:
    """Refuse a source with names of its own that lack some of `names`, unless those were made up for unnamed columns."""
    known = set(raw.names)
    absent = [str(name) for name in names if str(name) not in known]
    made_up = list(names) == default_names(len(names)) and len(absent) == len(names)
    if raw.named and absent and not made_up:
        if raw.path and raw.names[0].startswith(">"):
            raise DataError(
                f"{raw.path} is an alignment (line 1 begins with '>'), not a table. In Python, "
                "fieldfit.proteins.load_family(fit, alignment) joins an alignment with the saved fit of its family."
            )
        lacking = f"no column {absent[0]!r}" + (f" and lacks {len(absent) - 1} more" if len(absent) > 1 else "")
        raise DataError(
            f"{raw.path or 'The table'} has {lacking}: its columns are {_some(raw.names)}, and the model's "
            f"variables {_some(names)}. Rename the columns, or give the values without names, in the model's order."
        )


def _some(names: Sequence[object]) -> str:
    return ", ".join(map(str, names[:6])) + (", …" if len(names) > 6 else "")


def _position(raw: RawTable, place: Mapping[str, int], column: str | int) -> int:
    """A text is a name. An integer is a position, unless a DataFrame has it as the name of a column."""
    if str(column) in place:
        return place[str(column)]
    if is_integer(column) and 0 <= column < raw.m:
        return int(column)
    some = ", ".join(repr(name) for name in raw.names[:10]) + (", …" if raw.m > 10 else "")
    near = closest_names(str(column), raw.names) if raw.m > 10 else []
    meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise DataError(f"There is no column {column!r:.80} in {raw.source}.{meant} It has {some or 'no columns'}.")


def _group_column(raw: RawTable, j: int) -> NDArray[np.object_]:
    """The labels of the groups as text, None where a row has none."""
    column = raw.column(j)
    labels = np.array([*map(str, column.values), None], dtype=object)
    return np.asarray(labels[column.indices])


def _weight_column(raw: RawTable, j: int) -> FloatArray:
    column = raw.column(j)
    numbers = np.full(len(column.values) + 1, np.nan)
    for position, value in enumerate(column.values):
        try:
            label = label_of(value)
        except ValueError:
            label = None
        number = as_number(label) if isinstance(label, str) else label
        if number is None and (column.indices == position).any():
            row = int(np.argmax(column.indices == position))
            raise DataError(
                f"The weight in {raw.place(row)}, column {raw.names[j]!r:.80}, is {value!r:.80}. Every row needs a "
                "finite number ≥ 0 there."
            )
        numbers[position] = np.nan if number is None else number
    return np.asarray(numbers[column.indices])


# ----------------------------------------------------------------------------------------------------------- coding


def _codes(raw: RawTable, known_states: list[States] | None) -> tuple[Int32Array, list[States]]:
    """Codes (n, m) and the states of each column: the expected ones, or the inferred ones where there are none."""
    if raw.matrix is not None:
        span = _whole_states(known_states) if known_states is not None else numeric.whole_range(raw.matrix)
        if span is not None and raw.m * (span[1] - span[0] + 2) <= numeric.MOST_ENTRIES:
            return _numeric_codes(raw, known_states, *span)
    codes = np.empty((raw.n, raw.m), np.int32)
    column_states = []
    for j in range(raw.m):
        codes[:, j], states = _column_codes(raw, j, known_states)
        column_states.append(states)
    return codes, column_states


def _whole_states(known_states: list[States]) -> tuple[int, int] | None:
    labels = {label for states in {id(states): states for states in known_states}.values() for label in states}
    if not all(isinstance(label, int) for label in labels):
        return None
    whole = [int(label) for label in labels if isinstance(label, int)]
    # Beyond 2⁵³ a float is not the integer that it looks like.
    return (min(whole), max(whole)) if min(whole) > -(2**53) and max(whole) < 2**53 else None


def _numeric_codes(
    raw: RawTable, column_states: list[States] | None, low: int, high: int
) -> tuple[Int32Array, list[States]]:
    assert raw.matrix is not None
    if column_states is None:
        column_states = []
        for j, values in enumerate(numeric.present_values(raw.matrix, low, high)):
            _check_number_of_states(raw, j, len(values))
            column_states.append(tuple(bool(v) if raw.boolean else int(v) for v in values))
    codes, outside = numeric.look_up(raw.matrix, column_states, low, high)
    if outside is not None:
        row, j = outside
        value = raw.matrix[row, j].item()
        reason = "infinite, not one of its states" if np.isinf(value) else "not one of its states"
        _refuse(raw, row, j, value, reason, column_states)
    return codes, column_states


def _column_codes(raw: RawTable, j: int, known_states: list[States] | None) -> tuple[Int32Array, States]:
    column, states = raw.column(j), None if known_states is None else known_states[j]
    try:
        if states is not None:
            table = codes_for_states(column.values, states)
        elif column.ordered:
            states = checked_states(column.values, f"column {raw.names[j]!r}")
            table = np.arange(len(states), dtype=np.int32)
        else:
            table, states = infer_states(column.values)
            _check_number_of_states(raw, j, len(states))
    except BadValueError as bad:
        rows = np.flatnonzero(column.indices == bad.position)
        if len(rows) == 0:  # a declared category that never occurs
            raise DataError(
                f"The category {bad.value!r:.80} of column {raw.names[j]!r:.80} is {bad.reason}"
                f"{_allowed(states)}. Remove it from the categories, or add it to the states."
            ) from bad
        _refuse(raw, int(rows[0]), j, bad.value, bad.reason, known_states)
    # The last place, index −1, is for missing values.
    return np.append(table, np.int32(-1))[column.indices], states


def _check_number_of_states(raw: RawTable, j: int, count: int) -> None:
    if count > MAX_INFERRED_STATES:
        raise DataError(
            f"Column {raw.names[j]!r:.80} of {raw.source} has {count} distinct values, too many for a discrete variable "
            f"(at most {MAX_INFERRED_STATES} are inferred). Leave it out of the data, put its values into bins, "
            "or give its states."
        )


def _may_be_counts(raw: RawTable, j: int) -> bool:
    """Whether a named column looks like numbers of samples: integers from 0, by its name or with many values."""
    numbers = [as_number(value) if isinstance(value, str) else value for value in raw.column(j).values]
    if not raw.named or not all(isinstance(n, int | float) and n >= 0 and n == int(n) for n in numbers):
        return False
    return raw.names[j].lower() in _COUNT_NAMES or len(numbers) > _FEW_VALUES


def _tell_counts(name: str, weight: FloatArray) -> None:
    """Warn if a column that is called a number of samples is used as importance weights."""
    if (
        name.lower() in _COUNT_NAMES - {"weight", "weights"}
        and (weight > 1).any()
        and (weight == np.floor(weight)).all()
    ):
        warn_caller(
            f"The weights in the column {name!r} are integers and are used as importance weights. If each is the number of "
            "samples of its row, use weight_kind='counts': standard errors then count every sample.",
            FieldfitWarning,
        )


def _refuse(raw: RawTable, row: int, j: int, value: object, reason: str, known: list[States] | None) -> NoReturn:
    states = None if known is None else known[j]
    what = f"The value {value!r:.80} in {raw.place(row)}, column {raw.names[j]!r}, is {reason}{_allowed(states)}."
    others = [] if known is None else _other_columns(raw, j, known)
    if 0 < len(others) < raw.m - 1:
        listed = [raw.names[k] for k in sorted([j, *others])]
        raise DataError(
            f"{what} {counted(len(others), 'other columns')} {'has' if len(others) == 1 else 'have'} such values too. "
            f"Leave {listed!r} out of the data, or recode those that are variables as states.{_header(raw, row)}"
        )
    if isinstance(value, str | int | float) and reason == "not one of its states" and _may_be_counts(raw, j):
        raise DataError(
            f"{what} If the column has the number of samples of each row, use sample_weight={raw.names[j]!r} and "
            "weight_kind='counts'; if it is not a variable, leave it out of the data."
        )
    raise DataError(f"{what} {_remedy(raw, j, states)}{_header(raw, row)}")


def _header(raw: RawTable, row: int) -> str:
    """A hint for the first line of a file that was read without names."""
    first = raw.lines is not None and row == 0 and not raw.named
    return " If that line has the names of the columns, use header=True." if first else ""


def _other_columns(raw: RawTable, j: int, known: list[States]) -> list[int]:
    """The other columns with values that are not their states; none are sought in a very large array."""
    others: list[int] = []
    if raw.matrix is not None and raw.matrix.size > _MOST_CHECKED_ENTRIES:
        return others
    for k, states in enumerate(known):
        if k == j:
            continue
        try:
            codes_for_states(raw.column(k).values, states)
        except BadValueError:
            others.append(k)
    return others


def _remedy(raw: RawTable, j: int, states: States | None) -> str:
    """What to do about a value that is not a state. A column with few enough values may be coded in its own way."""
    if states is not None and len(values := raw.column(j).values) <= len(states):
        shown = ", ".join(sorted(str(value) for value in values[:6])) + (", …" if len(values) > 6 else "")
        return (
            f"If the values of the column are right ({shown:.80}), recode them as states, or give them to a Potts model "
            "or a MarkovRandomField with states=…; if the column is not a variable, leave it out of the data."
        )
    return "Correct it, leave it empty where the value is missing, or leave the column out of the data."


def _allowed(states: States | None) -> str:
    if states is None:
        return ""
    some = ", ".join(repr(label) for label in states[:20]) + (", …" if len(states) > 20 else "")
    return f" ({some})"
