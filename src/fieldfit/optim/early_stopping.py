"""Stop a fit when a score on development data no longer improves, and keep the best θ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fieldfit.arguments import number_from_zero, whole_number
from fieldfit.optim.keeping import State
from fieldfit.optim.solution import Progress
from fieldfit.types import FieldfitError, FloatArray
from fieldfit.words import counted


class EarlyStopping:
    """Early stopping by a score on development data.

    Use one object for one fit. The evaluations are at fixed iterations, so the result does not depend on the speed
    of the machine. The start and the last θ are evaluated too.

    Parameters
    ----------
    score : callable
        Function of θ; larger is better.
    patience : int, default: 5
        The fit stops after this many evaluations without improvement.
    every : int, default: 1
        Number of iterations between two evaluations.
    tol : float, default: 0.0
        An evaluation is an improvement if its score is more than ``tol`` above that of the last improvement. The
        result has the best θ in any case.

    Attributes
    ----------
    best_theta : ndarray
        θ with the best score.
    best_score : float
        The best score.
    best_iteration : int
        Iteration with the best score.
    history : list of (iteration, score)
        All evaluations.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3)
    >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
    >>> held_out = model.sample([1.0, -1.0, 0.5], 100, random_state=1).values
    >>> stopping = ff.EarlyStopping(lambda theta: model.conditional(theta, held_out, [0, 1, 2]).mean())
    >>> fit = ff.fit(model, x, "PL1", stopping=stopping)
    >>> bool((fit.theta == stopping.best_theta).all())
    True
    """

    def __init__(
        self, score: Callable[[FloatArray], float], *, patience: int = 5, every: int = 1, tol: float = 0.0
    ) -> None:
        if not callable(score):
            raise FieldfitError(f"score is {score!r:.80}; it must be a function of θ.")
        self._score = score
        self.patience = whole_number(patience, "patience", 1)
        self.every = whole_number(every, "every", 1)
        self.tol = number_from_zero(tol, "tol")
        self.history: list[tuple[int, float]] = []
        self.best_theta: FloatArray | None = None
        self.best_score = float("-inf")
        self.best_iteration = 0
        self.stopped = False
        self._improved = (0, float("-inf"))  # the last improvement: iteration and score

    def __call__(self, state: Progress, theta: FloatArray) -> bool:
        """Evaluate this iteration if it is due. Returns True if the fit must stop."""
        if state.iteration % self.every:
            return False
        if not self.history or self.history[-1][0] != state.iteration:  # a resumed fit reports its last one again
            self._look(state.iteration, theta)
        self.stopped = state.iteration - self._improved[0] >= self.patience * self.every
        return self.stopped

    def finish(self, iteration: int, theta: FloatArray) -> None:
        """Evaluate the θ at which the optimiser stopped, which may lie between two evaluations.

        Parameters
        ----------
        iteration : int
            Number of the last iteration.
        theta : ndarray of shape (r,)
            The last θ.

        Examples
        --------
        >>> import numpy as np
        >>> import fieldfit as ff
        >>> stopping = ff.EarlyStopping(lambda theta: -float(theta @ theta))
        >>> stopping.finish(7, np.zeros(2))
        >>> stopping.history
        [(7, -0.0)]
        """
        if not self.stopped and (not self.history or self.history[-1][0] != iteration):
            self._look(iteration, theta)

    def _look(self, iteration: int, theta: FloatArray) -> None:
        self._record(iteration, float(self._score(theta)), theta)

    def _record(self, iteration: int, value: float, theta: FloatArray) -> None:
        self.history.append((iteration, value))
        if value > self._improved[1] + self.tol:
            self._improved = (iteration, value)
        if value > self.best_score or self.best_theta is None:
            self.best_theta, self.best_score, self.best_iteration = theta.copy(), value, iteration

    @property
    def message(self) -> str:
        """Why the fit stopped, and which θ it has."""
        if not self.stopped:
            return f"kept the best of the run: development score {self.best_score:.6g} at iteration {self.best_iteration}"
        return (
            f"stopped early: development score {self.best_score:.6g} was best at iteration {self.best_iteration}, "
            f"with no improvement{f' of more than {self.tol:g}' if self.tol else ''} in "
            f"{counted(self.patience, 'evaluations')}"
        )


class KeptStopping:
    """What early stopping has seen, as the part of a checkpoint: its evaluations and the best θ."""

    def __init__(self, stopping: EarlyStopping, n_parameters: int) -> None:
        self._stopping, self._size = stopping, n_parameters

    def state(self, iteration: int) -> State:
        """The evaluations (k, 2), the best θ, and the rule."""
        stopping = self._stopping
        best = np.zeros(0) if stopping.best_theta is None else stopping.best_theta
        return {
            "development": np.array(stopping.history, dtype=np.float64).reshape(-1, 2),
            "development_best": np.array(best, dtype=np.float64),
            "development_rule": np.array([stopping.patience, stopping.every, stopping.tol]),
        }

    def take_state(self, state: State) -> None:
        """Repeat the evaluations. The best θ is evaluated again, which shows whether the development data are the same."""
        stopping = self._stopping
        try:
            history = [(int(iteration), float(value)) for iteration, value in state["development"].tolist()]
            best, rule = np.array(state["development_best"], dtype=np.float64), state["development_rule"].tolist()
            if best.shape != (self._size if history else 0,) or not np.isfinite(best).all():
                raise ValueError("the best parameters")
        except (KeyError, ValueError, TypeError, OverflowError) as damage:
            raise FieldfitError(
                f"The saved state is not one of a fit with early stopping ({damage}). Start again without it."
            ) from damage
        for iteration, value in history:
            stopping._record(iteration, value, best)
        known = rule == [stopping.patience, stopping.every, stopping.tol]
        if known and history:
            known = np.array_equal(float(stopping._score(best)), stopping.best_score, equal_nan=True)
        if not known:
            raise FieldfitError(
                "The saved state is one of a fit with other development data, or another rule for early stopping. Give the "
                "same, or start again without it."
            )
