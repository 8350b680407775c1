"""`CRF`: sklearn-crfsuite's estimator with fieldfit's tagger behind it."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator

from fieldfit.api.advice import Advice, advised
from fieldfit.arguments import count_of, one_of, positive_number, whole_number
from fieldfit.compat.sklearn_crfsuite.dump import read_dump
from fieldfit.compat.sklearn_crfsuite.metrics import Labels, flat_accuracy_score
from fieldfit.compat.sklearn_crfsuite.mistakes import MistakeDriven, MistakeRule
from fieldfit.compat.sklearn_crfsuite.sentence_tagger import SentenceTagger
from fieldfit.compat.sklearn_crfsuite.weights_only import fit_of_weights
from fieldfit.data.label_lists import Label
from fieldfit.data.sequences import Sequences
from fieldfit.estimators.chain_training import completed
from fieldfit.estimators.crf_tagger import CRFTagger
from fieldfit.estimators.weight_tables import top_features, transition_table, used_features
from fieldfit.types import Array, DataError, FileAccessError, ModelError, Plain
from fieldfit.words import counted

#: Algorithms of CRFsuite that maximise the penalised likelihood. They have the same optimum.
LIKELIHOOD_ALGORITHMS = ("lbfgs", "l2sgd")
#: Algorithms of CRFsuite that learn from mistakes.
MISTAKE_DRIVEN = {"ap": MistakeRule.PERCEPTRON, "pa": MistakeRule.PASSIVE_AGGRESSIVE, "arow": MistakeRule.AROW}
#: What they are called where a fit says where its weights come from.
_RULE_NAMES = {
    MistakeRule.PERCEPTRON: "averaged perceptron",
    MistakeRule.PASSIVE_AGGRESSIVE: "passive-aggressive updates",
    MistakeRule.AROW: "AROW",
}
#: The parameters of this class in warnings of fits.
_ADVICE = Advice(
    iterations="max_iterations",
    penalty="a penalty (c2)",
    rounding="Check the data for attributes with values of very different sizes.",
)
#: As in CRFsuite, a fit that reaches the ``max_iterations`` that the user gave has done what it was asked for.
_ADVICE_WITH_LIMIT = replace(_ADVICE, limit_is_chosen=True)


class CRF(BaseEstimator):  # type: ignore[misc]
    """Linear-chain CRF with the interface of ``sklearn_crfsuite.CRF``.

    The model and the objective are CRFsuite's: weights for the attributes and transitions that occur in training, and the
    penalty c1·Σ|w| + c2·Σw². The optimiser of the likelihood is fieldfit's, so parameters that steer CRFsuite's are
    accepted and have no effect: num_memories, period, delta, linesearch, max_linesearch, calibration_*, keep_tempfiles and
    trainer_cls. "ap", "pa" and "arow" are CRFsuite's algorithms, with their parameters.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"} or None, default: None
        "lbfgs" (None) and "l2sgd" maximise the penalised likelihood. "ap" (averaged perceptron), "pa" (passive-aggressive)
        and "arow" learn from mistakes and maximise no likelihood: there are no standard errors, and probabilities are not
        calibrated. They visit the sentences in another random order than CRFsuite.
    min_freq : float or None, default: None
        Attributes that occur in fewer tokens are dropped. CRFsuite adds up the values of each pair of attribute and label
        instead, and drops pairs with a negative sum even without ``min_freq``.
    all_possible_states : bool or None, default: None
        Whether all pairs of attribute and label have weights. None: those that occur in training.
    all_possible_transitions : bool or None, default: None
        Whether all pairs of labels have weights. None: those that occur in training.
    c1 : float or None, default: None
        Weight of the L1 penalty. None: 0. With "l2sgd": not allowed.
    c2 : float or None, default: None
        Weight of the squared penalty. None: 1.
    max_iterations : int or None, default: None
        Largest number of iterations; passes over the sentences with "ap", "pa" and "arow". A fit that reaches it does not
        warn; ``tagger.fit_.converged`` says whether it is at the optimum. None: 100 passes, or no limit for practical
        purposes (100,000).
    num_memories, period, delta, linesearch, max_linesearch : object, default: None
        No effect.
    epsilon : float or None, default: None
        With "ap", "pa" and "arow": stop when the mean loss of a pass is below this. None: 0. Otherwise no effect.
    calibration_eta, calibration_rate, calibration_samples : object, default: None
        No effect.
    calibration_candidates, calibration_max_trials : object, default: None
        No effect.
    pa_type : {0, 1, 2} or None, default: None
        With "pa": steps without a limit, of at most c, or with a squared penalty. None: 1.
    c : float or None, default: None
        With "pa": the aggressiveness, which may be infinite. None: 1.
    error_sensitive : bool or None, default: None
        With "pa": whether the margin is the square root of the number of wrong labels instead of 1. None: True.
    averaging : bool or None, default: None
        With "pa": whether the weights are averaged over all visits. None: True.
    variance, gamma : float or None, default: None
        With "arow": the first variance of each weight, and the trade-off between fit and caution. None: 1.
    verbose : bool, default: False
        Whether to print each iteration on stderr.
    model_filename : str, Path or None, default: None
        `fit` saves the model to this file, in fieldfit's format; it overwrites no file in another format. Without a fit,
        predictions use the model in this file: a file of fieldfit, or a text that ``crfsuite dump`` has written.
    keep_tempfiles, trainer_cls : object, default: None
        No effect.

    Attributes
    ----------
    tagger : CRFTagger or None
        The fitted tagger, with standard errors, n-best lists and everything else that fieldfit offers.

    Examples
    --------
    >>> from fieldfit.compat.sklearn_crfsuite import CRF
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]]
    >>> crf = CRF(c1=0.01, c2=0.01).fit(X, [["D", "N"], ["D", "N"]])
    >>> crf.predict(X).tolist()
    [['D', 'N'], ['D', 'N']]
    """

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: object = None,
        epsilon: float | None = None,
        period: object = None,
        delta: object = None,
        linesearch: object = None,
        max_linesearch: object = None,
        calibration_eta: object = None,
        calibration_rate: object = None,
        calibration_samples: object = None,
        calibration_candidates: object = None,
        calibration_max_trials: object = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | os.PathLike[str] | None = None,
        keep_tempfiles: object = False,
        trainer_cls: object = None,
    ) -> None:
        self.algorithm = algorithm
        self.min_freq = min_freq
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.c1 = c1
        self.c2 = c2
        self.max_iterations = max_iterations
        self.num_memories = num_memories
        self.epsilon = epsilon
        self.period = period
        self.delta = delta
        self.linesearch = linesearch
        self.max_linesearch = max_linesearch
        self.calibration_eta = calibration_eta
        self.calibration_rate = calibration_rate
        self.calibration_samples = calibration_samples
        self.calibration_candidates = calibration_candidates
        self.calibration_max_trials = calibration_max_trials
        self.pa_type = pa_type
        self.c = c
        self.error_sensitive = error_sensitive
        self.averaging = averaging
        self.variance = variance
        self.gamma = gamma
        self.verbose = verbose
        self.model_filename = model_filename
        self.keep_tempfiles = keep_tempfiles
        self.trainer_cls = trainer_cls
        self._tagger: CRFTagger | None = None
        self._sentence_tagger: SentenceTagger | None = None

    # --- training -----------------------------------------------------------------------------------------------------

    def fit(self, X: object, y: object, X_dev: object = None, y_dev: object = None) -> CRF:
        """Fit the model.

        Parameters
        ----------
        X : list of sentences
            Each a list of feature dicts or of feature names.
        y : list of lists
            Labels of each sentence.
        X_dev, y_dev : list or None, default: None
            Development data. If given, the fit stops when the accuracy on them no longer improves. "ap", "pa" and "arow" do
            not use them.

        Returns
        -------
        CRF
            The estimator itself.

        Examples
        --------
        >>> from fieldfit.compat.sklearn_crfsuite import CRF
        >>> CRF().fit([[["the"], ["dog"]]], [["D", "N"]]).classes_
        ['D', 'N']
        """
        if (X_dev is None) != (y_dev is None):
            raise DataError("Development data need both X_dev and y_dev.")
        self._refuse_foreign_file()
        algorithm = one_of(
            self.algorithm or "lbfgs", "algorithm", (*LIKELIHOOD_ALGORITHMS, *MISTAKE_DRIVEN), ModelError
        )
        if algorithm in MISTAKE_DRIVEN:
            tagger = self._learn(MISTAKE_DRIVEN[algorithm], X, y)
        else:
            with advised(_ADVICE if self.max_iterations is None else _ADVICE_WITH_LIMIT):
                tagger = CRFTagger(**self._weights(), **self._likelihood(algorithm)).fit(X, y, X_dev, y_dev)
        if self.model_filename is not None:
            tagger.save(self.model_filename)
        self._tagger = tagger
        return self

    def _refuse_foreign_file(self) -> None:
        """Raise an error if `fit` would overwrite a file that fieldfit has not written, such as a dump of CRFsuite."""
        path = self.model_filename
        if path is not None and os.path.exists(path) and os.path.getsize(path) and not zipfile.is_zipfile(path):
            raise FileAccessError(
                f"{path} is not a file of fieldfit, and fit would overwrite it with its model. Give another model_filename "
                "or remove the file. To predict with a dump of CRFsuite, do not call fit."
            )

    def _weights(self) -> Plain:
        """The parameters of the tagger with the same weights."""
        return {
            "min_count": max(1, math.ceil(_not_negative(self.min_freq, "min_freq", 0.0))),
            "all_pairs": bool(self.all_possible_states),
            "all_transitions": bool(self.all_possible_transitions),
            "crfsuite_compatible": True,
        }

    def _likelihood(self, algorithm: str) -> Plain:
        """The parameters of the tagger with the same objective."""
        c1, c2 = _not_negative(self.c1, "c1", 0.0), _not_negative(self.c2, "c2", 1.0)
        iterations = 100_000 if self.max_iterations is None else count_of(self.max_iterations, "max_iterations", 0)
        if c1 and algorithm == "l2sgd":
            raise ModelError("l2sgd has no L1 penalty: use algorithm='lbfgs' with c1.")
        return {
            "sigma2": 1 / (2 * c2) if c2 else None,
            "l1": c1 or None,
            "max_iter": iterations,
            "verbose": bool(self.verbose),
        }

    def _learn(self, rule: MistakeRule, X: object, y: object) -> CRFTagger:
        """The tagger that learns from mistakes."""
        given = {"variance": self.variance, "gamma": self.gamma}
        algorithm = MistakeDriven(
            rule,
            type=1 if self.pa_type is None else whole_number(self.pa_type, "pa_type", 0, 2, error=ModelError),
            c=math.inf if self.c == math.inf else 1.0 if self.c is None else positive_number(self.c, "c"),
            error_sensitive=self.error_sensitive is None or bool(self.error_sensitive),
            averaging=self.averaging is None or bool(self.averaging),
            max_iterations=100 if self.max_iterations is None else count_of(self.max_iterations, "max_iterations", 0),
            epsilon=_not_negative(self.epsilon, "epsilon", 0.0),
            **{name: 1.0 if value is None else positive_number(value, name) for name, value in given.items()},
        )
        began = time.perf_counter()
        encoder, model, sequences = CRFTagger(**self._weights()).prepare(X, y)
        assert isinstance(sequences, Sequences)  # lists of sentences
        model = completed(model, sequences, None)
        tell = (lambda done, loss: print(f"pass {done}: loss {loss:g}", file=sys.stderr)) if self.verbose else None
        theta, passes, interrupted = algorithm.learn(model, sequences, tell)
        message = f"{_RULE_NAMES[rule]}, {counted(passes, 'passes')}: no likelihood was maximised"
        seconds = time.perf_counter() - began
        return CRFTagger.from_fit(
            fit_of_weights(
                model, theta, encoder, message, iterations=passes, seconds=seconds, interrupted=interrupted
            )
        )

    # --- predictions --------------------------------------------------------------------------------------------------

    @property
    def tagger(self) -> CRFTagger | None:
        """The fitted tagger, or the one in ``model_filename``. None without either."""
        if self._tagger is None and self.model_filename is not None:
            if zipfile.is_zipfile(self.model_filename):
                self._tagger = CRFTagger.load(self.model_filename)
            else:
                self._tagger = CRFTagger.from_fit(read_dump(self.model_filename))
        return self._tagger

    @property
    def tagger_(self) -> SentenceTagger | None:
        """The tagger with the methods of ``pycrfsuite.Tagger``; None before `fit`."""
        tagger = self.tagger
        if tagger is None:
            return None
        if self._sentence_tagger is None or self._sentence_tagger.tagger is not tagger:
            self._sentence_tagger = SentenceTagger(tagger)
        return self._sentence_tagger

    def _ready(self) -> CRFTagger:
        if self.tagger is None:
            raise ModelError("This CRF has not been fitted: call fit first, or give a model_filename.")
        return self.tagger

    def predict(self, X: object) -> Array:
        """Predict the labels of each sentence.

        Parameters
        ----------
        X : list of sentences
            Sentences, as in `fit`.

        Returns
        -------
        ndarray of object
            A list of labels for each sentence; with sentences of one length, an array (sentences, tokens).

        Examples
        --------
        >>> from fieldfit.compat.sklearn_crfsuite import CRF
        >>> crf = CRF(c2=0.1).fit([[["the"], ["dog"]]], [["D", "N"]])
        >>> crf.predict([[["dog"]]]).tolist()
        [['N']]
        """
        return np.array(self._ready().predict(X), dtype=object)

    def predict_single(self, xseq: object) -> list[Label]:
        """Predict the labels of one sentence.

        Parameters
        ----------
        xseq : sentence
            One sentence.

        Returns
        -------
        list

        Examples
        --------
        >>> from fieldfit.compat.sklearn_crfsuite import CRF
        >>> crf = CRF(c2=0.1).fit([[["the"], ["dog"]]], [["D", "N"]])
        >>> crf.predict_single([["the"], ["dog"]])
        ['D', 'N']
        """
        return self._ready().predict_single(xseq)

    def predict_marginals(self, X: object) -> Array:
        """Compute the label probabilities of each token.

        Parameters
        ----------
        X : list of sentences
            Sentences, as in `fit`.

        Returns
        -------
        ndarray of object
            For each sentence a list of dicts from labels to probabilities, in an array as in `predict`.

        Examples
        --------
        >>> from fieldfit.compat.sklearn_crfsuite import CRF
        >>> crf = CRF(c2=0.1).fit([[["the"], ["dog"]]], [["D", "N"]])
        >>> sorted(crf.predict_marginals([[["dog"]]])[0][0])
        ['D', 'N']
        """
        return np.array(self._ready().predict_marginals(X), dtype=object)

    def predict_marginals_single(self, xseq: object) -> list[dict[Label, float]]:
        """Compute the label probabilities of each token of one sentence.

        Parameters
        ----------
        xseq : sentence
            One sentence.

        Returns
        -------
        list of dict

        Examples
        --------
        >>> from fieldfit.compat.sklearn_crfsuite import CRF
        >>> crf = CRF(c2=0.1).fit([[["the"], ["dog"]]], [["D", "N"]])
        >>> crf.predict_marginals_single([["dog"]])[0]["N"] > 0.5
        True
        """
        return self._ready().predict_marginals_single(xseq)

    def score(self, X: object, y: Labels) -> float:
        """Compute the accuracy over all tokens.

        Parameters
        ----------
        X : list of sentences
            Sentences, as in `fit`.
        y : list of lists
            True labels.

        Returns
        -------
        float

        Examples
        --------
        >>> from fieldfit.compat.sklearn_crfsuite import CRF
        >>> crf = CRF(c2=0.1).fit([[["the"], ["dog"]]], [["D", "N"]])
        >>> crf.score([[["dog"]]], [["N"]])
        1.0
        """
        return float(flat_accuracy_score(y, self.predict(X)))

    # --- the weights --------------------------------------------------------------------------------------------------

    @property
    def classes_(self) -> list[Label] | None:
        """The labels; None before `fit`."""
        return None if self.tagger is None else self.tagger.classes_

    @property
    def attributes_(self) -> list[str] | None:
        """The attributes with a weight other than 0; None before `fit`."""
        if self.tagger is None:
            return None
        model, theta = self.tagger.model_, self.tagger.fit_.theta
        return used_features(model, theta)

    @property
    def num_attributes_(self) -> int | None:
        """Number of attributes with a weight other than 0; None before `fit`."""
        return None if self.attributes_ is None else len(self.attributes_)

    @property
    def size_(self) -> int | None:
        """Size of the saved model in bytes; None before `fit`."""
        if self.tagger is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.ff"
            self.tagger.save(path)
            return path.stat().st_size

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights of attributes: ``{(attribute, label): weight}``, without those that are 0; None before `fit`."""
        if self.tagger is None:
            return None
        model, theta = self.tagger.model_, self.tagger.fit_.theta
        table = top_features(model, theta, model.layout.n_state, None)
        rows = zip(table["feature"], table["label"], table["weight"], strict=True)
        return {(feature, label): float(weight) for feature, label, weight in rows if weight}

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights of transitions: ``{(from, to): weight}``, without those that are 0; None before `fit`."""
        if self.tagger is None:
            return None
        table = transition_table(self.tagger.model_, self.tagger.fit_.theta)
        return {
            (str(before), str(after)): float(weight)
            for before, row in table.iterrows()
            for after, weight in row.items()
            if np.isfinite(weight) and weight
        }

    def __sklearn_is_fitted__(self) -> bool:
        return self._tagger is not None or self.model_filename is not None


def _not_negative(value: object, name: str, default: float) -> float:
    if value is None:
        return default
    if not isinstance(value, int | float | np.integer | np.floating) or not 0 <= value < math.inf:
        raise ModelError(f"{name} must be a number of at least 0; got {value!r:.80}.")
    return float(value)
