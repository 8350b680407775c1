"""Best label sequences and marginals of chains, given the scores of their tokens and edges.

A score of −∞ rules a label out; that is how given labels are fixed. All results are in the order of the tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fieldfit import _kernels
from fieldfit.arguments import array_of, whole_number
from fieldfit.models.chain_sampling import sample_labels
from fieldfit.threads import get_threads
from fieldfit.types import DataError, FloatArray, Int32Array, IntArray, Plain

#: Most labels in all paths of `n_best`, which take 8 GB.
_MOST_PATH_LABELS = 1 << 31


def checked_count(count: int, n_tokens: int) -> int:
    """Check the number of best paths of sequences with this many tokens."""
    count = whole_number(count, "The number of paths", 1, error=DataError)
    if count * n_tokens > _MOST_PATH_LABELS:
        raise DataError(
            f"{count:,} paths of {n_tokens:,} tokens have {count * n_tokens:,} labels; the limit is "
            f"{_MOST_PATH_LABELS:,}. Ask for fewer paths, or for fewer sentences at a time."
        )
    return count


@dataclass(frozen=True, eq=False)
class ScoredLabels(ABC):
    """Sequences with the scores of their labels: offsets (n_sequences + 1,), scores (n_tokens, padded).

    The padding has the score −∞.
    """

    offsets: IntArray
    scores: FloatArray
    n_labels: int

    @abstractmethod
    def viterbi(self) -> tuple[Int32Array, FloatArray]:
        """The best path (n_tokens,) and its score (n_sequences,)."""

    @abstractmethod
    def n_best(self, count: int) -> tuple[Int32Array, FloatArray]:
        """The ``count`` best paths (count, n_tokens) and their scores (n_sequences, count), best first."""

    @abstractmethod
    def marginals(self) -> tuple[FloatArray, FloatArray]:
        """p(y_t | x) (n_tokens, n_labels) and log Z (n_sequences,)."""

    @abstractmethod
    def edge_marginals(self) -> FloatArray:
        """p(y_{t−1}, y_t | x) (n_tokens, n_labels, n_labels); 0 at the first token of a sequence."""

    @abstractmethod
    def sample(self, uniforms: FloatArray) -> Int32Array:
        """Draws of the labels of every sequence from a uniform number for each token (n_tokens,)."""

    def fix(self, given: Int32Array) -> Self:
        """The same sequences with the labels ``given`` (n_tokens,) fixed wherever they are not −1."""
        labels = array_of(given)
        if labels.shape != (len(self.scores),) or labels.dtype.kind not in "iu":
            raise DataError(
                f"Given labels must be one integer for each of {len(self.scores)} tokens, −1 where the label is "
                f"free; got {labels.dtype} of shape {labels.shape}."
            )
        if labels.size and not (int(labels.min()) >= -1 and int(labels.max()) < self.n_labels):
            raise DataError(f"Given labels must lie in −1..{self.n_labels - 1}; got {labels.min()}..{labels.max()}.")
        tokens = np.flatnonzero(labels >= 0)
        scores = self.scores.copy()
        kept = scores[tokens, labels[tokens]]
        scores[tokens] = -np.inf
        scores[tokens, labels[tokens]] = kept
        return replace(self, scores=scores)


@dataclass(frozen=True, eq=False)
class ScoredChains(ScoredLabels):
    """Sequences with the scores of their labels and of adjacent labels.

    edges (1, padded, padded) for all tokens or (n_tokens, padded, padded), the scores of the edge into each token.
    """

    edges: FloatArray

    @property
    def _chains(self) -> Plain:
        """The arguments of the kernels. One thread for a few sentences: waking another takes longer than decoding them."""
        threads = get_threads(float(self.scores.size) * self.n_labels)
        return {
            "offsets": self.offsets, "scores": self.scores, "edges": self.edges, "n_labels": self.n_labels,
            "n_threads": threads,
        }  # fmt: skip

    def sample(self, uniforms: FloatArray) -> Int32Array:
        """Draws of the labels, one (n_tokens,) or several (draws, n_tokens): see `chain_sampling`."""
        return sample_labels(self, uniforms)

    def viterbi(self) -> tuple[Int32Array, FloatArray]:
        """The best path (n_tokens,) and its score (n_sequences,); ties go to the smaller label."""
        labels = np.empty(len(self.scores), dtype=np.int32)
        best = np.empty(len(self.offsets) - 1)
        _kernels.chain_viterbi(**self._chains, labels=labels, best=best)
        return labels, best

    def n_best(self, count: int) -> tuple[Int32Array, FloatArray]:
        """The ``count`` best paths (count, n_tokens) and their scores (n_sequences, count), best first.

        A sequence with fewer paths has labels −1 and scores −∞ for the rest.
        """
        count = checked_count(count, len(self.scores))
        labels = np.empty((count, len(self.scores)), dtype=np.int32)
        best = np.empty((len(self.offsets) - 1, count))
        _kernels.chain_n_best(**self._chains, labels=labels, best=best)
        return labels, best

    def marginals(self) -> tuple[FloatArray, FloatArray]:
        """p(y_t | x) (n_tokens, n_labels) and log Z (n_sequences,)."""
        nodes = np.empty_like(self.scores)
        log_z = np.empty(len(self.offsets) - 1)
        _kernels.chain_marginals(**self._chains, nodes=nodes, pairs=None, log_z=log_z)
        return nodes[:, : self.n_labels], log_z

    def edge_marginals(self) -> FloatArray:
        """p(y_{t−1}, y_t | x) (n_tokens, n_labels, n_labels); 0 at the first token of a sequence."""
        nodes = np.empty_like(self.scores)
        pairs = np.empty((*self.scores.shape, self.scores.shape[1]))
        log_z = np.empty(len(self.offsets) - 1)
        _kernels.chain_marginals(**self._chains, nodes=nodes, pairs=pairs, log_z=log_z)
        return np.ascontiguousarray(pairs[:, : self.n_labels, : self.n_labels])
