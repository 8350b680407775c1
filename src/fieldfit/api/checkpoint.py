"""Checkpoints: the state of a fit in a file, written at intervals, from which the fit continues with the same bits."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import count, takewhile

import numpy as np

from fieldfit.api.prepare import Prepared
from fieldfit.arguments import file_path, truth_value
from fieldfit.callers import warn_caller
from fieldfit.data.atomic import check_writable
from fieldfit.data.container import read_container, write_container
from fieldfit.optim.keeping import State
from fieldfit.types import Array, Arrays, ClusterError, FieldfitError, FieldfitWarning, FileAccessError, FloatArray
from fieldfit.words import counted

#: Prefix of the names of a second stage's arrays.
_SECOND = "second."
#: Names of the arrays of the fits that choose automatic weights: the number of the fit and the name in its state.
_ROUND = re.compile(r"round([0-9]{1,6})\.(.+)")
#: What identifies the fit of a checkpoint, with words for messages.
_IDENTITY = {
    "model": "model",
    "policy": "policy",
    "data": "set of samples or weights",
    "options": "penalty, starting value or fixed parameters",
    "random_state": "random_state",
    "method": "method",
    "shards": "number of shards",
}


@dataclass(frozen=True)
class Checkpoint:
    """A file that keeps the state of a fit.

    The file is replaced as a whole, so it is never half written, even if the process is killed.

    Parameters
    ----------
    path : str or Path
        The file.
    every : float, default: 60
        Seconds between two writes. The state is also written at the start, at the end, after Ctrl-C and after an error.
    resume : bool, default: False
        Whether to continue from the file, if it exists. The result is that of an uninterrupted fit, bit by bit.
        Without ``resume``, an existing file raises an error.
    tell : callable, optional
        Called with a sentence on the state in the file, once it is known to be that of this fit.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3)
    >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
    >>> first = ff.fit(model, x, "PL1", checkpoint="fit.checkpoint")
    >>> again = ff.fit(model, x, "PL1", checkpoint=ff.Checkpoint("fit.checkpoint", resume=True))
    >>> bool((again.theta == first.theta).all())
    True
    """

    path: str | os.PathLike[str]
    every: float = 60.0
    resume: bool = False
    tell: Callable[[str], object] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise FieldfitError(f"checkpoint is {self.path!r:.80}; it must be the path of a file, or a Checkpoint.")
        file_path(self.path, "The path of a checkpoint")
        truth_value(self.resume, "resume")
        number = isinstance(self.every, int | float) and not isinstance(self.every, bool)
        if not (number and self.every >= 0):
            raise FieldfitError(f"every is {self.every!r:.80}; it must be a number of seconds of at least 0.")

    @property
    def of_folds(self) -> Checkpoint:
        """The file with the folds of a cross-validation that comes before the fit."""
        return replace(self, path=f"{os.fspath(self.path)}.cv")


def as_checkpoint(checkpoint: str | os.PathLike[str] | Checkpoint | None) -> Checkpoint | None:
    """Convert the argument of `fit` to a checkpoint."""
    return checkpoint if checkpoint is None or isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)


@dataclass(frozen=True)
class StageCheckpoint(Checkpoint):
    """The checkpoint of one stage of an estimator that has two, in one file.

    The file has the last state of the first stage and, once the second stage has begun, the state of that.
    """

    estimator: str = ""
    second: bool = False


def told_keeper(checkpoint: Checkpoint, prepared: Prepared, method: str) -> FileKeeper:
    """`file_keeper`, after the checkpoint's ``tell`` was called if the fit continues from the file."""
    keeper = file_keeper(checkpoint, prepared, method)
    keeper.tell()
    return keeper


def file_keeper(checkpoint: Checkpoint, prepared: Prepared, method: str) -> FileKeeper:
    """Return the object that keeps the states of one fit in its file. Raises an error for the file of another fit."""
    identity = _identity(prepared, method)
    if isinstance(checkpoint, StageCheckpoint):
        identity["policy"] = checkpoint.estimator
        if checkpoint.second:
            return SecondKeeper(checkpoint, identity)
    return FileKeeper(checkpoint, identity)


