"""The iterations of a second stage: how many there may be, whom they are told to, and why they ended too early."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fieldfit.optim.solution import DEFAULT_MAX_ITER, Callback, Progress, Status

#: Called after each iteration; a true answer stops the fit.
Tell = Callable[[Progress], object]


@dataclass
class Course:
    """At most ``max_iter`` iterations, each told to ``tell`` (None: nobody). ``stopped``: why the stage was cut off."""

    max_iter: int = DEFAULT_MAX_ITER
    tell: Tell | None = None
    stopped: Status | None = None
    _began: float = field(default_factory=time.perf_counter, repr=False)

    def ends(self, iteration: int, gradient_norm: float) -> bool:
        """Tell of an iteration (0 is the start) and whether the stage ends there: it was asked to, or there are no more."""
        if self.report(iteration, gradient_norm):
            self.stopped = Status.CALLBACK
        elif iteration >= self.max_iter:
            self.stopped = Status.ITERATION_LIMIT
        return self.stopped is not None

    def report(self, iteration: int, gradient_norm: float) -> bool:
        """Tell of an iteration, and whether the answer asks to stop. Moment conditions have no objective (NaN)."""
        if self.tell is None:
            return False
        return bool(self.tell(Progress(iteration, np.nan, gradient_norm, time.perf_counter() - self._began)))

    @property
    def callback(self) -> Callback | None:
        """What an optimiser calls in a stage that consists of fits."""
        tell = self.tell
        return None if tell is None else lambda state, _: tell(state)

    @property
    def iterations_left(self) -> int:
        """The iterations of the next fit at most: none after the user has stopped one."""
        return 0 if self.stopped is Status.CALLBACK else self.max_iter

    def note(self, status: Status) -> None:
        """A fit of the stage was cut off. That the user has stopped the stage is not forgotten."""
        if self.stopped is not Status.CALLBACK:
            self.stopped = status
