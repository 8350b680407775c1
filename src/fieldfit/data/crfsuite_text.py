r"""CRFsuite's text format: a line for each token, its label and then its attributes, all separated by tabs.

    B-NP	w[0]=He	pos[0]=PRP	length:2
    B-VP	w[0]=reckons	pos[0]=VBZ	length:7

A blank line ends a sentence. ``name:value`` gives an attribute a value other than 1; a colon or a backslash that
belongs to a name or a label is written ``\:`` or ``\\``. An empty label (a line that starts with a tab) is unknown.
"""

from __future__ import annotations

import math
import os
import re
from itertools import chain

import numpy as np

from fieldfit.arguments import text_of
from fieldfit.data.attributes import AttributeRows, AttributeText
from fieldfit.data.label_lists import offsets_of
from fieldfit.data.textfile import read_text
from fieldfit.types import DataError

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ATTRIBUTE_NAME = re.compile(r"(?:[^\\:]|\\.|\\$)*", re.DOTALL)


def read_crfsuite(path: str | os.PathLike[str], *, encoding: str = "utf-8") -> AttributeText:
    r"""Read a file in CRFsuite's format, gzip or not.

    Parameters
    ----------
    path : str or Path
        The file.
    encoding : str, default: "utf-8"
        Its encoding.

    Returns
    -------
    AttributeText

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit import CRFTagger
    >>> from fieldfit.chains import read_crfsuite
    >>> _ = Path("train.crfsuite").write_text("B-NP\tword=the\nI-NP\tword=dog\n\nO\tword=runs\n")
    >>> CRFTagger().fit(read_crfsuite("train.crfsuite")).predict([["word=the", "word=dog"]])
    [['B-NP', 'I-NP']]
    """
    return _parse(read_text(path, encoding), str(path))


def parse_crfsuite(text: str, *, source: str = "text") -> AttributeText:
    r"""Read text in CRFsuite's format that is already in memory.

    Parameters
    ----------
    text : str
        The text.
    source : str, default: "text"
        What errors call it.

    Returns
    -------
    AttributeText

    Examples
    --------
    >>> from fieldfit.chains import parse_crfsuite
    >>> text = parse_crfsuite("B-NP\tword=the\nI-NP\tword=dog\n\nO\tword=runs\n")
    >>> text.labels, text.names
    (('B-NP', 'I-NP', 'O'), ('word=the', 'word=dog', 'word=runs'))
    """
    return _parse(text, source)


def _split_field(field: str) -> tuple[str, float]:
    """An attribute's name and value."""
    name_match = _ATTRIBUTE_NAME.match(field)
    end = name_match.end() if name_match else 0
    name = _ESCAPE.sub(r"\1", field[:end])
    written = field[end + 1 :]
    if not written:  # no colon, or nothing after it
        return name, 1.0
    try:
        value = float(written)
    except ValueError:
        raise DataError(
            f"the value of the attribute {name!r:.80} is {written!r:.80}, which is not a number; a colon that "
            "belongs to the "
            f"name is written \\:"
        ) from None
    if not math.isfinite(value):
        raise DataError(f"the value of the attribute {name!r:.80} is {written}; values must be finite")
    return name, value


def _split_label(field: str) -> str | None:
    name_match = _ATTRIBUTE_NAME.match(field)
    if name_match and name_match.end() < len(field):
        raise DataError(f"the label {field!r:.80} has a colon; write it \\: so that the label is not cut there")
    return _ESCAPE.sub(r"\1", field) or None


class _Fields(dict[str, int]):
    """Field → its number; each different field is taken apart once."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, int] = {}
        self.codes: list[int] = []
        self.weights: list[float] = []

    def __missing__(self, field: str) -> int:
        name, value = _split_field(field)
        self.codes.append(self.names.setdefault(name, len(self.names)))
        self.weights.append(value)
        self[field] = len(self.codes) - 1
        return self[field]


class _Labels(dict[str, "str | None"]):
    def __missing__(self, field: str) -> str | None:
        self[field] = _split_label(field)
        return self[field]


def _parse(text: str, source: str) -> AttributeText:
    text_of(text, source)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip(" ")]
    # Spaces belong to names; only those at the end of a line go. Empty fields, from tabs in a row, say nothing.
    rows = [lines[number].rstrip(" ").split("\t") for number in filled]
    attributes = [[field for field in row[1:] if field] for row in rows]
    fields, labels = _Fields(), _Labels()
    indptr = offsets_of([len(row) for row in attributes])
    try:
        numbers = np.fromiter(map(fields.__getitem__, chain.from_iterable(attributes)), np.int64, int(indptr[-1]))
        given = tuple(labels[row[0]] for row in rows)
    except DataError:
        for number, row in zip(filled, rows, strict=True):
            try:
                labels[row[0]]
                for field in row[1:]:
                    _split_field(field)
            except DataError as error:
                raise DataError(f"{source}, line {number + 1}: {error}.") from None
        raise
    places = np.asarray(filled, dtype=np.int64)
    starts = np.flatnonzero(np.diff(places) > 1) + 1
    offsets = np.concatenate(([0], starts, [len(places)])) if len(places) else np.zeros(1)
    values = np.asarray(fields.weights, dtype=np.float64)[numbers]
    rows_of_codes = AttributeRows(
        offsets=offsets.astype(np.int64),
        indptr=indptr,
        codes=np.asarray(fields.codes, dtype=np.int32)[numbers],
        values=None if (values == 1.0).all() else values,
    )
    return AttributeText(rows_of_codes, tuple(fields.names), given, places + 1, source)
