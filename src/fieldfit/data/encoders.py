"""What all encoders have in common: they turn input into `Sequences` with training's codes, and can be written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from fieldfit.data.alphabet import Alphabet, LazyNames
from fieldfit.data.array_encoder import ArrayEncoder
from fieldfit.data.attribute_encoder import AttributeEncoder
from fieldfit.data.attributes import AttributeText
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText, read_columns
from fieldfit.data.crfsuite_text import read_crfsuite
from fieldfit.types import Array, Arrays, FileFormatError

_KINDS: dict[str, type[ArrayEncoder] | type[AttributeEncoder] | type[ColumnEncoder]] = {
    kind.__name__: kind for kind in (ArrayEncoder, AttributeEncoder, ColumnEncoder)
}
#: Names that are made at once for features that are named in their order.
_AT_ONCE = 4096


class Encoder(Protocol):
    """Learnt from training data: which features and labels there are, and how input becomes their codes."""

    @property
    def labels(self) -> Alphabet:
        """The labels of the training data."""

    @property
    def n_features(self) -> int:
        """The number of state features."""

    def feature_names(self, codes: Iterable[int] | None = None) -> list[str]:
        """The names of the features with these codes (all of them by default)."""

    def to_arrays(self) -> Arrays:
        """The encoder as plain arrays."""


def read_encoder(kind: str, arrays: Mapping[str, Array]) -> Encoder:
    """The encoder of this class whose `to_arrays` gave these arrays."""
    if kind not in _KINDS:
        raise FileFormatError(f"The file has an encoder {kind!r:.80}, which this version does not have.")
    return _KINDS[kind].from_arrays(arrays)


def read_encoded(encoder: Encoder, data: object) -> object:
    """Sentences in a file (a path), `ColumnText` or `AttributeText` in the codes of training; other data unchanged."""
    if isinstance(data, str | os.PathLike):
        data = read_crfsuite(data) if isinstance(encoder, AttributeEncoder) else read_columns(data)
    if isinstance(data, ColumnText) and isinstance(encoder, ColumnEncoder):
        return encoder.with_pairs(data, encoder.encode(data))
    if isinstance(data, AttributeText) and isinstance(encoder, AttributeEncoder):
        return encoder.encode(data)
    return data


def names_of(encoder: Encoder) -> tuple[tuple[str, ...], FeatureNames]:
    """The names of labels and features, the features' names created on access."""
    return tuple(map(str, encoder.labels)), FeatureNames(encoder)


class FeatureNames(LazyNames):
    """The names of an encoder's features, state features first, then those of label pairs; made in blocks."""

    things = "features"

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._size = encoder.n_features + getattr(encoder, "n_pair_features", 0)
        self._block: tuple[int, list[str]] = (0, [])  # replaced as one, for threads that read at the same time
        self._last = -1  # the feature that was named last outside the block

    def __len__(self) -> int:
        return self._size

    def of(self, codes: Iterable[int]) -> list[str]:
        """The names of these features."""
        chosen = np.asarray(codes if isinstance(codes, np.ndarray) else list(codes), dtype=np.int64)
        names = np.empty(len(chosen), dtype=object)
        state = chosen < self._encoder.n_features
        names[state] = self._encoder.feature_names(chosen[state])
        if not state.all() and isinstance(self._encoder, ColumnEncoder):
            names[~state] = self._encoder.pair_feature_names(chosen[~state] - self._encoder.n_features)
        result: list[str] = names.tolist()
        return result

    def at(self, place: int) -> str:
        """The name of one feature. Where features are named in their order, a block of names is made at once."""
        first, block = self._block
        if not first <= place < first + len(block):
            in_order, self._last = 0 <= place - self._last <= 1, place
            if not in_order:
                return self.of([place])[0]
            first = place - place % _AT_ONCE
            block = self.of(range(first, min(first + _AT_ONCE, len(self))))
            self._block = first, block
        return block[place - first]
