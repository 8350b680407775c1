"""The checks of what users give: what was given, what it must be."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, SupportsFloat, SupportsIndex, SupportsInt, TypeGuard

import numpy as np

from fieldfit.types import Array, DataError, FieldfitError, FileAccessError, FloatArray, IntArray, ModelError

#: Variables, states or samples of a model that lists can number.
_MOST_NUMBERED = 2**31 - 1
#: Letters of a path: more than systems take.
_LONGEST_PATH = 4096
#: Seeds are below this.
_SEEDS = 2**64
#: Datasets that one call draws: each has a seed in memory.
_MOST_DRAWN = 10**7


def whole_number(
    value: object, name: str, least: int, most: int | None = None, error: type[FieldfitError] = FieldfitError
) -> int:
    """An integer from ``least`` to ``most``, of any type of number; texts and truth values are none."""
    whole = None
    if (
        isinstance(value, SupportsInt | SupportsIndex)
        and not (isinstance(value, bool | np.bool_) or is_masked(value) or is_complex(value))
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
    number = _finite_number(value)
    if number is None or number <= 0:
        raise FieldfitError(f"{name} is {value!r:.80}; it must be a number above 0{advice}.")
    return number


def number_from_zero(value: object, name: str, error: type[FieldfitError] = FieldfitError, advice: str = "") -> float:
    """A finite number of at least 0. ``advice`` is a sentence for other values."""
    number = _finite_number(value)
    if number is None or number < 0:
        raise error(f"{name} is {value!r:.80}; it must be a number of at least 0.{advice}")
    return number


def finite_number(value: object, name: str, error: type[FieldfitError] = FieldfitError) -> float:
    """A finite number of any sign."""
    number = _finite_number(value)
    if number is None:
        raise error(f"{name} is {value!r:.80}; it must be a finite number.")
    return number


def _finite_number(value: object) -> float | None:
    """The number as a float; None for what is none or is not finite. Texts and truth values are none."""
    if (
        not isinstance(value, SupportsFloat | SupportsIndex)
        or isinstance(value, bool | np.bool_)
        or is_masked(value)
        or is_complex(value)
        or getattr(value, "ndim", 0) != 0
    ):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def real_number(value: object) -> float:
    """``float(value)``; TypeError for complex numbers."""
    if is_complex(value):
        raise TypeError("a complex number")
    return float(value)  # type: ignore[arg-type]


def is_complex(value: object) -> bool:
    """Whether a number of NumPy is complex: converted to a float or an integer, it would lose its imaginary part."""
    return getattr(getattr(value, "dtype", None), "kind", "") == "c"


def is_integer(value: object) -> TypeGuard[int | np.integer[Any]]:
    """Whether a value is a number without digits after the point; truth values and NumPy's durations are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def truth_value(value: object, name: str) -> bool:
    """True or False; numbers and texts are none."""
    if not isinstance(value, bool | np.bool_):
        raise FieldfitError(f"{name} is {value!r:.80}; it must be True or False.")
    return bool(value)


def one_of(value: object, name: str, choices: Sequence[str], error: type[FieldfitError] = FieldfitError) -> str:
    """One of these words."""
    if not isinstance(value, str) or value not in choices:
        words = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        raise error(f"{name} is {value!r:.80}; it must be {words}.")
    return value


def function_or_none(value: object, name: str) -> None:
    """Refuse what cannot be called and is not None."""
    if value is not None and not callable(value):
        raise FieldfitError(f"{name} is {value!r:.80}; it must be a function, or None.")


def text_of(value: object, name: str) -> str:
    """A text that files can have: lone surrogates are none."""
    if not isinstance(value, str):
        raise DataError(f"{name} is {value!r:.80}; it must be a text.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{name} is {value!r:.80}; it is not Unicode text.") from None
    return value


def instance_of(value: object, kind: type, what: str) -> None:
    """Refuse what is no object of this class; ``what`` says what is needed, such as "centrality needs a Network"."""
    if not isinstance(value, kind):
        raise FieldfitError(f"{what}; got {value!r:.80}.")


def file_path(value: object, what: str = "The path of a file") -> str:
    """A path as text."""
    if not isinstance(value, str | os.PathLike):
        raise FileAccessError(f"{what} is text or a Path; got {value!r:.80}.")
    path = os.fsdecode(value)
    try:
        named = b"\0" not in os.fsencode(path) and len(path) <= _LONGEST_PATH
    except UnicodeEncodeError:
        named = False
    if not named:
        raise FileAccessError(
            f"{what} is {path!r:.80}; no file has this name: it has a zero byte, is not Unicode text, or has more than "
            f"{_LONGEST_PATH:,} letters."
        )
    return path


def sequence_of(value: object, name: str, wanted: str) -> tuple[object, ...]:
    """The entries of a list, a tuple or an array; texts are none."""
    if isinstance(value, str | bytes) or not has_entries(value):
        raise ModelError(f"{name} is {value!r:.80}; it must be {wanted}.")
    return tuple(value)


