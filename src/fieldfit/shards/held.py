"""What a worker process holds: the shards that were placed on it, by the token of their placement.

Tasks find them here, so that a question carries θ and nothing else. A worker that was restarted holds nothing and says so.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fieldfit.shards.room import Measured, Room
from fieldfit.shards.shard import Argument, Question, Reply, Shard, Shared, Source, answered
from fieldfit.shards.tree import Answer, Nodes, partial_sums
from fieldfit.threads import use_threads
from fieldfit.types import FileAccessError


@dataclass
class _Held:
    shards: dict[int, Shard] = field(default_factory=dict)
    shared: Shared = field(default_factory=dict)
    room: Room = field(default_factory=Measured)
    lock: threading.Lock = field(default_factory=threading.Lock)


_placements: dict[str, _Held] = {}


@dataclass(frozen=True)
class NotHeld:
    """The answer of a worker that does not hold the requested shards: it is new, or was restarted."""


def hold(token: str, part: tuple[dict[int, Source], Shared]) -> None:
    """Take in shards by their numbers, and what they share; samples are read when the first question comes."""
    sources, shared = part
    held = _placements.setdefault(token, _Held())
    with held.lock:
        held.shared.update(shared)
        held.shards.update({number: Shard(number, source, held.room) for number, source in sources.items()})


@contextmanager
def _on_this_worker() -> Iterator[None]:
    """Say which worker cannot open a file."""
    try:
        yield
    except FileAccessError as error:
        from distributed import get_worker

        raise FileAccessError(
            f"On the worker {get_worker().address}: {error} Every worker must see the files under the same path."
        ) from error


def withdraw(token: str, key: str) -> None:
    """Drop a shared value, and the problems compiled from it."""
    held = _placements.get(token)
    if held is not None:
        with held.lock:
            held.shared.pop(key, None)
            for shard in held.shards.values():
                shard.forget(key)


def release(token: str) -> None:
    """Drop all shards of a placement."""
    _placements.pop(token, None)


def each(
    token: str,
    numbers: Sequence[int],
    question: Question[Argument | None, Reply],
    arguments: dict[int, Argument],
    threads: int,
) -> dict[int, Reply] | NotHeld:
    """The answers of some shards by their numbers."""
    held = _placements.get(token)
    if held is None or not all(number in held.shards for number in numbers):
        return NotHeld()
    with held.lock, use_threads(threads), _on_this_worker():
        return {
            number: answered(question, held.shards, number, held.shared, arguments.get(number)) for number in numbers
        }


def total(
    token: str,
    numbers: Sequence[int],
    size: int,
    question: Question[Argument | None, Answer],
    arguments: dict[int, Argument],
    threads: int,
) -> Nodes | NotHeld:
    """The sums of the nodes of the tree over ``size`` shards that have only these shards."""
    held = _placements.get(token)
    if held is None or not all(number in held.shards for number in numbers):
        return NotHeld()
    shards, shared = held.shards, held.shared
    with held.lock, use_threads(threads), _on_this_worker():
        return partial_sums(
            numbers, size, lambda number: answered(question, shards, number, shared, arguments.get(number))
        )
