"""The input of a tagger, recognised and encoded.

| X | becomes |
|---|---|
| sentences of feature dicts or of lists of names (sklearn-crfsuite's input) | attributes |
| sentences of words, or of tuples of columns, with ``features`` (a preset or templates) | columns |
| sentences of words, without ``features`` | attributes, the word alone |
| sentences as (tokens × features) arrays, dense or sparse | arrays |
| `ColumnText`, `AttributeText` (files) | columns, attributes; labels come with the file |
| `SentenceFiles` | the same for many files, read where they are held |
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fieldfit.arguments import has_entries
from fieldfit.callers import warn_caller
from fieldfit.data.array_encoder import ArrayEncoder
from fieldfit.data.attribute_encoder import AttributeEncoder
from fieldfit.data.attributes import AttributeText, sentence_lengths
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText, columns_from_lists
from fieldfit.data.encoders import Encoder
from fieldfit.data.features import load_stop_words, preset, preset_names
from fieldfit.data.label_lists import Label, encode_labels, flatten_labels
from fieldfit.data.sequences import Sequences
from fieldfit.data.templates import FeatureSpec, parse_templates, read_templates
from fieldfit.named import closest_names
from fieldfit.shards.backend import Backend
from fieldfit.shards.pieces import Pieces
from fieldfit.shards.sentence_files import SentenceFiles
from fieldfit.types import DataError, FieldfitWarning, IntArray
from fieldfit.words import counted

Item = TypeVar("Item")
#: Sentences or labels in one of the forms above, recognised by their contents.
Sentences = Any


def learn_sequences(
    X: Sentences, y: Sentences, features: object, min_count: int, backend: Backend | None = None
) -> tuple[Encoder, Sequences | Pieces]:
    """Learn the features and labels of training data; returns the encoder and the sentences encoded.

    `SentenceFiles` are read where ``backend`` has them; None: in this process.
    """
    if isinstance(X, SentenceFiles):
        if y is not None:
            raise DataError("Files of sentences have their labels: leave y out.")
        attributes = X.files[0].attributes
        spec = None if attributes else feature_spec(features, X.width(backend))
        return X.learn_and_encode(spec, min_count, backend)
    if isinstance(X, AttributeText):
        return AttributeEncoder.fit(X, y, min_count=min_count)
    if isinstance(X, ColumnText):
        text = X if y is None else _with_labels(X, y)
        return _learn_columns(text, features, min_count)
    if y is None:
        raise DataError("Training needs the labels y, a list for each sentence of X.")
    if _is_numeric(X):
        return ArrayEncoder.fit(X, y)
    if features is not None:
        labels = [list(map(str, labels)) for labels in _label_lists(X, y)]
        text = columns_from_lists(*_columns(X), labels)
        return _learn_columns(text, features, min_count)
    return AttributeEncoder.fit(_items(X), y, min_count=min_count)


def encode_sequences(
    encoder: Encoder, X: Sentences, y: Sentences = None, *, unknown_labels: str = "mark"
) -> Sequences:
    """X (and y) in training's codes; features never seen in training are left out, labels never seen are −1."""
    if isinstance(encoder, ColumnEncoder):
        if isinstance(X, ColumnText):
            text = X if y is None else _with_labels(X, y)
        elif y is None:
            text = columns_from_lists(*_columns(X))
        else:
            labels = [list(map(str, labels)) for labels in _label_lists(X, y)]
            lengths = [len(sentence) for sentence in labels]
            encode_labels(
                [label for sentence in labels for label in sentence], lengths, encoder.labels, unknown_labels
            )
            text = columns_from_lists(*_columns(X, encoder.n_columns - 1), labels)
        return encoder.with_pairs(text, encoder.encode(text, unknown_labels=unknown_labels))
    if isinstance(encoder, ArrayEncoder):
        _check_list(X, "X must be a list of sentences")
        return encoder.encode(X, y, unknown_labels=unknown_labels)
    assert isinstance(encoder, AttributeEncoder)
    if isinstance(X, ColumnText):
        raise DataError("The tagger was trained on attributes; it cannot read columns of text.")
    return encoder.encode(X if isinstance(X, AttributeText) else _items(X), y, unknown_labels=unknown_labels)


def gold_labels(encoder: Encoder, X: object, y: Sentences) -> list[list[Any]]:
    """The labels as they were given, also those that training never saw: y, or what the file X has."""
    if y is not None:
        _check_list(y, "y must be a list with a list of labels for each sentence")
        for place, labels in enumerate(y):
            _check_list(labels, f"y[{place}] must be a list of labels, one for each token")
        return [list(labels) for labels in y]
    if isinstance(X, ColumnText) and isinstance(encoder, ColumnEncoder):
        if X.n_tokens and X.n_columns != encoder.n_columns:
            raise DataError(
                f"{X.sources[0][0]} has {counted(X.n_columns, 'columns')} and training had {encoder.n_columns}: "
                f"there are no labels to compare with."
            )
        return X.sentences(encoder.label_column)
    if isinstance(X, AttributeText):
        bounds = X.rows.offsets.tolist()
        return [list(X.labels[a:b]) for a, b in pairwise(bounds)]
    raise DataError("There are no labels to compare with: give y, a list of labels for each sentence.")