def check_names(names: object, what: str, size: int) -> None:
    """Refuse what is no sequence with a name for each of ``size`` things, such as a text with a letter each, or None."""
    if names is None:
        return
    if not isinstance(names, str) and not (is_list(names) and hasattr(names, "__getitem__")):
        raise ModelError(f"The names of {what} are {names!r:.80}; they must be a list with one for each, or None.")
    if len(names) != size:
        raise ModelError(f"There are {size} {what} but {len(names)} names of {what}; give one for each.")


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value has entries and their number; texts are no lists."""
    if not has_entries(value) or isinstance(value, str):
        return False
    try:
        len(value)  # type: ignore[arg-type]
    except TypeError:  # sparse arrays have a method for it that refuses
        return False
    return True


def has_entries(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether a loop over a value is possible; over an array without dimensions, such as ``np.array(1.0)``, it is not."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


def is_masked(value: object) -> TypeGuard[np.ma.MaskedArray[Any, Any]]:
    """Whether a value is a masked array, or its constant ``np.ma.masked``. Does not load `numpy.ma` (17 ms)."""
    # While another thread imports numpy.ma, it has no such class yet, and no value is of the class.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return masked is not None and isinstance(value, masked)


def unmasked(value: object, name: str, error: type[FieldfitError] = DataError) -> None:
    """Refuse masked entries: NumPy's conversions would give the values behind the mask, or NaN."""
    if is_masked(value) and np.ma.getmaskarray(value).any():
        raise error(f"{name} has masked entries. Give values without a mask.")


def array_of(value: object, dtype: type | None = None, *, name: str = "An array") -> Array:
    """``np.asarray(value)``; `DataError` for lists of unequal lengths, and for an object that fails to convert itself.

    The second is so whatever error its ``__array__`` raises. ``name`` is what has such lists.
    """
    try:
        return np.asarray(value, dtype=dtype)
    except MemoryError:
        raise
    except Exception as error:
        if not hasattr(value, "__array__"):
            if isinstance(error, ValueError) and dtype is None:
                raise DataError(
                    f"{name} has lists of unequal lengths; it must be an array, or a list of values."
                ) from None
            if isinstance(error, TypeError | ValueError | OverflowError):
                raise
        raise DataError(
            f"A {type(value).__name__} could not be converted to a NumPy array ({type(error).__name__}: {error}). Give an "
            "array, or a list of values."
        ) from error


def real_array(value: object) -> FloatArray:
    """Numbers as an array of any shape; TypeError or ValueError for what is none. NumPy would drop imaginary parts."""
    given = array_of(value)
    if given.dtype.kind == "c":
        raise TypeError("complex numbers")
    try:
        return np.asarray(given, dtype=np.float64)
    except OverflowError:
        raise ValueError("a number beyond the range of floating-point numbers") from None


def numbers_of(value: object, name: str) -> FloatArray:
    """An array of numbers of any shape."""
    unmasked(value, name)
    try:
        given = array_of(value)
        return (
            given.astype(np.float64, casting="same_kind") if given.dtype.kind in "iuf" else _no_numbers(value, name)
        )
    except (TypeError, ValueError):
        return _no_numbers(value, name)


def _no_numbers(value: object, name: str) -> NoReturn:
    raise DataError(f"{name} is {value!r:.80}; it must be an array of numbers.") from None


def seed(value: object) -> int:
    """A seed of random numbers: an integer from 0 to 2^64 − 1."""
    whole = whole_number(value, "random_state", 0)
    if whole >= _SEEDS:
        raise FieldfitError(f"random_state is {value!r:.80}; it must be an integer from 0 to 2^64 − 1.")
    return whole


def seed_after(value: int, number: int) -> int:
    """The seed that is ``number`` further; 0 follows 2^64 − 1."""
    return (value + number) % _SEEDS


def count_of(value: object, name: str, least: int = 1, most: int | None = None) -> int:
    """A number of variables, states or samples of a model."""
    return whole_number(value, name, least, _MOST_NUMBERED if most is None else most, ModelError)


def datasets_drawn(value: object, name: str, least: int = 1, error: type[FieldfitError] = FieldfitError) -> int:
    """A number of datasets that are drawn and fitted: resamples, permutations or simulations."""
    return whole_number(value, name, least, _MOST_DRAWN, error)


def whole_numbers(values: object, name: str, error: type[FieldfitError] = DataError) -> IntArray:
    """An array of 64-bit integers; nothing is rounded, and truth values are none. An empty list has no wrong entry."""
    unmasked(values, name, error)
    given = array_of(values, name=name)
    if given.size == 0 and given.ndim:
        return given.astype(np.int64)
    if given.dtype.kind not in "iu" or int(given.max()) >= 2**63:
        raise error(f"{name} must be integers of at most 64 bits; got {given.dtype}.")
    return given.astype(np.int64)
