"""Tokens as attributes with values: the dicts and lists that python-crfsuite and sklearn-crfsuite take.

A token is ``{"word": "cat", "length": 3, "title": False, "next": {"word": "sat"}}`` or a list of names. Text makes a
name, ``word:cat`` with value 1; a number or a truth value is the value of its own name; a dict or list inside
prefixes its names, ``next:word:sat``; a name in a list has value 1. The same as python-crfsuite's ItemSequence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeGuard

import numpy as np

from fieldfit import _kernels
from fieldfit.arguments import is_list
from fieldfit.data.label_lists import locate, offsets_of
from fieldfit.types import DataError, FloatArray, Int32Array, IntArray

Item = Mapping[str, object] | Sequence[str] | AbstractSet[str]


class AttributeRows(NamedTuple):
    """The attributes of all tokens: token i has codes[indptr[i]:indptr[i + 1]], −1 where the name is not known."""

    offsets: IntArray
    indptr: IntArray
    codes: Int32Array
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


def attribute_rows(sentences: Sequence[Sequence[Item]], names: _kernels.NameTable, *, grow: bool) -> AttributeRows:
    """The attributes of all tokens of ``sentences``, with new names added to ``names`` or (not ``grow``) coded −1.

    What cannot be read is refused as X[sentence][token].
    """
    lengths = sentence_lengths(sentences)
    items: list[object] = list(chain.from_iterable(sentences))
    if set(map(type, items)) - {dict, list, tuple, set, frozenset}:
        items = list(map(_plain, items))
    counts, codes, values, failure = names.encode(items, grow)
    if failure is not None:
        sentence, token = locate(lengths, failure[0])
        raise DataError(f"X[{sentence}][{token}] cannot be read as features: {failure[1]}.")
    return AttributeRows(offsets_of(lengths), offsets_of(counts), codes, values)


def _plain(item: object) -> object:
    """Other mappings as dicts and arrays of names as lists; the rest as it is, to be refused with its place."""
    if isinstance(item, Mapping):
        return dict(item)
    return item.tolist() if isinstance(item, np.ndarray) and item.ndim == 1 else item


def sentence_lengths(sentences: object) -> list[int]:
    """The number of tokens of each sentence of X."""
    if not _sized(sentences):
        raise DataError(f"X must be a list of sentences; got {type(sentences).__name__}.")
    lengths = []
    for index, sentence in enumerate(sentences):
        if not _sized(sentence):
            raise DataError(f"X[{index}] must be a sentence, a list of tokens; got {type(sentence).__name__}.")
        lengths.append(len(sentence))
    return lengths


def _sized(value: object) -> TypeGuard[Collection[object]]:
    return is_list(value) and not isinstance(value, bytes | Mapping)
