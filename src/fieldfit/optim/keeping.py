"""The state of a descent between two iterations, so that it can stop and continue later with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fieldfit.types import Arrays

#: Plain arrays by name: the point, the account of the work, and what the method itself remembers.
State = Arrays


class Keeper(Protocol):
    """Keeps the states of a descent, and may have one to continue from."""

    @property
    def saved(self) -> State | None:
        """The state to continue from; None to begin at the start."""

    def keep(self, state: Callable[[], State], iteration: int, *, last: bool) -> None:
        """Called after each iteration, and at the end (``last``); ``state()`` is computed only where it is kept."""
