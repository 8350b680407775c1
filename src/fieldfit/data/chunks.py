"""Chunks in labels such as B-NP I-NP O, found by conlleval's rules, and their precision, recall and F1.

A label is a prefix and a type around the first hyphen. A chunk starts at B (and S), at I or E after O or after the
end of another chunk, and wherever the type changes; it ends where the next one starts, at O, after E and S, and with
the sentence. So IOB1, IOB2, IOE and IOBES are all read, and so are predictions that break their own scheme.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fieldfit.arguments import is_list
from fieldfit.data.label_lists import Label, flatten_labels, offsets_of
from fieldfit.data.scores import Scores
from fieldfit.types import BoolArray, DataError, IntArray

# A chunk of one token: S of IOBES, and the brackets that conlleval takes so.
_SINGLE = ("S", "[", "]")
_OUTSIDE_PREFIXES = ("O", ".")


class Chunks(NamedTuple):
    """Chunk c covers the tokens start[c]..stop[c] (global, half open) and has the type types[kind[c]]."""

    start: IntArray
    stop: IntArray
    kind: IntArray
    types: tuple[str, ...]


def split_label(label: str) -> tuple[str, str]:
    """The prefix and the type of a label: ``B-NP`` is (B, NP), ``O`` is (O, "")."""
    prefix, _, kind = label.partition("-")
    return prefix, kind


def find_chunks(labels: Sequence[Sequence[str]]) -> Chunks:
    """The chunks of sentences of labels."""
    lengths = [len(sentence) for sentence in labels]
    names, codes = _codes([_as_text(label) for label in flatten_labels(labels, lengths)])
    types = tuple(sorted({split_label(name)[1] for name in names}))
    return _find(names, codes, offsets_of(lengths), types)


def chunk_scores(gold: Sequence[Sequence[Label]], predicted: Sequence[Sequence[Label]]) -> Scores:
    """Compute precision, recall and F1 of predicted chunks, in total and for each type, and the accuracy of tokens.

    A predicted chunk is correct if a gold chunk has the same first token, last token and type, as conlleval counts.

    Parameters
    ----------
    gold : sequence of sequences of labels
        The true labels of each sentence, such as ``["B-NP", "I-NP", "O"]``.
    predicted : sequence of sequences of labels
        The predicted labels.

    Returns
    -------
    Scores

    Examples
    --------
    >>> from fieldfit.chains import chunk_scores
    >>> scores = chunk_scores([["B-NP", "I-NP", "O"], ["B-VP"]], [["B-NP", "I-NP", "O"], ["B-NP"]])
    >>> scores.f1, scores.accuracy
    (0.5, 0.75)
    """
    flat_gold, flat_predicted, offsets = paired_labels(gold, predicted)
    names, codes = _codes(flat_gold + flat_predicted)
    n_tokens = len(flat_gold)
    types = tuple(sorted({split_label(name)[1] for name in names}))
    right = _find(names, codes[:n_tokens], offsets, types)
    guessed = _find(names, codes[n_tokens:], offsets, types)
    shared = np.intersect1d(_key(right, n_tokens), _key(guessed, n_tokens), assume_unique=True)
    n_types = len(types)
    counts = [np.bincount(kind, minlength=n_types) for kind in (right.kind, guessed.kind, shared % max(n_types, 1))]
    # A type that occurs only with O is not a type.
    used = [index for index in range(n_types) if counts[0][index] or counts[1][index]]
    return Scores(
        unit="chunk",
        names=tuple(types[index] for index in used),
        n_gold=counts[0][used],
        n_predicted=counts[1][used],
        n_correct=counts[2][used],
        n_tokens=n_tokens,
        n_tokens_correct=int((codes[:n_tokens] == codes[n_tokens:]).sum()),
    )


def paired_labels(
    gold: Sequence[Sequence[Label]], predicted: Sequence[Sequence[Label]]
) -> tuple[list[str], list[str], IntArray]:
    """Gold and predicted labels token by token, as text, and the offsets of the sentences they share."""
    for name, sentences in (("gold", gold), ("predicted", predicted)):
        if not is_list(sentences) or not all(map(is_list, sentences)):
            raise DataError(
                f"{name} is {sentences!r:.80}; it must be a list with a list of labels for each sentence."
            )
    if len(gold) != len(predicted):
        raise DataError(f"There are {len(gold)} gold sentences, but {len(predicted)} predicted ones.")
    for index, (gold_labels, other) in enumerate(zip(gold, predicted, strict=True)):
        if len(gold_labels) != len(other):
            raise DataError(f"Sentence {index} has {len(gold_labels)} gold labels, but {len(other)} predicted ones.")
    lengths = [len(sentence) for sentence in gold]
    flat_gold, flat_predicted = flatten_labels(gold, lengths), flatten_labels(predicted, lengths)
    return list(map(_as_text, flat_gold)), list(map(_as_text, flat_predicted)), offsets_of(lengths)


def _as_text(label: Label) -> str:
    return label if isinstance(label, str) else str(label)


def _codes(labels: list[str]) -> tuple[list[str], IntArray]:
    different = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    return list(different), np.fromiter(map(different.__getitem__, labels), np.int64, len(labels))


def _key(chunks: Chunks, n_tokens: int) -> IntArray:
    key: IntArray = (chunks.start * (n_tokens + 1) + chunks.stop) * max(len(chunks.types), 1) + chunks.kind
    return key


def _find(names: Sequence[str], codes: IntArray, offsets: IntArray, types: tuple[str, ...]) -> Chunks:
    # Only the prefix and the type of each distinct label are parsed; tokens are integers from here on.
    prefixes = [split_label(name)[0] for name in names]
    kinds = np.array([types.index(split_label(name)[1]) for name in names], dtype=np.int64)

    def flags(*wanted: str) -> BoolArray:
        table = np.array([prefix in wanted for prefix in prefixes], dtype=np.bool_)
        result: BoolArray = table[codes] if len(codes) else np.zeros(0, dtype=np.bool_)
        return result

    if len(codes) == 0:
        empty = np.zeros(0, dtype=np.int64)
        return Chunks(empty, empty, empty, types)
    kind = kinds[codes]
    outside, opening, closing = flags(*_OUTSIDE_PREFIXES), flags("B", *_SINGLE), flags("E", *_SINGLE)
    continuing = flags("I", "E")
    first = np.zeros(len(codes), dtype=np.bool_)
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    # The token before: at a sentence's start it counts as O without a type.
    untyped = types.index("") if "" in types else -1
    before_kind = np.where(first, untyped, np.roll(kind, 1))
    before_outside = first | np.roll(outside, 1)
    before_closed = ~first & np.roll(closing, 1)
    start = ~outside & (opening | (kind != before_kind) | (continuing & (before_outside | before_closed)))
    starts = np.flatnonzero(start)
    # A chunk continues until the next token starts another one, is outside or begins a sentence, or it closes itself.
    last = np.append(start[1:] | outside[1:] | first[1:], True) | closing
    ends = np.flatnonzero(last)
    stop = ends[np.searchsorted(ends, starts)] + 1
    return Chunks(starts, stop, kind[starts], types)
