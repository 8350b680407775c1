"""Backends: where shards are held. `LocalBackend` holds them in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

from fieldfit.shards.room import Fixed, Measured
from fieldfit.shards.shard import Argument, Question, Reply, Shard, Shared, Source, answered
from fieldfit.shards.tree import Answer, partial_sums


class Placed(ABC):
    """Shards in their places. ``arguments`` has an entry for each shard, which only that shard receives. None: nothing."""

    def __init__(self, n_shards: int) -> None:
        self.n_shards = n_shards

    @property
    def speed(self) -> float:
        """How many shards are worked on at once, in units of this process with all its threads."""
        return 1.0

    @abstractmethod
    def share(self, key: str, value: object) -> None:
        """Give all shards a value under a key."""

    @abstractmethod
    def withdraw(self, key: str) -> None:
        """Take back what was shared under a key, and drop the problems compiled from it."""

    @abstractmethod
    def each(
        self,
        question: Question[Argument, Reply],
        arguments: Sequence[Argument] | None = None,
        shards: Sequence[int] | None = None,
    ) -> list[Reply]:
        """The answers of all shards, or of those with the numbers ``shards``, in that order."""

    @abstractmethod
    def total(self, question: Question[Argument, Answer], arguments: Sequence[Argument] | None = None) -> Answer:
        """The sum of the answers of all shards, in the order of the tree."""


class Backend(ABC):
    """A place for shards."""

    @abstractmethod
    def place(self, sources: Sequence[Source]) -> Placed:
        """Give each source a place; the samples are read where they are held."""


class LocalBackend(Backend):
    """Shards in this process, one after the other, each with all threads.

    Parameters
    ----------
    keep : int or None, default: None
        Number of shards that stay in memory; the others are read and compiled again for each evaluation. The estimate has
        the same bits for any number. None: as many as leave half of the memory free that was free at the start.
    """

    def __init__(self, keep: int | None = None) -> None:
        self.keep = keep

    def place(self, sources: Sequence[Source]) -> LocalShards:
        """Shards that are read when they are first asked."""
        measured = Measured()
        return LocalShards(
            [
                Shard(number, source, measured if self.keep is None else Fixed(number < self.keep))
                for number, source in enumerate(sources)
            ]
        )


class LocalShards(Placed):
    """Shards in this process."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        super().__init__(len(shards))
        self._shards = dict(enumerate(shards))
        self._shared: Shared = {}

    def share(self, key: str, value: object) -> None:
        """Keep a value for the questions."""
        self._shared[key] = value

    def withdraw(self, key: str) -> None:
        """Forget a value and the problems compiled from it."""
        self._shared.pop(key, None)
        for shard in self._shards.values():
            shard.forget(key)

    def each(
        self,
        question: Question[Argument, Reply],
        arguments: Sequence[Argument] | None = None,
        shards: Sequence[int] | None = None,
    ) -> list[Reply]:
        """One answer after the other."""
        numbers = range(self.n_shards) if shards is None else shards
        return [self._ask(question, arguments, number) for number in numbers]

    def total(self, question: Question[Argument, Answer], arguments: Sequence[Argument] | None = None) -> Answer:
        """The root of the tree."""
        nodes = partial_sums(
            range(self.n_shards), self.n_shards, lambda number: self._ask(question, arguments, number)
        )
        return nodes[0, self.n_shards]

    def _ask(self, question: Question[Argument, Reply], arguments: Sequence[Argument] | None, number: int) -> Reply:
        argument = cast(Argument, None) if arguments is None else arguments[number]
        return answered(question, self._shards, number, self._shared, argument)
