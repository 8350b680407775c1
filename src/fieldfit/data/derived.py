"""Columns made from a column: lower case, shape, prefixes, suffixes, membership in a stop list.

Each works on the list of different values, so a million tokens cost no more than their vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from fieldfit.types import DataError

_DERIVATION_NAME = re.compile(r"(lower|shape|stop)|(prefix|suffix)([1-9]\d?)")


def check_derivation(name: str) -> None:
    """Refuse a name that is not ``lower``, ``shape``, ``stop``, ``prefixN`` or ``suffixN``."""
    if not _DERIVATION_NAME.fullmatch(name):
        raise DataError(
            f"There is no derived column named {name!r}; there are lower, shape, stop, prefixN, suffixN (N = 1..99)."
        )


def derive(name: str, values: Sequence[str], stop_words: Collection[str]) -> list[str | None]:
    """The derived value of each value; None where it has none (a prefix longer than the word)."""
    matched = _DERIVATION_NAME.fullmatch(name)
    if matched is None:
        check_derivation(name)
        raise AssertionError(name)
    if name == "lower":
        return [value.lower() for value in values]
    if name == "shape":
        return [shape(value) for value in values]
    if name == "stop":
        return ["yes" if value.lower() in stop_words else "no" for value in values]
    length = int(matched[3])
    if matched[2] == "prefix":
        return [value[:length] if len(value) >= length else None for value in values]
    return [value[-length:] if len(value) >= length else None for value in values]


def shape(word: str) -> str:
    """Capitals as X, small letters as x, digits as d, others as they are, runs cut to two: ``McDonald's`` XxXxx'x."""
    marks: list[str] = []
    for character in word:
        if character.isdigit():
            mark = "d"
        elif character.isalpha():
            mark = "X" if character.isupper() else "x"
        else:
            mark = character
        if marks[-2:] != [mark, mark]:
            marks.append(mark)
    return "".join(marks)
