"""The state of a descent between two iterations, so that it can stop and go on later with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

#: Plain arrays by name: the point, the account of the work, and what the method itself remembers.
State = dict[str, NDArray[Any]]


class Keeper(Protocol):
    """Keeps the states of a descent, and may have one to go on from."""

    @property
    def saved(self) -> State | None:
        """The state to go on from; None to begin at the start."""

    def keep(self, state: Callable[[], State], iteration: int, *, last: bool) -> None:
        """Called after each iteration, and at the end (``last``); ``state()`` is computed only where it is kept."""
