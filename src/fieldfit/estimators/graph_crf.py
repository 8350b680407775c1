"""`GraphCRF`: a conditional random field on any graph as a scikit-learn classifier of its nodes.

The model is a `TiedField`: covariates of the nodes, and one coupling that makes neighbours agree (or not).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fieldfit.api.checkpoint import Checkpoint
from fieldfit.api.fitting import fit as fit_model
from fieldfit.arguments import whole_number, whole_numbers
from fieldfit.estimators.settings import seed_from_setting, threads_of
from fieldfit.models.graphs import grid_edges
from fieldfit.models.tied import TiedField
from fieldfit.optim.solution import DEFAULT_TOL
from fieldfit.penalties import ByParameter
from fieldfit.policies import Policy
from fieldfit.refinement.staged import Staged
from fieldfit.threads import use_threads
from fieldfit.types import Array, DataError, FloatArray, WidthError


class GraphCRF(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Conditional random field on a graph. A scikit-learn classifier of nodes: each row of X is a node.

    Parameters
    ----------
    edges : array_like of int of shape (n_edges, 2) or None, default: None
        Pairs of rows of X that are neighbours. None: those of ``grid``, or no edges, which is logistic regression.
    grid : tuple of two int or None, default: None
        Rows and columns of a grid, whose sites are the rows of X, row by row.
    neighbours : {4, 8}, default: 4
        Neighbours of a site of the grid.
    policy : str or Policy, default: "PL1"
        The objective: "PL1" (pseudo-likelihood), "FL" where the graph is narrow enough, or others such as "PL2(connected)".
    sigma2 : float or None, default: 10.0
        Variance σ² of the Gaussian penalty ‖θ‖²/(2σ²). None: no penalty.
    draws : int, default: 1000
        Gibbs draws for probabilities where the graph is too wide for exact ones.
    max_iter : int, default: 1000
        Largest number of iterations.
    tol : float, default: 1e-6
        The optimiser stops when the largest entry of the gradient is below ``tol``.
    random_state : int, RandomState or None, default: 0
        Seed of the selection and of the draws.
    n_jobs : int or None, default: None
        Number of threads. None or −1: all processors. Results do not depend on it.

    Attributes
    ----------
    fit_ : Fit
        The fit of the model, with standard errors that account for the dependence of neighbours.
    model_ : TiedField
        The model of the training graph.
    classes_ : ndarray
        The labels.

    Examples
    --------
    >>> import numpy as np
    >>> import fieldfit as ff
    >>> model = ff.TiedField.grid(30, 30, np.linspace(-1, 1, 900)[:, None], directions=False)
    >>> y = model.sample([0.0, 1.0, 0.5], 1, random_state=0).values[0]
    >>> crf = ff.GraphCRF(grid=(30, 30)).fit(np.linspace(-1, 1, 900)[:, None], y)
    >>> crf.fit_.parameter_names
    ['bias', 'z0', 'agree']
    """

    def __init__(
        self,
        edges: ArrayLike | None = None,
        *,
        grid: tuple[int, int] | None = None,
        neighbours: int = 4,
        policy: Policy | Staged | str = "PL1",
        sigma2: ByParameter = 10.0,
        draws: int = 1000,
        max_iter: int = 1000,
        tol: float = DEFAULT_TOL,
        random_state: object = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.edges = edges
        self.grid = grid
        self.neighbours = neighbours
        self.policy = policy
        self.sigma2 = sigma2
        self.draws = draws
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: object, y: object, *, checkpoint: str | os.PathLike[str] | Checkpoint | None = None) -> GraphCRF:
        """Fit the model to one labelled graph.

        Parameters
        ----------
        X : array_like of shape (nodes, covariates)
            Covariates of the nodes.
        y : array_like of shape (nodes,)
            Label of each node.
        checkpoint : str, Path, Checkpoint or None, default: None
            File that keeps the state of the fit, as in `fieldfit.fit`. None: no checkpoint.

        Returns
        -------
        GraphCRF
            The estimator itself.

        Examples
        --------
        >>> import fieldfit as ff
        >>> crf = ff.GraphCRF([(0, 1), (1, 2), (2, 3)]).fit([[0.1], [0.4], [0.5], [0.9]], ["a", "b", "b", "b"])
        >>> crf.predict([[0.1], [0.4], [0.5], [0.9]]).tolist()
        ['b', 'b', 'b', 'b']
        """
        whole_number(self.draws, "draws", 1)
        covariates, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise DataError(
                f"y has one class, {self.classes_.tolist()[0]!r:.80}; a classifier needs at least 2 classes."
            )
        names = getattr(self, "feature_names_in_", None)
        model = TiedField.pairwise(
            self._edges(len(covariates), None),
            covariates,
            states=self.classes_.tolist(),
            covariate_names=None if names is None else list(names),
        )
        codes = np.searchsorted(self.classes_, labels)
        with use_threads(threads_of(self.n_jobs)):
            self.fit_ = fit_model(
                model,
                self.classes_[codes][None, :],
                self.policy,
                sigma2=self.sigma2,
                random_state=seed_from_setting(self.random_state),
                tol=self.tol,
                max_iter=self.max_iter,
                checkpoint=checkpoint,
            )
        self.model_ = self.fit_.model.as_tied("GraphCRF")
        self.n_iter_ = self.fit_.iterations
        return self

    def _edges(self, nodes: int, edges: ArrayLike | None) -> Array:
        """The edges of a graph with this number of nodes: those given, those of the estimator, or those of the grid."""
        if edges is not None or self.edges is not None:
            return whole_numbers(edges if edges is not None else self.edges, "edges")
        if self.grid is None:
            return np.empty((0, 2), dtype=np.int64)
        if not isinstance(self.grid, Sequence) or len(self.grid) != 2:
            raise DataError(f"grid is {self.grid!r:.80}; it must be a pair, the rows and columns of the grid.")
        rows, columns = (whole_number(size, "A side of grid", 1) for size in self.grid)
        if nodes != rows * columns:
            raise DataError(f"X has {nodes} rows; a grid of {rows} × {columns} has {rows * columns} sites.")
        return grid_edges(rows, columns, self.neighbours)[0]

    def _model(self, X: object, edges: ArrayLike | None) -> TiedField:
        """The fitted field on the graph of X."""
        check_is_fitted(self, "fit_")
        covariates = validate_data(self, X, reset=False, dtype=np.float64)
        names = getattr(self, "feature_names_in_", None)
        there = TiedField.pairwise(
            self._edges(len(covariates), edges),
            covariates,
            states=self.model_.states[0],
            covariate_names=None if names is None else list(names),
        )
        return self.model_.on(there.m, there.groups)

    def predict_proba(
        self, X: object, *, edges: ArrayLike | None = None, given: Mapping[int, object] | None = None
    ) -> FloatArray:
        """Compute the probability of each label of each node, given all covariates.

        Exact where the graph is narrow enough, otherwise shares of ``draws`` Gibbs draws.

        Parameters
        ----------
        X : array_like of shape (nodes, covariates)
            Covariates of the nodes.
        edges : array_like of int of shape (n_edges, 2) or None, default: None
            Edges between the rows of X. None: those of the estimator.
        given : dict or None, default: None
            Labels that are known, by row of X.

        Returns
        -------
        ndarray of shape (nodes, classes)

        Examples
        --------
        >>> import fieldfit as ff
        >>> X, y = [[0.1], [0.4], [0.5], [0.9]], [0, 0, 1, 1]
        >>> crf = ff.GraphCRF([(0, 1), (1, 2), (2, 3)]).fit(X, y)
        >>> crf.predict_proba(X, given={0: 0}).round(2)[0].tolist()
        [1.0, 0.0]
        """
        model, theta = self._model(X, edges), self.fit_.theta
        labels = _given_labels(given, model.m)
        with use_threads(threads_of(self.n_jobs)):
            return node_probabilities(model, theta, labels, self.draws, seed_from_setting(self.random_state))[0]

    def predict(
        self, X: object, *, edges: ArrayLike | None = None, given: Mapping[int, object] | None = None
    ) -> Array:
        """Predict the most probable label of each node (the largest of `predict_proba`).

        Parameters
        ----------
        X : array_like of shape (nodes, covariates)
            Covariates of the nodes.
        edges, given
            As in `predict_proba`.

        Returns
        -------
        ndarray of shape (nodes,)

        Examples
        --------
        >>> import fieldfit as ff
        >>> X, y = [[0.1], [0.4], [0.5], [0.9]], [0, 0, 1, 1]
        >>> ff.GraphCRF(sigma2=1e3).fit(X, y).predict(X).tolist()
        [0, 0, 1, 1]
        """
        best: Array = self.predict_proba(X, edges=edges, given=given).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_map(
        self, X: object, *, edges: ArrayLike | None = None, given: Mapping[int, object] | None = None
    ) -> Array:
        """Find the most probable labelling of the whole graph, where it is narrow enough for that.

        Parameters
        ----------
        X : array_like of shape (nodes, covariates)
            Covariates of the nodes.
        edges, given
            As in `predict_proba`.

        Returns
        -------
        ndarray of shape (nodes,)

        Raises
        ------
        WidthError
            If the graph is too wide.

        Examples
        --------
        >>> import fieldfit as ff
        >>> X, y = [[0.1], [0.4], [0.5], [0.9]], [0, 0, 1, 1]
        >>> ff.GraphCRF([(0, 1), (1, 2), (2, 3)]).fit(X, y).predict_map(X, given={3: 1}).tolist()
        [1, 1, 1, 1]
        """
        model = self._model(X, edges)
        labels = _given_labels(given, model.m)
        with use_threads(threads_of(self.n_jobs)):
            return model.map_state(self.fit_.theta, labels)


def node_probabilities(
    model: TiedField, theta: FloatArray, given: Mapping[int, object] | None, draws: int, random_state: int
) -> tuple[FloatArray, bool]:
    """The probability of each label of each node (m, labels), and whether it is exact or a share of Gibbs draws."""
    try:
        return np.stack(model.marginals(theta, given)), True
    except WidthError:
        drawn = model.sample(theta, draws, random_state, given=given, method="gibbs").codes
    return np.stack([(drawn == code).mean(axis=0) for code in range(model.n_labels)], axis=1), False


def _given_labels(given: Mapping[int, object] | None, nodes: int) -> dict[int, object] | None:
    """The given labels by number of the node; DataError for a node that is not there."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise DataError(f"given is {given!r:.80}; it must be a mapping from rows of X to labels, such as {{0: 1}}.")
    for node in given:
        if not isinstance(node, int | np.integer) or not 0 <= node < nodes:
            raise DataError(f"given has a label for {node!r:.80}; the nodes are the rows 0 to {nodes - 1} of X.")
    return {int(node): _plain(label) for node, label in given.items()}


def _plain(label: object) -> object:
    """A label as one of Python's own values."""
    return label.item() if isinstance(label, np.generic) else label
