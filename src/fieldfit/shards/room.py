"""How much of the shards stays in memory between questions: as much as leaves room for the work on them."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod

import numpy as np

from fieldfit.data.memory import memory_left

#: Shares of the memory that was left at the start which must still be left for samples and for compiled problems to stay.
#: All samples are read before the first are compiled, and they are read again faster than they are compiled.
_FOR_SAMPLES, _FOR_PROBLEMS = 0.75, 0.5
#: Bytes that must be left for the libraries for linear algebra to be loaded at once (they take 190 MB of addresses). With
#: less they are loaded if they are needed.
_FOR_LIBRARIES = 256 << 20
#: Size of a matrix that is large enough for all threads of these libraries.
_SQUARE = 512


class Room(ABC):
    """Whether what a shard has read or compiled may stay in memory."""

    @abstractmethod
    def for_samples(self) -> bool:
        """Whether samples may stay."""

    @abstractmethod
    def for_problems(self) -> bool:
        """Whether what was compiled from them may stay."""


class Fixed(Room):
    """Room for all or for nothing."""

    def __init__(self, kept: bool) -> None:
        self._kept = kept

    def for_samples(self) -> bool:
        """As it was said."""
        return self._kept

    def for_problems(self) -> bool:
        """As it was said."""
        return self._kept


class Measured(Room):
    """Room by the memory that this process has left (`fieldfit.data.memory`): half of it stays free for the work."""

    def __init__(self) -> None:
        self._start = memory_left()
        if self._start is None or self._start >= _FOR_LIBRARIES:
            _load_linear_algebra()
            self._start = memory_left()

    def for_samples(self) -> bool:
        """Whether at most a quarter is in use."""
        return self._leaves(_FOR_SAMPLES)

    def for_problems(self) -> bool:
        """Whether at most half is in use."""
        return self._leaves(_FOR_PROBLEMS)

    def _leaves(self, share: float) -> bool:
        left = memory_left()
        return self._start is None or left is None or left >= share * self._start


@functools.cache
def _load_linear_algebra() -> None:
    """Let the libraries for linear algebra take their buffers, which a fit needs besides the shards.

    Where the shards have filled the memory, these libraries end the process, or do not return from being loaded.
    """
    from scipy.linalg import cho_factor

    square = np.diag(np.full(_SQUARE, 2.0))
    cho_factor(square @ square)
