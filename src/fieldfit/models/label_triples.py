"""The label triples of a second-order chain as states and arcs.

A state is the pair (y_{t−1}, y_t), an arc the step (a, b) → (b, c): a first-order chain over pairs, with an arc for each
triple that is allowed. Before the first label come two start symbols, and state 0 is the pair of them. A triple has the
code (a (K + 1) + b) K + c, where K stands for the start symbol.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldfit import _kernels
from fieldfit.data.sequences import Sequences
from fieldfit.properties import state_without
from fieldfit.types import Int32Array, IntArray, ModelError, Plain

#: Most arcs of a model: those of 300 labels with every triple allowed.
_MOST_ARCS = 1 << 25


def observed_triples(sequences: Sequences, start: bool) -> IntArray:
    """The codes of all triples of adjacent labels, ascending; with ``start`` also those of the first two labels."""
    K = sequences.n_labels
    labels = sequences.labels.astype(np.int64)
    first = np.zeros(sequences.n_tokens, dtype=np.bool_)
    first[sequences.offsets[:-1][sequences.lengths > 0]] = True
    before = np.full(sequences.n_tokens, K)
    before[1:] = labels[:-1]
    before[first] = K
    twice = np.full(sequences.n_tokens, K)
    twice[1:] = before[:-1]
    twice[first] = K
    known = (labels >= 0) & (before >= 0) & (twice >= 0)
    if not start:
        known &= twice < K
    return np.unique((twice[known] * (K + 1) + before[known]) * K + labels[known])


def every_triple(n_labels: int, start_only: bool = False) -> IntArray:
    """The codes of all triples, ascending; ``start_only``: those with a start symbol."""
    K = n_labels
    if not start_only and K**3 > _MOST_ARCS:
        raise ModelError(
            f"{K} labels have {K**3:,} triples, more than the limit of {_MOST_ARCS:,}. Use "
            "unseen_transitions='forbidden', which needs only the triples that occur, or order=1."
        )
    label = np.arange(K)
    inner = np.arange(0 if start_only else K)
    pairs = (inner[:, None] * (K + 1) + label).ravel()
    starts = K * (K + 1) + np.arange(K + 1)
    return (np.concatenate([pairs, starts])[:, None] * K + label).ravel()


@dataclass(frozen=True, eq=False)
class LabelTriples:
    """The allowed triples (n_arcs,), and what the kernels take.

    ``label`` (n_states,) is the last label of each state, ``pairs`` (K + 1, K + 1) the state of two labels, and
    ``before``, ``after`` (n_arcs,) the states that an arc connects. The arcs are in the order of ``codes``.
    """

    n_labels: int
    codes: IntArray
    label: Int32Array
    pairs: Int32Array
    before: Int32Array
    after: Int32Array

    @classmethod
    def of(cls, n_labels: int, codes: IntArray) -> LabelTriples:
        """The states of these triples, which are ascending."""
        K = n_labels
        left, c = np.divmod(codes, K)
        a, b = np.divmod(left, K + 1)
        # The start is the first state, the others follow in the order of their labels.
        keys = np.unique(np.concatenate([left, b * (K + 1) + c]))
        start = K * (K + 1) + K
        keys = np.concatenate([[start], keys[keys != start]])
        pairs = np.full((K + 1) ** 2, -1, dtype=np.int32)
        pairs[keys] = np.arange(len(keys))
        label = (keys % (K + 1)).astype(np.int32)
        label[0] = -1
        before, after = pairs[a * (K + 1) + b], pairs[b * (K + 1) + c]
        order = np.lexsort((c, before))
        return cls(K, codes[order], label, pairs.reshape(K + 1, K + 1), before[order], after[order])

    def __getstate__(self) -> Plain:
        return state_without(self, "kernel")

    @property
    def n_states(self) -> int:
        """Pairs of labels, and the start."""
        return len(self.label)

    @property
    def n_arcs(self) -> int:
        """Allowed triples."""
        return len(self.codes)

    @property
    def labels(self) -> tuple[IntArray, IntArray, IntArray]:
        """The three labels of each arc; K is the start symbol."""
        left, c = np.divmod(self.codes, self.n_labels)
        a, b = np.divmod(left, self.n_labels + 1)
        return a, b, c

    @property
    def kernel(self) -> _kernels.LabelTriples:
        """The states and arcs as the kernels hold them."""
        held: _kernels.LabelTriples | None = self.__dict__.get("kernel")
        if held is None:
            held = _kernels.LabelTriples(
                n_labels=self.n_labels,
                label=self.label,
                pairs=self.pairs,
                from_state=self.before,
                to_state=self.after,
            )
            self.__dict__["kernel"] = held
        return held

    def step(self, states: IntArray, labels: IntArray) -> IntArray:
        """The arc from each state to each label, −1 where it is forbidden."""
        keys = self.before.astype(np.int64) * self.n_labels + self.label[self.after]
        wanted = states.astype(np.int64) * self.n_labels + labels
        place = np.minimum(np.searchsorted(keys, wanted), max(self.n_arcs - 1, 0))
        arcs: IntArray = np.where(keys[place] == wanted, place, -1)
        return arcs


def triple_name(code: int, n_labels: int, label: Callable[[int], str], start: str = "^") -> str:
    """``a,b->c``, with ``start`` for the start symbol; ``label`` names a label."""
    left, c = divmod(code, n_labels)
    a, b = (start if part == n_labels else label(part) for part in divmod(left, n_labels + 1))
    return f"{a},{b}->{label(c)}"
