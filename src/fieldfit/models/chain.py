"""What all models of label sequences share: how they read data, which policies suit them, and how they predict.

A chain model gives scores to the labels of tokens and to pairs (or triples) of adjacent labels (`ScoredLabels`); the
most probable labels and all probabilities given the observations follow from these.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldfit.data.dataset import Dataset
from fieldfit.data.sequences import Sequences, as_sequences
from fieldfit.docstrings import filled
from fieldfit.models.base import Model
from fieldfit.models.chain_decoding import ScoredLabels
from fieldfit.models.chain_outline import KnownSequences, SequenceOutline
from fieldfit.models.chain_problem import Windows, windows_of_selection
from fieldfit.models.cost import SEQUENCE_POLICIES, sequence_flops
from fieldfit.models.problem import Problem
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.policies.structure import Structure
from fieldfit.policies.windows import SequenceStructure
from fieldfit.types import DataError, FloatArray, Int32Array

S = TypeVar("S", bound=np.generic)

#: Most labels, and most features or symbols, of a model. At these limits a matrix of label pairs, or a list of
#: features, takes 2 GB.
MOST_LABELS, MOST_CHAIN_FEATURES = 1 << 14, 1 << 28

SHARED = {
    "theta": "theta : array_like of shape (r,)\n    Parameters.",
    "dataset": "dataset : Sequences\n    Sequences with the model's labels and features.",
    "given": (
        "given : ndarray of shape (n_tokens,) or None, default: None\n"
        "    Known labels, −1 for free tokens. The result is conditional on them."
    ),
    "data": (
        ">>> from fieldfit.data.sequences import Sequences\n"
        ">>> import numpy as np\n"
        ">>> import fieldfit as ff\n"
        ">>> data = Sequences([0, 3, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 0, 2], None, [0, 1, 1, 0, 1], 3, 2)"
    ),
    "crf": ">>> model = ff.ChainCRF(2, 3).observe(data)\n>>> theta = np.arange(model.n_parameters) / 10",
}


@filled(SHARED)
class ChainModel(Model):
    """A model of label sequences: the base class of `ChainCRF` and `BoltzmannChain`."""

    n_labels: int
    #: What a token has besides its label: "features" or "symbols".
    inputs: ClassVar[str]

    @property
    @abstractmethod
    def n_inputs(self) -> int:
        """The number of features or symbols."""

    def sizes(self) -> dict[str, int]:
        """Labels, and features or symbols. The parameters may depend on training data."""
        return {"labels": self.n_labels, self.inputs: self.n_inputs}

    @abstractmethod
    def _problem(self, sequences: Sequences, families: tuple[Windows, ...]) -> Problem:
        """The problem of these windows of the sequences."""

    @abstractmethod
    def _scored(self, theta: FloatArray, sequences: Sequences) -> ScoredLabels:
        """The scores of checked sequences at a checked θ."""

    @property
    def _n_edges(self) -> int:
        """Number of edges between two tokens in a recursion."""
        return self.n_labels**2

    @property
    def _tokens_at_once(self) -> int | None:
        """Number of tokens whose scores are in memory at once; None: all."""
        return None

    # Data -----------------------------------------------------------------------------------------------------------

    def _checked(self, dataset: object) -> Sequences:
        sequences = as_sequences(dataset)
        if sequences.n_labels != self.n_labels or sequences.n_features != self.n_inputs:
            raise DataError(
                f"The sequences have {sequences.n_labels} labels and {sequences.n_features} {self.inputs}, the model "
                f"{self.n_labels} and {self.n_inputs}: encode them with the model's encoder."
            )
        return sequences

    def read(
        self,
        data: object,
        *,
        sample_weight: ArrayLike | str | None = None,
        weight_kind: str = "importance",
        groups: ArrayLike | str | None = None,
    ) -> Sequences:
        """Check the sequences. Encoders in `fieldfit.data` convert raw text and feature dictionaries.

        Parameters
        ----------
        data : Sequences
            Encoded sequences. In a Boltzmann chain each token has one feature, its symbol.
        sample_weight : array_like or None, default: None
            Weight of each sequence.
        weight_kind : {"importance", "counts"}, default: "importance"
            Whether a weight multiplies the log-likelihood of the sequence or is a number of copies.
        groups : array_like or None, default: None
            Group of each sequence, for example its document. Sequences of one group may depend on each other.

        Returns
        -------
        Sequences

        Examples
        --------
        %(data)s
        >>> ff.ChainCRF(2, 3).read(data, sample_weight=[1.0, 2.0]).n_sequences
        2
        """
        sequences = self._checked(data)
        if sequences.n_tokens == 0:
            raise DataError(f"The {sequences.n} sequences have no tokens. Give at least one sequence with a token.")
        return sequences.weighted(sample_weight, weight_kind).grouped(groups)

    def read_piece(self, data: object, *, sample_weight: str | None, weight_kind: str) -> Sequences:
        """The encoded sequences of one piece."""
        if sample_weight is not None:
            raise DataError("Sentences in files have no weights: leave sample_weight out.")
        return self._checked(data)

    def outline(self, dataset: Dataset) -> SequenceOutline:
        """The lengths of the sequences; the weights do not depend on what occurs."""
        return SequenceOutline.of(self._checked(dataset), None)

    def candidate_policies(self, structure: Structure) -> tuple[str, ...]:
        """Windows of one to three tokens, whole sequences drawn at once, and the full likelihood."""
        return SEQUENCE_POLICIES

    def sample_flops(self, bound: BoundPolicy, dataset: Dataset) -> float:
        """The multiply–adds of the textbook recursions for one sequence."""
        return sequence_flops(self.n_labels, self._n_edges, bound, as_sequences(dataset))

    def structure(self, dataset: Dataset) -> SequenceStructure:
        """Return the lengths of the sequences, as policies need them."""
        if isinstance(dataset, KnownSequences):
            return SequenceStructure(dataset.lengths)
        return SequenceStructure(as_sequences(dataset).lengths)

    def compile(self, dataset: Dataset, selection: Selection) -> Problem:
        """Compile sequences and selected windows to read-only arrays."""
        sequences = self._checked(dataset)
        if selection.n != sequences.n_sequences:
            raise DataError(f"The selection is for {selection.n} sequences; there are {sequences.n_sequences}.")
        return self._problem(sequences, tuple(map(windows_of_selection, selection.parts)))

    # Prediction -----------------------------------------------------------------------------------------------------

    def scored(self, theta: FloatArray, dataset: Sequences) -> ScoredLabels:
        """Compute the scores of the labels given the observations, from which all predictions follow.

        Parameters
        ----------
        %(theta)s
        %(dataset)s

        Returns
        -------
        ScoredLabels

        Examples
        --------
        %(data)s
        %(crf)s
        >>> labels, value = model.scored(theta, data).viterbi()
        >>> labels.tolist()
        [1, 1, 1, 1, 1]
        """
        return self._scored(self.check_theta(theta), self._checked(dataset))

    def _blocks(self, theta: FloatArray, dataset: Sequences, given: Int32Array | None) -> Iterator[ScoredLabels]:
        """Yield the scores of all sequences at once, or in blocks if they would not fit in memory."""
        as_sequences(dataset)
        if given is not None and np.shape(given) != (dataset.n_tokens,):
            raise DataError(
                f"There are {dataset.n_tokens} tokens, but the given labels have shape {np.shape(given)}."
            )
        most = dataset.n_tokens if self._tokens_at_once is None else self._tokens_at_once
        first = 0
        while first < dataset.n_sequences or first == 0:
            last = int(np.searchsorted(dataset.offsets, dataset.offsets[first] + most, side="right")) - 1
            last = min(max(last, first + 1), dataset.n_sequences)
            if first == 0 and last == dataset.n_sequences:
                chains = self.scored(theta, dataset)
            else:
                chains = self.scored(theta, dataset.subset(np.arange(first, last)))
            tokens = slice(int(dataset.offsets[first]), int(dataset.offsets[last]))
            yield chains if given is None else chains.fix(np.asarray(given)[tokens])
            first = last
            if last == dataset.n_sequences:
                return

    def _gather(
        self,
        theta: FloatArray,
        dataset: Sequences,
        given: Int32Array | None,
        answer: Callable[[ScoredLabels], NDArray[S]],
    ) -> NDArray[S]:
        return np.concatenate([answer(chains) for chains in self._blocks(theta, dataset, given)])

    def predict(self, theta: FloatArray, dataset: Sequences, given: Int32Array | None = None) -> Int32Array:
        """Find the most probable label sequences by Viterbi's algorithm.

        Parameters
        ----------
        %(theta)s
        %(dataset)s
        %(given)s

        Returns
        -------
        ndarray of shape (n_tokens,)
            Codes of the labels.

        Examples
        --------
        %(data)s
        %(crf)s
        >>> model.predict(theta, data).tolist()
        [1, 1, 1, 1, 1]
        """
        return self._gather(theta, dataset, given, lambda chains: chains.viterbi()[0])

    def marginals(self, theta: FloatArray, dataset: Sequences, given: Int32Array | None = None) -> FloatArray:
        """Compute the label probabilities p(y_t | x) of each token.

        Parameters
        ----------
        %(theta)s
        %(dataset)s
        %(given)s

        Returns
        -------
        ndarray of shape (n_tokens, n_labels)

        Examples
        --------
        %(data)s
        %(crf)s
        >>> model.marginals(theta, data).shape
        (5, 2)
        """
        return self._marginals(theta, dataset, given)

    def _marginals(self, theta: FloatArray, dataset: Sequences, given: Int32Array | None) -> FloatArray:
        return self._gather(theta, dataset, given, lambda chains: chains.marginals()[0])

    def edge_marginals(self, theta: FloatArray, dataset: Sequences, given: Int32Array | None = None) -> FloatArray:
        """Compute the probabilities p(y_{t−1}, y_t | x) of adjacent labels.

        Parameters
        ----------
        %(theta)s
        %(dataset)s
        %(given)s

        Returns
        -------
        ndarray of shape (n_tokens, n_labels, n_labels)
            0 at the first token of a sequence.

        Examples
        --------
        %(data)s
        %(crf)s
        >>> round(float(model.edge_marginals(theta, data)[1].sum()), 6)
        1.0
        """
        return self._gather(theta, dataset, given, lambda chains: chains.edge_marginals())

    def posterior_decode(self, theta: FloatArray, dataset: Sequences, given: Int32Array | None = None) -> Int32Array:
        """Find the most probable label of each token separately.

        Parameters
        ----------
        %(theta)s
        %(dataset)s
        %(given)s

        Returns
        -------
        ndarray of shape (n_tokens,)
            Codes of the labels.

        Examples
        --------
        %(data)s
        %(crf)s
        >>> model.posterior_decode(theta, data).tolist()
        [1, 1, 1, 1, 1]
        """
        best: Int32Array = np.argmax(self.marginals(theta, dataset, given), axis=1).astype(np.int32)
        return best

    def n_best(
        self, theta: FloatArray, dataset: Sequences, count: int, given: Int32Array | None = None
    ) -> tuple[Int32Array, FloatArray]:
        """Find the most probable label sequences.

        Parameters
        ----------
        %(theta)s
        %(dataset)s
        count : int
            Number of sequences.
        %(given)s

        Returns
        -------
        paths : ndarray of shape (count, n_tokens)
            Codes of the labels, the most probable sequence first.
        log_probabilities : ndarray of shape (n_sequences, count)
            log p(path | x), conditional on the given labels.

        Examples
        --------
        %(data)s
        %(crf)s
        >>> paths, values = model.n_best(theta, data, 2)
        >>> paths.shape, values.shape
        ((2, 5), (2, 2))
        """
        labels, values = [], []
        for chains in self._blocks(theta, dataset, given):
            paths, scores = chains.n_best(count)
            labels.append(paths)
            values.append(scores - chains.marginals()[1][:, None])
        return np.concatenate(labels, axis=1), np.concatenate(values)

    def log_likelihood(self, theta: FloatArray, dataset: Sequences) -> FloatArray:
        """Compute the log-likelihood of each sequence: log p(y | x), or log p(x, y | y_0) of a Boltzmann chain.

        A CRF sums unknown labels out.

        Parameters
        ----------
        %(theta)s
        %(dataset)s

        Returns
        -------
        ndarray of shape (n_sequences,)
            0 for an empty sequence.

        Examples
        --------
        %(data)s
        %(crf)s
        >>> model.log_likelihood(theta, data).round(3)
        array([-1.88 , -1.367])
        """
        whole = Windows(0, 1.0, None, None, None)
        return self._problem(self._checked(dataset), (whole,)).row_values(self.check_theta(theta))
