"""Seconds for each kind of operation on this machine, from short runs whose result is cached.

Two dozen small problems are compiled and evaluated on one thread; the rates are the non-negative numbers that explain
their times best in relative error (`fieldfit.models.work` counts the operations). Times are medians (of set-ups the
least) of several passes over all runs, in CPU time of the thread: other programs can only add to them. What threads
bring is measured on its own, and so is what every fit takes besides (`Calibration.fit_seconds`):

    seconds = Σ serial + Σ parallel / s(tasks) + fork,     s(t) = 1 + (t/⌈t/threads⌉ − 1) × gain

The file lies in the user's cache folder, or in FIELDFIT_CACHE, and is keyed by machine, version and number of threads.
Rates that do not explain their own runs are used by the process that measured them, and not kept; nor is the gain of
threads that was measured while other programs kept the processors busy.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fieldfit.data.atomic import atomic_writer
from fieldfit.data.samples import Table
from fieldfit.models.boltzmann import BoltzmannMachine
from fieldfit.models.field import FieldModel
from fieldfit.models.mrf import MarkovRandomField
from fieldfit.models.potts import Potts
from fieldfit.models.problem import Problem
from fieldfit.models.work import ELIMINATION, ONCE, SERIAL, TASKS, Work, clock, is_setup, least_seconds
from fieldfit.planner.costs import policy_work
from fieldfit.policies import Policy
from fieldfit.policies.policy import BoundPolicy
from fieldfit.threads import get_threads, one_blas_thread, use_threads
from fieldfit.types import FieldfitError, FloatArray

#: Raised when the kinds of operations or the runs change.
_FORMAT = 6
_KNOWN: dict[str, Calibration] = {}
#: Kinds that are seconds themselves.
_TIMED = ("seconds", "setup_seconds")
#: The kind of what every fit takes besides reading, compiling and optimising, and how often that is timed.
_FIT, _FIT_REPEATS = "fit", 20
#: Median relative error over the calibration's own runs up to which it is kept.
_WORTH_KEEPING = 0.25
#: Share of waiting for other programs above which it is not kept: the gain of threads cannot be measured then.
_MOST_WAITED = 0.3
#: Passes over all runs; most evaluations of a run in a pass, and seconds after which there are no more.
_RUN_PASSES, _MOST_PASS_EVALUATIONS, _PASS_SECONDS = 2, 5, 0.0015
#: Seconds of all set-ups of a run after which there are no more: the least of two is enough for long ones.
_SETUP_SECONDS = 0.003


@dataclass(frozen=True)
class Calibration:
    """Seconds for one operation of each kind, what threads bring, and how well the rates explain their own runs."""

    rates: Mapping[str, float]
    error: float  # median |log(predicted/measured)| over the calibration's own runs
    source: str  # "measured now" or the file
    threads: int = 1
    gain: float = 1.0  # share of the ideal speed-up that threads reach
    fork: float = 0.0  # seconds to start and join them
    waited: float = 0.0  # seconds that other programs had the processor, for each second of the calibration's own

    def evaluation_seconds(self, work: Work) -> float:
        """Seconds of one evaluation of value and gradient."""
        serial, blocks, sums = 0.0, 0.0, 0.0
        for kind, amount in work.items():
            if is_setup(kind) or kind in TASKS:
                continue
            seconds = amount * self.rates.get(kind, 0.0)
            if kind in ELIMINATION:
                sums += seconds
            elif kind in SERIAL or kind == "seconds":  # sequences are timed with the threads that they use
                serial += seconds
            else:
                blocks += seconds
        return serial + self._shared(blocks, work.get(TASKS[0], 1.0)) + self._shared(sums, work.get(TASKS[1], 1.0))

    def _shared(self, seconds: float, tasks: float) -> float:
        if self.threads < 2 or tasks < 2:
            return seconds
        ideal = tasks / math.ceil(tasks / self.threads)
        return seconds / (1 + (ideal - 1) * self.gain) + self.fork

    @property
    def fit_seconds(self) -> float:
        """Seconds of a fit besides reading, compiling and optimising."""
        return self.rates.get(_FIT, 0.0)

    def setup_seconds(self, work: Work) -> float:
        """Seconds for drawing Z and compiling."""
        return sum(amount * self.rates.get(kind, 0.0) for kind, amount in work.items() if is_setup(kind))


def calibration(fit: Callable[..., object], *, fresh: bool = False) -> Calibration:
    """The rates of this machine: known to the process, else from the cache, else measured (with this `fit`) and cached."""
    key = _key()
    if not fresh and key in _KNOWN:
        return _KNOWN[key]
    path = cache_folder() / f"calibration-{key}.json"
    rates = None if fresh else _read(path)
    if rates is None:
        rates = measure(fit)
        if rates.error <= _WORTH_KEEPING and (rates.threads == 1 or rates.waited <= _MOST_WAITED):
            _write(path, rates)
    _KNOWN[key] = rates
    return rates


def cache_folder() -> Path:
    """FIELDFIT_CACHE, else the platform's folder for caches."""
    chosen = os.environ.get("FIELDFIT_CACHE")
    if chosen:
        return Path(chosen)
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "fieldfit" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "fieldfit"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "fieldfit"


def _key() -> str:
    from fieldfit import __version__

    parts = (_FORMAT, __version__, platform.machine(), platform.node(), _processor(), os.cpu_count(), get_threads())
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _write(path: Path, rates: Calibration) -> None:
    document = {name: getattr(rates, name) for name in ("rates", "error", "threads", "gain", "fork")}
    with contextlib.suppress(OSError, FieldfitError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_writer(path) as file:
            file.write(json.dumps(document, indent=1).encode())


def _read(path: Path) -> Calibration | None:
    """The cached rates; None where there is no file or it is damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        rates = {str(kind): float(rate) for kind, rate in document["rates"].items()}
        error, gain, fork = (float(document[name]) for name in ("error", "gain", "fork"))
        threads = int(document["threads"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    sound = rates and all(0 <= rate < 1 for kind, rate in rates.items() if kind not in _TIMED)
    if not (sound and 0 <= gain <= 1 and 0 <= fork < 1 and threads >= 1):
        return None
    return Calibration(rates, error, str(path), threads, gain, fork)


def runs() -> list[tuple[FieldModel, int, str]]:
    """Small problems that together use every kind of operation; the same kind at several sizes."""
    ten, thirty, grid = BoltzmannMachine(10), BoltzmannMachine(30, biases=True), BoltzmannMachine.grid(7, 7)
    wide, potts = BoltzmannMachine(100), Potts.grid(3, 3, 3)
    return [
        (ten, 64, "PL1"), (ten, 10_000, "PL1"), (thirty, 2000, "PL1"), (grid, 2000, "PL1"), (wide, 600, "PL1"),
        (BoltzmannMachine.grid(8, 8, neighbours=8), 1000, "PL1"),
        (thirty, 1000, "PL2"), (ten, 2000, "PL2"), (grid, 300, "PL2"), (grid, 1000, "PL2(connected)"),
        (ten, 200, "PL3"), (ten, 100, "PL4"),
        (thirty, 1500, "0.3*PL1"), (ten, 4000, "0.3*PL1"), (thirty, 600, "0.1*PL2"), (grid, 200, "0.1*PL2"),
        (thirty, 800, "Partition(2)"), (thirty, 500, "Partition(4)"), (BoltzmannMachine(60), 300, "Partition(3)"),
        (wide, 1500, "0.1*PL1/row"), (BoltzmannMachine(3), 100, "FL"), (BoltzmannMachine(13), 200, "FL"),
        (BoltzmannMachine.grid(5, 5), 2000, "FL"), (Potts.grid(1, 16, 6), 100, "FL"), (Potts.grid(3, 3, 2), 50, "PL1"),
        (potts, 300, "PL1"), (potts, 300, "PL2(connected)"), (Potts.grid(2, 4, 4), 600, "PL2(connected)"),
        (Potts.grid(2, 3, 4), 200, "0.5*PL1"), (BoltzmannMachine(7), 20_000, "PL1"), (_mixed(), 500, "PL1"),
        (_mixed(), 500, "PL2"), (BoltzmannMachine.grid(4, 5), 6000, "PL2"),
    ]  # fmt: skip


def _mixed() -> FieldModel:
    """Variables of several sizes, with cliques of two and of three."""
    pairs = [(place, place + 1) for place in range(5)]
    return MarkovRandomField([2, 3, 2, 3, 2, 4], [*pairs, (0, 2, 4)])


@dataclass
class CalibrationRun:
    """A policy on random samples: its counted work, and the seconds measured so far."""

    work: Work
    model: FieldModel
    table: Table
    bound: BoundPolicy
    theta: FloatArray
    problem: Problem
    setups: list[float] = field(default_factory=list)
    evaluations: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, model: FieldModel, n: int, text: str) -> CalibrationRun:
        """The run, compiled once."""
        table, theta = random_samples(model, n)
        bound = Policy.parse(text).bind(model.structure(table))
        began = clock()
        problem = model.compile(table, bound.draw(0, 0, table.n))
        first = clock() - began
        work = policy_work(model, table, text, theta, problem)
        return cls(work, model, table, bound, theta, problem, [first])

    def compile_again(self) -> None:
        """Draw and compile once more, timed; not where the set-ups before have taken long enough."""
        if len(self.setups) > 1 and sum(self.setups) > _SETUP_SECONDS:
            return
        began = clock()
        self.problem = self.model.compile(self.table, self.bound.draw(0, 0, self.table.n))
        self.setups.append(clock() - began)

    def evaluate(self, repeats: int = _MOST_PASS_EVALUATIONS, most_seconds: float = _PASS_SECONDS) -> None:
        """A few evaluations, timed; one before them brings the data back into the cache."""
        self.problem.value_grad(self.theta)
        began = clock()
        for _ in range(repeats):
            start = clock()
            self.problem.value_grad(self.theta)
            now = clock()
            self.evaluations.append(now - start)
            if now - began > most_seconds:
                break


def random_samples(model: FieldModel, n: int, seed: int = 1) -> tuple[Table, FloatArray]:
    """Uniform samples and a θ near 0."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, c, n) for c in model.graph.cardinalities], axis=1).astype(np.int32)
    return Table(codes, model.names, model.states), rng.normal(size=model.n_parameters) * 0.1


def measure(fit: Callable[..., object]) -> Calibration:
    """Time the runs and solve for the rates, and time what threads bring.

    That is the gain on a problem of many tasks and the start on one of few, in every pass over the runs: the second
    processor may be away for a moment, and the least of times that lie apart does not know of it.
    """
    threads = get_threads()
    wall, busy, waiting = time.perf_counter(), time.thread_time(), 0.0
    sizes = ((60, 8192), (30, 512 * threads)) if threads > 1 else ()
    shared = [CalibrationRun.of(BoltzmannMachine(m), n, "PL1") for m, n in sizes]
    times: dict[tuple[int, int], list[float]] = {}
    with use_threads(1), one_blas_thread():
        timed = [CalibrationRun.of(*arguments) for arguments in runs()]
        fixed = _fixed_seconds(fit)
        for _ in range(_RUN_PASSES):
            for run in timed:
                run.compile_again()
            for run in timed:
                run.evaluate()
            began = time.perf_counter() - time.thread_time()
            for _, (place, run), count in itertools.product(range(4), enumerate(shared), (1, threads)):
                with use_threads(count):
                    run.problem.value_grad(run.theta)
                    start = time.perf_counter()
                    run.problem.value_grad(run.theta)
                    times.setdefault((place, count), []).append(time.perf_counter() - start)
            waiting += time.perf_counter() - time.thread_time() - began
    wait = (time.perf_counter() - wall - waiting) / max(time.thread_time() - busy, 1e-9) - 1
    rates, error = _solve_rates(timed, setup=False)
    setup_rates, setup_error = _solve_rates(timed, setup=True)
    rates = rates | setup_rates | dict.fromkeys(_TIMED, 1.0) | {_FIT: fixed}
    measured = Calibration(rates, max(error, setup_error), "measured now", waited=max(wait, 0.0))
    if not shared:
        return measured
    (wide, wide_shared), (small, small_shared) = ((min(times[k, 1]), min(times[k, threads])) for k in (0, 1))
    gain = min(max((wide / wide_shared - 1) / (threads - 1), 0.0), 1.0)
    fork = min(max(small_shared - small / (1 + (threads - 1) * gain), 0.0), 1e-4)
    return replace(measured, threads=threads, gain=gain, fork=fork)


def _fixed_seconds(fit: Callable[..., object]) -> float:
    """Seconds of a fit that hardly has to evaluate anything: the policy's text, checks, the result."""
    model = BoltzmannMachine(2)
    table = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [3, 2, 2, 3], axis=0)
    fit(model, table, "PL1")  # loads code
    return least_seconds(lambda: fit(model, table, "PL1"), _FIT_REPEATS)


def _solve_rates(timed: list[CalibrationRun], *, setup: bool) -> tuple[dict[str, float], float]:
    """Non-negative rates with the least squared relative errors, and the median relative error."""
    from scipy.optimize import nnls

    known = {kind for run in timed for kind in run.work if is_setup(kind) == setup}
    kinds = sorted(known.difference(TASKS, ONCE.values()))
    design = np.array([[run.work.get(kind, 0.0) for kind in kinds] for run in timed])
    measured = np.array([min(run.setups) if setup else float(np.median(run.evaluations)) for run in timed])
    # Each row divided by its time, columns scaled for the solver.
    relative = design / measured[:, None]
    scale = np.maximum(np.abs(relative).max(axis=0), 1e-300)
    rates = nnls(relative / scale, np.ones(len(measured)))[0] / scale
    error = float(np.median(np.abs(np.log(np.maximum(design @ rates, 1e-300) / measured))))
    return {kind: float(rate) for kind, rate in zip(kinds, rates, strict=True)}, error
