"""A sparse factor of a chain's curvature from labels drawn at θ, used to precondition Hessian products.

The Hessian of a window's log-likelihood is −Cov(F) of its features F under p_θ(y_w | y_left, y_right, x). With S draws of
the window's labels and their mean F̄,

    Σ_w β_w Cov(F_w) ≈ XᵀX,    one row √(β_w / (S − 1)) (F_w(y_s) − F̄_w) for each window and draw.

Unlike sums of p(1 − p) over tokens it contains the covariances *between* tokens, which make the Hessian of a chunker
ill-conditioned. Most labels are nearly certain, so most entries of a row cancel and X is very sparse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.chain_decoding import ScoredChains
from fieldfit.models.chain_sampling import sample_labels
from fieldfit.models.chain_segments import Segments
from fieldfit.types import BoolArray, FloatArray, Int32Array, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from fieldfit.data.sequences import Sequences
    from fieldfit.models.chain_layout import ChainLayout
    from fieldfit.models.chain_problem import Windows

#: A factor uses about this many tokens of windows at most. Longer lists are thinned and their weights increased.
_MOST_TOKENS = 2_000_000


def window_factor(
    layout: ChainLayout,
    dataset: Sequences,
    chains: ScoredChains,
    family: Windows,
    row_weight: FloatArray | None,
    draws: int,
    seed: int,
) -> csr_array:
    """X (rows, r) as a sparse matrix for one family; ``chains`` are the scores of all tokens at θ."""
    from scipy import sparse

    segments = Segments(dataset.offsets, family)
    first, length, sequence = segments.first, segments.width, segments.rows
    weight = np.full(len(first), family.beta)
    if row_weight is not None:
        weight = weight * row_weight[sequence]
    keep = (weight > 0) & (length > 0)
    total = int(length[keep].sum())
    if total > _MOST_TOKENS:
        share = _MOST_TOKENS / total
        keep &= np.random.Generator(np.random.Philox(seed)).random(len(keep)) < share
        weight = weight / share
    first, length, sequence, weight = first[keep], length[keep], sequence[keep], weight[keep]
    window = np.repeat(np.arange(len(first)), length)
    place = np.arange(len(window)) - np.repeat(np.cumsum(length) - length, length)
    tokens = np.repeat(first, length) + place
    offsets = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    left = first > dataset.offsets[sequence]
    right = first + length < dataset.offsets[sequence + 1]
    scores = chains.scores[tokens]
    transitions = chains.edges[0]
    labels = dataset.labels
    heads, ends = offsets[:-1], offsets[1:] - 1
    scores[heads[left]] += transitions[labels[first[left] - 1]]
    scores[ends[right]] += transitions[:, labels[(first + length)[right]]].T
    random = np.random.Generator(np.random.Philox([seed, 1]))
    pieces = ScoredChains(offsets, scores, chains.n_labels, chains.edges)
    drawn = sample_labels(pieces, random.random((draws, len(tokens))))
    differ: BoolArray = np.asarray((drawn != drawn[0]).any(axis=0))
    before = np.where(left, labels[first - 1], -1)
    after = np.where(right, labels[np.minimum(first + length, len(labels) - 1)], -1)
    # Only rows of windows with some uncertainty are kept.
    active = np.unique(window[differ])
    line = np.full(len(first), -1)
    line[active] = np.arange(len(active))
    counts = []
    for labels_drawn in drawn:
        rows, columns, values = _changed_features(
            layout, dataset, tokens, differ, labels_drawn, offsets, before, after
        )
        shape = (len(active), layout.n_parameters)
        counts.append(sparse.csr_array((values, (line[window[rows]], columns)), shape=shape))
    summed = counts[0]
    for matrix in counts[1:]:
        summed = summed + matrix
    mean = sparse.csr_array(summed * (1 / draws))
    scale = sparse.diags_array(np.sqrt(weight[active] / (draws - 1)))
    return sparse.csr_array(sparse.vstack([scale @ (matrix - mean) for matrix in counts]))


def _changed_features(
    layout: ChainLayout,
    dataset: Sequences,
    tokens: IntArray,
    differ: BoolArray,
    labels: Int32Array,
    offsets: IntArray,
    before: IntArray,
    after: IntArray,
) -> tuple[IntArray, IntArray, FloatArray]:
    """(index of the token, parameter, value) of all features that involve a token whose label is uncertain."""
    K = layout.n_labels
    a, b, c, _, _ = layout.bounds
    changed = np.flatnonzero(differ)
    counts = np.diff(dataset.indptr)[tokens[changed]]
    rows = np.repeat(changed, counts)
    inside = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    entries = np.repeat(dataset.indptr[:-1][tokens[changed]], counts) + inside
    values = np.ones(len(rows)) if dataset.values is None else dataset.values[entries]
    columns = state_columns(layout, dataset.indices[entries], labels[rows])
    known = columns >= 0
    parts = [(rows[known], columns[known], values[known])]
    head, tail = np.zeros(len(tokens), dtype=bool), np.zeros(len(tokens), dtype=bool)
    head[offsets[:-1]], tail[offsets[1:] - 1] = True, True
    window = np.cumsum(head) - 1
    place = np.full(K * K, -1)
    place[layout.transition_pairs] = np.arange(a, b)

    def add(rows: IntArray, columns: IntArray) -> None:
        known = columns >= 0
        parts.append((rows[known], columns[known], np.ones(int(known.sum()))))

    near = differ.copy()
    near[1:] |= differ[:-1]
    edges = np.flatnonzero(near & ~head)
    add(edges, place[labels[edges - 1] * K + labels[edges]])
    into = np.flatnonzero(differ & head)
    linked = before[window[into]] >= 0
    add(into[linked], place[before[window[into[linked]]] * K + labels[into[linked]]])
    if layout.start:
        add(into[~linked], b + labels[into[~linked]].astype(np.int64))
    out = np.flatnonzero(differ & tail)
    linked = after[window[out]] >= 0
    add(out[linked], place[labels[out[linked]] * K + after[window[out[linked]]]])
    if layout.end:
        add(out[~linked], c + labels[out[~linked]].astype(np.int64))
    joined = [np.concatenate([part[k] for part in parts]) for k in range(3)]
    return joined[0], joined[1], joined[2]


def state_columns(layout: ChainLayout, features: Int32Array, labels: Int32Array) -> IntArray:
    """The index in θ of each (feature, label), −1 without a weight."""
    keys = features.astype(np.int64) * layout.n_labels + labels
    if layout.pair_ptr is None or layout.pair_labels is None:
        return keys
    listed = np.repeat(np.arange(layout.n_features), np.diff(layout.pair_ptr)) * layout.n_labels + layout.pair_labels
    if not len(listed):
        return np.full(len(keys), -1)
    places = np.minimum(np.searchsorted(listed, keys), len(listed) - 1)
    answer: IntArray = np.where(listed[places] == keys, places, -1)
    return answer
