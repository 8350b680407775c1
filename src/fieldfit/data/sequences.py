"""Labelled sequences as flat arrays: what every chain model takes, from any file or list.

Token t of sentence s has global index offsets[s] + t. Its features are the sparse row
indices[indptr[i]:indptr[i + 1]] with the values beside them; an index that occurs twice in a row counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import array_of, whole_number, whole_numbers
from fieldfit.data.dataset import Dataset
from fieldfit.properties import cached_property
from fieldfit.types import Array, DataError, FloatArray, Int32Array, IntArray

UNKNOWN = -1
"""The label code of a token whose label is not given or was never seen in training."""


def _frozen(array: ArrayLike, dtype: type[np.int32] | type[np.int64] | type[np.float64], name: str) -> Array:
    """A read-only, contiguous, one-dimensional view of ``array``, refused where a cast would change its numbers."""
    given = array_of(array, name=f"Sequences.{name}")
    if given.dtype == dtype and given.ndim == 1 and given.flags.c_contiguous:
        given = given.view()
        given.flags.writeable = False
        return given
    if given.ndim != 1:
        raise DataError(f"Sequences.{name} must have one dimension; it has shape {given.shape}.")
    if given.size and given.dtype.kind not in ("f" if dtype is np.float64 else "") + "iu":
        raise DataError(f"Sequences.{name} must contain {np.dtype(dtype)} numbers; it contains {given.dtype}.")
    if dtype is np.int32 and given.size and not (int(given.min()) >= -(2**31) and int(given.max()) < 2**31):
        raise DataError(f"Sequences.{name} must fit 32 bits; it reaches {given.max()}.")
    view = np.ascontiguousarray(given, dtype=dtype).view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, eq=False)
class Sequences(Dataset):
    """Sentences of tokens with sparse features and labels.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_sequences + 1,)
        The tokens of sentence s are offsets[s]..offsets[s + 1].
    indptr : ndarray of int64, shape (n_tokens + 1,)
        The features of token i are the entries indptr[i]..indptr[i + 1].
    indices : ndarray of int32, shape (n_entries,)
        Codes of features below ``n_features``.
    values : ndarray of shape (n_entries,), or None
        Finite values of the features. None: every value is 1.
    labels : ndarray of int32, shape (n_tokens,)
        Codes of labels below ``n_labels``; −1 is unknown or not given.
    n_features, n_labels : int
        Numbers of features and of labels.
    sample_weight : ndarray of shape (n_sequences,), or None, default: None
        Weights of whole sentences.
    weight_kind : {"importance", "counts"}, default: "importance"
        What the weights are.
    groups : array_like of shape (n_sequences,), or None, default: None
        Groups of sentences that may depend on each other.

    Examples
    --------
    >>> from fieldfit.chains import Sequences
    >>> data = Sequences([0, 2, 3], [0, 1, 2, 3], [0, 1, 2], None, [0, 1, 0], 3, 2)
    >>> data.n_sequences, data.n_tokens
    (2, 3)
    """

    offsets: IntArray
    indptr: IntArray
    indices: Int32Array
    values: FloatArray | None
    labels: Int32Array
    n_features: int
    n_labels: int

    def __post_init__(self) -> None:
        for name, dtype in (("offsets", np.int64), ("indptr", np.int64), ("indices", np.int32), ("labels", np.int32)):
            object.__setattr__(self, name, _frozen(getattr(self, name), dtype, name))
        for name in ("n_features", "n_labels"):
            number = whole_number(getattr(self, name), f"Sequences.{name}", 0, error=DataError)
            object.__setattr__(self, name, number)
        if self.values is not None:
            object.__setattr__(self, "values", _frozen(self.values, np.float64, "values"))
        _check_pointer(self.offsets, len(self.labels), "offsets", "labels")
        _check_pointer(self.indptr, len(self.indices), "indptr", "indices")
        if len(self.indptr) != len(self.labels) + 1:
            raise DataError(
                f"Sequences.indptr must have one entry more than there are tokens; it has {len(self.indptr)} "
                f"for {len(self.labels)} labels."
            )
        _check_codes(self.indices, 0, self.n_features, "indices", "n_features")
        _check_codes(self.labels, UNKNOWN, self.n_labels, "labels", "n_labels")
        if self.values is not None:
            if len(self.values) != len(self.indices):
                raise DataError(
                    f"Sequences.values must be as long as indices ({len(self.indices)}); it has {len(self.values)}."
                )
            if not np.isfinite(self.values).all():
                entry = int(np.flatnonzero(~np.isfinite(self.values))[0])
                sentence, token = self.locate(int(np.searchsorted(self.indptr, entry, side="right")) - 1)
                raise DataError(
                    f"Feature {self.indices[entry]} of sentence {sentence}, token {token} (counted from 0) is "
                    f"{self.values[entry]}; feature values must be finite numbers."
                )
        super().__post_init__()

    @property
    def n_sequences(self) -> int:
        """The number of sentences."""
        return len(self.offsets) - 1

    @property
    def n(self) -> int:
        """The number of samples: a sample is a sentence."""
        return len(self.offsets) - 1

    @cached_property
    def has_missing(self) -> bool:
        """Whether any label is unknown."""
        return bool((self.labels < 0).any())

    @property
    def n_tokens(self) -> int:
        """The number of tokens in all sentences."""
        return len(self.labels)

    @property
    def lengths(self) -> IntArray:
        """(n_sequences,) tokens of each sentence."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return self.n_sequences

    def locate(self, token: int) -> tuple[int, int]:
        """Find the sentence of a token.

        Parameters
        ----------
        token : int
            Its number, counted over all sentences.

        Returns
        -------
        tuple of int
            The sentence, and the place of the token in it, both counted from 0.

        Examples
        --------
        >>> from fieldfit.chains import Sequences
        >>> data = Sequences([0, 2, 3], [0, 1, 2, 3], [0, 1, 2], None, [0, 1, 0], 3, 2)
        >>> data.locate(2)
        (1, 0)
        """
        sentence = int(np.searchsorted(self.offsets, token, side="right")) - 1
        return sentence, token - int(self.offsets[sentence])

    def weighted(self, sample_weight: ArrayLike | None, weight_kind: str = "importance") -> Sequences:
        """Return the same sentences with other weights.

        Parameters
        ----------
        sample_weight : array_like of shape (n_sequences,), or None
            The weights. None: those that the sentences have.
        weight_kind : {"importance", "counts"}, default: "importance"
            What the weights are.

        Returns
        -------
        Sequences

        Examples
        --------
        >>> from fieldfit.chains import Sequences
        >>> data = Sequences([0, 2, 3], [0, 1, 2, 3], [0, 1, 2], None, [0, 1, 0], 3, 2)
        >>> data.weighted([2, 1]).total_weight
        3.0
        """
        if sample_weight is None:
            return self
        return replace(self, sample_weight=array_of(sample_weight, name="sample_weight"), weight_kind=weight_kind)

    def recode(self, codes: ArrayLike, n_features: int) -> Sequences:
        """Return the same sequences with other feature codes.

        Parameters
        ----------
        codes : array_like of int, shape (n_features,)
            The new code of each feature; −1 removes it from all tokens. Several features may get one code.
        n_features : int
            The number of new codes.

        Returns
        -------
        Sequences

        Examples
        --------
        >>> from fieldfit.chains import Sequences
        >>> data = Sequences([0, 2], [0, 2, 3], [0, 1, 2], None, [0, 1], 3, 2)
        >>> data.recode([0, -1, 1], 2).indices.tolist()
        [0, 1]
        """
        new, count = whole_numbers(codes, "codes"), whole_number(n_features, "n_features", 0, error=DataError)
        if new.shape != (self.n_features,):
            raise DataError(
                f"codes has shape {new.shape}; it must have one code for each of {self.n_features} features."
            )
        if new.size and not (int(new.min()) >= -1 and int(new.max()) < min(count, 2**31)):
            raise DataError(f"codes must lie in −1..{min(count, 2**31) - 1}; they reach {new.min()}..{new.max()}.")
        entries = new[self.indices]
        keep = entries >= 0
        pointer = np.concatenate(([0], np.cumsum(keep)))[self.indptr]
        values = None if self.values is None else self.values[keep]
        return replace(self, indptr=pointer, indices=entries[keep].astype(np.int32), values=values, n_features=count)

    def subset(self, rows: ArrayLike) -> Sequences:
        """The sentences ``rows`` (indices, repeats allowed, or a mask) in that order, with the same codes."""
        chosen = np.atleast_1d(array_of(rows, name="rows"))
        if chosen.dtype == np.bool_:
            if chosen.shape != (self.n_sequences,):
                raise DataError(
                    f"A mask needs one entry for each of {self.n_sequences} sentences; got {chosen.shape}."
                )
            chosen = np.flatnonzero(chosen)
        if chosen.size == 0:
            chosen = np.zeros(0, dtype=np.int64)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            raise DataError(f"rows must be a list of sentence numbers; got {chosen.dtype} of shape {chosen.shape}.")
        if chosen.size and not (-self.n_sequences <= int(chosen.min()) and int(chosen.max()) < self.n_sequences):
            raise DataError(f"rows must lie in 0..{self.n_sequences - 1}; they reach {chosen.min()}..{chosen.max()}.")
        chosen = chosen.astype(np.int64) % max(self.n_sequences, 1)
        offsets, tokens = _gather(self.offsets, chosen)
        indptr, entries = _gather(self.indptr, tokens)
        return Sequences(
            offsets=offsets,
            indptr=indptr,
            indices=self.indices[entries],
            values=None if self.values is None else self.values[entries],
            labels=self.labels[tokens],
            n_features=self.n_features,
            n_labels=self.n_labels,
            sample_weight=None if self.sample_weight is None else self.sample_weight[chosen],
            weight_kind=self.weight_kind,
            groups=None if self.groups is None else self.groups[chosen],
        )

    def followed_by(self, others: Sequence[Self]) -> Self:
        """These sentences and those of other datasets with the same codes, all without weights and groups."""
        parts = (self, *others)
        values = [np.ones(len(part.indices)) if part.values is None else part.values for part in parts]
        return replace(
            self,
            offsets=_joined_pointers([part.offsets for part in parts]),
            indptr=_joined_pointers([part.indptr for part in parts]),
            indices=np.concatenate([part.indices for part in parts]),
            values=None if all(part.values is None for part in parts) else np.concatenate(values),
            labels=np.concatenate([part.labels for part in parts]),
        )


