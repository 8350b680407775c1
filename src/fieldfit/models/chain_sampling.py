"""Exact draws of label sequences from scored chains: messages from the end, labels from the start.

    b_t(y) = Σ_y' exp(edge_{t+1}(y, y') + score_{t+1}(y')) b_{t+1}(y'),
    p(y_t | y_{t−1}) ∝ exp(edge_t(y_{t−1}, y_t) + score_t(y_t)) b_t(y_t)

All sequences are processed together, one position at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.types import FloatArray, Int32Array

if TYPE_CHECKING:
    from fieldfit.models.chain_decoding import ScoredChains


def sample_labels(chains: ScoredChains, uniforms: FloatArray) -> Int32Array:
    """Independent draws of the labels of every sequence from a uniform number for each token.

    ``uniforms`` is (n_tokens,) for one draw or (draws, n_tokens) for several, which share the messages; so is the result.
    """
    K = chains.n_labels
    lengths = np.diff(chains.offsets)
    order = np.argsort(-lengths, kind="stable")
    first, lengths = chains.offsets[:-1][order], lengths[order]
    scores = chains.scores[:, :K]
    shared = len(chains.edges) == 1
    # exp(score) with the largest at 1, so that nothing overflows; a constant for each token cancels.
    potentials = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf)) if len(scores) else scores
    edges = chains.edges[:, :K, :K]
    largest = edges.max(axis=(1, 2), keepdims=True)
    transitions = np.exp(edges - largest)
    messages = np.ones((len(scores), K))
    longest = int(lengths[0]) if len(lengths) else 0
    for t in range(longest - 2, -1, -1):
        tokens = first[: int(np.searchsorted(-lengths, -(t + 1), side="left"))] + t  # sequences longer than t + 1
        ahead = potentials[tokens + 1] * messages[tokens + 1]
        message = ahead @ transitions[0].T if shared else np.einsum("syz,sz->sy", transitions[tokens + 1], ahead)
        messages[tokens] = message / message.max(axis=1, keepdims=True)
    potentials *= messages
    drawn = np.zeros((uniforms.size // max(1, len(scores)), len(scores)), dtype=np.int32)
    for labels, uniform in zip(drawn, uniforms.reshape(drawn.shape), strict=True):
        for t in range(longest):
            tokens = first[: int(np.searchsorted(-lengths, -t, side="left"))] + t  # sequences longer than t
            weights = potentials[tokens]
            if t > 0:
                before = labels[tokens - 1]
                weights = weights * (transitions[0][before] if shared else transitions[tokens, before])
            cumulative = np.cumsum(weights, axis=1)
            chosen = (uniform[tokens, None] * cumulative[:, -1:] >= cumulative).sum(axis=1)
            labels[tokens] = np.minimum(chosen, K - 1)
    answer: Int32Array = drawn.reshape(uniforms.shape)
    return answer
