"""The state of a descent between two iterations, so that it can stop and continue later with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from fieldfit.optim.solution import Progress
from fieldfit.types import Array, Arrays, FieldfitError, FloatArray

#: Plain arrays by name: the point, the account of the work, and what the method itself remembers.
State = Arrays


class Keeper(Protocol):
    """Keeps the states of a descent, and may have one to continue from."""

    @property
    def saved(self) -> State | None:
        """The state to continue from; None to begin at the start."""

    def keep(self, state: Callable[[], State], iteration: int, *, last: bool) -> None:
        """Called after each iteration, and at the end (``last``); ``state()`` is computed only where it is kept."""


class StoppingRule(Protocol):
    """Something that may stop a descent and remembers what it has seen."""

    def state(self, iteration: int) -> State:
        """What it remembers after this iteration; its names differ from those of a descent and of other rules."""

    def take_state(self, state: State) -> None:
        """Remember what `state` gave. Raises a FieldfitError if that is not of this rule."""


class JudgedKeeper:
    """Keeps the state of a descent together with that of a rule that may stop it."""

    def __init__(self, keeper: Keeper, rule: StoppingRule) -> None:
        self._keeper, self._rule = keeper, rule
        if keeper.saved is not None:
            rule.take_state(keeper.saved)

    @property
    def saved(self) -> State | None:
        """The state to continue from."""
        return self._keeper.saved

    def keep(self, state: Callable[[], State], iteration: int, *, last: bool) -> None:
        """Keep both."""
        self._keeper.keep(lambda: {**state(), **self._rule.state(iteration)}, iteration, last=last)


def saved_history(history: Sequence[Progress]) -> FloatArray:
    """The history of a descent as an array of a state: a row for each iteration."""
    return np.array([line.saved for line in history], dtype=np.float64)


def read_history(state: State, tolerance: float = 0.0) -> list[Progress]:
    """The history in a state. Raises a ValueError or KeyError if there is none."""
    rows = state["history"]
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError("shapes")
    return [Progress(int(k), float(v), float(g), float(s), tolerance) for k, v, g, s in rows.tolist()]


def check_finite(*arrays: Array) -> None:
    """Raise a ValueError if a number in an array of a state is not finite."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError("numbers that are not finite")


@contextmanager
def refused_state(size: int) -> Iterator[None]:
    """Turn errors in reading a state into an error for the user."""
    try:
        yield
    except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
        raise FieldfitError(
            f"The saved state is not one of this optimiser with {size} free parameters ({error}). Start again without it."
        ) from error
