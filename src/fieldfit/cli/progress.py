"""The progress of a fit on stderr: iteration, objective, gradient norm, seconds, and about how many are left."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fieldfit.cli.output import console, note

if TYPE_CHECKING:
    from fieldfit.optim import Progress

#: Iterations back from which the pace of the gradient norm is taken: single ones jump.
_SPAN = 10


class TimeLeft:
    """Seconds that a fit still takes: until the gradient norm, falling at its recent pace, is ``target``, at most
    until ``max_iter``. ``target`` is unknown (None) where the number of samples is.
    """

    def __init__(self, max_iter: int, target: float | None) -> None:
        self._max_iter, self._target = max_iter, target
        self._seen: list[tuple[int, float, float]] = []

    def __call__(self, state: Progress) -> float | None:
        """About how many seconds are left, or None while nothing is known."""
        self._seen.append((state.iteration, math.log(max(state.gradient_norm, 1e-300)), state.seconds))
        first, last = self._seen[max(0, len(self._seen) - 1 - _SPAN)], self._seen[-1]
        steps = last[0] - first[0]
        if steps < 3:
            return None
        iterations = float(self._max_iter - last[0])
        if self._target is not None:
            fall = (first[1] - last[1]) / steps
            missing = last[1] - math.log(max(self._target, 1e-300))
            if missing <= 0:
                iterations = 0.0
            elif fall > 0:
                iterations = min(iterations, missing / fall)
        return iterations * (last[2] - first[2]) / steps


@contextmanager
def shown_progress(
    wanted: bool | None, json: bool, max_iter: int, target: float | None = None
) -> Iterator[Callable[[Progress], None] | None]:
    """A callback that shows each iteration, or None where that is not wanted (by default: no terminal, or JSON).

    A terminal gets one line that is overwritten, anything else a line for each iteration.
    """
    terminal = sys.stderr.isatty()
    if wanted is False or (wanted is None and (not terminal or json)):
        yield None
        return
    left = TimeLeft(max_iter, target)
    head = f"{'iteration':>9}  {'objective':>16}  {'gradient':>10}  {'seconds':>8}  {'left':>8}"

    def line(state: Progress) -> str:
        seconds = left(state)
        rest = "–" if seconds is None else f"{seconds:.1f}"
        return f"{state.iteration:9d}  {-state.value:16.6f}  {state.gradient_norm:10.3g}  {state.seconds:8.2f}  {rest:>8}"

    if not terminal:
        note(head)
        yield lambda state: note(line(state))
        return
    from rich.live import Live
    from rich.text import Text

    with Live(Text(head), console=console(stderr=True), refresh_per_second=8) as live:
        yield lambda state: live.update(Text(f"{head}\n{line(state)}"))
