"""From arrays, one (T, d) matrix of real features per sentence, to Sequences. Zeros are not stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from fieldfit.arguments import is_list
from fieldfit.data.alphabet import Alphabet
from fieldfit.data.label_lists import Label, check_unknown, encode_labels, flatten_labels, offsets_of
from fieldfit.data.packing import pack_names, unpack_names
from fieldfit.data.sequences import UNKNOWN, Sequences
from fieldfit.types import Array, Arrays, DataError, FileFormatError, Int32Array


@dataclass(frozen=True, eq=False)
class ArrayEncoder:
    """The width d of the matrices and the labels that training saw. Make one with `fit`."""

    n_features: int
    labels: Alphabet

    @classmethod
    def fit(cls, X: Sequence[object], y: Sequence[Sequence[Label]]) -> tuple[ArrayEncoder, Sequences]:
        """Learn the labels; returns the encoder and the sentences encoded. Matrices may be numpy's or SciPy's."""
        if not is_list(X):
            raise DataError(f"X must be a list of sentences; got {type(X).__name__}.")
        if len(X) == 0:
            raise DataError("There are no sentences to learn from.")
        width = _matrix(X[0], 0).shape[1]
        lengths = [_rows(matrix, index, width) for index, matrix in enumerate(X)]
        flat = flatten_labels(y, lengths)
        encoder = cls(int(width), Alphabet.sorted(flat))
        return encoder, encoder._sequences(X, lengths, encode_labels(flat, lengths, encoder.labels, "error"))

    def feature_names(self, codes: Iterable[int] | None = None) -> list[str]:
        """The columns' names, ``x0``, ``x1``, …"""
        return [f"x{code}" for code in (range(self.n_features) if codes is None else codes)]

    def encode(
        self, X: Sequence[object], y: Sequence[Sequence[Label]] | None = None, *, unknown_labels: str = "mark"
    ) -> Sequences:
        """The sentences in training's codes; labels that do not occur in training become −1 or raise an error."""
        check_unknown(unknown_labels)
        lengths = [_rows(matrix, index, self.n_features) for index, matrix in enumerate(X)]
        if y is None:
            return self._sequences(X, lengths, np.full(sum(lengths), UNKNOWN, dtype=np.int32))
        return self._sequences(
            X, lengths, encode_labels(flatten_labels(y, lengths), lengths, self.labels, unknown_labels)
        )

    def _sequences(self, X: Sequence[object], lengths: list[int], labels: Int32Array) -> Sequences:
        counts, indices, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0)]
        for index, matrix in enumerate(X):
            if hasattr(matrix, "tocsr"):
                sparse = matrix.tocsr().copy()
                sparse.sum_duplicates()
                count, columns, entries = np.diff(sparse.indptr), sparse.indices, sparse.data
            else:
                dense = np.asarray(matrix)
                rows, columns = np.nonzero(dense)
                count, entries = np.bincount(rows, minlength=len(dense)), dense[rows, columns]
            finite = np.isfinite(entries)
            if not finite.all():
                entry = int(np.flatnonzero(~finite)[0])
                token = int(np.searchsorted(np.cumsum(count), entry, side="right"))
                raise DataError(
                    f"X[{index}][{token}, {columns[entry]}] is {entries[entry]}; feature values must be finite."
                )
            counts.append(count)
            indices.append(columns)
            values.append(entries)
        joined = np.concatenate(values).astype(np.float64)
        return Sequences(
            offsets=offsets_of(lengths),
            indptr=offsets_of(np.concatenate(counts).astype(np.int64)),
            indices=np.concatenate(indices).astype(np.int32),
            values=None if (joined == 1.0).all() else joined,
            labels=labels,
            n_features=self.n_features,
            n_labels=len(self.labels),
        )

    def to_arrays(self) -> Arrays:
        """The encoder as plain arrays, from which `from_arrays` makes it again."""
        arrays: Arrays = {"n_features": np.asarray([self.n_features], dtype=np.int64)}
        pack_names(arrays, "labels", self.labels)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> ArrayEncoder:
        """The encoder that `to_arrays` gave these arrays."""
        if "n_features" not in arrays:
            raise FileFormatError("The file has no entry 'n_features'; it is damaged or of another kind.")
        return cls(int(arrays["n_features"][0]), unpack_names(arrays, "labels"))


def _matrix(matrix: object, index: int) -> Array:
    """Sentence ``index`` as a matrix of numbers, dense or sparse."""
    try:
        array: Array = cast(Array, matrix) if hasattr(matrix, "tocsr") else np.asarray(matrix)
    except ValueError as error:
        raise DataError(f"X[{index}] is not a matrix: its rows have different lengths.") from error
    if array.ndim != 2:
        raise DataError(f"X[{index}] must be a matrix (tokens × features); it has {array.ndim} dimensions.")
    if array.dtype.kind not in "fiub":
        raise DataError(f"X[{index}] must contain numbers; it contains {array.dtype}.")
    return array


def _rows(matrix: object, index: int, width: int) -> int:
    """The number of tokens of sentence ``index``, whose matrix must have ``width`` columns."""
    n_rows, n_columns = _matrix(matrix, index).shape
    if n_columns != width:
        raise DataError(f"X[{index}] has {n_columns} features for each token, but {width} are expected.")
    return int(n_rows)
