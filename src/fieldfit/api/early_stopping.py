"""Stop a fit when a score on development data no longer rises, and keep the θ where it was best."""

from __future__ import annotations

from collections.abc import Callable

from fieldfit.optim import Progress
from fieldfit.types import FieldfitError, FloatArray


class EarlyStopping:
    """Asks ``score(theta)`` (larger is better) every ``every`` iterations; stops after ``patience`` of them in vain.

    One object serves one fit. Afterwards ``best_theta``, ``best_score`` and ``best_iteration`` say where it was best,
    and ``history`` has (iteration, score).
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
        """Look at this iteration; true when it is time to stop."""
        if state.iteration % self.every:
            return False
        value = float(self._score(theta))
        self.history.append((state.iteration, value))
        if value > self.best_score or self.best_theta is None:
            self.best_theta, self.best_score, self.best_iteration = theta.copy(), value, state.iteration
        self.stopped = state.iteration - self.best_iteration >= self.patience * self.every
        return self.stopped

    @property
    def message(self) -> str:
        """Why the fit ended, and which θ it has."""
        return (
            f"stopped early: development score {self.best_score:.6g} was best at iteration {self.best_iteration}, "
            f"and no better in {self.patience} looks"
        )
