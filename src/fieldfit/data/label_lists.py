"""Labels given as a list for each sentence: flattened, checked against the sentences, turned into codes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from fieldfit.arguments import is_list
from fieldfit.data.alphabet import Alphabet
from fieldfit.data.sequences import UNKNOWN
from fieldfit.types import DataError, Int32Array, IntArray

Label = str | int


def flatten_labels(y: Sequence[Sequence[Label]], lengths: Sequence[int]) -> list[Label]:
    """The labels of all sentences in a row; a sentence with more or fewer labels than tokens is named."""
    if not is_list(y):
        raise DataError(f"y must be a list with a list of labels for each sentence; got {type(y).__name__}.")
    if len(y) != len(lengths):
        raise DataError(f"X has {len(lengths)} sentences, but y has {len(y)}.")
    for index, (sentence, expected) in enumerate(zip(y, lengths, strict=True)):
        if not is_list(sentence):
            raise DataError(f"y[{index}] must be a list of labels, one for each token; got {sentence!r:.80}.")
        if len(sentence) != expected:
            raise DataError(f"X[{index}] has {expected} tokens, but y[{index}] has {len(sentence)} labels.")
    flat = list(chain.from_iterable(y))
    kinds = set(map(type, flat))
    if not kinds <= {str, int}:
        flat = [_plain(label, index, y) for index, label in enumerate(flat)]
    return flat


def _plain(label: object, position: int, y: Sequence[Sequence[Label]]) -> Label:
    """Numpy's text and integers as Python's own; anything else is refused with its place."""
    if isinstance(label, str):
        return str(label)
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        return int(label)
    sentence, token = locate([len(labels) for labels in y], position)
    raise DataError(f"y[{sentence}][{token}] is {label!r:.80}; a label must be a string or an integer.")


def encode_labels(flat: Sequence[Label], lengths: Sequence[int], alphabet: Alphabet, unknown: str) -> Int32Array:
    """The codes of ``flat``; labels not in the alphabet give −1, or an error where ``unknown`` says so."""
    check_unknown(unknown)
    codes = alphabet.encode(flat, len(flat))
    if unknown == "error" and codes.size and int(codes.min()) < 0:
        position = int(np.flatnonzero(codes == UNKNOWN)[0])
        sentence, token = locate(lengths, position)
        raise DataError(
            f"y[{sentence}][{token}] is {flat[position]!r:.80}, not one of the {len(alphabet)} labels of the training data."
        )
    return codes


def check_unknown(unknown: str) -> None:
    """Refuse what is neither ``mark`` nor ``error``."""
    if unknown not in ("mark", "error"):
        raise DataError(f"unknown_labels must be 'mark' or 'error'; got {unknown!r:.80}.")


def locate(lengths: Sequence[int], position: int) -> tuple[int, int]:
    """The sentence and the token in it of a place in the flat list."""
    ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
    sentence = int(np.searchsorted(ends, position, side="right"))
    return sentence, position - int(ends[sentence - 1] if sentence else 0)


def offsets_of(lengths: Sequence[int] | IntArray) -> IntArray:
    """(n + 1,) running sums of the lengths, from 0."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(np.asarray(lengths, dtype=np.int64), out=offsets[1:])
    return offsets
