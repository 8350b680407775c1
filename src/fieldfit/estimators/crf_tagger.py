"""`CRFTagger`: a linear-chain CRF as a scikit-learn estimator. It takes what sklearn-crfsuite takes, unchanged.

The model and its likelihoods are those of `fieldfit.models.chain_crf`; the fit is `fieldfit.api.fitting.fit`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from fieldfit.api.checkpoint import Checkpoint
from fieldfit.api.files import load
from fieldfit.api.fitting import fit as fit_model
from fieldfit.api.result import Fit
from fieldfit.api.sharded import as_backend
from fieldfit.arguments import instance_of, number_from_zero, one_of, truth_value, whole_number
from fieldfit.data.encoders import Encoder
from fieldfit.data.features import preset_names
from fieldfit.data.sequences import Sequences
from fieldfit.docstrings import filled
from fieldfit.estimators.chain_training import (
    chain_model,
    completed,
    development_stopping,
    sigma2_grid,
    validated_sigma2,
)
from fieldfit.estimators.compaction import compacted
from fieldfit.estimators.sequence_input import learn_sequences
from fieldfit.estimators.sequence_predictor import TAGGER_EXAMPLE, SequencePredictor
from fieldfit.estimators.settings import seed_from_setting, threads_of
from fieldfit.estimators.weight_tables import top_features, transferred, transition_table, triple_table
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.optim import Progress
from fieldfit.optim.choose import Method
from fieldfit.penalties import ByParameter
from fieldfit.policies import Policy
from fieldfit.shards.backend import Backend
from fieldfit.shards.pieces import Pieces
from fieldfit.threads import use_threads
from fieldfit.types import DataError, FileFormatError, ModelError, Plain
from fieldfit.weights import AutoWeights

if TYPE_CHECKING:
    import pandas as pd


@filled(TAGGER_EXAMPLE)
class CRFTagger(SequencePredictor, BaseEstimator):  # type: ignore[misc]
    """Linear-chain CRF that predicts label sequences. A scikit-learn estimator.

    The input is that of sklearn-crfsuite: each sentence is a list of feature dicts, feature names, words or
    columns.

    Parameters
    ----------
    policy : str or Policy, default: "FL"
        The objective: "FL" (maximum likelihood), "PL1", or a mixture such as "PL1@0.5 + 0.2*FL@0.5".
    sigma2 : float, "cv", list of float or None, default: 10.0
        Variance σ² of the Gaussian penalty ‖θ‖²/(2σ²); CRFsuite's c2 is 1/(2σ²). None: no penalty. "cv" or a list:
        chosen by cross-validation, see ``sigma2_`` and ``cv_results_``.
    l1 : float or None, default: None
        Weight of the penalty Σ|θ| (CRFsuite's c1). None: no penalty.
    weights : sequence of float, "auto", AutoWeights or None, default: None
        Weight β of each term. None: the weights in the policy. "auto": chosen by Algorithm 1.
    features : str, path, templates or None, default: None
        For sentences of words or columns: a preset ("tagger", "chunker", "conll2000"), "columns", CRF++ templates or their
        file. None: the word itself.
    min_count : int, default: 1
        Features that occur in fewer tokens are dropped.
    all_pairs : bool, default: False
        Whether all (feature, label) pairs have weights, or only those that occur in training.
    all_transitions : bool or None, default: None
        Whether all pairs of labels have weights. None: True, or False if ``crfsuite_compatible``.
    start_end : bool or None, default: None
        Whether first and last labels have weights. None: True, or False if ``crfsuite_compatible``.
    order : {1, 2}, default: 1
        2: triples of adjacent labels that occur in training have weights too (a second-order chain).
    unseen_transitions : {"zero", "forbidden"}, default: "zero"
        With ``order=2``, whether other triples have weight 0 or are impossible. "forbidden" is much faster, but a
        sentence may be left without possible labels.
    crfsuite_compatible : bool, default: False
        Use exactly CRFsuite's model.
    method : {"auto", "lbfgs", "newton", "sgd"}, default: "auto"
        The optimiser. "sgd": averaged stochastic gradients, a good tagger in about ten passes over the data; one
        iteration is one pass.
    max_iter : int, default: 1000
        Largest number of iterations.
    tol : float, default: 1e-4
        The optimiser stops when the largest entry of the gradient per sentence is below ``tol``.
    metric : {"accuracy", "f1"}, default: "accuracy"
        What `score` and early stopping measure: accuracy of tokens, or F1 of chunks.
    patience : int, default: 10
        Early stopping: iterations without a better score on the development data.
    check_every : int, default: 5
        Early stopping: iterations between two evaluations on the development data. An evaluation costs about as
        much as an iteration.
    score_tol : float, default: 0.0
        Early stopping: a score counts as better if it is more than ``score_tol`` above the best one before.
    cv : int, default: 3
        Folds of the cross-validation of sigma2.
    random_state : int, RandomState or None, default: 0
        Seed of the selection.
    n_jobs : int or None, default: None
        Number of threads. None or −1: all processors. Results do not depend on it.
    verbose : bool, default: False
        Whether to print each iteration on stderr.

    Attributes
    ----------
    fit_ : Fit
        The fit of the model.
    classes_ : list
        The labels.
    encoder_ : Encoder
        Converts the input to features.
    sigma2_ : float or None
        The penalty that was used.

    Examples
    --------
    >>> import fieldfit as ff
    >>> X = [["the", "dog", "runs"], ["a", "cat", "sleeps"]]
    >>> y = [["D", "N", "V"], ["D", "N", "V"]]
    >>> tagger = ff.CRFTagger(sigma2=1).fit(X, y)
    >>> tagger.predict([["the", "cat", "runs"]])
    [['D', 'N', 'V']]
    """

    def __init__(
        self,
        policy: Policy | str = "FL",
        *,
        sigma2: ByParameter | str = 10.0,
        l1: ByParameter = None,
        weights: Sequence[float] | Literal["auto"] | AutoWeights | None = None,
        features: object = None,
        min_count: int = 1,
        all_pairs: bool = False,
        all_transitions: bool | None = None,
        start_end: bool | None = None,
        order: int = 1,
        unseen_transitions: str = "zero",
        crfsuite_compatible: bool = False,
        method: Method = "auto",
        max_iter: int = 1000,
        tol: float = 1e-4,
        metric: str = "accuracy",
        patience: int = 10,
        check_every: int = 5,
        score_tol: float = 0.0,
        cv: int = 3,
        random_state: object = 0,
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
        self.order = order
        self.unseen_transitions = unseen_transitions
        self.crfsuite_compatible = crfsuite_compatible
        self.method = method
        self.max_iter = max_iter
        self.tol = tol
        self.metric = metric
        self.patience = patience
        self.check_every = check_every
        self.score_tol = score_tol
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # --- training -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: object,
        y: object = None,
        X_dev: object = None,
        y_dev: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        start: CRFTagger | Fit | None = None,
        progress: Callable[[Progress], object] | bool | None = None,
        backend: object = None,
        shards: int | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> CRFTagger:
        """Fit the tagger.

        Parameters
        ----------
        X : list of sentences or SentenceFiles
            Feature dicts, feature names, words, columns or arrays; or the text of a file, which includes the
            labels. `fieldfit.chains.SentenceFiles`: files that are read where they are held, and never brought together.
        y : list of lists or None, default: None
            The labels of each sentence. Not needed if X includes them.
        X_dev : list of sentences or None, default: None
            Development data. If given, the fit stops when the metric on them no longer improves, and keeps the best
            θ.
        y_dev : list of lists or None, default: None
            Labels of the development data.
        sample_weight : array_like or None, default: None
            Weight of each sentence.
        start : CRFTagger, Fit or None, default: None
            Starting values, matched by the names of features and labels. None: 0.
        progress : callable, bool or None, default: None
            True prints each iteration; a function is called with the `Progress`. None: as ``verbose``.
        backend : distributed.Client, Backend or None, default: None
            Where the sentences are evaluated, as in `fieldfit.fit`. None: in this process.
        shards : int or None, default: None
            Number of pieces of the sentences, as in `fieldfit.fit`. With `SentenceFiles` each file is one.
        checkpoint : str, Path, Checkpoint or None, default: None
            File that keeps the state of the fit, as in `fieldfit.fit`. Early stopping is part of the state. The
            finished folds of the cross-validation of sigma2 are in another file, with ``.cv`` at the end of its name.

        Returns
        -------
        CRFTagger
            The tagger itself.

        Examples
        --------
        %(tagger)s
        >>> tagger.classes_
        ['D', 'N', 'V']
        """
        one_of(self.metric, "metric", ("accuracy", "f1"), ModelError)
        for name in ("patience", "check_every"):
            whole_number(getattr(self, name), name, 1, error=ModelError)
        for name in ("all_pairs", "all_transitions", "start_end", "crfsuite_compatible"):
            if getattr(self, name) is not None:
                truth_value(getattr(self, name), name)
        seed = seed_from_setting(self.random_state)
        with use_threads(threads_of(self.n_jobs)):
            place = None if backend is None else as_backend(backend)
            encoder, model, sequences = self.prepare(X, y, backend=place)
            options: Plain = {
                "l1": self.l1,
                "weights": self.weights,
                "random_state": seed,
                "method": self.method,
                "tol": self.tol,
                "max_iter": self.max_iter,
            }
            grid = sigma2_grid(self.sigma2)
            forbids = self.unseen_transitions == "forbidden"
            observed = model
            if start is not None or X_dev is not None or (grid is not None and forbids):
                observed = completed(model, sequences, place)
            if grid is None:
                sigma2 = cast(ByParameter, self.sigma2)
            else:
                # A fold must not forbid what the others have.
                sigma2, self.cv_results_ = validated_sigma2(
                    observed if forbids else model, sequences, self.policy, grid, self.cv, sample_weight, options,
                    checkpoint,
                )  # fmt: skip
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
                    score_tol=self.score_tol,
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
                backend=place,
                shards=shards,
                checkpoint=checkpoint,
                **options,
            )
        self.sigma2_ = sigma2
        self._adopt(replace(fitted, encoder=encoder))
        if stopping is not None:
            self.development_scores_ = stopping.history
        return self

    def prepare(
        self, X: object, y: object = None, *, backend: Backend | None = None
    ) -> tuple[Encoder, ChainCRF, Sequences | Pieces]:
        """Return the encoder, the model and the encoded sentences that `fit` would use, for example for `fieldfit.plan`.

        Parameters
        ----------
        X : list of sentences
            Sentences, as in `fit`.
        y : list of lists or None, default: None
            Labels. Not needed if X includes them.
        backend : Backend or None, default: None
            Where the files of `SentenceFiles` are read. None: in this process.

        Returns
        -------
        encoder : Encoder
        model : ChainCRF
        sequences : Sequences, or Pieces for `SentenceFiles`

        Examples
        --------
        >>> import fieldfit as ff
        >>> X = [["the", "dog", "runs"], ["a", "cat", "sleeps"]]
        >>> y = [["D", "N", "V"], ["D", "N", "V"]]
        >>> encoder, model, sequences = ff.CRFTagger().prepare(X, y)
        >>> model.n_labels, sequences.n_sequences
        (3, 2)
        """
        encoder, sequences = learn_sequences(X, y, self.features, self.min_count, backend)
        everywhere = not self.crfsuite_compatible
        model = chain_model(
            encoder,
            all_pairs=self.all_pairs,
            all_transitions=everywhere if self.all_transitions is None else self.all_transitions,
            start_end=everywhere if self.start_end is None else self.start_end,
            order=self.order,
            unseen_transitions=self.unseen_transitions,
        )
        return encoder, model, sequences

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

    def top_features(self, n: int = 20, label: str | int | None = None) -> pd.DataFrame:
        """List the (feature, label) weights with the largest absolute values.

        Parameters
        ----------
        n : int, default: 20
            Number of weights.
        label : object or None, default: None
            Only weights of this label. None: all labels.

        Returns
        -------
        DataFrame
            With the columns feature, label and weight.

        Examples
        --------
        %(tagger)s
        >>> tagger.top_features(2, "D").round(2)
          feature label  weight
        0     the     D    0.28
        1       a     D    0.28
        """
        n = whole_number(n, "n", 0)
        code = None
        if label is not None:
            code = self.encoder_.labels.code(label)
            if code < 0:
                raise DataError(f"{label!r:.80} is not a label of the training data.")
        return top_features(self.model_, self.fit_.theta, n, code)

    def transitions(self) -> pd.DataFrame:
        """Return the transition weights as a table.

        Returns
        -------
        DataFrame
            Rows are previous labels and columns next labels; NaN if the model has no weight. The row ``^`` has the
            weights of first labels, and the column ``$`` those of last labels. The weights of label triples
            (``order=2``) are in `label_triples`.

        Examples
        --------
        %(tagger)s
        >>> tagger.transitions().loc["D"].round(1).to_dict()
        {'D': -0.2, 'N': 0.8, 'V': -0.3, '$': -0.3}
        """
        return transition_table(self.model_, self.fit_.theta)

    def label_triples(self) -> pd.DataFrame:
        """Return the weights of label triples of a second-order tagger as a table.

        Returns
        -------
        DataFrame
            With the columns before (two labels; ``^`` is the start of a sentence), label and weight.

        Raises
        ------
        ModelError
            If the tagger has ``order=1``.

        Examples
        --------
        >>> import fieldfit as ff
        >>> X = [["the", "dog", "runs"], ["a", "cat", "sleeps"]]
        >>> y = [["D", "N", "V"], ["D", "N", "V"]]
        >>> tagger = ff.CRFTagger(sigma2=1, order=2).fit(X, y)
        >>> tagger.label_triples().round(2)
          before label  weight
        0    D,N     V    0.83
        1    ^,D     N    0.64
        2    ^,^     D    0.44
        """
        return triple_table(self.model_, self.fit_.theta)

    def compact(self, threshold: float = 0.0, X: object = None, y: object = None) -> CRFTagger:
        """Return a smaller tagger without small weights.

        Parameters
        ----------
        threshold : float, default: 0.0
            Weights with an absolute value of at most ``threshold`` are removed.
        X : list of sentences or None, default: None
            Data on which to measure the loss. None: the training data, if the fit still has them.
        y : list of lists or None, default: None
            Labels of X.

        Returns
        -------
        CRFTagger
            ``compaction_`` reports the number of weights and the loss.

        Examples
        --------
        %(tagger)s
        >>> small = tagger.compact(0.3)
        >>> len(small.fit_.theta) < len(tagger.fit_.theta)
        True
        """
        threshold = number_from_zero(threshold, "threshold", ModelError)
        self._check_fitted()
        sequences = self.fit_.dataset if X is None else self._encode(X, y, "error")
        if not isinstance(sequences, Sequences):
            raise DataError("The training data are not available. Give X and y to measure the loss on.")
        smaller, report = compacted(self.fit_, self.model_, threshold, sequences)
        tagger = CRFTagger(**self.get_params(deep=False))
        tagger.sigma2_ = getattr(self, "sigma2_", None)
        tagger._adopt(smaller)
        tagger.compaction_ = report
        return tagger

    # --- file ---------------------------------------------------------------------------------------------------------

    def to_html(self, path: str | os.PathLike[str], *, level: float = 0.95) -> None:
        """Write the report page of the fit: estimates, transitions, data against model, convergence.

        Parameters
        ----------
        path : str or Path
            The file. It is self-contained.
        level : float, default: 0.95
            Coverage of the intervals.

        Examples
        --------
        %(tagger)s
        >>> tagger.to_html("tagger.html")
        """
        self._check_fitted()
        self.fit_.to_html(path, level=level)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the tagger to a file, without pickle. `fieldfit.load` can read it too, as a `Fit`.

        Parameters
        ----------
        path : str or Path
            The file.

        Examples
        --------
        %(tagger)s
        >>> tagger.save("tagger.ff")
        >>> ff.CRFTagger.load("tagger.ff").predict(X) == tagger.predict(X)
        True
        """
        self._check_fitted()
        self.fit_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CRFTagger:
        """Load a tagger that `save` has written.

        The file contains the parameters that define the model and the objective. The stopping rule, the metric and
        the number of threads have their defaults.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        CRFTagger

        Examples
        --------
        %(tagger)s
        >>> tagger.save("tagger.ff")
        >>> ff.CRFTagger.load("tagger.ff").classes_
        ['D', 'N', 'V']
        """
        return cls.from_fit(load(path))

    @classmethod
    def from_fit(cls, fitted: Fit) -> CRFTagger:
        """Make a tagger of a fit that has an encoder.

        Parameters
        ----------
        fitted : Fit
            The fit of a chain CRF, with its encoder.

        Returns
        -------
        CRFTagger

        Examples
        --------
        %(tagger)s
        >>> ff.CRFTagger.from_fit(tagger.fit_).predict([["the", "cat"]])
        [['D', 'N']]
        """
        instance_of(fitted, Fit, "CRFTagger.from_fit needs a Fit")
        model = fitted.model.as_crf("A CRFTagger")
        cls._needed(fitted.encoder)
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
            order=model.order,
            unseen_transitions=model.unseen_transitions,
            method=fitted.convergence.method,
            random_state=fitted.random_state,
        )
        tagger.sigma2_ = sigma2
        tagger._adopt(fitted)
        return tagger

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fit_")
