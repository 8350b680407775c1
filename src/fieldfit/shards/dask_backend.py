"""Shards on the workers of a Dask cluster.

Shards are placed once: neighbours on the same worker, as many on each as its number of threads says. A question is one task
for each worker. Where there are many workers, their partial sums are added up on workers, eight at a time; the client adds
up the rest. A worker that dies, is restarted, pauses for long or makes no progress loses its shards to the others, which
read them again from their sources; the question is then repeated for these. The same happens if a task is lost (see
`watch`). Sums do not depend on who holds what (see `tree`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import math
import secrets
import time
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fieldfit.shards import held
from fieldfit.shards.backend import Backend, Placed
from fieldfit.shards.shard import Argument, Question, Reply, Shared, Source
from fieldfit.shards.tree import Answer, Nodes, merged
from fieldfit.shards.watch import Watch
from fieldfit.threads import get_threads
from fieldfit.types import ClusterError, FieldfitError
from fieldfit.words import counted

if TYPE_CHECKING:
    from distributed import Client, Future

#: Partial sums that are added up in one task. With at most this many workers the client adds them up itself.
_FAN_IN = 8
#: Bytes from which the numbers of a question travel as data and not inside a task.
_LARGE_BYTES = 1 << 20
#: Seconds between two checks of which workers are alive.
_CHECK_SECONDS = 2.0
#: Seconds without an answer after which the scheduler is lost, if the timeout is not shorter.
_SCHEDULER_SECONDS = 300.0
#: How often in a row a worker that is alive may fail before it is asked no more.
_FAILURES = 3
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Member:
    """A worker of the cluster: its number of threads, whether it starts tasks, and if not, for how many seconds."""

    threads: int
    running: bool
    paused: float


class DaskBackend(Backend):
    """The workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        A client connected to the cluster.
    timeout : float, default: 300
        Seconds without progress after which a worker is given up, and its shards go to others. A worker that computes makes
        progress, however long it takes. ``math.inf``: until the scheduler drops it.
    patience : float, default: 60
        Seconds to wait for a worker when there is none, and for one that has paused because its memory is full.
    tell : callable or None, default: None
        Function that gets a sentence when a worker is lost and its shards are read again by others, once for each worker.

    Examples
    --------
    >>> from distributed import Client
    >>> import fieldfit as ff
    >>> from fieldfit.shards.dask_backend import DaskBackend
    >>> model = ff.BoltzmannMachine(3)
    >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
    >>> with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
    ...     fit = ff.fit(model, x, "PL1", backend=DaskBackend(client, patience=10))
    >>> fit.theta.round(2)
    array([ 0.8 , -0.93,  0.55])
    """

    def __init__(
        self,
        client: Client,
        timeout: float = 300.0,
        patience: float = 60.0,
        tell: Callable[[str], object] | None = None,
    ) -> None:
        for name, seconds in (("timeout", timeout), ("patience", patience)):
            if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds > 0:
                raise FieldfitError(f"{name} is {seconds!r:.80}; it must be a number of seconds above 0.")
        self.client = client
        self.timeout = timeout
        self.patience = patience
        self.tell = tell
        self._told: set[str] = set()
        self._unanswered = -math.inf  # when the scheduler was given up
        self._paused: dict[str, float] = {}  # since when, as far as this client has seen

    def place(self, sources: Sequence[Source]) -> DaskShards:
        """Give each source a worker."""
        return DaskShards(self, sources)

    def members(self) -> dict[str, Member]:
        """The workers that the scheduler has, by their addresses."""
        if self.client.status == "closed":
            raise ClusterError("The client of the cluster is closed. Connect again: distributed.Client(address).")
        with translated():
            workers, now = self._known(), time.monotonic()
        states = {address: str(worker.get("status", "running")) for address, worker in workers.items()}
        self._paused = {a: self._paused.get(a, now) for a, state in states.items() if state != "running"}
        return {
            address: Member(
                int(worker["nthreads"]), states[address] == "running", now - self._paused.get(address, now)
            )
            for address, worker in workers.items()
        }

    def _known(self) -> dict[str, dict[str, Any]]:
        """What the scheduler knows of its workers; `OSError` if it does not answer."""

        async def asked() -> dict[str, dict[str, Any]] | None:
            if self.client.status != "running" or self.client.scheduler is None:
                return None
            identity: dict[str, dict[str, dict[str, Any]]] = await self.client.scheduler.identity(n_workers=-1)
            return identity.get("workers")

        limit = min(_SCHEDULER_SECONDS, self.timeout)
        if time.monotonic() < self._unanswered + limit:  # those who ask why something failed do not wait once more
            raise OSError("the scheduler does not answer")
        answer = asyncio.run_coroutine_threadsafe(asked(), self.client.loop.asyncio_loop)
        try:
            workers = answer.result(limit)
        except TimeoutError:
            answer.cancel()
            self._unanswered = time.monotonic()
            workers = None
        if workers is None:
            raise OSError("the scheduler does not answer")
        return workers

    def alive(self) -> dict[str, Member]:
        """The workers without those that have paused for longer than patience."""
        return {a: member for a, member in self.members().items() if member.paused <= self.patience}

    def no_worker(self, advice: str) -> ClusterError:
        """The error of a cluster without a worker that can be asked."""
        paused = len(self._paused)
        reason = f" {paused} of its workers have paused: their memory is full." if paused else ""
        return ClusterError(
            f"The cluster has no worker that answers (waited {self.patience:.0f} s).{reason} {advice}"
        )

    def tell_moved(self, shards: Mapping[str, int]) -> None:
        """Say which workers have lost shards, and how many."""
        for address, count in shards.items():
            if self.tell is not None and address not in self._told:
                self._told.add(address)
                self.tell(
                    f"the worker {address} does not answer; {counted(count, 'shards')} that it had are read again by the "
                    "workers that do, which takes time"
                )

    def submit(self, address: str, function: Callable[..., object], *arguments: object) -> Future:
        """A task for one worker and no other."""
        with translated():
            return self.client.submit(
                function, *arguments, workers=[address], allow_other_workers=False, pure=False, retries=0
            )


class DaskShards(Placed):
    """Shards on workers; ``owner`` says where each is."""

    def __init__(self, backend: DaskBackend, sources: Sequence[Source]) -> None:
        super().__init__(len(sources))
        self._backend, self._client = backend, backend.client
        self._sources = tuple(sources)
        self._token = secrets.token_hex(8)
        self._shared: Shared = {}
        self._given_up: set[str] = set()
        self._failures: Counter[str] = Counter()  # in a row, of workers that are alive
        self._watch = Watch(self._client, backend.timeout)
        self._threads: dict[str, int] = {}
        self._owner: dict[int, str] = {}
        self._move(range(self.n_shards), replacing=False)
        finalizer = weakref.finalize(self, _release, self._client, self._owner, self._given_up, self._token)
        finalizer.atexit = False

    @property
    def speed(self) -> float:
        """The threads of the workers that hold shards, by those of this process."""
        return sum(self._threads.get(address, 1) for address in set(self._owner.values())) / get_threads()

    # -- places --------------------------------------------------------------------------------------------------------

    def _alive(self) -> dict[str, Member]:
        """The workers that can be asked."""
        return {a: member for a, member in self._backend.alive().items() if a not in self._given_up}

    def _running(self) -> dict[str, int]:
        """The workers that start tasks, and their numbers of threads."""
        return {address: member.threads for address, member in self._alive().items() if member.running}

    def _move(self, numbers: Iterable[int], *, replacing: bool) -> None:
        """Place these shards on the workers that are alive: neighbours together, as many as the worker has threads."""
        numbers, until = sorted(numbers), time.monotonic() + self._backend.patience
        while not (alive := self._running()):
            if time.monotonic() > until:
                raise self._backend.no_worker(
                    "Start workers, with more memory if theirs is full, or fit on this machine."
                )
            time.sleep(0.2)
        if replacing:
            self._backend.tell_moved(Counter(self._owner[number] for number in numbers))
        self._threads = alive
        load = dict.fromkeys(alive, 0)
        for owner in self._owner.values():
            if replacing and owner in load:
                load[owner] += 1
        slots = [address for address in sorted(alive) for _ in range(alive[address])]
        shares: dict[str, dict[int, Source]] = {}
        for place, number in enumerate(numbers):
            address = min(alive, key=lambda a: (load[a] / alive[a], a)) if replacing else ""
            address = address or slots[place * len(slots) // len(numbers)]
            load[address] += 1
            self._owner[number] = address
            shares.setdefault(address, {})[number] = self._sources[number]
        lost = self._hold({address: (share, dict(self._shared)) for address, share in shares.items()})
        if lost:
            self._failed(lost)
            self._move([n for address in lost for n in shares[address]], replacing=True)

    def _failed(self, addresses: Iterable[str]) -> None:
        """Count the failures of workers; those that fail again and again are given up."""
        self._failures.update(addresses)
        self._given_up.update(address for address, failures in self._failures.items() if failures >= _FAILURES)

    def _hold(self, parts: Mapping[str, tuple[dict[int, Source], Shared]]) -> list[str]:
        """Send each worker its shards and shared values; the addresses of workers that were lost on the way."""
        futures: dict[str, Future | None] = {}
        for address, part in parts.items():
            try:
                futures[address] = self._backend.submit(address, held.hold, self._token, self._sent(address, part))
            except WorkerLostError:
                futures[address] = None
        lost = self._finished(futures)
        answers = self._gathered({a: f for a, f in futures.items() if f is not None and a not in lost})
        return lost + [address for address, answer in answers.items() if isinstance(answer, held.NotHeld)]

    def share(self, key: str, value: object) -> None:
        """Give the workers a value under a key."""
        self._shared[key] = value
        for address in self._hold({owner: ({}, {key: value}) for owner in set(self._owner.values())}):
            self._failed([address])
            self._move([n for n, owner in self._owner.items() if owner == address], replacing=True)

    def withdraw(self, key: str) -> None:
        """Drop a shared value; a cluster that is gone has dropped it already."""
        self._shared.pop(key, None)
        _tell(self._client, self._owner, self._given_up, held.withdraw, self._token, key)

    # -- questions -----------------------------------------------------------------------------------------------------

    def each(
        self,
        question: Question[Argument, Reply],
        arguments: Sequence[Argument] | None = None,
        shards: Sequence[int] | None = None,
    ) -> list[Reply]:
        """The answers of all shards, or of some of them."""
        numbers = list(range(self.n_shards)) if shards is None else list(shards)
        replies: dict[int, Reply] = {}
        while missing := [number for number in numbers if number not in replies]:
            for answer in self._answers(self._submitted(held.each, missing, question, arguments)).values():
                replies.update(cast("dict[int, Reply]", answer))
        return [replies[number] for number in numbers]

    def total(self, question: Question[Argument, Answer], arguments: Sequence[Argument] | None = None) -> Answer:
        """The root of the tree."""
        known: Nodes = {}
        while (0, self.n_shards) not in known:
            covered = {number for low, high in known for number in range(low, high)}
            missing = [number for number in range(self.n_shards) if number not in covered]
            futures = self._submitted(held.total, missing, question, arguments, self.n_shards)
            nodes = self._merged_there(futures)
            if nodes is None:
                nodes = [cast(Nodes, answer) for answer in self._answers(futures).values()]
            known = merged([known, *nodes], self.n_shards)
        return known[0, self.n_shards]

    def _submitted(
        self,
        function: Callable[..., object],
        numbers: Sequence[int],
        question: object,
        arguments: Sequence[object] | None,
        *more: int,
    ) -> dict[str, Future | None]:
        """A task for each worker that holds some of these shards; None for a worker that was lost before it had one."""
        futures: dict[str, Future | None] = {}
        for address, mine in self._by_owner(numbers).items():
            try:
                asked = self._asked(address, question, arguments, mine)
                threads = self._threads.get(address, 1)
                futures[address] = self._backend.submit(address, function, self._token, mine, *more, *asked, threads)
            except WorkerLostError:
                futures[address] = None
        return futures

    def _merged_there(self, futures: Mapping[str, Future | None]) -> list[Nodes] | None:
        """Add up the sums of many workers on workers; None for few workers, or if one failed: sums then come one by one."""
        level = [future for future in futures.values() if future is not None]
        if len(level) <= _FAN_IN or len(level) < len(futures):
            return None
        while len(level) > _FAN_IN:
            groups = [level[i : i + _FAN_IN] for i in range(0, len(level), _FAN_IN)]
            with translated():
                level = [self._client.submit(_merge_nodes, group, self.n_shards, pure=False) for group in groups]
        if self._finished(futures):
            return None
        try:
            answers = self._awaited(self._client.gather(level, asynchronous=True), futures, self._backend.timeout)
        except WorkerLostError:
            return None
        return None if any(isinstance(answer, held.NotHeld) for answer in answers) else list(answers)

    def _by_owner(self, numbers: Sequence[int]) -> dict[str, list[int]]:
        result: dict[str, list[int]] = {}
        for number in numbers:
            result.setdefault(self._owner[number], []).append(number)
        return result

    def _answers(self, futures: Mapping[str, Future | None]) -> dict[str, object]:
        """What the workers answered; shards of workers that failed are moved to others."""
        lost = set(self._finished(futures))
        answers: dict[str, object] = {}
        done = {a: future for a, future in futures.items() if future is not None and a not in lost}
        for address, answer in self._gathered(done).items():
            if isinstance(answer, held.NotHeld):
                lost.add(address)
            else:
                answers[address] = answer
        for address in answers:
            self._failures.pop(address, None)
        if lost:
            self._failed(lost)
            self._move([number for number, owner in self._owner.items() if owner in lost], replacing=True)
        return answers

    def _gathered(self, futures: dict[str, Future]) -> dict[str, object]:
        """The results of tasks that ended, in one message; `NotHeld` for those whose worker died before it came."""
        if not futures:
            return {}
        try:
            gathered = self._client.gather(list(futures.values()), asynchronous=True)
            answers = self._awaited(gathered, futures, self._backend.timeout)
        except WorkerLostError:
            if len(futures) == 1:
                return dict.fromkeys(futures, held.NotHeld())
            alone = [self._gathered({address: future}) for address, future in futures.items()]
            return {address: answer for part in alone for address, answer in part.items()}
        return dict(zip(futures, answers, strict=True))

    def _sent(self, address: str, value: object) -> Future:
        """A value on a worker, by the way of data: tasks are to be small. Raises `WorkerLostError`."""
        scattered = self._client.scatter([value], workers=[address], hash=False, asynchronous=True)
        try:
            future: Future = self._awaited(scattered, [address], math.inf)[0]
        except (KeyError, TimeoutError, ClusterError) as error:
            # The scheduler does not know the worker, or cannot connect to it; a lost scheduler is an error of its own.
            self._check_scheduler()
            raise WorkerLostError from error
        return future

    def _asked(
        self, address: str, question: object, arguments: Sequence[object] | None, mine: Sequence[int]
    ) -> list[object]:
        """The question and what is for these shards alone, as arguments of a task."""
        part = {} if arguments is None else {number: arguments[number] for number in mine}
        values = [*vars(question).values(), *part.values()]
        values += [number for value in values if isinstance(value, tuple) for number in value]
        if sum(value.nbytes for value in values if hasattr(value, "nbytes")) <= _LARGE_BYTES:
            return [question, part]
        return [self._sent(address, question), self._sent(address, part)]

    def _finished(self, futures: Mapping[str, Future | None]) -> list[str]:
        """Wait for all; the addresses of workers that are gone, or that were given up because they did not answer."""
        lost = [address for address, future in futures.items() if future is None]
        running = {address: future for address, future in futures.items() if future is not None}
        while waiting := {a: f for a, f in running.items() if a not in lost and not f.done()}:
            self._wait(list(waiting.values()))
            waiting = {address: future for address, future in waiting.items() if not future.done()}
            hanging = self._watch.overdue({address: future.key for address, future in waiting.items()})
            self._given_up.update(address for address, hangs in hanging.items() if hangs)
            for address in {*hanging, *self._dropped(waiting)}:
                lost.append(address)
                with contextlib.suppress(Exception):
                    running[address].cancel(force=True)
        return lost

    def _awaited(self, work: Coroutine[object, object, _Result], needed: Collection[str], limit: float) -> _Result:
        """The result of work in the client's event loop. `WorkerLostError` if a needed worker is gone, or after a limit.

        The client itself would wait forever for a worker that hangs, and for a result whose worker died.
        """
        began, watch = time.monotonic(), Watch(self._client, self._backend.timeout)
        running = asyncio.run_coroutine_threadsafe(work, self._client.loop.asyncio_loop)
        try:
            while not concurrent.futures.wait([running], self._interval).done:
                hanging = watch.overdue(dict.fromkeys(needed))
                self._given_up.update(hanging)
                if hanging or time.monotonic() - began > limit or self._dropped(needed):
                    raise WorkerLostError
            with translated():
                try:
                    return running.result()
                except concurrent.futures.CancelledError as error:
                    self._check_scheduler()
                    raise WorkerLostError from error
        finally:
            running.cancel()

    def _check_scheduler(self) -> None:
        """Raise `ClusterError` if the scheduler is lost: tasks are cancelled then, and also if a worker is lost."""
        self._backend.alive()

    @property
    def _interval(self) -> float:
        """Seconds to wait before the next check of the workers."""
        return min(_CHECK_SECONDS, self._backend.timeout / 3)

    def _dropped(self, addresses: Collection[str]) -> list[str]:
        """Those of the workers that the scheduler does not have any more."""
        alive = self._alive() if addresses else {}
        return [address for address in addresses if address not in alive]

    def _wait(self, futures: list[Future]) -> None:
        from distributed import wait

        with translated(), self._client.as_current():
            try:
                wait(futures, timeout=self._interval)
            except TimeoutError:
                pass
            except concurrent.futures.CancelledError:
                self._check_scheduler()


class WorkerLostError(Exception):
    """The worker of a task is gone."""


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Errors of the cluster as fieldfit's own: a worker that is gone, or a scheduler that is."""
    from concurrent.futures import CancelledError

    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except KilledWorker as error:
        raise WorkerLostError from error
    except FieldfitError:
        raise
    except TimeoutError:
        raise
    except (CancelledError, CommClosedError, OSError) as error:
        raise ClusterError(
            f"The connection to the cluster's scheduler was lost ({type(error).__name__}). The workers and their samples "
            "are lost as well: start the cluster and the fit again."
        ) from error


def _merge_nodes(parts: list[Nodes | held.NotHeld], size: int) -> Nodes | held.NotHeld:
    """The sums of several workers added up as far as they go."""
    known = [part for part in parts if not isinstance(part, held.NotHeld)]
    return merged(known, size) if len(known) == len(parts) else held.NotHeld()


def _release(client: Client, owner: dict[int, str], given_up: set[str], token: str) -> None:
    """Have all workers drop all shards; workers in this process may be closed already, and are not asked."""
    held.release(token)
    _tell(client, owner, given_up, held.release, token)


def _tell(
    client: Client, owner: dict[int, str], given_up: set[str], function: Callable[..., None], *arguments: str
) -> None:
    """Have the workers that hold shards drop some of what they hold, without waiting for it; those that are gone have."""
    from distributed import fire_and_forget

    with contextlib.suppress(Exception):
        if client.status == "running":
            for address in set(owner.values()) - given_up:
                future = client.submit(function, *arguments, workers=[address], allow_other_workers=False, pure=False)
                fire_and_forget(future)
