"""Networks in the UAI competition format, and its evidence files.

    MARKOV            or BAYES
    3                 number of variables
    2 2 3             number of states of each
    2                 number of factors
    2 0 1             scope of each: its size, then its variables
    2 1 2
    4  1 2 3 4        table of each: its size, then its entries, the last variable of the scope changing fastest
    6  …

A BAYES network is read as the Markov field of its conditional probability tables. The format has no comments.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from fieldfit.arguments import file_path
from fieldfit.data.textfile import read_text
from fieldfit.types import FileFormatError, FloatArray

_INTEGER = re.compile(r"[0-9]{1,18}")
#: The beginning of a number with a digit other than 0 before its exponent.
_NOT_ZERO = re.compile(r"[-+]?[0.]*[1-9]")


@dataclass(frozen=True, eq=False)
class UaiField:
    """p(x) ∝ Π_c tables[c][x_scopes[c]], with table entries ≥ 0 in the shape of their scope's cardinalities."""

    cardinalities: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    tables: tuple[FloatArray, ...]
    kind: str = "MARKOV"

    @property
    def log_tables(self) -> tuple[FloatArray, ...]:
        """The natural logarithms of the tables; −∞ where an entry is zero."""
        with np.errstate(divide="ignore"):
            return tuple(np.log(table) for table in self.tables)


def read_uai(path: str | os.PathLike[str]) -> UaiField:
    """Read a MARKOV or BAYES network. Errors name the file, the line and what was expected there."""
    tokens = _Tokens(path)
    kind = tokens.word("the word MARKOV or BAYES")
    if kind not in ("MARKOV", "BAYES"):
        tokens.fail(f"{kind[:40]!r} where MARKOV or BAYES is expected", "Give a network in the UAI format.")
    m = tokens.whole("the number of variables")
    if m == 0:
        tokens.fail("the network has no variables")
    tokens.require(m, f"the numbers of states of {m} variables")
    cardinalities = []
    for j in range(m):
        cardinalities.append(tokens.whole(f"the number of states of variable {j}"))
        if cardinalities[-1] == 0:
            tokens.fail(f"variable {j} has no states")
    n_factors = tokens.whole("the number of factors")
    tokens.require(2 * n_factors, f"the scopes and tables of {n_factors} factors")
    scopes = [_scope(tokens, c, m) for c in range(n_factors)]
    tables = [_table(tokens, c, tuple(cardinalities[v] for v in scope)) for c, scope in enumerate(scopes)]
    tokens.finish("the last table")
    return UaiField(tuple(cardinalities), tuple(scopes), tuple(tables), kind)


def read_uai_evidence(
    path: str | os.PathLike[str], cardinalities: Sequence[int] | None = None
) -> tuple[dict[int, int], ...]:
    """The observed states {variable: state} of each sample; with `cardinalities`, both are checked against them.

    Both forms in use are read: one sample (its number of observations, then variable and state of each), and several
    (the number of samples, then each in that form). A file that could be either is read as one sample.
    """
    tokens = _Tokens(path)
    first = tokens.whole("the number of observations or of samples")
    if tokens.left == 2 * first:
        samples = [_observations(tokens, first, cardinalities)]
    else:
        tokens.require(first, f"{first} samples")
        samples = []
        for i in range(first):
            count = tokens.whole(f"the number of observations of sample {i}")
            samples.append(_observations(tokens, count, cardinalities))
    tokens.finish("the last observation")
    return tuple(samples)


def _scope(tokens: _Tokens, c: int, m: int) -> tuple[int, ...]:
    size = tokens.whole(f"the size of the scope of factor {c}")
    tokens.require(size, f"the {size} variables of factor {c}")
    scope: list[int] = []
    for _ in range(size):
        variable = tokens.whole(f"a variable of factor {c}")
        if variable >= m:
            tokens.fail(f"factor {c} has variable {variable}, and the network has variables 0 to {m - 1}")
        if variable in scope:
            tokens.fail(f"factor {c} has variable {variable} twice")
        scope.append(variable)
    return tuple(scope)