class FileKeeper:
    """Keeps the states of a descent in a file."""

    _first_must_succeed: bool = True  # report a file that cannot be written before the work, not after it

    def __init__(self, checkpoint: Checkpoint, identity: dict[str, str]) -> None:
        self._checkpoint, self._path = checkpoint, os.fspath(checkpoint.path)
        self._identity = identity
        self._written: int | None = None  # the iteration in the file
        self._when = time.monotonic()
        self._failed = False
        self.saved: State | None = None
        check_writable(self._path)
        if os.path.lexists(self._path):
            if not checkpoint.resume:
                raise FileAccessError(
                    f"{self._path} exists. Use resume=True (--resume) to continue from it, or give another file."
                )
            self.saved = self._read()

    def tell(self) -> None:
        """Call the checkpoint's ``tell``, if the fit continues from the file."""
        if self.saved is not None and self._checkpoint.tell is not None:
            self._checkpoint.tell(f"resuming: {self._path} has {describe_state(self._path)}")

    def keep(self, state: Callable[[], State], iteration: int, *, last: bool) -> None:
        """Write the state if it is due. An error in the first write ends the fit; later errors are warnings."""
        now = time.monotonic()
        due = self._written is None or last or now - self._when >= self._checkpoint.every
        if not due or iteration == self._written:
            return
        first = self._written is None
        try:
            self._write(state())
        except FileAccessError as error:
            if first and self._first_must_succeed:
                raise
            if not self._failed:
                self._failed = True
                warn_caller(
                    FieldfitWarning(f"A checkpoint could not be written, and the fit continues without it. {error}"),
                )
            return
        self._written, self._when = iteration, now

    def _write(self, state: State) -> None:
        write_container(self._path, {"kind": "checkpoint", "belongs_to": self._identity}, state)

    def _read(self) -> State | None:
        header, arrays = read_container(self._path, kind="checkpoint")
        self._check(header.get("belongs_to"))
        return self._counted(_stages(arrays)[0])

    def _check(self, belongs_to: object) -> None:
        if not isinstance(belongs_to, dict):
            raise FieldfitError(f"{self._path} does not say which fit it belongs to. Start again without it.")
        for key, meaning in _IDENTITY.items():
            if belongs_to.get(key) != self._identity[key]:
                raise FieldfitError(
                    f"{self._path} is the checkpoint of another fit: it had another {meaning}. Give the same, or another "
                    "file."
                )

    def _counted(self, state: State) -> State:
        self._written = len(state["nodes"]) if "nodes" in state and state["nodes"].ndim else _iterations(state)
        return state


class SecondKeeper(FileKeeper):
    """Keeps the states of a second stage in the file of the first, beside its last state."""

    _first_must_succeed = False

    def __init__(self, checkpoint: Checkpoint, identity: dict[str, str]) -> None:
        # The first stage has written the file in this process, or continued from it.
        self._header, arrays = read_container(checkpoint.path, kind="checkpoint")
        self._first, self._begun = _stages(arrays)
        super().__init__(replace(checkpoint, resume=True, tell=None), identity)

    def _write(self, state: State) -> None:
        prefixed = {_SECOND + name: array for name, array in state.items()}
        write_container(self._path, {**self._header, "second": self._identity}, {**self._first, **prefixed})

    def _read(self) -> State | None:
        if not self._begun:
            return None
        self._check(self._header.get("second"))
        return self._counted(self._begun)


class RoundKeeper(FileKeeper):
    """Keeps the states of one of the fits that choose automatic weights, beside the last states of the fits before it.

    A fit that has ended ends again at once from its last state, so the rounds are repeated up to the one that was stopped.
    """

    def __init__(self, checkpoint: Checkpoint, identity: dict[str, str], number: int) -> None:
        self._number = number
        self._before: State = {}
        self._first_must_succeed = number == 0
        super().__init__(replace(checkpoint, resume=checkpoint.resume or number > 0), identity)

    def _read(self) -> State | None:
        header, arrays = read_container(self._path, kind="checkpoint")
        self._check(header.get("belongs_to"))
        rounds = _rounds(arrays)
        self._before = {
            f"round{number}.{name}": array
            for number, state in enumerate(rounds[: self._number])
            for name, array in state.items()
        }
        return self._counted(rounds[self._number]) if self._number < len(rounds) else None

    def _write(self, state: State) -> None:
        header = {"kind": "checkpoint", "belongs_to": self._identity}
        write_container(
            self._path, header, self._before | {f"round{self._number}.{name}": a for name, a in state.items()}
        )


