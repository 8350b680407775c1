"""From attributes (dicts, lists of names, CRFsuite's text) to Sequences, with alphabets that training has frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit import _kernels
from fieldfit.arguments import whole_number
from fieldfit.data.alphabet import Alphabet
from fieldfit.data.attributes import AttributeRows, AttributeText, Item, attribute_rows
from fieldfit.data.label_lists import Label, check_unknown, encode_labels, flatten_labels
from fieldfit.data.packing import pack_names, pack_text, unpack_names, unpack_text
from fieldfit.data.sequences import UNKNOWN, Sequences
from fieldfit.properties import cached_property
from fieldfit.types import Array, Arrays, DataError, Int32Array, Plain

Sentences = Sequence[Sequence[Item]] | AttributeText


@dataclass(frozen=True, eq=False)
class AttributeEncoder:
    """Encoder of tokens that are lists or dicts of attributes. Make one with `fit`.

    Parameters
    ----------
    features : Alphabet
        The attributes of the training data.
    labels : Alphabet
        The labels of the training data.

    Examples
    --------
    >>> from fieldfit.chains import AttributeEncoder
    >>> encoder, data = AttributeEncoder.fit([[["the"], ["dog"]], [["a"], ["dog", "last"]]], [["D", "N"], ["D", "N"]])
    >>> encoder.n_features, list(encoder.labels)
    (4, ['D', 'N'])
    """

    features: Alphabet
    labels: Alphabet

    @classmethod
    def fit(
        cls, X: Sentences, y: Sequence[Sequence[Label]] | None = None, *, min_count: int = 1
    ) -> tuple[AttributeEncoder, Sequences]:
        """Learn attributes and labels, and encode the sentences.

        Parameters
        ----------
        X : sequence of sentences
            Each sentence is a list of tokens, each token a dict or a list of names; or a text from CRFsuite's format,
            which has labels.
        y : sequence of sequences of labels, or None, default: None
            Labels of the tokens. None: those of the text.
        min_count : int, default: 1
            Attributes of fewer tokens are left out.

        Returns
        -------
        encoder : AttributeEncoder
            The encoder.
        data : Sequences
            The sentences.

        Examples
        --------
        >>> from fieldfit.chains import AttributeEncoder
        >>> encoder, data = AttributeEncoder.fit([[["the"], ["dog"]], [["a"], ["dog", "last"]]], [["D", "N"], ["D", "N"]])
        >>> data.n_tokens
        4
        """
        min_count = whole_number(min_count, "min_count", 1, error=DataError)
        if isinstance(X, AttributeText):
            rows, names = X.rows, X.names
            flat: Sequence[Label | None] = (
                X.labels if y is None else flatten_labels(y, np.diff(rows.offsets).tolist())
            )
        else:
            if y is None:
                raise DataError("Training needs the labels y, a list for each sentence of X.")
            table = _kernels.NameTable()
            rows = attribute_rows(X, table, grow=True)
            names = tuple(table.names())
            flat = flatten_labels(y, np.diff(rows.offsets).tolist())
        if not flat:
            raise DataError("There are no tokens to learn from.")
        labels = Alphabet.sorted(label for label in flat if label is not None)
        if min_count > 1:
            frequent = np.bincount(rows.codes, minlength=len(names)) >= min_count
            kept_code = np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)
            rows = rows._replace(codes=kept_code[rows.codes])
            names = tuple(name for name, kept in zip(names, frequent.tolist(), strict=True) if kept)
        encoder = cls(Alphabet(names), labels)
        codes = np.fromiter((labels.codes.get(label, UNKNOWN) for label in flat), np.int32, len(flat))
        return encoder, encoder._sequences(rows, codes)

    @property
    def n_features(self) -> int:
        """The number of attributes."""
        return len(self.features)

    def feature_names(self, codes: Iterable[int] | None = None) -> list[str]:
        """Return names of attributes.

        Parameters
        ----------
        codes : iterable of int, or None, default: None
            Codes of the attributes. None: all.

        Returns
        -------
        list of str

        Examples
        --------
        >>> from fieldfit.chains import AttributeEncoder
        >>> encoder, data = AttributeEncoder.fit([[["the"], ["dog"]], [["a"], ["dog", "last"]]], [["D", "N"], ["D", "N"]])
        >>> encoder.feature_names([0, 1])
        ['the', 'dog']
        """
        names = self.features.names if codes is None else self.features.decode(codes)
        return list(map(str, names))

    def encode(
        self, X: Sentences, y: Sequence[Sequence[Label]] | None = None, *, unknown_labels: str = "mark"
    ) -> Sequences:
        """Encode sentences with the codes of the training data. Attributes that do not occur there are ignored.

        Parameters
        ----------
        X : sequence of sentences
            The sentences, as in `fit`.
        y : sequence of sequences of labels, or None, default: None
            Their labels. None: not known, which is −1.
        unknown_labels : {"mark", "error"}, default: "mark"
            What becomes of a label that does not occur in training: −1, or a DataError that says where it is.

        Returns
        -------
        Sequences

        Examples
        --------
        >>> from fieldfit.chains import AttributeEncoder
        >>> encoder, data = AttributeEncoder.fit([[["the"], ["dog"]], [["a"], ["dog", "last"]]], [["D", "N"], ["D", "N"]])
        >>> encoder.encode([[["the"], ["cat"]]]).indices.tolist()
        [0]
        """
        check_unknown(unknown_labels)
        if isinstance(X, AttributeText):
            table = self.features.encode(X.names, len(X.names))
            rows = X.rows._replace(codes=table[X.rows.codes])
            if y is None:
                return self._sequences(rows, self._text_labels(X, unknown_labels))
        else:
            rows = attribute_rows(X, self.table, grow=False)
        lengths = np.diff(rows.offsets).tolist()
        if y is None:
            return self._sequences(rows, np.full(len(rows.indptr) - 1, UNKNOWN, dtype=np.int32))
        return self._sequences(rows, encode_labels(flatten_labels(y, lengths), lengths, self.labels, unknown_labels))

    def __getstate__(self) -> Plain:
        return {"features": self.features, "labels": self.labels}  # the table is made again

    @cached_property
    def table(self) -> _kernels.NameTable:
        """The names of the attributes, as the kernels look them up."""
        table = _kernels.NameTable()
        table.add(self.feature_names())
        return table

    def _text_labels(self, text: AttributeText, unknown: str) -> Int32Array:
        get = self.labels.codes.get
        codes = np.fromiter((get(label, UNKNOWN) for label in text.labels), np.int32, len(text.labels))
        if unknown == "error":
            for token in np.flatnonzero(codes == UNKNOWN).tolist():
                if text.labels[token] is not None:
                    raise DataError(
                        f"{text.source}, line {text.lines[token]}: the label {text.labels[token]!r:.80} is not one of "
                        f"the {len(self.labels)} labels of the training data."
                    )
        return codes

    def _sequences(self, rows: AttributeRows, labels: Int32Array) -> Sequences:
        codes, values, indptr = rows.codes, rows.values, rows.indptr
        known = codes >= 0
        if not known.all():
            kept = np.zeros(len(codes) + 1, dtype=np.int64)
            np.cumsum(known, out=kept[1:])
            indptr = kept[indptr]
            codes = codes[known]
            values = None if values is None else values[known]
        return Sequences(
            offsets=rows.offsets,
            indptr=indptr,
            indices=codes,
            values=values,
            labels=labels,
            n_features=len(self.features),
            n_labels=len(self.labels),
        )

    def to_arrays(self) -> Arrays:
        """Return the encoder as plain arrays, from which `from_arrays` makes it again.

        Returns
        -------
        dict of ndarray

        Examples
        --------
        >>> from fieldfit.chains import AttributeEncoder
        >>> encoder, data = AttributeEncoder.fit([[["the"], ["dog"]], [["a"], ["dog", "last"]]], [["D", "N"], ["D", "N"]])
        >>> copy = AttributeEncoder.from_arrays(encoder.to_arrays())
        >>> copy.feature_names() == encoder.feature_names()
        True
        """
        arrays: Arrays = {}
        pack_text(arrays, "features", self.feature_names())
        pack_names(arrays, "labels", self.labels)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> AttributeEncoder:
        """Make an encoder from its arrays.

        Parameters
        ----------
        arrays : mapping of ndarray
            What `to_arrays` returned.

        Returns
        -------
        AttributeEncoder

        Examples
        --------
        >>> from fieldfit.chains import AttributeEncoder
        >>> encoder, data = AttributeEncoder.fit([[["the"], ["dog"]], [["a"], ["dog", "last"]]], [["D", "N"], ["D", "N"]])
        >>> list(AttributeEncoder.from_arrays(encoder.to_arrays()).labels)
        ['D', 'N']
        """
        return cls(Alphabet(unpack_text(arrays, "features")), unpack_names(arrays, "labels"))
