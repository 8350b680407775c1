"""What was seen in training: (feature, label) pairs and label transitions. CRFs give weights to these alone."""

from __future__ import annotations

import numpy as np

from fieldfit.data.sequences import Sequences
from fieldfit.types import BoolArray, Int32Array, IntArray

# Up to this many cells a table of flags is both smaller and far faster than sorting the pairs.
_LARGEST_PAIR_TABLE = 1 << 28
#: Tokens whose pairs are listed at a time.
_TOKENS_AT_A_TIME = 1 << 13


def observed_pairs(sequences: Sequences) -> tuple[IntArray, Int32Array]:
    """The labels seen with each feature, as rows: feature f has labels[indptr[f]:indptr[f + 1]], ascending.

    Tokens without a known label add nothing; a feature with value 0 counts as seen, as in CRFsuite.
    Shapes: indptr (n_features + 1,) int64, labels (n_pairs,) int32.
    """
    n_labels = max(sequences.n_labels, 1)
    if sequences.n_features * n_labels <= _LARGEST_PAIR_TABLE:
        seen = np.zeros(sequences.n_features * n_labels, dtype=np.bool_)
        for first in range(0, sequences.n_tokens, _TOKENS_AT_A_TIME):
            seen[_seen_cells(sequences, n_labels, slice(first, first + _TOKENS_AT_A_TIME))] = True
        keys = np.flatnonzero(seen)
    else:
        keys = np.unique(_seen_cells(sequences, n_labels, slice(None)))
    features, labels = np.divmod(keys, n_labels)
    indptr = np.zeros(sequences.n_features + 1, dtype=np.int64)
    np.cumsum(np.bincount(features, minlength=sequences.n_features), out=indptr[1:])
    return indptr, labels.astype(np.int32)


def _seen_cells(sequences: Sequences, n_labels: int, tokens: slice) -> IntArray:
    """feature · n_labels + label of each feature of some tokens whose label is known."""
    labels = sequences.labels[tokens]
    bounds = sequences.indptr[tokens.start : None if tokens.stop is None else tokens.stop + 1]
    token_labels = np.repeat(labels, np.diff(bounds)).astype(np.int64)
    cells = sequences.indices[bounds[0] : bounds[-1]] * np.int64(n_labels) + token_labels
    return cells[token_labels >= 0] if len(labels) and int(labels.min()) < 0 else cells


def observed_transitions(sequences: Sequences) -> BoolArray:
    """(n_labels, n_labels): whether label j was ever seen right after label i in one sentence."""
    seen = np.zeros((sequences.n_labels, sequences.n_labels), dtype=np.bool_)
    if sequences.n_tokens < 2:
        return seen
    inside = np.ones(sequences.n_tokens + 1, dtype=np.bool_)
    inside[sequences.offsets] = False
    before, after = sequences.labels[:-1], sequences.labels[1:]
    known = inside[1:-1] & (before >= 0) & (after >= 0)
    seen[before[known], after[known]] = True
    return seen
