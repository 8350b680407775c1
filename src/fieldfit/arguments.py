"""The checks of numbers that users give: what was given, what it must be."""

from __future__ import annotations

import math
from typing import SupportsFloat, SupportsIndex, SupportsInt

import numpy as np

from fieldfit.types import DataError, FieldfitError, IntArray, ModelError

#: Variables, states or samples of a model that lists can number.
_MOST_NUMBERED = 2**31 - 1
#: Seeds are below this.
_SEEDS = 2**64


def whole_number(
    value: object, name: str, least: int, most: int | None = None, error: type[FieldfitError] = FieldfitError
) -> int:
    """An integer from ``least`` to ``most``, of any type of number; texts and truth values are none."""
    whole = None
    if (
        isinstance(value, SupportsInt | SupportsIndex)
        and not isinstance(value, bool)
        and getattr(value, "ndim", 0) == 0
    ):
        try:
            whole = int(value) if int(value) == value else None
        except (TypeError, ValueError, OverflowError):
            whole = None
    if whole is None or whole < least or (most is not None and whole > most):
        limit = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise error(f"{name} is {value!r:.80}; it must be an integer {limit}.")
    return whole


def positive_number(value: object, name: str, advice: str = "") -> float:
    """A finite number above 0."""
    number = math.nan
    if (
        isinstance(value, SupportsFloat | SupportsIndex)
        and not isinstance(value, bool)
        and getattr(value, "ndim", 0) == 0
    ):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise FieldfitError(f"{name} is {value!r:.80}; it must be a number above 0{advice}.")
    return number


def truth_value(value: object, name: str) -> bool:
    """True or False; numbers and texts are none."""
    if not isinstance(value, bool | np.bool_):
        raise FieldfitError(f"{name} is {value!r:.80}; it must be True or False.")
    return bool(value)


def seed(value: object) -> int:
    """A seed of random numbers: an integer from 0 to 2^64 − 1."""
    whole = whole_number(value, "random_state", 0)
    if whole >= _SEEDS:
        raise FieldfitError(f"random_state is {value!r:.80}; it must be an integer from 0 to 2^64 − 1.")
    return whole


def count_of(value: object, name: str, least: int = 1, most: int | None = None) -> int:
    """A number of variables, states or samples of a model."""
    return whole_number(value, name, least, _MOST_NUMBERED if most is None else most, ModelError)


def whole_numbers(values: object, name: str) -> IntArray:
    """An array of 64-bit integers; nothing is rounded, and truth values are none. An empty list has no wrong entry."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise DataError(f"{name} must be an array of integers; got lists of unequal lengths.") from None
    if given.size == 0 and given.ndim:
        return given.astype(np.int64)
    if given.dtype.kind not in "iu" or int(given.max()) >= 2**63:
        raise DataError(f"{name} must be integers of at most 64 bits; got {given.dtype}.")
    return given.astype(np.int64)