def _learn_columns(text: ColumnText, features: object, min_count: int) -> tuple[ColumnEncoder, Sequences]:
    spec = feature_spec(features, text.n_columns)
    if features in preset_names():
        _tell_unused(spec, text)
    if spec.uses_stop_words:
        try:
            load_stop_words()
        except DataError as error:
            raise DataError(
                f"The features {spec.name!r:.80} need a list of stop words. {error} Or use features that need "
                "no such list: "
                f"'tagger', 'columns' or your own templates."
            ) from error
    encoder, sequences = ColumnEncoder.fit(text, spec, min_count=min_count)
    return encoder, encoder.with_pairs(text, sequences)


def _tell_unused(spec: FeatureSpec, text: ColumnText) -> None:
    """Warn of columns that a preset leaves out: templates of one's own leave them out on purpose."""
    unused = sorted(set(range(text.n_columns - 1)) - set(spec.columns))
    if not unused:
        return
    few = {column: ", ".join(text.values[column][:3]) for column in unused}
    named = " and ".join(f"column {column} ({few[column]}, …)" for column in unused)
    if 1 in unused:
        remedy = "'chunker' uses the words and column 1, 'columns' every column of the token itself"
    else:
        remedy = "'columns' uses every column of the token itself"
    warn_caller(
        f"The features {spec.name!r} do not use {named}; column 0 is the word. {remedy}; templates with "
        f"%x[0,{unused[-1]}] use what you choose.",
        FieldfitWarning,
    )


def feature_spec(features: object, n_columns: int) -> FeatureSpec:
    """A preset's name, ``"columns"`` (each column of the token itself), templates as text, their file, or a spec."""
    if isinstance(features, FeatureSpec):
        return features
    if features is None or (isinstance(features, str) and features == "columns"):
        if n_columns == 1:
            raise DataError(
                "The text has one column, the label, and nothing to predict it from. Put the label after the columns of "
                "the token."
            )
        lines = [f"U{column:02d}:%x[0,{column}]" for column in range(n_columns - 1)]
        return parse_templates("\n".join([*lines, "B"]), source="columns")
    if isinstance(features, str) and features in preset_names():
        return preset(features)
    if isinstance(features, str) and "%x[" in features:
        return parse_templates(features)
    if isinstance(features, str | Path) and os.path.isfile(features):
        return read_templates(features)
    near = closest_names(str(features)[:80], [*preset_names(), "columns"])
    meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise DataError(
        f"The features {str(features)!r:.80} are neither a preset ({', '.join(preset_names())}), 'columns', nor a file of "
        f"templates.{meant}"
    )


def split_sentences(flat: Sequence[Item], offsets: IntArray) -> list[list[Item]]:
    """A list for each sentence."""
    bounds = offsets.tolist()
    return [list(flat[a:b]) for a, b in pairwise(bounds)]


def _first_token(X: Iterable[Iterable[object]]) -> object:
    return next((token for sentence in X if has_entries(sentence) for token in sentence), None)


def _is_numeric(X: Iterable[Iterable[object]]) -> bool:
    """Whether a sentence is a matrix of numbers."""
    _check_list(X, "X must be a list of sentences")
    sentence = next(iter(X), None)
    if hasattr(sentence, "tocsr"):
        return True
    if isinstance(sentence, np.ndarray):
        return sentence.ndim == 2 and sentence.dtype.kind in "fiub"
    token = _first_token(X)
    if isinstance(token, np.ndarray):
        return token.dtype.kind in "fiub"
    return isinstance(token, list | tuple) and bool(token) and not isinstance(token[0], str)


def _check_list(value: object, wanted: str) -> None:
    if not has_entries(value):
        raise DataError(f"{wanted}; got {type(value).__name__}.")


def _items(X: Sentences) -> Sentences:
    """Sentences of words as sentences of one attribute each; anything else as it is."""
    lengths = sentence_lengths(X)
    if sum(lengths) and isinstance(_first_token(X), str):
        return [[[word] if isinstance(word, str) else word for word in sentence] for sentence in X]
    return X


def _columns(X: Sentences, width: int | None = None) -> Iterator[list[list[str]]]:
    """Sentences of words, or of tuples of columns, column by column."""
    lengths = sentence_lengths(X)
    first = _first_token(X)
    if not sum(lengths):
        for _ in range(width or 1):
            yield [[] for _ in lengths]
        return
    if isinstance(first, str):
        _check_words(X, None)
        yield [list(sentence) for sentence in X]
        return
    if not isinstance(first, list | tuple):
        raise DataError(
            f"With features, a token is a word or a tuple of columns; X has {type(first).__name__}. Leave features out for "
            f"dicts of features."
        )
    _check_words(X, len(first))
    for column in range(len(first)):
        yield [[token[column] for token in sentence] for sentence in X]


def _check_words(X: Iterable[Iterable[object]], width: int | None) -> None:
    for place, sentence in enumerate(X):
        for position, token in enumerate(sentence):
            parts = [token] if width is None else token
            whole = (
                isinstance(parts, list | tuple)
                and all(isinstance(part, str) for part in parts)
                and (width is None or len(parts) == width)
            )
            if not whole:
                wanted = "a word" if width is None else f"{width} columns of text"
                raise DataError(
                    f"X[{place}][{position}] is {token!r:.80}; it must be {wanted}, as the first token is."
                )


def _label_lists(X: Sentences, y: Sentences) -> list[list[Label]]:
    lengths = sentence_lengths(X)
    flat = flatten_labels(y, lengths)
    return split_sentences(flat, np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))


def _with_labels(text: ColumnText, y: Sentences) -> ColumnText:
    lengths = np.diff(text.offsets).tolist()
    flat = list(map(str, flatten_labels(y, lengths)))
    columns = [text.sentences(column) for column in range(text.n_columns)]
    return columns_from_lists(*columns, split_sentences(flat, text.offsets))
