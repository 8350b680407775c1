"""Columns made from a column: lower case, shape, prefixes, suffixes, membership in a stop list.

Each works on the list of different values, so a million tokens cost no more than their vocabulary. The shape of a word has
capitals as X, small letters as x, digits as d, others as they are, and runs cut to two: ``McDonald's`` becomes XxXxx'x.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from fieldfit._kernels import Derivation, derive_texts
from fieldfit.types import DataError

_DERIVATION_NAME = re.compile(r"(lower|shape|stop)|(prefix|suffix)([1-9]\d?)")


def parse_derivation(name: str) -> tuple[Derivation, int]:
    """The kind of derivation and its length: ``lower``, ``shape``, ``stop``, ``prefixN``, ``suffixN``, or ``""``."""
    if not name:
        return Derivation.none, 0
    matched = _DERIVATION_NAME.fullmatch(name)
    if matched is None:
        raise DataError(
            f"There is no derived column named {name!r:.80}; there are lower, shape, stop, prefixN, suffixN (N = 1..99)."
        )
    return Derivation[matched[1] or matched[2]], int(matched[3] or 0)


def derive(name: str, values: Sequence[str], stop_words: Collection[str]) -> list[str | None]:
    """The derived value of each value; None where it has none (a prefix longer than the word)."""
    return derive_texts(*parse_derivation(name), values, tuple(stop_words))
