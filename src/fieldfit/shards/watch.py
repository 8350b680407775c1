"""Whether workers are still at work on their tasks: their event loops answer that while their threads compute.

A client would wait forever for a task that was lost between scheduler and worker, or for a thread that is blocked. A worker
that has its task is left alone as long as it makes progress, however slow: progress is processor time of its threads, or of
its process where other threads read and compute for them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Client, Worker

#: Seconds between two questions to a worker about its task, and seconds to wait for the answers.
_ASK_SECONDS, _ANSWER_SECONDS = 10.0, 2.0
#: Answers in a row without the task after which the task is lost: between two of them, its result may be on its way.
_MISSING = 2
#: Processor seconds of the threads with tasks that are progress, and processors at work in the process that are.
_THREAD_SECONDS, _PROCESSORS = 1e-3, 0.1
#: States of a task on a worker that will not compute it any more.
_ENDED = frozenset({"memory", "error", "released", "forgotten"})


@dataclass(frozen=True)
class Sign:
    """What a worker says: whether it has a task, and the processor seconds of its threads with tasks and of its process."""

    at: float
    has: bool
    threads: float
    process: float

    def is_progress(self, before: Sign) -> bool:
        """Whether the worker has computed since another sign."""
        elapsed = self.at - before.at
        return (
            self.threads < before.threads
            or self.threads - before.threads >= _THREAD_SECONDS
            or self.process - before.process >= _PROCESSORS * elapsed
        )


def sign(key: str | None, dask_worker: Worker) -> Sign:
    """The sign of a worker, in its event loop; where a thread's time cannot be read, that of the process counts."""
    clock: Callable[[int], int] | None = getattr(time, "pthread_getclockid", None)
    threads = 0.0
    if clock is not None:
        with dask_worker.active_threads_lock:  # none of them ends meanwhile
            threads = sum(time.clock_gettime(clock(thread)) for thread in dask_worker.active_threads)
    task = dask_worker.state.tasks.get(key)
    has = key is None or (task is not None and task.state not in _ENDED)
    return Sign(time.monotonic(), has, threads, time.process_time())


@dataclass
class _Seen:
    asked: float
    progressed: float
    sign: Sign | None = None
    missing: int = 0

    def take(self, new: Sign | None, now: float, *, life_is_enough: bool) -> None:
        self.asked = now
        if new is None:
            return
        self.missing = 0 if new.has else self.missing + 1
        if self.sign is None or life_is_enough or new.is_progress(self.sign):
            self.progressed = now
        self.sign = new


class Watch:
    """The tasks that a client waits for, one for each worker."""

    def __init__(self, client: Client, timeout: float) -> None:
        self._client, self._timeout = client, timeout
        self._seen: dict[tuple[str, str | None], _Seen] = {}

    def overdue(self, waiting: Mapping[str, str | None]) -> dict[str, bool]:
        """The tasks not to wait for, by the addresses of workers: True if the worker hangs, False if the task is lost.

        Call it repeatedly; workers are asked at intervals. A worker without a task (None) has to answer, no more.
        """
        now, interval = time.monotonic(), min(_ASK_SECONDS, self._timeout / 3)
        self._seen = {pair: self._seen.get(pair, _Seen(now, now)) for pair in waiting.items()}
        due = [pair for pair, seen in self._seen.items() if now - seen.asked >= interval]
        for pair, answer in zip(due, signs(self._client, due, min(_ANSWER_SECONDS, interval)), strict=True):
            self._seen[pair].take(answer, time.monotonic(), life_is_enough=pair[1] is None)
        overdue = {}
        for (address, _), seen in self._seen.items():
            if seen.missing >= _MISSING:
                overdue[address] = False
            elif seen.asked - seen.progressed > self._timeout:
                overdue[address] = True
        return overdue


def signs(client: Client, pairs: list[tuple[str, str | None]], seconds: float) -> list[Sign | None]:
    """What workers say of their tasks; None for those that do not answer within some seconds."""

    async def ask(address: str, key: str | None) -> Sign:
        answers: dict[str, Sign] = await client.run(sign, key, workers=[address])
        return answers[address]

    loop = client.loop.asyncio_loop
    asked = [asyncio.run_coroutine_threadsafe(ask(*pair), loop) for pair in pairs]
    answered = concurrent.futures.wait(asked, seconds).done
    for question in asked:
        question.cancel()
    return [None if q not in answered or q.cancelled() or q.exception() else q.result() for q in asked]
