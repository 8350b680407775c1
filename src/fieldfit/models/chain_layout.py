"""Which weights a linear-chain CRF has, and where they are in θ.

    score(y | x) = Σ_t Σ_f x_tf w(f, y_t) + Σ_t T(y_{t−1}, y_t) + start(y_1) + end(y_T) + Σ_t Σ_f x_tf u(f, y_{t−1}, y_t)

θ = state weights w (feature by feature, then by label: every pair, or those seen), transitions T (row by row), start,
end, weights u of label pairs with features, and for a second-order chain weights U of label triples, which add
Σ_t U(y_{t−2}, y_{t−1}, y_t) to the score. A weight that the layout leaves out is 0, or its triple is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.data.alphabet import LazyNames
from fieldfit.data.sequences import Sequences
from fieldfit.models.label_triples import LabelTriples, every_triple, triple_name
from fieldfit.properties import cached_property
from fieldfit.types import BoolArray, FloatArray, Int32Array, IntArray

LANE = 4
"""Rows of labels are padded to a multiple of this, as in kernels/chain.hpp."""

Weights = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]
"""State, transitions (padded × padded), base, start and end (padded), label-pair columns: what the kernels take."""


@dataclass(frozen=True, eq=False)
class ChainLayout:
    """The weights of a chain over ``n_labels`` labels and ``n_features`` features.

    ``pair_ptr`` (n_features + 1,) and ``pair_labels`` are the labels that have a weight with each feature (None: all).
    ``transition_pairs`` are the pairs i·K + j that have a weight. ``column_ptr`` (n_features + 1,) and
    ``column_pairs`` (i·K + j) are the label pairs that have a weight with each feature (None: none). ``sizes``
    (n_features,) are the powers of two nearest to the largest absolute value of each feature in training (None: all 1).
    ``triples`` are the codes of the label triples that have a weight (None: a first-order chain), ascending; see
    `label_triples`. If ``forbidden``, no other triples are possible; triples with a start symbol are restricted only
    if some of them have a weight.
    """

    n_labels: int
    n_features: int
    transition_pairs: IntArray
    pair_ptr: IntArray | None = None
    pair_labels: Int32Array | None = None
    start: bool = True
    end: bool = True
    column_ptr: IntArray | None = None
    column_pairs: IntArray | None = None
    sizes: FloatArray | None = None
    triples: IntArray | None = None
    forbidden: bool = False

    @property
    def units(self) -> FloatArray | None:
        """The size of the feature behind each weight (r,), in θ's order; None: all are 1."""
        if self.sizes is None:
            return None
        labels = self.n_labels if self.pair_ptr is None else np.diff(self.pair_ptr)
        state = np.repeat(self.sizes, labels)
        columns = np.empty(0) if self.column_ptr is None else np.repeat(self.sizes, np.diff(self.column_ptr))
        units = np.ones(self.n_parameters)
        units[: len(state)] = state
        units[self.bounds[3] : self.bounds[4]] = columns
        return units

    @property
    def padded(self) -> int:
        """The length of a row of labels in the kernels."""
        return -(-self.n_labels // LANE) * LANE

    @property
    def n_state(self) -> int:
        """The number of state weights."""
        return self.n_features * self.n_labels if self.pair_labels is None else len(self.pair_labels)

    @property
    def n_columns(self) -> int:
        """The number of weights of label pairs with features."""
        return 0 if self.column_pairs is None else len(self.column_pairs)

    @cached_property
    def bounds(self) -> tuple[int, int, int, int, int]:
        """Where each block of θ ends: state, transitions, start, end, columns."""
        sizes = (
            self.n_state,
            len(self.transition_pairs),
            self.n_labels * self.start,
            self.n_labels * self.end,
            self.n_columns,
        )
        a, b, c, d, e = np.cumsum(sizes).tolist()
        return a, b, c, d, e

    @property
    def n_parameters(self) -> int:
        """The length of θ."""
        return self.bounds[-1] + (0 if self.triples is None else len(self.triples))

    @cached_property
    def transition_places(self) -> IntArray:
        """The label pairs of transitions as places in a padded matrix."""
        rows, columns = np.divmod(self.transition_pairs, self.n_labels)
        return rows * self.padded + columns

    def selected(self, keep: BoolArray, keep_columns: BoolArray) -> ChainLayout:
        """The layout with the state weights ``keep``, the label pairs with features ``keep_columns`` and all others."""
        if self.pair_ptr is None or self.pair_labels is None:
            rows = keep.reshape(self.n_features, self.n_labels)
            counts, labels = np.count_nonzero(rows, axis=1), np.nonzero(rows)[1].astype(np.int32)
        else:
            counts = np.diff(np.concatenate(([0], np.cumsum(keep)))[self.pair_ptr])
            labels = np.ascontiguousarray(self.pair_labels[keep])
        column_ptr = column_pairs = None
        if self.column_ptr is not None and self.column_pairs is not None and keep_columns.any():
            column_ptr = np.concatenate(([0], np.cumsum(keep_columns)))[self.column_ptr]
            column_pairs = self.column_pairs[keep_columns]
        return replace(
            self,
            pair_ptr=np.concatenate(([0], np.cumsum(counts))),
            pair_labels=labels,
            column_ptr=column_ptr,
            column_pairs=column_pairs,
        )

    def kernel_pairs(self) -> tuple[IntArray | None, Int32Array | None]:
        """``pair_ptr`` and ``pair_labels`` for the kernels; they need lists if there is one label only."""
        if self.pair_ptr is None and self.n_labels == 1:
            return np.arange(self.n_features + 1), np.zeros(self.n_features, np.int32)
        return self.pair_ptr, self.pair_labels

    @cached_property
    def kernel_columns(self) -> Int32Array | None:
        """The label pairs of columns as places in a padded matrix."""
        if self.column_pairs is None:
            return None
        rows, columns = np.divmod(self.column_pairs, self.n_labels)
        return (rows * self.padded + columns).astype(np.int32)

    def unpack(self, theta: FloatArray, direction: bool = False) -> Weights:
        """θ as the kernels take it; a direction has 0 in the padding where weights have −∞."""
        K, padded = self.n_labels, self.padded
        a, b, c, d, e = self.bounds
        transitions = np.zeros((padded, padded))
        transitions.reshape(-1)[self.transition_places] = theta[a:b]
        base = np.zeros(padded)
        if not direction:
            base[K:] = -np.inf
        start, end = np.zeros(padded), np.zeros(padded)
        if self.start:
            start[:K] = theta[b:c]
        if self.end:
            end[:K] = theta[c:d]
        return theta[:a], transitions, base, start, end, theta[d:e]

    def pack(self, gradient: FloatArray, transitions: FloatArray, start: FloatArray, end: FloatArray) -> None:
        """Write the small blocks into a gradient whose state and column blocks are already filled."""
        a, b, c, d, _ = self.bounds
        gradient[a:b] = transitions.reshape(-1)[self.transition_places]
        if self.start:
            gradient[b:c] = start[: self.n_labels]
        if self.end:
            gradient[c:d] = end[: self.n_labels]

    @cached_property
    def arcs(self) -> LabelTriples:
        """The triples that are possible in a second-order chain."""
        assert self.triples is not None
        K = self.n_labels
        if not self.forbidden:
            return LabelTriples.of(K, every_triple(K))
        codes = self.triples
        if not np.any(codes >= K * (K + 1) * K):
            codes = np.concatenate([codes, every_triple(K, start_only=True)])
        return LabelTriples.of(K, codes)

    @cached_property
    def arc_places(self) -> tuple[IntArray, IntArray]:
        """The transition and the triple whose weights each arc has, as places in their blocks of θ; −1: none."""
        assert self.triples is not None
        K = self.n_labels
        _, b, c = self.arcs.labels
        transition = np.full((K + 1) * K, -1)
        transition[self.transition_pairs] = np.arange(len(self.transition_pairs))
        triple = np.full(self.arcs.n_arcs, -1)
        if len(self.triples):
            place = np.minimum(np.searchsorted(self.triples, self.arcs.codes), len(self.triples) - 1)
            triple = np.where(self.triples[place] == self.arcs.codes, place, -1)
        return transition[b * K + c], triple

    def arc_scores(self, theta: FloatArray) -> FloatArray:
        """T(y_{t−1}, y_t) + U(y_{t−2}, y_{t−1}, y_t) of each arc."""
        a, b, _, _, e = self.bounds
        transition, triple = self.arc_places
        scores: FloatArray = np.append(theta[a:b], 0.0)[transition] + np.append(theta[e:], 0.0)[triple]
        return scores

    def pack_arcs(self, gradient: FloatArray, arcs: FloatArray, end: FloatArray) -> None:
        """Write sums over arcs and last labels into a gradient whose state block is already filled."""
        a, b, c, d, e = self.bounds
        transition, triple = self.arc_places
        for block, places in ((gradient[a:b], transition), (gradient[e:], triple)):
            known = places >= 0
            block[:] = np.bincount(places[known], arcs[known], len(block))
        if self.end:
            gradient[c:d] = end[: self.n_labels]

    def state_place(self, index: int) -> tuple[int, int]:
        """Feature and label of a state weight."""
        if self.pair_ptr is None or self.pair_labels is None:
            feature, label = divmod(index, self.n_labels)
            return feature, label
        return int(np.searchsorted(self.pair_ptr, index, side="right")) - 1, int(self.pair_labels[index])


def label_name(labels: Sequence[str] | None, code: int) -> str:
    """The name of a label; labels without names are y0, y1, …"""
    return f"y{code}" if labels is None else str(labels[code])


def end_mark(mark: str, labels: Sequence[str] | None) -> str:
    """``^`` or ``$`` for the start or the end of a sequence, repeated until it differs from all labels."""
    known = set(map(str, labels or ()))
    marked = mark
    while marked in known:
        marked += mark
    return marked


class ChainNames(LazyNames):
    """The names of θ, each created on access: a tagger may have millions."""

    def __init__(self, layout: ChainLayout, labels: Sequence[str] | None, features: Sequence[str] | None) -> None:
        self._layout, self._labels, self._features = layout, labels, features
        self._start, self._end = end_mark("^", labels), end_mark("$", labels)

    def __len__(self) -> int:
        return self._layout.n_parameters

    def _label(self, code: int) -> str:
        return label_name(self._labels, code)

    def _feature(self, code: int) -> str:
        return f"x{code}" if self._features is None else str(self._features[code])

    def at(self, place: int) -> str:
        """State features, transitions, first and last labels, label-pair features, then label triples."""
        layout = self._layout
        a, b, c, d, e = layout.bounds
        if place < a:
            feature, label = layout.state_place(place)
            return f"{self._feature(feature)}:{self._label(label)}"
        if place < b:
            before, after = divmod(int(layout.transition_pairs[place - a]), layout.n_labels)
            return f"{self._label(before)}->{self._label(after)}"
        if place < c:
            return f"{self._start}->{self._label(place - b)}"
        if place < d:
            return f"{self._label(place - c)}->{self._end}"
        if layout.triples is not None and place >= e:
            return triple_name(int(layout.triples[place - e]), layout.n_labels, self._label, self._start)
        assert layout.column_ptr is not None
        assert layout.column_pairs is not None
        column = place - d
        feature = int(np.searchsorted(layout.column_ptr, column, side="right")) - 1
        before, after = divmod(int(layout.column_pairs[column]), layout.n_labels)
        return f"{self._feature(feature)}:{self._label(before)}->{self._label(after)}"


def observed_columns(sequences: Sequences, chosen: IntArray | None) -> tuple[IntArray, IntArray]:
    """The label pairs (i·K + j) seen with each feature: pointer (n_features + 1,) and pairs.

    ``chosen`` are the features that may have label pairs; None: all.
    """
    K = sequences.n_labels
    before = np.full(sequences.n_tokens, -1, dtype=np.int64)
    before[1:] = sequences.labels[:-1]
    before[sequences.offsets[:-1][np.diff(sequences.offsets) > 0]] = -1
    pair = np.where((before >= 0) & (sequences.labels >= 0), before * K + sequences.labels, -1)
    pairs = np.repeat(pair, np.diff(sequences.indptr))
    keep = pairs >= 0
    if chosen is not None:
        allowed = np.zeros(sequences.n_features, dtype=bool)
        allowed[chosen] = True
        keep &= allowed[sequences.indices]
    keys = np.unique(sequences.indices[keep].astype(np.int64) * (K * K) + pairs[keep])
    features, columns = np.divmod(keys, K * K)
    pointer = np.zeros(sequences.n_features + 1, dtype=np.int64)
    np.cumsum(np.bincount(features, minlength=sequences.n_features), out=pointer[1:])
    return pointer, columns


def feature_sizes(dataset: Sequences) -> FloatArray | None:
    """The power of two nearest to the largest absolute value of each feature (n_features,); None where all are 1."""
    largest = largest_values(dataset)
    return None if largest is None else powers_of_two(largest)


def largest_values(dataset: Sequences) -> FloatArray | None:
    """The largest absolute value of each feature (n_features,), 0 where it does not occur; None where all values are 1."""
    if dataset.values is None:
        return None
    largest = np.zeros(dataset.n_features)
    np.maximum.at(largest, dataset.indices, np.abs(dataset.values))
    return largest


def powers_of_two(largest: FloatArray) -> FloatArray | None:
    """The power of two nearest to each value, 1 for 0; None where all are 1."""
    sizes: FloatArray = np.exp2(np.round(np.log2(np.where(largest > 0, largest, 1.0))))
    return sizes if np.any(sizes != 1.0) else None
