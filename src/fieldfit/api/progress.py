"""The progress of a fit in lines: iteration, objective, gradient norm, seconds, and estimated seconds left."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from fieldfit.optim import Progress
from fieldfit.types import FieldfitError

#: Number of iterations over which the rate of the gradient norm is measured: single iterations vary too much.
_RATE_ITERATIONS = 10
#: The names of the columns of a line.
HEAD = f"{'iteration':>9}  {'objective':>16}  {'gradient':>10}  {'seconds':>8}  {'left':>8}"


class TimeLeft:
    """Seconds that a fit still takes: until the gradient norm, falling at its recent pace, is the tolerance, at most
    until ``max_iter``.
    """

    def __init__(self, max_iter: int) -> None:
        self._max_iter = max_iter
        self._seen: list[tuple[int, float, float]] = []

    def __call__(self, state: Progress) -> float | None:
        """Estimated seconds left, or None if there is no estimate yet."""
        self._seen.append((state.iteration, math.log(max(state.gradient_norm, 1e-300)), state.seconds))
        first, last = self._seen[max(0, len(self._seen) - 1 - _RATE_ITERATIONS)], self._seen[-1]
        steps = last[0] - first[0]
        if steps < 3:
            return None
        iterations = float(self._max_iter - last[0])
        if state.tolerance > 0:
            fall = (first[1] - last[1]) / steps
            missing = last[1] - math.log(state.tolerance)
            if missing <= 0:
                iterations = 0.0
            elif fall > 0:
                iterations = min(iterations, missing / fall)
        return iterations * (last[2] - first[2]) / steps

    def line(self, state: Progress) -> str:
        """The iteration as text, with the time left."""
        seconds = self(state)
        rest = "" if seconds is None else f", at most {seconds:,.0f} s left"
        return f"fit: iteration {state.iteration:,}, gradient {state.gradient_norm:.2g}{rest}"


class ProgressLines:
    """Makes the line of each iteration of one fit; `HEAD` names its columns."""

    def __init__(self, max_iter: int) -> None:
        self._left = TimeLeft(max_iter)

    def __call__(self, state: Progress) -> str:
        """The line of this iteration."""
        seconds = self._left(state)
        rest = "–" if seconds is None else f"{seconds:.1f}"
        return f"{state.iteration:9d}  {-state.value:16.6f}  {state.gradient_norm:10.3g}  {state.seconds:8.2f}  {rest:>8}"


class AskedToStop:
    """Calls a function after each iteration of a fit in several stages; ``seen``: it has asked to stop."""

    def __init__(self, tell: Callable[[Progress], object] | None) -> None:
        self._tell, self.seen = tell, False

    def __call__(self, state: Progress) -> bool:
        """Whether the function asks to stop."""
        self.seen = self._tell is not None and bool(self._tell(state))
        return self.seen


def as_callback(progress: Callable[[Progress], object] | bool, max_iter: int) -> Callable[[Progress], object] | None:
    """Return the function to call after each iteration: the user's, or for True one that prints to stderr."""
    if progress is False:
        return None
    if progress is not True:
        if not callable(progress):
            raise FieldfitError(f"progress must be True, False or a function; got {progress!r:.80}.")
        return progress
    lines = ProgressLines(max_iter)

    def tell(state: Progress) -> None:
        if state.iteration == 0:
            print(HEAD, file=sys.stderr)
        print(lines(state), file=sys.stderr)

    return tell
