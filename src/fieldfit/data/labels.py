"""From values to states: which label a value means, and the code of that label.

A label is a bool, int, float or str. Text is read the same way wherever it comes from (file, array, DataFrame):
surrounding blanks do not count, and "", "NA", "N/A", "NaN", "nan", "NULL", "null" and "<NA>" are missing values
unless the given states have such a label. Work is done once for each distinct value of a column, never for each cell.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fieldfit.types import DataError, Int32Array
from fieldfit.words import has_lone_surrogate

MISSING_TEXT = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null", "<NA>"})
MAX_INFERRED_STATES = 1000

Label = bool | int | float | str
States = tuple[object, ...]

# Not "01": codes with leading zeros ("00", "01", "10") are names, not numbers.
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_TRUTH_WORDS = {"true": True, "false": False}


class BadValueError(Exception):
    """A value that cannot be a state; `position` is its place among the distinct values, `reason` ends "it is …"."""

    def __init__(self, position: int, value: object, reason: str) -> None:
        super().__init__(reason)
        self.position, self.value, self.reason = position, value, reason


class RawColumn(NamedTuple):
    """A column as indices (n,) into its distinct raw values, −1 missing. `ordered`: these are the states, sorted."""

    indices: Int32Array
    values: Sequence[object]
    ordered: bool = False


def raw_column(cells: Iterable[object], n: int) -> RawColumn:
    """Number the distinct values of a column of `n` cells in the order of their appearance."""
    cells = tuple(cells)
    try:
        values = tuple(dict.fromkeys(cells))
    except TypeError as error:
        position = next(i for i, cell in enumerate(cells) if type(cell).__hash__ is None)
        raise BadValueError(position, cells[position], "not a number, a text or a boolean") from error
    place = {value: i for i, value in enumerate(values)}
    return RawColumn(np.fromiter(map(place.__getitem__, cells), np.int32, n), values)


def as_number(text: str) -> int | float | None:
    """The number that a text writes, whole ones as int; None where it does not write a finite number."""
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    if not math.isfinite(value):
        return None
    if text.lstrip("+-").isdecimal():
        return int(text) if len(text) < 400 else None
    return int(value) if value.is_integer() else value


def label_of(value: object) -> Label | None:
    """The plain label of a value, None where it is missing; ValueError with the reason where it can be neither."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        if has_lone_surrogate(value):
            raise ValueError("a text with a lone surrogate, which is not a character")
        return str(value).strip()
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, np.timedelta64):  # NumPy counts it among the integers
        raise ValueError("a timedelta64, not a number, a text or a boolean")
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return None
        if math.isinf(number):
            raise ValueError("infinite")
        return int(number) if number.is_integer() else number
    # pandas' NA and NaT without importing pandas: missing markers are the values that do not equal themselves.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    raise ValueError(f"a {type(value).__name__}, not a number, a text or a boolean")


def checked_states(states: Iterable[object], where: str) -> States:
    """The states as plain labels; refuses none at all, missing ones and repeated ones (1, 1.0 and True are one)."""
    labels: list[object] = []
    for state in states:
        try:
            label = label_of(state)
        except ValueError as error:
            raise DataError(f"The state {state!r:.80} of {where} is {error}.") from error
        if label is None:
            raise DataError(
                f"The states of {where} contain {state!r:.80}, which stands for a missing value. Leave it out."
            )
        labels.append(label)
    if not labels:
        raise DataError(f"The states of {where} are empty. Give at least one, for example (0, 1).")
    if len(set(labels)) < len(labels):
        raise DataError(f"The states {tuple(labels)!r:.80} of {where} contain the same value twice. Give each once.")
    return tuple(labels)


def codes_for_states(values: Sequence[object], states: States) -> Int32Array:
    """The code of each distinct raw value among the given states (−1 missing); BadValueError outside them.

    A text matches a number that it writes ("1", "1.0"), "true" and "false" match 1 and 0, and a number matches the
    text of itself.
    """
    place = {state: code for code, state in enumerate(states)}
    codes = np.empty(len(values), np.int32)
    for position, value in enumerate(values):
        try:
            label = label_of(value)
        except ValueError as error:
            raise BadValueError(position, value, str(error)) from error
        code = place.get(label)
        if code is None and isinstance(label, str):
            if label in MISSING_TEXT:
                label = None
            else:
                number = as_number(label)
                code = place.get(_TRUTH_WORDS.get(label.lower()) if number is None else number)
        elif code is None and label is not None:
            code = place.get(str(label))
        if code is None and label is not None:
            infinite = isinstance(label, str) and _INFINITE.fullmatch(label)
            raise BadValueError(
                position, value, "infinite, not one of its states" if infinite else "not one of its states"
            )
        codes[position] = -1 if code is None else code
    return codes


def infer_states(values: Sequence[object]) -> tuple[Int32Array, States]:
    """The code of each distinct raw value (−1 missing), and the sorted labels that were found.

    Where every text of the column writes a number, the labels are numbers. Numbers sort before texts.
    Raises BadValueError for values that cannot be labels.
    """
    labels: list[Label | None] = []
    for position, value in enumerate(values):
        try:
            label = label_of(value)
        except ValueError as error:
            raise BadValueError(position, value, str(error)) from error
        if isinstance(label, str):
            if _INFINITE.fullmatch(label):
                raise BadValueError(position, value, "infinite")
            if label in MISSING_TEXT:
                label = None
        labels.append(label)
    parsed = [as_number(label) if isinstance(label, str) else label for label in labels]
    if all((new is None) == (old is None) for new, old in zip(parsed, labels, strict=True)):
        labels = list(parsed)
    distinct = {label for label in labels if label is not None}
    if not all(isinstance(label, bool) for label in distinct):
        distinct = {int(label) if isinstance(label, bool) else label for label in distinct}
    states: States = tuple(sorted((label for label in distinct if not isinstance(label, str)), key=float)) + tuple(
        sorted(label for label in distinct if isinstance(label, str))
    )
    place = {state: code for code, state in enumerate(states)}
    return np.array([-1 if label is None else place[label] for label in labels], np.int32), states
