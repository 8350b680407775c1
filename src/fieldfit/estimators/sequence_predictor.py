"""Predictions of a fitted chain CRF for sentences: labels, probabilities, likelihoods and scores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fieldfit.api.result import Fit
from fieldfit.arguments import is_list, one_of, whole_number
from fieldfit.data.chunks import chunk_scores
from fieldfit.data.encoders import Encoder
from fieldfit.data.label_lists import Label
from fieldfit.data.label_scores import token_accuracy
from fieldfit.data.sequences import Sequences
from fieldfit.docstrings import filled
from fieldfit.estimators.sequence_input import encode_sequences, gold_labels, split_sentences
from fieldfit.estimators.settings import threads_of
from fieldfit.estimators.single_sentences import tag_single
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.threads import use_threads
from fieldfit.types import DataError, FloatArray, Int32Array, IntArray, ModelError

#: Known labels of each sentence, or None for none; in a sentence, None for a label that is not known.
GivenLabels = Sequence[Sequence[Label | None] | None] | None


#: What the examples of methods begin with.
TAGGER_EXAMPLE = {
    "tagger": """\
>>> import fieldfit as ff
>>> X = [["the", "dog", "runs"], ["a", "cat", "sleeps"]]
>>> y = [["D", "N", "V"], ["D", "N", "V"]]
>>> tagger = ff.CRFTagger(sigma2=1).fit(X, y)""",
}


@filled(TAGGER_EXAMPLE)
class SequencePredictor:
    """Predictions of an estimator with a fitted chain (``fit_``) and its encoder (``encoder_``)."""

    fit_: Fit
    encoder_: Encoder
    classes_: list[Label]
    n_jobs: int | None
    metric: str

    def _check_fitted(self) -> None:
        if not hasattr(self, "fit_"):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self, "fit_")

    @property
    def model_(self) -> ChainCRF:
        """The fitted chain."""
        self._check_fitted()
        return self.fit_.model.as_crf("CRFTagger")

    def _encode(self, X: object, y: object = None, unknown_labels: str = "mark") -> Sequences:
        self._check_fitted()
        return encode_sequences(self.encoder_, X, y, unknown_labels=unknown_labels)

    def _named(self, codes: Int32Array, offsets: IntArray) -> list[list[Label]]:
        # The names are looked up as a whole: a loop over tokens would take longer than the decoding.
        names = np.array(self.classes_, dtype=object)
        return split_sentences(names[codes].tolist(), offsets)

    def _given(self, given: GivenLabels, sequences: Sequences) -> Int32Array | None:
        if given is None:
            return None
        lengths = sequences.lengths.tolist()
        if not is_list(given):
            raise DataError(
                f"given is {given!r:.80}; it must be a list with None or a list of labels for each sentence."
            )
        if len(given) != len(lengths):
            raise DataError(f"X has {len(lengths)} sentences, but given has {len(given)}.")
        codes = np.full(sequences.n_tokens, -1, dtype=np.int32)
        place = 0
        for index, (labels, expected) in enumerate(zip(given, lengths, strict=True)):
            if labels is not None and not is_list(labels):
                raise DataError(f"given[{index}] is {labels!r:.80}; it must be a list of labels, or None.")
            if labels is not None and len(labels) != expected:
                raise DataError(f"X[{index}] has {expected} tokens, but given[{index}] has {len(labels)} labels.")
            for position, label in enumerate(labels or ()):
                if label is None:
                    continue
                code = self.encoder_.labels.code(label)
                if code < 0:
                    raise DataError(
                        f"given[{index}][{position}] is {label!r:.80}, which is not a label of the training data."
                    )
                codes[place + position] = code
            place += expected
        return codes

    def predict(self, X: object, *, decoding: str = "viterbi", given: GivenLabels = None) -> list[list[Label]]:
        """Predict the labels of each sentence.

        Parameters
        ----------
        X : list of sentences
            Sentences in the form used in `fit`.
        decoding : {"viterbi", "posterior"}, default: "viterbi"
            The best label sequence, or the best label of each token.
        given : list or None, default: None
            Known labels: for each sentence None, or a list with a label or None for each token.

        Returns
        -------
        list of lists
            Labels of each sentence.

        Examples
        --------
        %(tagger)s
        >>> tagger.predict([["the", "cat"]], given=[[None, "V"]])
        [['D', 'V']]
        """
        one_of(decoding, "decoding", ("viterbi", "posterior"), ModelError)
        # scikit-learn's check takes longer than a short sentence; `_encode` makes it where there is no fit.
        if decoding == "viterbi" and given is None and isinstance(X, list) and len(X) == 1 and hasattr(self, "fit_"):
            labels = tag_single(self.fit_, self.encoder_, self.classes_, X[0])
            if labels is not None:
                return [labels]
        sequences = self._encode(X)
        with use_threads(threads_of(self.n_jobs)):
            decode = self.model_.predict if decoding == "viterbi" else self.model_.posterior_decode
            codes = decode(self.fit_.theta, sequences, self._given(given, sequences))
        return self._named(codes, sequences.offsets)

    def predict_single(self, x: object) -> list[Label]:
        """Predict the labels of one sentence.

        Parameters
        ----------
        x : sentence
            One sentence.

        Returns
        -------
        list
            A label for each token.

        Examples
        --------
        %(tagger)s
        >>> tagger.predict_single(["the", "cat"])
        ['D', 'N']
        """
        return self.predict([x])[0]

    def predict_nbest(
        self, X: object, n: int = 5, *, given: GivenLabels = None
    ) -> list[list[tuple[list[Label], float]]]:
        """Find the most probable label sequences of each sentence.

        Parameters
        ----------
        X : list of sentences
            Sentences in the form used in `fit`.
        n : int, default: 5
            Number of sequences. A sentence with fewer possible sequences has fewer.
        given : list or None, default: None
            Known labels: for each sentence None, or a list with a label or None for each token.

        Returns
        -------
        list of lists of (labels, log-probability)
            The most probable sequence first.

        Examples
        --------
        %(tagger)s
        >>> [labels for labels, value in tagger.predict_nbest([["the", "cat"]], 2)[0]]
        [['D', 'N'], ['D', 'V']]
        """
        n = whole_number(n, "n", 1)
        sequences = self._encode(X)
        with use_threads(threads_of(self.n_jobs)):
            paths, values = self.model_.n_best(self.fit_.theta, sequences, n, self._given(given, sequences))
        names = np.array([*self.classes_, None], dtype=object)  # −1, the code of no path, is the last
        by_rank = [split_sentences(names[path].tolist(), sequences.offsets) for path in paths]
        return [
            [(by_rank[rank][s], float(values[s, rank])) for rank in range(n) if np.isfinite(values[s, rank])]
            for s in range(sequences.n_sequences)
        ]

    def predict_proba(self, X: object, *, given: GivenLabels = None) -> list[FloatArray]:
        """Compute the label probabilities p(y_t | x) of each token.

        Parameters
        ----------
        X : list of sentences
            Sentences in the form used in `fit`.
        given : list or None, default: None
            Known labels: for each sentence None, or a list with a label or None for each token.

        Returns
        -------
        list of ndarray of shape (tokens, labels)
            Labels are in the order of ``classes_``.

        Examples
        --------
        %(tagger)s
        >>> tagger.predict_proba([["the", "cat"]])[0].shape
        (2, 3)
        """
        sequences = self._encode(X)
        with use_threads(threads_of(self.n_jobs)):
            probabilities = self.model_.marginals(self.fit_.theta, sequences, self._given(given, sequences))
        bounds = sequences.offsets.tolist()
        return [probabilities[a:b] for a, b in pairwise(bounds)]

    def predict_marginals(self, X: object, *, given: GivenLabels = None) -> list[list[dict[Label, float]]]:
        """Compute the label probabilities as dicts, as sklearn-crfsuite returns them.

        Parameters
        ----------
        X : list of sentences
            Sentences in the form used in `fit`.
        given : list or None, default: None
            Known labels: for each sentence None, or a list with a label or None for each token.

        Returns
        -------
        list of lists of dict
            For each token, a mapping from labels to probabilities.

        Examples
        --------
        %(tagger)s
        >>> sorted(tagger.predict_marginals([["the", "cat"]])[0][0])
        ['D', 'N', 'V']
        """
        classes = self.classes_ if hasattr(self, "classes_") else []
        return [
            [dict(zip(classes, row, strict=True)) for row in sentence.tolist()]
            for sentence in self.predict_proba(X, given=given)
        ]

    def predict_marginals_single(self, x: object) -> list[dict[Label, float]]:
        """Compute the label probabilities of one sentence as dicts.

        Parameters
        ----------
        x : sentence
            One sentence.

        Returns
        -------
        list of dict
            For each token, a mapping from labels to probabilities.

        Examples
        --------
        %(tagger)s
        >>> len(tagger.predict_marginals_single(["the", "cat"]))
        2
        """
        return self.predict_marginals([x])[0]

    def edge_marginals(self, X: object, *, given: GivenLabels = None) -> list[FloatArray]:
        """Compute the probabilities p(y_{t−1}, y_t | x) of adjacent labels.

        Parameters
        ----------
        X : list of sentences
            Sentences in the form used in `fit`.
        given : list or None, default: None
            Known labels: for each sentence None, or a list with a label or None for each token.

        Returns
        -------
        list of ndarray of shape (tokens, labels, labels)
            0 at the first token.

        Examples
        --------
        %(tagger)s
        >>> tagger.edge_marginals([["the", "cat"]])[0].shape
        (2, 3, 3)
        """
        sequences = self._encode(X)
        pairs = self.model_.edge_marginals(self.fit_.theta, sequences, self._given(given, sequences))
        bounds = sequences.offsets.tolist()
        return [pairs[a:b] for a, b in pairwise(bounds)]

    def log_likelihood(self, X: object, y: object = None) -> FloatArray:
        """Compute log p(y | x) of each sentence.

        Parameters
        ----------
        X : list of sentences
            Sentences in the form used in `fit`.
        y : list of lists or None, default: None
            Labels. Not needed if X includes them.

        Returns
        -------
        ndarray of shape (n_sentences,)

        Raises
        ------
        DataError
            If a label did not occur in training.

        Examples
        --------
        %(tagger)s
        >>> tagger.log_likelihood(X, y).shape
        (2,)
        """
        sequences = self._encode(X, y, "error")
        with use_threads(threads_of(self.n_jobs)):
            return self.model_.log_likelihood(self.fit_.theta, sequences)

    def score(self, X: object, y: object = None) -> float:
        """Compute the accuracy of tokens or the F1 of chunks, depending on ``metric``.

        Labels that did not occur in training count as wrong.

        Parameters
        ----------
        X : list of sentences
            Sentences in the form used in `fit`.
        y : list of lists or None, default: None
            Labels. Not needed if X includes them.

        Returns
        -------
        float
            Between 0 and 1.

        Examples
        --------
        %(tagger)s
        >>> tagger.score(X, y)
        1.0
        """
        self._check_fitted()
        gold = gold_labels(self.encoder_, X, y)
        predicted = self.predict(X)
        return token_accuracy(gold, predicted) if self.metric == "accuracy" else chunk_scores(gold, predicted).f1
