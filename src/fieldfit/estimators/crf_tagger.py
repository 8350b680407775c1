"""`CRFTagger`: a linear-chain CRF as a scikit-learn estimator. It takes what sklearn-crfsuite takes, unchanged.

The model and its likelihoods are those of `fieldfit.models.chain_crf`; the fit is `fieldfit.api.fit`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fieldfit.api.early_stopping import EarlyStopping
from fieldfit.api.files import load
from fieldfit.api.fitting import fit as fit_model
from fieldfit.api.result import Fit
from fieldfit.api.validation import cross_validate
from fieldfit.data.chunks import chunk_scores
from fieldfit.data.encoders import Encoder, names_of
from fieldfit.data.features import preset_names
from fieldfit.data.label_scores import token_accuracy
from fieldfit.data.sequences import Sequences
from fieldfit.estimators.compaction import compacted
from fieldfit.estimators.sequence_input import encode_sequences, gold_labels, learn_sequences, split_sentences
from fieldfit.estimators.settings import seed_of, threads_of
from fieldfit.estimators.transfer import transferred
from fieldfit.estimators.weight_tables import top_features, transition_table
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.optim import Progress
from fieldfit.threads import use_threads
from fieldfit.types import DataError, FileFormatError, FloatArray, Int32Array, ModelError

if TYPE_CHECKING:
    import pandas as pd

#: The σ² that ``sigma2="cv"`` tries.
SIGMA2_GRID = (0.1, 1.0, 10.0, 100.0)


class CRFTagger(BaseEstimator):  # type: ignore[misc]
    """Linear-chain CRF that maps sentences to label sequences.

    Parameters
    ----------
    policy : what is maximised: "FL" (maximum likelihood), "PL1", a mixture such as "PL1@0.5 + 0.2*FL@0.5"
    sigma2 : variance of the penalty ‖θ‖²/(2σ²) (CRFsuite's c2 is 1/(2σ²)); None is no penalty; "cv" or a list of numbers
        chooses by cross-validation, see ``sigma2_`` and ``cv_results_``
    l1 : weight of Σ|θ| (CRFsuite's c1)
    weights : β for each term of the policy, or "auto"
    features : for sentences of words or columns: a preset ("tagger", "conll2000"), "columns", templates or their file
    min_count : features of fewer tokens are left out
    all_pairs : weights for every (feature, label) pair and not only for those seen in training
    all_transitions : weights for every pair of labels (None: yes, or no if crfsuite_compatible)
    start_end : weights for the first and the last label (None: yes, or no if crfsuite_compatible)
    crfsuite_compatible : CRFsuite's model exactly
    max_iter, tol : when the optimiser stops; tol is the largest gradient entry for each sentence
    metric : what `score` and early stopping measure: "accuracy" (of tokens) or "f1" (of chunks)
    patience : iterations without a better score on the development data before the fit stops
    cv : folds of the cross-validation of sigma2
    random_state : the seed of the selection
    n_jobs : threads (None or −1: all)
    verbose : print each iteration on stderr

    Attributes
    ----------
    fit_ : the `Fit`;  classes_ : the labels;  encoder_ : how input becomes features;  sigma2_ : the σ² that was used
    """

    def __init__(
        self,
        policy: Any = "FL",
        *,
        sigma2: Any = 10.0,
        l1: Any = None,
        weights: Any = None,
        features: Any = None,
        min_count: int = 1,
        all_pairs: bool = False,
        all_transitions: bool | None = None,
        start_end: bool | None = None,
        crfsuite_compatible: bool = False,
        max_iter: int = 1000,
        tol: float = 1e-4,
        metric: str = "accuracy",
        patience: int = 10,
        cv: int = 3,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.policy = policy
        self.sigma2 = sigma2
        self.l1 = l1
        self.weights = weights
        self.features = features
        self.min_count = min_count
        self.all_pairs = all_pairs
        self.all_transitions = all_transitions
        self.start_end = start_end
        self.crfsuite_compatible = crfsuite_compatible
        self.max_iter = max_iter
        self.tol = tol
        self.metric = metric
        self.patience = patience
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # --- training -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        X_dev: Any = None,
        y_dev: Any = None,
        *,
        sample_weight: Any = None,
        start: CRFTagger | Fit | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> CRFTagger:
        """Fit to sentences X with labels y (a file's text brings its labels).

        With ``X_dev`` the fit stops when the metric there no longer rises, and keeps the best θ. ``start`` is a tagger
        (or its Fit) whose weights are the start, matched by the names of features and labels.
        """
        if self.metric not in ("accuracy", "f1"):
            raise ModelError(f"The metric must be 'accuracy' or 'f1'; got {self.metric!r}.")
        seed = seed_of(self.random_state)
        with use_threads(threads_of(self.n_jobs)):
            encoder, sequences = learn_sequences(X, y, self.features, self.min_count)
            model = self._model(encoder, sequences)
            options: dict[str, Any] = {
                "l1": self.l1,
                "weights": self.weights,
                "random_state": seed,
                "tol": self.tol,
                "max_iter": self.max_iter,
            }
            sigma2 = self._chosen_sigma2(model, sequences, options)
            observed = model.complete(sequences)
            begin = None
            if start is not None:
                begin = transferred(start.fit_ if isinstance(start, CRFTagger) else start, observed)
            stopping = None if X_dev is None else self._stopping(encoder, observed, X_dev, y_dev)
            fitted = fit_model(
                observed,
                sequences,
                self.policy,
                sigma2=sigma2,
                start=begin,
                sample_weight=sample_weight,
                progress=self._progress(progress),
                stopping=stopping,
                **options,
            )
        self.sigma2_ = sigma2
        self._adopt(replace(fitted, encoder=encoder))
        if stopping is not None:
            self.development_scores_ = stopping.history
        return self

    def _adopt(self, fitted: Fit) -> None:
        self.fit_ = fitted
        self.encoder_: Encoder = self._needed(fitted.encoder)
        self.classes_ = list(self.encoder_.labels)
        self.n_iter_ = fitted.iterations

    @staticmethod
    def _needed(encoder: Encoder | None) -> Encoder:
        if encoder is None:
            raise FileFormatError(
                "This fit has no encoder, so it cannot read sentences: save it with CRFTagger.save."
            )
        return encoder

    def _model(self, encoder: Encoder, sequences: Sequences) -> ChainCRF:
        everywhere = not self.crfsuite_compatible
        transitions = everywhere if self.all_transitions is None else self.all_transitions
        ends = everywhere if self.start_end is None else self.start_end
        labels, names = names_of(encoder)
        pairs = range(encoder.n_features, sequences.n_features)
        without = getattr(getattr(encoder, "spec", None), "transitions", True) is False
        return ChainCRF(
            sequences.n_labels,
            sequences.n_features,
            pairs="all" if self.all_pairs else "observed",
            transitions="none" if without else "all" if transitions else "observed",
            start=ends and not without,
            end=ends and not without,
            label_pairs=pairs if len(pairs) else False,
            state_features=encoder.n_features,
            labels=labels,
            features=names,
        )

    def _chosen_sigma2(self, model: ChainCRF, sequences: Sequences, options: dict[str, Any]) -> Any:
        by_validation = isinstance(self.sigma2, str) and self.sigma2 == "cv"
        if not by_validation and not isinstance(self.sigma2, list | tuple):
            return self.sigma2
        grid = list(SIGMA2_GRID if by_validation else self.sigma2)
        shared = {name: value for name, value in options.items() if name != "random_state"}
        self.cv_results_ = cross_validate(
            model,
            sequences,
            self.policy,
            sigma2=grid,
            folds=self.cv,
            random_state=options["random_state"],
            **shared,
        )
        best = self.cv_results_["sigma2"].iloc[0]
        return None if best is None or best != best else float(best)

    def _stopping(self, encoder: Encoder, model: ChainCRF, X: Any, y: Any) -> EarlyStopping:
        sequences = encode_sequences(encoder, X, y)
        gold = gold_labels(encoder, X, y)
        names = np.array(list(encoder.labels), dtype=object)

        def score(theta: FloatArray) -> float:
            codes = model.predict(theta, sequences)
            if self.metric == "accuracy":  # labels never seen are −1, and so wrong
                return float(np.mean(codes == sequences.labels)) if len(codes) else 0.0
            return chunk_scores(gold, split_sentences(names[codes].tolist(), sequences.offsets)).f1

        return EarlyStopping(score, patience=self.patience)

    def _progress(self, given: Callable[[Progress], object] | None) -> Callable[[Progress], object] | None:
        if given is not None or not self.verbose:
            return given

        def line(state: Progress) -> None:
            print(
                f"iteration {state.iteration:4d}  objective {-state.value:.6f}  gradient {state.gradient_norm:.3g}  "
                f"{state.seconds:.1f} s",
                file=sys.stderr,
            )

        return line

    # --- prediction ---------------------------------------------------------------------------------------------------

    @property
    def model_(self) -> ChainCRF:
        """The fitted chain."""
        check_is_fitted(self, "fit_")
        model = self.fit_.model
        if not isinstance(model, ChainCRF):
            raise ModelError(f"A CRFTagger holds a chain CRF; this fit is of the kind {model.kind!r}.")
        return model

    def _encode(self, X: Any, y: Any = None, unknown_labels: str = "mark") -> Sequences:
        check_is_fitted(self, "fit_")
        return encode_sequences(self.encoder_, X, y, unknown_labels=unknown_labels)

    def _named(self, codes: Int32Array, offsets: Any) -> list[list[Any]]:
        # The names are looked up as a whole: a loop over tokens would take longer than the decoding.
        names = np.array(self.classes_, dtype=object)
        return split_sentences(names[codes].tolist(), offsets)

    def _given(self, given: Any, sequences: Sequences) -> Int32Array | None:
        if given is None:
            return None
        lengths = sequences.lengths.tolist()
        if len(given) != len(lengths):
            raise DataError(f"X has {len(lengths)} sentences, but given has {len(given)}.")
        codes = np.full(sequences.n_tokens, -1, dtype=np.int32)
        place = 0
        for index, (labels, expected) in enumerate(zip(given, lengths, strict=True)):
            if labels is not None and len(labels) != expected:
                raise DataError(f"X[{index}] has {expected} tokens, but given[{index}] has {len(labels)} labels.")
            for position, label in enumerate(labels or ()):
                if label is None:
                    continue
                code = self.encoder_.labels.code(label)
                if code < 0:
                    raise DataError(f"given[{index}][{position}] is {label!r}, not one of the labels of training.")
                codes[place + position] = code
            place += expected
        return codes

    def predict(self, X: Any, *, decoding: str = "viterbi", given: Any = None) -> list[list[Any]]:
        """The labels of each sentence: the best sequence ("viterbi"), or the best label of each token ("posterior").

        ``given`` fixes labels: for each sentence None, or a list with a label or None for each token.
        """
        sequences = self._encode(X)
        if decoding not in ("viterbi", "posterior"):
            raise ModelError(f"decoding must be 'viterbi' or 'posterior'; got {decoding!r}.")
        with use_threads(threads_of(self.n_jobs)):
            decode = self.model_.predict if decoding == "viterbi" else self.model_.posterior_decode
            codes = decode(self.fit_.theta, sequences, self._given(given, sequences))
        return self._named(codes, sequences.offsets)

    def predict_single(self, x: Any) -> list[Any]:
        """The labels of one sentence."""
        return self.predict([x])[0]

    def predict_nbest(self, X: Any, n: int = 5, *, given: Any = None) -> list[list[tuple[list[Any], float]]]:
        """For each sentence its ``n`` most probable label sequences (fewer if it has fewer) with log p(y | x)."""
        sequences = self._encode(X)
        with use_threads(threads_of(self.n_jobs)):
            paths, values = self.model_.n_best(self.fit_.theta, sequences, n, self._given(given, sequences))
        names = np.array([*self.classes_, None], dtype=object)  # −1, the code of no path, is the last
        by_rank = [split_sentences(names[path].tolist(), sequences.offsets) for path in paths]
        return [
            [(by_rank[rank][s], float(values[s, rank])) for rank in range(n) if np.isfinite(values[s, rank])]
            for s in range(sequences.n_sequences)
        ]

    def predict_proba(self, X: Any, *, given: Any = None) -> list[FloatArray]:
        """p(y_t | x) of each sentence as (tokens, labels), the labels in the order of ``classes_``."""
        sequences = self._encode(X)
        with use_threads(threads_of(self.n_jobs)):
            probabilities = self.model_.marginals(self.fit_.theta, sequences, self._given(given, sequences))
        bounds = sequences.offsets.tolist()
        return [probabilities[a:b] for a, b in pairwise(bounds)]

    def predict_marginals(self, X: Any, *, given: Any = None) -> list[list[dict[Any, float]]]:
        """The same as a dict from labels to probabilities for each token, as sklearn-crfsuite gives them."""
        classes = self.classes_ if hasattr(self, "classes_") else []
        return [
            [dict(zip(classes, row, strict=True)) for row in sentence.tolist()]
            for sentence in self.predict_proba(X, given=given)
        ]

    def predict_marginals_single(self, x: Any) -> list[dict[Any, float]]:
        """The marginals of one sentence."""
        return self.predict_marginals([x])[0]

    def edge_marginals(self, X: Any, *, given: Any = None) -> list[FloatArray]:
        """p(y_{t−1}, y_t | x) of each sentence as (tokens, labels, labels); 0 at the first token."""
        sequences = self._encode(X)
        pairs = self.model_.edge_marginals(self.fit_.theta, sequences, self._given(given, sequences))
        bounds = sequences.offsets.tolist()
        return [pairs[a:b] for a, b in pairwise(bounds)]

    def log_likelihood(self, X: Any, y: Any = None) -> FloatArray:
        """log p(y | x) of each sentence (n,); a label that training never saw is refused."""
        sequences = self._encode(X, y, "error")
        with use_threads(threads_of(self.n_jobs)):
            return self.model_.log_likelihood(self.fit_.theta, sequences)

    def score(self, X: Any, y: Any = None) -> float:
        """Token accuracy or chunk F1, by ``metric``; a label that training never saw counts as wrong."""
        check_is_fitted(self, "fit_")
        gold = gold_labels(self.encoder_, X, y)
        predicted = self.predict(X)
        return token_accuracy(gold, predicted) if self.metric == "accuracy" else chunk_scores(gold, predicted).f1

    # --- the weights --------------------------------------------------------------------------------------------------

    def top_features(self, n: int = 20, label: Any = None) -> pd.DataFrame:
        """The ``n`` state weights that are largest in size (of one label): feature, label, weight."""
        code = None
        if label is not None:
            code = self.encoder_.labels.code(label)
            if code < 0:
                raise DataError(f"{label!r} is not one of the labels of training.")
        return top_features(self.model_, self.fit_.theta, n, code)

    def transitions(self) -> pd.DataFrame:
        """The transition weights, from (rows) and to (columns); NaN where the model has none.

        The row ``^`` has the weights of first labels, the column ``$`` those of last ones, if the model has them.
        """
        return transition_table(self.model_, self.fit_.theta)

    def compact(self, threshold: float = 0.0, X: Any = None, y: Any = None) -> CRFTagger:
        """A smaller tagger without the weights of size ``threshold`` or less; ``compaction_`` says what that cost.

        The loss is measured on X and y, or on the training data where the fit still has them.
        """
        if not threshold >= 0:
            raise ModelError(f"The threshold must be at least 0; got {threshold!r}.")
        check_is_fitted(self, "fit_")
        if X is None and self.fit_.dataset is None:
            raise DataError("The training data are not at hand: give X and y, on which the loss is to be measured.")
        sequences = self.fit_.dataset if X is None else self._encode(X, y, "error")
        smaller, report = compacted(self.fit_, self.model_, threshold, sequences)
        tagger = CRFTagger(**self.get_params(deep=False))
        tagger.sigma2_ = getattr(self, "sigma2_", None)
        tagger._adopt(smaller)
        tagger.compaction_ = report
        return tagger

    # --- file ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tagger to a file (no pickle); `ff.load` reads it too, as a Fit."""
        check_is_fitted(self, "fit_")
        self.fit_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CRFTagger:
        """The tagger in a file of `save`, with the parameters that say which model was fitted, how and to what.

        When to stop, what to measure and how many threads to use are not in the file: those have their defaults.
        """
        fitted = load(path)
        if not isinstance(fitted.model, ChainCRF):
            raise FileFormatError(f"{path} holds a model of the kind {fitted.model.kind!r}, not a chain CRF.")
        cls._needed(fitted.encoder)
        model = fitted.model
        sigma2 = float(fitted.sigma2[0]) if fitted.sigma2.size and np.isfinite(fitted.sigma2[0]) else None
        spec = getattr(fitted.encoder, "spec", None)
        tagger = cls(
            str(fitted.policy),
            sigma2=sigma2,
            l1=None if fitted.l1 is None else float(fitted.l1[0]),
            features=None if spec is None else spec.name if spec.name in preset_names() else spec.to_text(),
            all_pairs=model.pairs == "all",
            all_transitions=model.transitions == "all",
            start_end=model.start,
            random_state=fitted.random_state,
        )
        tagger.sigma2_ = sigma2
        tagger._adopt(fitted)
        return tagger

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fit_")
