"""Functionals of θ by name: parameters, contrasts such as ``"a - b"`` or ``"2*a + b"``, coefficients, functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np

from fieldfit.api.functionals import value_and_gradient
from fieldfit.arguments import has_entries
from fieldfit.types import FloatArray, ModelError

#: A sign at the beginning or after a space. Signs in the names of parameters have no space before them.
_SIGN = re.compile(r"(?:^|(?<=\s))([+-])\s*(?=\S)")
_FACTOR = re.compile(r"(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)\s*[*·]\s*(.+)")


def terms_of(text: str) -> list[tuple[float, str, str]]:
    """(sign, term, term without its factor) of ``"a - 2*b"``; empty for a text without signs."""
    marks = list(_SIGN.finditer(text))
    if not marks:
        return []
    starts = [mark.start() for mark in marks]
    pieces = [] if starts[0] == 0 else [("+", text[: starts[0]])]
    for mark, end in zip(marks, [*starts[1:], len(text)], strict=True):
        pieces.append((mark[1], text[mark.end() : end]))
    terms = []
    for sign, piece in pieces:
        match = _FACTOR.fullmatch(piece.strip())
        bare = piece.strip() if match is None else match[2].strip()
        terms.append((1.0 if sign == "+" else -1.0, piece.strip(), bare))
    return terms


def contrast(text: str, names: Sequence[str]) -> str | dict[str, float]:
    """A parameter's name, or the coefficients of the parameters in ``"a - b"``, ``"2*a + b"`` or ``"+1·a -1·b"``.

    A text that is the name of a parameter means that parameter. Signs need spaces around them, because names may
    contain signs (``B-NP->I-NP``).
    """
    terms = terms_of(text)
    wanted = {text, *(part for _, *both in terms for part in both)}
    known = {name for name in names if name in wanted}  # one pass: names are created on access
    if not terms or text in known:
        return text
    coefficients: dict[str, float] = {}
    for sign, term, bare in terms:
        match = _FACTOR.fullmatch(term)
        name, factor = (term, 1.0) if match is None or term in known else (bare, float(match[1]))
        if name not in known:
            raise ModelError(
                f"functionals has {text!r}, in which {name!r} is not a parameter; write a name, or a contrast with spaces "
                f"around its signs such as 'a - b' or '2*a + b'. The first parameters are "
                f"{[names[k] for k in range(min(5, len(names)))]}."
            )
        coefficients[name] = coefficients.get(name, 0.0) + sign * factor
    return coefficients


class NamedFunctionals:
    """θ ↦ (names, gradients) of the functionals that a user gives.

    ``given``: a list of parameters' names, contrasts, mappings {parameter: coefficient}, vectors of coefficients or
    functions of θ; a mapping from names of the functionals to any of them; or a matrix of coefficients (q, r).
    """

    def __init__(self, given: object, names: Sequence[str]) -> None:
        self._names = names
        if isinstance(given, str) or callable(given):
            given = [given]
        if isinstance(given, Mapping) and given and all(isinstance(value, Real) for value in given.values()):
            given = [given]  # one contrast
        labels: Sequence[str | None]
        if isinstance(given, Mapping):
            labels, items = list(map(str, given)), list(given.values())
        elif has_entries(given):
            items = list(given)
            labels = [None] * len(items)
        else:
            raise ModelError(f"functionals is {given!r:.80}; it must be a list, such as ['x0:x1', 'x0:x1 - x1:x2'].")
        if not items:
            raise ModelError("functionals is empty; name at least one parameter, or leave it out.")
        # Checked now: an unknown name raises an error before the pilot runs.
        self._items = [contrast(item, names) if isinstance(item, str) else item for item in items]
        self._labels = [
            label or (item if isinstance(item, str) else None) for label, item in zip(labels, items, strict=True)
        ]
        r = len(names)
        for item in self._items:
            if not callable(item):
                value_and_gradient(item, None, np.zeros(r), names)

    def __len__(self) -> int:
        return len(self._items)

    def __call__(self, theta: FloatArray) -> tuple[list[str], FloatArray]:
        """Names and gradients (q, r) at θ."""
        evaluated = [value_and_gradient(item, None, theta, self._names) for item in self._items]
        shown = [label or name for label, (name, _, _) in zip(self._labels, evaluated, strict=True)]
        rows = np.stack([gradient for _, _, gradient in evaluated])
        empty = [name for name, row in zip(shown, rows, strict=True) if not row.any()]
        if empty:
            raise ModelError(f"The functional {empty[0]!r} does not depend on any parameter: its variance is 0.")
        return shown, rows
