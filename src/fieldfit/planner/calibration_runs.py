"""The runs that the machine's rates come from, and how they are timed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fieldfit.data.samples import Table
from fieldfit.models.base import Problem
from fieldfit.models.boltzmann import BoltzmannMachine
from fieldfit.models.field import FieldModel
from fieldfit.models.mrf import MarkovRandomField
from fieldfit.models.potts import Potts
from fieldfit.models.work import Work, clock
from fieldfit.planner.calibration import Calibration
from fieldfit.planner.costs import policy_work
from fieldfit.policies import Policy
from fieldfit.threads import get_threads, one_blas_thread, use_threads
from fieldfit.types import FloatArray

#: Passes over all runs; most evaluations of a run in a pass, and seconds after which there are no more.
_PASSES, _REPEATS, _SECONDS = 3, 5, 0.003


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
    bound: Any
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
        """Draw and compile once more, timed."""
        began = clock()
        self.problem = self.model.compile(self.table, self.bound.draw(0, 0, self.table.n))
        self.setups.append(clock() - began)

    def evaluate(self, repeats: int = _REPEATS, most_seconds: float = _SECONDS) -> None:
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


def measure() -> Calibration:
    """Time the runs and solve for the rates."""
    threads = get_threads()
    wall, busy = time.perf_counter(), time.thread_time()
    shared = None if threads < 2 else Shared.of(threads)
    waiting = 0.0
    with use_threads(1), one_blas_thread():
        timed = [CalibrationRun.of(*arguments) for arguments in runs()]
        for _ in range(_PASSES):
            for run in timed:
                run.compile_again()
            for run in timed:
                run.evaluate()
            if shared is not None:
                began = time.perf_counter() - time.thread_time()
                shared.evaluate()
                waiting += time.perf_counter() - time.thread_time() - began
    wait = (time.perf_counter() - wall - waiting) / max(time.thread_time() - busy, 1e-9) - 1
    evaluation = [_without_setup(run.work, setup=False) for run in timed]
    setting_up = [_without_setup(run.work, setup=True) for run in timed]
    rates, error = solve_rates(evaluation, [float(np.median(run.evaluations)) for run in timed])
    setup_rates, setup_error = solve_rates(setting_up, [min(run.setups) for run in timed])
    rates = rates | setup_rates | {"seconds": 1.0, "setup_seconds": 1.0}
    rated = Calibration(rates, max(error, setup_error), "measured now", waited=max(wait, 0.0))
    return rated if shared is None else shared.added_to(rated)


def _without_setup(work: Work, *, setup: bool) -> Work:
    return {
        kind: amount for kind, amount in work.items() if kind.startswith("setup") == setup and "tasks" not in kind
    }


def solve_rates(works: list[Work], seconds: list[float]) -> tuple[dict[str, float], float]:
    """Non-negative rates with the least squared relative errors, and the median relative error."""
    from scipy.optimize import nnls

    kinds = sorted({kind for work in works for kind in work})
    design = np.array([[work.get(kind, 0.0) for kind in kinds] for work in works])
    measured = np.array(seconds)
    # Each row divided by its time, columns scaled for the solver.
    relative = design / measured[:, None]
    scale = np.maximum(np.abs(relative).max(axis=0), 1e-300)
    rates = nnls(relative / scale, np.ones(len(measured)))[0] / scale
    error = float(np.median(np.abs(np.log(np.maximum(design @ rates, 1e-300) / measured))))
    return {kind: float(rate) for kind, rate in zip(kinds, rates, strict=True)}, error


class Shared:
    """What threads bring: the gain on a problem of many tasks, the start on one of few.

    Timed in every pass over the runs: the second processor may be away for a moment, and the least of times that lie apart
    does not know of it.
    """

    def __init__(self, threads: int, problems: list[CalibrationRun]) -> None:
        self.threads, self.problems = threads, problems
        self.times: list[list[float]] = [[], [], [], []]

    @classmethod
    def of(cls, threads: int) -> Shared:
        """The two problems, compiled."""
        sizes = ((60, 8192), (30, 512 * threads))
        return cls(threads, [CalibrationRun.of(BoltzmannMachine(m), n, "PL1") for m, n in sizes])

    def evaluate(self) -> None:
        """Both problems with one thread and with all, a few times."""
        for _ in range(4):
            for place, run in enumerate(self.problems):
                for many, count in enumerate((1, self.threads)):
                    with use_threads(count):
                        run.problem.value_grad(run.theta)
                        began = time.perf_counter()
                        run.problem.value_grad(run.theta)
                        self.times[2 * place + many].append(time.perf_counter() - began)

    def added_to(self, calibration: Calibration) -> Calibration:
        """The rates of one thread, with what more threads bring."""
        wide_one, wide_many, small_one, small_many = map(min, self.times)
        gain = min(max((wide_one / wide_many - 1) / (self.threads - 1), 0.0), 1.0)
        fork = min(max(small_many - small_one / (1 + (self.threads - 1) * gain), 0.0), 1e-4)
        return replace(calibration, threads=self.threads, gain=gain, fork=fork)
