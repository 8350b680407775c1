"""Checks of the contents of a saved fit. Files are untrusted, so every value is checked before it is used."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TypeVar, get_args, get_type_hints

import numpy as np

from fieldfit.api.state import SampleSize
from fieldfit.optim import Progress
from fieldfit.types import Array, FloatArray

Record = TypeVar("Record")
#: Upper limit of the integers in a file.
_LARGEST_INTEGER = 2**63


def checked_record(kind: type[Record], values: object) -> Record:
    """Build a dataclass from a mapping. Raises ValueError if a value does not have the type of its field.

    The caller checks fields that are excluded from comparisons.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{kind.__name__} is a {type(values).__name__}")
    hints = _types(kind)  # type: ignore[arg-type]
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in values and field.compare and not _is(values[field.name], hints[field.name]):
            raise ValueError(f"{field.name} is {values[field.name]!r:.40}")
    return kind(**values)


@cache
def _types(kind: type) -> dict[str, object]:
    """The types of the fields of a dataclass."""
    return get_type_hints(kind)


def _is(value: object, hint: object) -> bool:
    if hint is type(None):
        return value is None
    if isinstance(hint, str):  # a choice of a Literal
        return value == hint
    if get_args(hint):
        return any(_is(value, option) for option in get_args(hint))
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if hint is float:
        return isinstance(value, float) or (isinstance(value, int) and abs(value) < _LARGEST_INTEGER)
    if hint is int:
        return isinstance(value, int) and 0 <= value < _LARGEST_INTEGER
    return isinstance(hint, type) and isinstance(value, hint)


def checked_matrix(array: Array, r: int, what: str) -> FloatArray:
    """Check a symmetric matrix (r, r) of finite numbers; raises ValueError."""
    if array.shape != (r, r) or array.dtype != np.float64 or not np.isfinite(array).all():
        raise ValueError(f"the {what} is not a matrix of {r} × {r} finite numbers")
    size = float(np.abs(array).max(initial=0.0))
    if size > 1e150 or float(np.abs(array - array.T).max(initial=0.0)) > 1e-6 * size:
        raise ValueError(f"the {what} is not symmetric, or too large")
    return array


def checked_seed(value: object) -> int:
    """Check a seed."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise ValueError(f"random_state is {value!r:.40}")
    return value


def checked_size(values: object) -> SampleSize:
    """Check the numbers of samples, which are 0 for weights of another library; raises ValueError."""
    size = checked_record(SampleSize, values)
    counted = 0 < size.total < np.inf if size.n else size.total == 0
    if not (counted and 0 < size.unit_weight < np.inf):
        raise ValueError(f"the fit has {size.n} samples of size {size.total} and unit weight {size.unit_weight}")
    return size


def checked_history(array: Array) -> tuple[Progress, ...]:
    """Read the iterations of a fit from lines (iteration, value, gradient norm, seconds); raises ValueError."""
    if array.ndim != 2 or array.shape[1] != 4 or array.dtype != np.float64:
        raise ValueError("the history has other than four numbers a line")
    if not np.isfinite(array[:, 0]).all():
        raise ValueError("the history has an iteration without a number")
    if (array[:, 2] < 0).any():
        raise ValueError("the history has a negative norm of the gradient")
    return tuple(Progress(int(k), value, norm, seconds) for k, value, norm, seconds in array.tolist())


def checked_text(value: object) -> str:
    """Check a string."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is not a text")
    return value