def round_keepers(
    checkpoint: Checkpoint, prepared: Prepared, method: str, weights: object
) -> Callable[[int], RoundKeeper]:
    """Return a function from the number of a fit to its keeper. ``weights`` are the options of the automatic weights."""
    identity = _identity(prepared, method)
    identity["policy"] += f", weights={weights!r}"
    return partial(RoundKeeper, checkpoint, identity)


class ReplicateKeeper(FileKeeper):
    """Keeps the finished resamples of a bootstrap, or separate fits: arrays with a row for each."""

    def _counted(self, state: State) -> State:
        self._written = next((len(array) for array in state.values() if array.ndim), 0)
        return state

    @classmethod
    def of(
        cls, checkpoint: Checkpoint, prepared: Prepared, estimator: str, theta: FloatArray, what: str
    ) -> ReplicateKeeper:
        """``what`` describes the resamples; they belong to this estimator and its θ."""
        identity = _identity(prepared, f"{what} of {digest_of('', theta)}")
        return cls(checkpoint, identity | {"policy": estimator})


@contextmanager
def named_in_errors(checkpoint: Checkpoint | None) -> Iterator[None]:
    """If a cluster is lost, the error says what the checkpoint holds and how to continue from it."""
    try:
        yield
    except ClusterError as error:
        if checkpoint is None:
            raise
        path = checkpoint.path
        if not os.path.exists(path):
            raise ClusterError(f"{error} {path} has not been written.") from error
        raise ClusterError(
            f"{error} {path} has {describe_state(path)}; the same fit with resume=True (--resume) goes on from there."
        ) from error


def describe_state(path: str | os.PathLike[str]) -> str:
    """Describe the state in a checkpoint, such as "the state after 12 iterations"."""
    arrays = read_container(path, kind="checkpoint")[1]
    if rounds := _rounds(arrays):
        iterations = counted(_iterations(rounds[-1]) or 0, "iterations")
        return f"the state after {iterations} of fit {len(rounds)} of the automatic weights"
    for name, things in (("resamples", "resamples"), ("nodes", "separate fits")):
        if name in arrays and arrays[name].ndim:
            return counted(len(arrays[name]), things)
    if "parts" in arrays:
        return counted(int(arrays["parts"].sum()), "finished parts")
    first, second = _stages(arrays)
    state = f"the state after {counted(_iterations(second or first) or 0, 'iterations')}"
    return f"{state} of the second stage" if second else state


def _stages(arrays: Arrays) -> tuple[State, State]:
    """The states of the first and of the second stage; a stage that has not begun has no arrays."""
    second = {name.removeprefix(_SECOND): array for name, array in arrays.items() if name.startswith(_SECOND)}
    return {name: array for name, array in arrays.items() if not name.startswith(_SECOND)}, second


def _rounds(arrays: Arrays) -> list[State]:
    """The states of the fits of automatic weights, from the first up to the first that is missing."""
    states: dict[int, State] = {}
    for name, array in arrays.items():
        if (parts := _ROUND.fullmatch(name)) is not None:
            states.setdefault(int(parts[1]), {})[parts[2]] = array
    return [states[number] for number in takewhile(states.__contains__, count())]


def _iterations(state: State) -> int | None:
    history = state.get("history")
    return None if history is None or history.ndim == 0 else len(history) - 1


def _identity(prepared: Prepared, method: str) -> dict[str, str]:
    """What identifies the fit of a checkpoint: everything that the iterations depend on."""
    header, arrays = prepared.model.specification()
    penalty = prepared.penalty
    l1 = np.zeros(0) if penalty.l1 is None else penalty.l1
    groups = () if penalty.l1_groups is None else (penalty.l1_groups,)
    return {
        "model": digest_of(
            json.dumps(header, sort_keys=True, default=str), *(arrays[name] for name in sorted(arrays))
        ),
        "policy": str(prepared.policy),
        "data": prepared.exact_fingerprint,
        "options": digest_of("", penalty.sigma2, l1, prepared.start, prepared.free, *groups),
        "random_state": str(prepared.random_state),
        "method": method,
        "shards": prepared.division,
    }


def digest_of(text: str, *arrays: Array) -> str:
    """A short text that identifies a text and arrays."""
    digest = blake2b(text.encode(), digest_size=16)
    for array in arrays:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
