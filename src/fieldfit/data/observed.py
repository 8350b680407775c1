"""What was seen in training: (feature, label) pairs and label transitions. CRFs give weights to these alone."""

from __future__ import annotations

import numpy as np

from fieldfit.data.sequences import Sequences
from fieldfit.types import BoolArray, Int32Array, IntArray

# Up to this many cells a table of flags is both smaller and far faster than sorting the pairs.
_TABLE_LIMIT = 1 << 28


def observed_pairs(sequences: Sequences) -> tuple[IntArray, Int32Array]:
    """The labels seen with each feature, as rows: feature f has labels[indptr[f]:indptr[f + 1]], ascending.

    Tokens without a known label add nothing; a feature with value 0 counts as seen, as in CRFsuite.
    Shapes: indptr (n_features + 1,) int64, labels (n_pairs,) int32.
    """
    n_labels = max(sequences.n_labels, 1)
    token_labels = np.repeat(sequences.labels, np.diff(sequences.indptr)).astype(np.int64)
    keys = sequences.indices * np.int64(n_labels) + token_labels
    if sequences.n_tokens and int(sequences.labels.min()) < 0:
        keys = keys[token_labels >= 0]
    if sequences.n_features * n_labels <= _TABLE_LIMIT:
        seen = np.zeros(sequences.n_features * n_labels, dtype=np.bool_)
        seen[keys] = True
        keys = np.flatnonzero(seen)
    else:
        keys = np.unique(keys)
    features, labels = np.divmod(keys, n_labels)
    indptr = np.zeros(sequences.n_features + 1, dtype=np.int64)
    np.cumsum(np.bincount(features, minlength=sequences.n_features), out=indptr[1:])
    return indptr, labels.astype(np.int32)


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
