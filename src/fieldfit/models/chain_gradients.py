"""The derivative of a label's probability in a sequence, for its standard error by the delta method.

    p = p_θ(y_t = j | x),    ∇p = p (E[F | y_t = j, x] − E[F | x]),

F the feature counts of the sequence: two passes of forward–backward over one sequence, for any number of parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_curvature import state_columns
from fieldfit.types import DataError, FloatArray, ModelError

if TYPE_CHECKING:
    from fieldfit.models.chain_crf import ChainCRF


def marginal_gradient(
    model: ChainCRF, theta: FloatArray, dataset: Sequences, sequence: int, token: int, label: int
) -> tuple[float, FloatArray]:
    """p(y_token = label | x) of one sequence and its gradient (r,); tokens are counted from 0 within the sequence."""
    layout = model.layout
    if layout.column_ptr is not None:
        raise ModelError("The gradient of a marginal is not available for models with features of label pairs.")
    if not 0 <= sequence < dataset.n:
        raise DataError(f"There are {dataset.n} sequences; got number {sequence}.")
    sentence = dataset.subset(np.array([sequence]))
    if not (0 <= token < sentence.n_tokens and 0 <= label < layout.n_labels):
        raise DataError(
            f"The sequence has {sentence.n_tokens} tokens and the model {layout.n_labels} labels; got token {token}, label "
            f"{label}."
        )
    given = np.full(sentence.n_tokens, -1, dtype=np.int32)
    free = model.expected_counts(theta, sentence, given)
    probability = float(free[0][token, label])
    given[token] = label
    fixed = model.expected_counts(theta, sentence, given)
    nodes, edges = (after - before for after, before in zip(fixed, free, strict=True))
    gradient = np.zeros(layout.n_parameters)
    K = layout.n_labels
    rows = np.repeat(np.arange(sentence.n_tokens), np.diff(sentence.indptr))
    values = np.ones(len(rows)) if sentence.values is None else sentence.values
    for state in range(K):
        places = state_columns(layout, sentence.indices, np.full(len(rows), state, dtype=np.int32))
        known = places >= 0
        np.add.at(gradient, places[known], values[known] * nodes[rows[known], state])
    if layout.triples is not None:
        layout.pack_arcs(gradient, edges, nodes[-1])
        return probability, probability * gradient
    a, b, c, d, _ = layout.bounds
    gradient[a:b] = edges.reshape(-1)[layout.transition_pairs]
    if layout.start:
        gradient[b:c] = nodes[0]
    if layout.end:
        gradient[c:d] = nodes[-1]
    return probability, probability * gradient
