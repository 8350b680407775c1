"""Best label sequences, marginals and draws of second-order chains, given the scores of their tokens and arcs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit import _kernels
from fieldfit.models.chain_decoding import ScoredLabels, checked_count
from fieldfit.models.label_triples import LabelTriples
from fieldfit.threads import get_threads
from fieldfit.types import DataError, FloatArray, Int32Array

#: The whole sequence as a family of windows, in the kernels' form.
_WHOLE = (0, 1.0, None, None, None)


@dataclass(frozen=True, eq=False)
class ScoredTriples(ScoredLabels):
    """Sequences with the scores of their labels and of the arcs between pairs of labels."""

    triples: LabelTriples
    weights: FloatArray

    @property
    def _threads(self) -> int:
        return get_threads(float(len(self.scores)) * self.triples.n_arcs)

    def _possible(self, finite: FloatArray) -> None:
        """Raise an error for sequences without any allowed labelling."""
        if np.all(np.isfinite(finite)):
            return
        sequence = int(np.flatnonzero(~np.isfinite(finite))[0])
        length = int(self.offsets[sequence + 1] - self.offsets[sequence])
        raise DataError(
            f"No labels are possible for sequence {sequence} (counted from 0, {length} tokens): all of them have a label "
            "triple that is forbidden. Use unseen_transitions='zero', or give fewer labels."
        )

    def viterbi(self) -> tuple[Int32Array, FloatArray]:
        """The best path (n_tokens,) and its score (n_sequences,)."""
        paths, best = self.n_best(1)
        self._possible(best[:, 0])
        return paths[0], best[:, 0]

    def n_best(self, count: int) -> tuple[Int32Array, FloatArray]:
        """The ``count`` best paths (count, n_tokens) and their scores (n_sequences, count), best first.

        A sequence with fewer paths has labels −1 and scores −∞ for the rest.
        """
        count = checked_count(count, len(self.scores))
        labels = np.empty((count, len(self.scores)), dtype=np.int32)
        best = np.empty((len(self.offsets) - 1, count))
        _kernels.triple_n_best(
            self.triples.kernel,
            offsets=self.offsets,
            scores=self.scores,
            weights=self.weights,
            labels=labels,
            best=best,
            n_threads=self._threads,
        )
        return labels, best

    def expectations(self, states: FloatArray | None = None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """p(y_t | x) (n_tokens, K), the expected number of each arc (n_arcs,) and log Z (n_sequences,)."""
        nodes = np.empty_like(self.scores)
        arcs = np.empty((1, self.triples.n_arcs))
        values = np.empty(len(self.offsets) - 1)
        _kernels.triple_evaluate(
            self.triples.kernel,
            offsets=self.offsets,
            labels=None,
            scores=self.scores,
            weights=self.weights,
            tangent_scores=None,
            tangent_weights=None,
            families=[_WHOLE],
            row_weight=None,
            squares=False,
            chunk_ptr=np.array([0, len(values)]),
            order=np.arange(len(values)),
            values=values,
            tangents=None,
            residuals=nodes,
            arcs=arcs,
            states=states,
            n_threads=1,
        )
        self._possible(values)
        return -nodes[:, : self.n_labels], -arcs[0], -values

    def marginals(self) -> tuple[FloatArray, FloatArray]:
        """p(y_t | x) (n_tokens, n_labels) and log Z (n_sequences,)."""
        nodes, _, log_z = self.expectations()
        return nodes, log_z

    def edge_marginals(self) -> FloatArray:
        """p(y_{t−1}, y_t | x) (n_tokens, n_labels, n_labels); 0 at the first token of a sequence."""
        K, triples = self.n_labels, self.triples
        states = np.empty((len(self.scores), triples.n_states))
        self.expectations(states)
        result = np.zeros((len(self.scores), K, K))
        place = triples.pairs[:K, :K]
        known = place >= 0
        result[:, known] = states[:, place[known]]
        return result

    def sample(self, uniforms: FloatArray) -> Int32Array:
        """Independent draws of the labels of every sequence from a uniform number for each token (n_tokens,).

        Messages from the end, labels from the start, as in `chain_sampling`.
        """
        from scipy import sparse

        K, triples = self.n_labels, self.triples
        lengths = np.diff(self.offsets)
        order = np.argsort(-lengths, kind="stable")
        first, lengths = self.offsets[:-1][order], lengths[order]
        scores = self.scores[:, :K]
        potentials = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf)) if len(scores) else scores
        factors = np.exp(self.weights - self.weights.max(initial=-np.inf)) if triples.n_arcs else self.weights
        size = triples.n_states
        steps = sparse.csr_array((factors, (triples.after, triples.before)), shape=(size, size))
        messages = np.ones((len(scores), size))
        longest = int(lengths[0]) if len(lengths) else 0
        for t in range(longest - 2, -1, -1):
            tokens = first[: int(np.searchsorted(-lengths, -(t + 1), side="left"))] + t  # longer than t + 1
            ahead = potentials[tokens + 1][:, triples.label] * messages[tokens + 1]
            ahead[:, 0] = 0.0
            message = ahead @ steps
            messages[tokens] = message / message.max(axis=1, keepdims=True)
        labels = np.zeros(len(scores), dtype=np.int32)
        state = np.zeros(len(first), dtype=np.int64)
        following = triples.step(np.repeat(np.arange(size), K), np.tile(np.arange(K), size)).reshape(size, K)
        for t in range(longest):
            count = int(np.searchsorted(-lengths, -t, side="left"))  # sequences longer than t
            tokens = first[:count] + t
            arcs = following[state[:count]]
            after = triples.after[arcs]
            weights = np.where(arcs >= 0, factors[arcs] * np.take_along_axis(messages[tokens], after, axis=1), 0.0)
            cumulative = np.cumsum(weights * potentials[tokens], axis=1)
            chosen = (uniforms[tokens, None] * cumulative[:, -1:] >= cumulative).sum(axis=1)
            chosen = np.minimum(chosen, K - 1)
            labels[tokens] = chosen
            state[:count] = after[np.arange(count), chosen]
        return labels
