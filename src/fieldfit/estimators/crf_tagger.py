"""`CRFTagger`: a linear-chain CRF as a scikit-learn estimator. It takes what sklearn-crfsuite takes, unchanged.

The model and its likelihoods are those of `fieldfit.models.chain_crf`; the fit is `fieldfit.api.fit`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fieldfit.api.files import load
from fieldfit.api.fitting import fit as fit_model
from fieldfit.api.result import Fit
from fieldfit.data.encoders import Encoder
from fieldfit.data.features import preset_names
from fieldfit.estimators.chain_training import chain_model, development_stopping, sigma2_grid, validated_sigma2
from fieldfit.estimators.compaction import compacted
from fieldfit.estimators.sequence_input import learn_sequences
from fieldfit.estimators.sequence_predictor import SequencePredictor
from fieldfit.estimators.settings import seed_of, threads_of
from fieldfit.estimators.transfer import transferred
from fieldfit.estimators.weight_tables import top_features, transition_table
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.optim import Progress
from fieldfit.threads import use_threads
from fieldfit.types import DataError, FileFormatError, ModelError

if TYPE_CHECKING:
    import pandas as pd


class CRFTagger(SequencePredictor, BaseEstimator):  # type: ignore[misc]
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
    check_every : the development data are tagged every so many iterations: a look costs about as much as an iteration
    cv : folds of the cross-validation of sigma2
    random_state : the seed of the selection
    n_jobs : threads (None or −1: all)
    verbose : print each iteration on stderr, as ``fieldfit fit`` does with --progress

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
        check_every: int = 5,
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
        self.check_every = check_every
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
        progress: Callable[[Progress], object] | bool | None = None,
    ) -> CRFTagger:
        """Fit to sentences X with labels y (a file's text brings its labels).

        With ``X_dev`` the fit stops when the metric there no longer rises, and keeps the best θ. ``start`` is a tagger
        (or its Fit) whose weights are the start, matched by the names of features and labels.
        """
        if self.metric not in ("accuracy", "f1"):
            raise ModelError(f"The metric must be 'accuracy' or 'f1'; got {self.metric!r}.")
        if self.patience < 1 or self.check_every < 1:
            raise ModelError(
                f"patience and check_every must be at least 1; got {self.patience} and {self.check_every}."
            )
        seed = seed_of(self.random_state)
        with use_threads(threads_of(self.n_jobs)):
            encoder, sequences = learn_sequences(X, y, self.features, self.min_count)
            everywhere = not self.crfsuite_compatible
            model = chain_model(
                encoder,
                sequences,
                all_pairs=self.all_pairs,
                all_transitions=everywhere if self.all_transitions is None else self.all_transitions,
                start_end=everywhere if self.start_end is None else self.start_end,
            )
            options: dict[str, Any] = {
                "l1": self.l1,
                "weights": self.weights,
                "random_state": seed,
                "tol": self.tol,
                "max_iter": self.max_iter,
            }
            sigma2, grid = self.sigma2, sigma2_grid(self.sigma2)
            if grid is not None:
                sigma2, self.cv_results_ = validated_sigma2(
                    model, sequences, self.policy, grid, self.cv, sample_weight, options
                )
            observed = model.complete(sequences)
            begin = None
            if start is not None:
                begin = transferred(start.fit_ if isinstance(start, CRFTagger) else start, observed)
            stopping = None
            if X_dev is not None:
                stopping = development_stopping(
                    encoder,
                    observed,
                    X_dev,
                    y_dev,
                    metric=self.metric,
                    patience=self.patience,
                    check_every=self.check_every,
                )
            fitted = fit_model(
                observed,
                sequences,
                self.policy,
                sigma2=sigma2,
                start=begin,
                sample_weight=sample_weight,
                progress=self.verbose if progress is None else progress,
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
