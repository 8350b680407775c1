"""Stop a fit when a score on development data no longer rises, and keep the θ where it was best."""

from __future__ import annotations

from collections.abc import Callable

from fieldfit.optim.solution import Progress
from fieldfit.types import FieldfitError, FloatArray


class EarlyStopping:
    """Asks ``score(theta)`` (larger is better) every ``every`` iterations; stops after ``patience`` looks in vain.

    The spacing is fixed, so that the result never depends on how fast the machine is. The start and the last θ are looked
    at too. One object serves one fit. Afterwards ``best_theta``, ``best_score`` and ``best_iteration`` say where it was
    best, and ``history`` has (iteration, score).
    """

    def __init__(self, score: Callable[[FloatArray], float], *, patience: int = 5, every: int = 1) -> None:
        if patience < 1 or every < 1:
            raise FieldfitError(f"patience and every must be at least 1; got {patience} and {every}.")
        self._score, self.patience, self.every = score, int(patience), int(every)
        self.history: list[tuple[int, float]] = []
        self.best_theta: FloatArray | None = None
        self.best_score = float("-inf")
        self.best_iteration = 0
        self.stopped = False

    def __call__(self, state: Progress, theta: FloatArray) -> bool:
        """Look at this iteration, if it is one to look at; true when it is time to stop."""
        if state.iteration % self.every:
            return False
        self._look(state.iteration, theta)
        self.stopped = state.iteration - self.best_iteration >= self.patience * self.every
        return self.stopped

    def finish(self, iteration: int, theta: FloatArray) -> None:
        """Look at the θ where the optimiser ended by itself, which may lie between two looks."""
        if not self.stopped and (not self.history or self.history[-1][0] != iteration):
            self._look(iteration, theta)

    def _look(self, iteration: int, theta: FloatArray) -> None:
        value = float(self._score(theta))
        self.history.append((iteration, value))
        if value > self.best_score or self.best_theta is None:
            self.best_theta, self.best_score, self.best_iteration = theta.copy(), value, iteration

    @property
    def message(self) -> str:
        """Why the fit ended, and which θ it has."""
        if not self.stopped:
            return f"kept the best of the run: development score {self.best_score:.6g} at iteration {self.best_iteration}"
        return (
            f"stopped early: development score {self.best_score:.6g} was best at iteration {self.best_iteration}, "
            f"and no better in {self.patience} looks"
        )