def _table(tokens: _Tokens, c: int, shape: tuple[int, ...]) -> FloatArray:
    size = tokens.whole(f"the number of entries of the table of factor {c}")
    if size != math.prod(shape):
        tokens.fail(f"the table of factor {c} has {size} entries, and its scope has {math.prod(shape)} states")
    if len(shape) > 32:
        tokens.fail(f"factor {c} has {len(shape)} variables, and a table has at most 32 dimensions")
    return tokens.numbers(size, f"an entry of the table of factor {c}").reshape(shape)


def _observations(tokens: _Tokens, count: int, cardinalities: Sequence[int] | None) -> dict[int, int]:
    tokens.require(2 * count, f"variable and state of {count} observations")
    observed: dict[int, int] = {}
    for _ in range(count):
        variable = tokens.whole("an observed variable")
        if variable in observed:
            tokens.fail(f"variable {variable} is observed twice")
        if cardinalities is not None and variable >= len(cardinalities):
            tokens.fail(
                f"variable {variable} is observed, and the network has variables 0 to {len(cardinalities) - 1}"
            )
        state = tokens.whole(f"the state of variable {variable}")
        if cardinalities is not None and state >= cardinalities[variable]:
            tokens.fail(f"state {state} of variable {variable} is not one of 0 to {cardinalities[variable] - 1}")
        observed[variable] = state
    return observed


class _Tokens:
    """The words of a file, one after the other. Lines are counted only when an error needs them."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.shown = file_path(path)
        self.text = read_text(path)
        self.words = self.text.split()
        self.next = 0

    @property
    def left(self) -> int:
        return len(self.words) - self.next

    def fail(self, problem: str, advice: str = "Correct the file.", position: int | None = None) -> NoReturn:
        """Raise the error at the word that was read last, or at `position`."""
        position = self.next - 1 if position is None else position
        match = next(itertools.islice(re.finditer(r"\S+", self.text), max(position, 0), None), None)
        line = 1 if match is None else self.text.count("\n", 0, match.start()) + 1
        raise FileFormatError(f"{self.shown}, line {line}: {problem}. {advice}")

    def require(self, count: int, what: str) -> None:
        """Refuse a file that is too short for `count` more words, before anything is made of that size."""
        if count > self.left:
            last = len(self.words) - 1
            self.fail(f"the file ends before {what}", "It is truncated, or a count in it is wrong.", last)

    def word(self, what: str) -> str:
        self.require(1, what)
        self.next += 1
        return self.words[self.next - 1]

    def whole(self, what: str) -> int:
        word = self.word(what)
        if not _INTEGER.fullmatch(word):
            self.refuse(word, f"{what}, an integer ≥ 0,")
        return int(word)

    def numbers(self, count: int, what: str) -> FloatArray:
        """The next `count` words as finite numbers ≥ 0."""
        self.require(count, f"{count} entries: {what} is missing")
        words = self.words[self.next : self.next + count]
        try:
            values = np.fromiter(map(float, words), np.float64, count)
        except ValueError:
            values = np.array([_float(word) for word in words])
        bad = ~((values >= 0) & np.isfinite(values))
        if "_" in "".join(words):  # Python reads 1_0 as 10
            bad |= np.array(["_" in word for word in words])
        for place in np.flatnonzero(values == 0).tolist():  # 1e-400 is read as 0, which would make a state impossible
            bad[place] |= _NOT_ZERO.match(words[place]) is not None
        if bad.any():
            offset = int(np.argmax(bad))
            self.next += offset + 1
            self.refuse(words[offset], f"{what}, a finite number, 0 or at least 5e-324,")
        self.next += count
        return values

    def refuse(self, word: str, expected: str) -> NoReturn:
        comment = word.startswith(("#", "//", "/*", "%"))
        advice = "The UAI format has no comments: remove it." if comment else "Correct the file."
        self.fail(f"{word[:40]!r} where {expected} is expected", advice)

    def finish(self, last: str) -> None:
        if self.left:
            self.next += 1
            self.refuse(self.words[self.next - 1], f"the end of the file, after {last},")


def _float(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan
