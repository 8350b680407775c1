"""The operations of the kernels for a family of a policy, by kind, as a function of n, λ and the law of Z.

`pairwise_work` and `elimination_work` count them and say which kinds there are; families of sequences are timed and not
counted (kind ``seconds``, one for each second). Kinds with names that begin with ``setup`` are counted once for a fit:
drawing Z and compiling. Kinds in SERIAL run on one thread, all others are split into ``tasks`` that threads share.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from fieldfit.models.problem import Problem
from fieldfit.policies.laws.base import Share
from fieldfit.threads import get_threads
from fieldfit.types import FloatArray

Work = dict[str, float]

#: Kinds of operations that run on one thread, for any number of threads.
SERIAL = ("call", "field_call", "sums", "table")
#: Kinds that exact sums split into "elimination_tasks"; every other kind is split into "pairwise_tasks".
ELIMINATION = ("configuration", "eliminate1", "eliminate8")
TASKS = ("pairwise_tasks", "elimination_tasks")
#: The kinds that say how much of another kind the shards of a process share. They are no operations of their own.
ONCE = {"configuration": "once_configuration", "eliminate1": "once_eliminate1"}
#: Prefix of the kinds that are counted once for a fit.
_SETUP = "setup"
#: Kinds that families of one fit share: their work is the maximum over the families, not the sum.
_SHARED = (
    "call", "field_call", "panel", "dense", "edge", "table", "sums", "expand", "transpose", *TASKS,
    "setup_call", "setup_field_call", "setup_pack", "setup_sort", "setup_edge",
)  # fmt: skip


@cache
def is_setup(kind: str) -> bool:
    """Whether the operations of this kind are counted once for a fit."""
    return kind.startswith(_SETUP)


class FamilyWork(Protocol):
    """The work of one family in a fit on all samples."""

    def work(self, share: Share) -> Work:
        """Operations by kind when the law draws this share of the family."""


def combine(parts: Sequence[Mapping[str, float]]) -> Work:
    """The work of families that are fitted together."""
    total: Work = {}
    for part in parts:
        for kind, amount in part.items():
            total[kind] = max(total.get(kind, 0.0), amount) if kind in _SHARED else total.get(kind, 0.0) + amount
    return total


def whole(count: float, unit: int) -> float:
    """``count`` rounded up to whole units."""
    return float(math.ceil(count / unit - 1e-9) * unit)


@dataclass(frozen=True)
class Line:
    """fixed + each · samples seconds."""

    fixed: float
    each: float

    @classmethod
    def through(cls, rows: int, seconds: float, fewer: int, less: float) -> Line:
        """The line through two timings, with nonnegative coefficients in spite of noise."""
        each = min(max((seconds - less) / max(rows - fewer, 1), 0.0), seconds / max(rows, 1))
        return cls(seconds - each * rows, each)

    def at(self, rows: float) -> float:
        """Seconds for a number of samples."""
        return self.fixed + self.each * rows


@dataclass(frozen=True)
class TimedWork:
    """Families whose operations are not counted but timed, on two numbers of samples.

    ``base`` is the share of an evaluation that does not depend on the selection (scores of tokens), where components are
    drawn one by one. ``setup`` compiles all of them; ``drawing`` are the seconds of drawing and compiling for each sample
    as a function of λ < 1, if they were timed.
    """

    n: int
    evaluation: Line
    setup: Line
    base: float = 0.0
    drawing: Line | None = None

    def work(self, share: Share) -> Work:
        """Seconds for what is selected."""
        lam = share.lam
        samples = self.n * (lam if share.together else self.base + (1 - self.base) * lam)
        if lam >= 1.0:
            setup = self.setup.at(self.n)
        elif self.drawing is None or share.together:
            setup = self.setup.at(self.n * (0.2 + 0.8 * lam))
        else:
            setup = self.n * self.drawing.at(lam)
        return {"call": 1.0, "seconds": self.evaluation.at(samples), "setup_seconds": setup}


@dataclass(frozen=True)
class TimedSum:
    """A family with one sum for all samples, counted but for its evaluation, which took ``seconds``.

    An entry of a table of half a million takes longer than one of the small tables that rates come from.
    """

    counted: FamilyWork
    seconds: float

    def work(self, share: Share) -> Work:
        """The same as counted where there are several sums, as with missing values."""
        work = self.counted.work(share)
        if work.get(TASKS[1], 1.0) > 1.0:
            return work
        return {kind: amount for kind, amount in work.items() if kind not in ELIMINATION} | {"seconds": self.seconds}


#: Whether the thread's CPU clock is fine enough to time an evaluation.
_FINE = hasattr(time, "thread_time") and time.get_clock_info("thread_time").resolution <= 1e-6


def clock() -> float:
    """CPU seconds of this thread if the kernels use only this thread, else wall-clock seconds."""
    return time.thread_time() if _FINE and get_threads() == 1 else time.perf_counter()


def typical_seconds(problem: Problem, theta: FloatArray, repeats: int = 7, most_seconds: float = 0.05) -> float:
    """The median seconds of a few evaluations (at least two), after one that loads the data into the cache."""
    problem.value_grad(theta)
    times: list[float] = []
    while len(times) < 2 or (len(times) < repeats and sum(times) < most_seconds):
        began = clock()
        problem.value_grad(theta)
        times.append(clock() - began)
    return statistics.median(times)


def least_seconds(run: Callable[[], object], repeats: int = 3, long: float = 0.02) -> float:
    """The least seconds of a few runs, to ignore slow outliers. One run that takes ``long`` is enough."""
    least = math.inf
    for _ in range(repeats):
        began = clock()
        run()
        seconds = clock() - began
        least = min(least, seconds)
        if seconds > long:
            break
    return max(least, 1e-7)