def _joined_pointers(pointers: Sequence[IntArray]) -> IntArray:
    """Pointers into arrays that are put one after the other."""
    starts = np.cumsum([0, *(pointer[-1] for pointer in pointers)])
    ends = (pointer[1:] + start for pointer, start in zip(pointers, starts[:-1], strict=True))
    return np.concatenate([starts[:1], *ends])


def _gather(pointer: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """The pointer array of the chosen rows, and the entries they hold in order."""
    lengths = (pointer[1:] - pointer[:-1])[rows]
    result = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(lengths, out=result[1:])
    entries = np.arange(result[-1], dtype=np.int64) + np.repeat(pointer[:-1][rows] - result[:-1], lengths)
    return result, entries


def _check_pointer(pointer: IntArray, total: int, name: str, target: str) -> None:
    if len(pointer) == 0 or pointer[0] != 0 or pointer[-1] != total or (pointer[1:] < pointer[:-1]).any():
        raise DataError(
            f"Sequences.{name} must rise from 0 to the length of {target} ({total}) without falling; "
            f"it has {len(pointer)} entries" + (f" from {pointer[0]} to {pointer[-1]}." if len(pointer) else ".")
        )


def _check_codes(codes: Int32Array, low: int, limit: int, name: str, bound: str) -> None:
    if codes.size and not (low <= int(codes.min()) and int(codes.max()) < limit):
        raise DataError(
            f"Sequences.{name} must lie in {low}..{limit - 1} ({bound} is {limit}); "
            f"they reach {codes.min()}..{codes.max()}."
        )


def as_sequences(dataset: object) -> Sequences:
    """The dataset, which must be sequences; DataError otherwise."""
    if not isinstance(dataset, Sequences):
        raise DataError(f"A chain takes fieldfit.data.sequences.Sequences; got {type(dataset).__name__}.")
    return dataset
