"""Tokens as attributes with values: the dicts and lists that python-crfsuite and sklearn-crfsuite take.

A token is ``{"word": "cat", "length": 3, "title": False, "next": {"word": "sat"}}`` or a list of names. Text makes a
name, ``word:cat`` with value 1; a number or a truth value is the value of its own name; a dict or list inside
prefixes its names, ``next:word:sat``; a name in a list has value 1. The same as python-crfsuite's ItemSequence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fieldfit.data.label_lists import locate, offsets_of
from fieldfit.types import DataError, FloatArray, IntArray

Item = Mapping[str, Any] | Sequence[str] | AbstractSet[str]


class AttributeRows(NamedTuple):
    """The attributes of all tokens: token i has codes[indptr[i]:indptr[i + 1]], −1 where the name is not known."""

    offsets: IntArray
    indptr: IntArray
    codes: IntArray
    values: FloatArray | None


@dataclass(frozen=True, eq=False)
class AttributeText:
    """Sentences read from a file of attributes: rows of codes into ``names``, and the labels token by token.

    A label is None where the line gives none; ``lines`` are counted from 1.
    """

    rows: AttributeRows
    names: tuple[str, ...]
    labels: tuple[str | None, ...]
    lines: IntArray
    source: str


class NameCodes(dict[Any, int]):
    """(attribute, value) or name → code, filled as it is asked.

    A dict that computes what is missing: the common case, a pair that was met before, never runs Python code.
    """

    def __init__(self, codes: dict[str, int], *, grow: bool) -> None:
        super().__init__()
        self.codes, self.grow = codes, grow

    def code(self, name: str) -> int:
        """The code of a full name; a new one where names may be added, else −1."""
        if self.grow:
            return self.codes.setdefault(name, len(self.codes))
        return self.codes.get(name, -1)

    def __missing__(self, key: Any) -> int:
        if type(key) is tuple:
            attribute, value = key
            if isinstance(value, str | bytes):
                name = f"{_text(attribute)}:{_text(value)}"
            else:
                # A number is no part of the name; all that equal 1 share the entry, others are looked up each time.
                if float(value) != 1.0:
                    return self.code(_text(attribute))
                name = _text(attribute)
        else:
            name = _text(key)
        code = self.code(name)
        # Unknown names are not remembered: a tagger that runs for months must not grow.
        if code >= 0:
            self[key] = code
        return code


def _text(name: Any) -> str:
    if isinstance(name, str):
        return name
    if isinstance(name, bytes):
        return name.decode("utf-8")
    raise TypeError(f"an attribute's name must be text; got {name!r}")


def attribute_rows(sentences: Sequence[Sequence[Item]], names: NameCodes) -> AttributeRows:
    """The attributes of all tokens of ``sentences``; what cannot be read is refused as X[sentence][token]."""
    lengths = sentence_lengths(sentences)
    items: list[Any] = list(chain.from_iterable(sentences))
    kinds = set(map(type, items))
    try:
        if kinds == {dict}:
            return _dict_rows(items, lengths, names)
        if kinds <= {list, tuple}:
            return _list_rows(items, lengths, names)
    except (TypeError, ValueError, UnicodeDecodeError):
        pass  # nested or wrong: the careful way below reads the one and names the place of the other
    return _any_rows(items, lengths, names)


def sentence_lengths(sentences: Sequence[Sequence[Any]]) -> list[int]:
    """The number of tokens of each sentence of X."""
    if isinstance(sentences, str | bytes | Mapping) or not hasattr(sentences, "__len__"):
        raise DataError(f"X must be a list of sentences; got {type(sentences).__name__}.")
    lengths = []
    for index, sentence in enumerate(sentences):
        if isinstance(sentence, str | bytes | Mapping) or not hasattr(sentence, "__len__"):
            raise DataError(f"X[{index}] must be a sentence, a list of tokens; got {type(sentence).__name__}.")
        lengths.append(len(sentence))
    return lengths


def _dict_rows(items: list[dict[str, Any]], lengths: list[int], names: NameCodes) -> AttributeRows:
    indptr = offsets_of([len(item) for item in items])
    pairs = chain.from_iterable(map(dict.items, items))
    codes = np.fromiter(map(names.__getitem__, pairs), dtype=np.int64, count=int(indptr[-1]))
    values: FloatArray | None = None
    if set(map(type, chain.from_iterable(map(dict.values, items)))) - {str}:
        given = chain.from_iterable(map(dict.values, items))
        values = np.fromiter(
            (1.0 if isinstance(value, str | bytes) else float(value) for value in given), np.float64, len(codes)
        )
        _refuse_infinite(values, indptr, lengths, lambda entry: _pair_name(items, indptr, entry))
        values = None if (values == 1.0).all() else values
    return AttributeRows(offsets_of(lengths), indptr, codes, values)


def _pair_name(items: list[dict[str, Any]], indptr: IntArray, entry: int) -> str:
    token = int(np.searchsorted(indptr, entry, side="right")) - 1
    return str(list(items[token])[entry - int(indptr[token])])


def _list_rows(items: list[Any], lengths: list[int], names: NameCodes) -> AttributeRows:
    if set(map(type, chain.from_iterable(items))) - {str}:
        raise TypeError("a list of features must hold names")
    indptr = offsets_of([len(item) for item in items])
    codes = np.fromiter(map(names.__getitem__, chain.from_iterable(items)), np.int64, int(indptr[-1]))
    return AttributeRows(offsets_of(lengths), indptr, codes, None)


def _any_rows(items: list[Any], lengths: list[int], names: NameCodes) -> AttributeRows:
    codes: list[int] = []
    values: list[float] = []
    counts: list[int] = []
    for position, item in enumerate(items):
        before = len(codes)
        try:
            _flatten(item, "", names, codes, values)
        except (TypeError, ValueError, RecursionError) as error:
            sentence, token = locate(lengths, position)
            raise DataError(f"X[{sentence}][{token}] cannot be read as features: {error}.") from error
        counts.append(len(codes) - before)
    indptr = offsets_of(counts)
    found = np.asarray(values, dtype=np.float64)
    coded = np.asarray(codes, dtype=np.int64)
    _refuse_infinite(found, indptr, lengths, lambda entry: "a feature")
    return AttributeRows(offsets_of(lengths), indptr, coded, None if (found == 1.0).all() else found)


def _flatten(item: Any, prefix: str, names: NameCodes, codes: list[int], values: list[float]) -> None:
    """Append the code and the value of each attribute of ``item``, with ``prefix`` before its name."""
    if isinstance(item, Mapping):
        for key, value in item.items():
            name = prefix + _text(key)
            if isinstance(value, str | bytes):
                codes.append(names.code(f"{name}:{_text(value)}"))
                values.append(1.0)
            elif isinstance(value, Mapping | list | tuple | AbstractSet):
                _flatten(value, f"{name}:", names, codes, values)
            else:
                try:
                    number = float(value)
                except TypeError as error:
                    raise TypeError(f"the value of {name!r} is {value!r}, neither a number nor text") from error
                codes.append(names.code(name))
                values.append(number)
                if not math.isfinite(number):
                    raise ValueError(f"the value of {name!r} is {number}; values must be finite")
    elif isinstance(item, list | tuple | AbstractSet | np.ndarray):
        # A set has another order in every process; features must not.
        for name in sorted(map(_text, item)) if isinstance(item, AbstractSet) else map(_text, item):
            codes.append(names.code(prefix + name))
            values.append(1.0)
    else:
        raise TypeError(f"a token must be a dict or a list of names; got {item!r}")


def _refuse_infinite(values: FloatArray, indptr: IntArray, lengths: list[int], name: Any) -> None:
    finite: NDArray[np.bool_] = np.isfinite(values)
    if finite.all():
        return
    entry = int(np.flatnonzero(~finite)[0])
    sentence, token = locate(lengths, int(np.searchsorted(indptr, entry, side="right")) - 1)
    raise DataError(
        f"X[{sentence}][{token}] cannot be read as features: the value of {name(entry)!r} is {values[entry]}; "
        f"values must be finite."
    )
