"""`PairwiseField`: a pairwise field of discrete variables as a scikit-learn estimator of densities.

Two states make a `BoltzmannMachine`, more a `Potts` model; the fit is `fieldfit.api.fitting.fit`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fieldfit.api.checkpoint import Checkpoint
from fieldfit.api.fitting import fit as fit_model
from fieldfit.api.validation import held_out
from fieldfit.arguments import sequence_of
from fieldfit.data.labels import States
from fieldfit.data.table import read_table
from fieldfit.estimators.settings import seed_from_setting, threads_of
from fieldfit.models.boltzmann import BoltzmannMachine
from fieldfit.models.field import FieldModel
from fieldfit.models.potts import Potts
from fieldfit.optim.solution import DEFAULT_TOL
from fieldfit.penalties import ByParameter
from fieldfit.policies import Policy
from fieldfit.refinement.staged import Staged
from fieldfit.threads import use_threads
from fieldfit.types import Array, DataError, FloatArray
from fieldfit.weights import AutoWeights

#: Different values up to which a column of numbers is taken to be discrete.
_MOST_DISTINCT_VALUES = 256


class PairwiseField(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Joint distribution of discrete columns with pairwise interactions. A scikit-learn density estimator.

    With two states the model is a `BoltzmannMachine`, with more a `Potts` model. Missing values (NaN) are summed
    out.

    Parameters
    ----------
    policy : str or Policy, default: "PL1"
        The objective: "PL1" (pseudo-likelihood), "FL", or a mixture such as "PL1 + 0.2*PL2".
    sigma2 : float or None, default: 10.0
        Variance σ² of the Gaussian penalty ‖θ‖²/(2σ²). None: no penalty.
    l1 : float or None, default: None
        Weight of the penalty Σ|θ|. None: no penalty.
    weights : sequence of float, "auto", AutoWeights or None, default: None
        Weight β of each term. None: the weights in the policy. "auto": chosen by Algorithm 1.
    states : sequence or None, default: None
        Possible values of a column. None: the values in X.
    edges : sequence of pairs or None, default: None
        Pairs of columns that interact. None: all pairs.
    biases : bool, default: True
        Whether each column has its own parameters.
    score_policy : str or Policy, default: "FL"
        What `score_samples` computes. "FL" is the log-likelihood, which needs a narrow graph. "PL1" works for any
        graph.
    max_iter : int, default: 1000
        Largest number of iterations.
    tol : float, default: 1e-6
        The optimiser stops when the largest entry of the gradient per sample is below ``tol``.
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
    model_ : FieldModel
        The fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import fieldfit as ff
    >>> X = np.array([[0, 0], [0, 1], [1, 1], [1, 1], [0, 0]])
    >>> field = ff.PairwiseField().fit(X)
    >>> field.model_.parameter_names
    ['x0:x1', 'x0', 'x1']
    """

    def __init__(
        self,
        policy: Policy | Staged | str = "PL1",
        *,
        sigma2: ByParameter = 10.0,
        l1: ByParameter = None,
        weights: Sequence[float] | Literal["auto"] | AutoWeights | None = None,
        states: Sequence[object] | None = None,
        edges: Iterable[tuple[int, int]] | None = None,
        biases: bool = True,
        score_policy: Policy | str = "FL",
        max_iter: int = 1000,
        tol: float = DEFAULT_TOL,
        random_state: object = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.policy = policy
        self.sigma2 = sigma2
        self.l1 = l1
        self.weights = weights
        self.states = states
        self.edges = edges
        self.biases = biases
        self.score_policy = score_policy
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(
        self,
        X: object,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> PairwiseField:
        """Fit the model.

        Parameters
        ----------
        X : array_like of shape (n, m)
            Samples; NaN is missing.
        y : object, default: None
            Ignored.
        sample_weight : array_like or None, default: None
            Weight of each row.
        checkpoint : str, Path, Checkpoint or None, default: None
            File that keeps the state of the fit, as in `fieldfit.fit`. None: no checkpoint.

        Returns
        -------
        PairwiseField
            The estimator itself.

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.PairwiseField(policy="FL").fit([[0, 0], [0, 1], [1, 1]]).fit_.converged
        True
        """
        table = self._read(X, reset=True)
        states = self._states(table)
        pairs = (
            None if self.edges is None else sequence_of(self.edges, "edges", "a list of pairs of columns, or None")
        )
        model: FieldModel
        if len(states) == 2:
            model = BoltzmannMachine(table.shape[1], pairs, self.biases, (states[0], states[1]))
        else:
            model = Potts(table.shape[1], len(states), pairs, fields=self.biases, states=states)
        with use_threads(threads_of(self.n_jobs)):
            self.fit_ = fit_model(
                model,
                table,
                self.policy,
                sigma2=self.sigma2,
                l1=self.l1,
                weights=self.weights,
                random_state=seed_from_setting(self.random_state),
                sample_weight=sample_weight,
                tol=self.tol,
                max_iter=self.max_iter,
                progress=self.verbose,
                checkpoint=checkpoint,
            )
        self.model_: FieldModel = self.fit_.model.as_field("PairwiseField")
        self.n_iter_ = self.fit_.iterations
        return self

    def _read(self, X: object, reset: bool = False) -> Array:
        array: Array = validate_data(
            self, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan", ensure_min_samples=1
        )
        return array

    def _states(self, table: Array) -> States:
        if self.states is not None:
            return sequence_of(self.states, "states", "a list of states, or None")
        values = np.unique(table[~np.isnan(table)] if table.dtype.kind == "f" else table)
        if np.isinf(values.astype(np.float64)).any():
            raise DataError("X contains an infinite value; values must be finite states, or NaN if missing.")
        if len(values) > _MOST_DISTINCT_VALUES:
            raise DataError(
                f"X has {len(values)} distinct values, too many for states of discrete variables: the limit is "
                f"{_MOST_DISTINCT_VALUES}. Bin the columns first."
            )
        if len(values) < 2:
            raise DataError(f"X has {len(values)} distinct values; a field needs at least 2. Give states=….")
        whole = bool(np.all(values == np.rint(values)))
        return tuple(int(value) if whole else float(value) for value in values)

    def score_samples(self, X: object) -> FloatArray:
        """Compute log p(x) of each row, or the value of ``score_policy``.

        Parameters
        ----------
        X : array_like of shape (n, m)
            Samples; NaN is missing.

        Returns
        -------
        ndarray of shape (n,)

        Examples
        --------
        >>> import fieldfit as ff
        >>> X = [[0, 0], [0, 1], [1, 1], [1, 1]]
        >>> ff.PairwiseField().fit(X).score_samples(X).shape
        (4,)
        """
        check_is_fitted(self, "fit_")
        model = self.model_
        # A few rows to be scored may well lack a column that training had.
        table = read_table(self._read(X), states=model.states, names=model.names, allow_missing_columns=True)
        with use_threads(threads_of(self.n_jobs)):
            return held_out(self.model_, self.fit_.theta, table, self.score_policy)

    log_likelihood = score_samples  # as other estimators call it

    def score(self, X: object, y: object = None) -> float:
        """Compute the mean of `score_samples`.

        Parameters
        ----------
        X : array_like of shape (n, m)
            Samples; NaN is missing.
        y : object, default: None
            Ignored.

        Returns
        -------
        float

        Examples
        --------
        >>> import fieldfit as ff
        >>> X = [[0, 0], [0, 1], [1, 1], [1, 1]]
        >>> round(ff.PairwiseField().fit(X).score(X), 2)
        -1.09
        """
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: object = None) -> Array:
        """Draw samples: exact if the graph is narrow enough, otherwise by Gibbs sampling.

        Parameters
        ----------
        n_samples : int, default: 1
            Number of samples.
        random_state : int, RandomState or None, default: None
            Seed. None: that of the estimator.

        Returns
        -------
        ndarray of shape (n_samples, m)

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.PairwiseField().fit([[0, 0], [0, 1], [1, 1], [1, 1]]).sample(5).shape
        (5, 2)
        """
        check_is_fitted(self, "fit_")
        seed = seed_from_setting(self.random_state if random_state is None else random_state)
        values: Array = self.model_.sample(self.fit_.theta, n_samples, seed).values
        return values
