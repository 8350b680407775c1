"""Predicted against measured seconds over models, sizes and policies that the calibration has not seen.

    python benchmarks/cost_model.py [--out docs/figures] [--rounds 9] [--threads 1 2] [--quick]

All problems are compiled first and then evaluated in turn, round by round (interleaved), so that a slow minute of the
machine hits all of them; measured are medians. One thread is timed in CPU seconds, more than one on the wall. Fields are
predicted from counted operations and the machine's calibration, sequences from timing at most 1,500 of them; *drift* is
how much slower or faster the calibration's own runs are at the end than they were when it was made. The aim: within 25%.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.models.boltzmann_chain import BoltzmannChain
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.work import clock
from fieldfit.planner.calibration import CalibrationRun, calibration, random_samples, runs
from fieldfit.planner.costs import policy_work, timed_work
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Share
from fieldfit.report.figures import figure, make_folder, save_figure
from fieldfit.report.table import PlainTable, aligned_text
from fieldfit.threads import get_threads, one_blas_thread, use_threads


@dataclass
class Job:
    """One policy on one dataset: predicted seconds, and those measured so far."""

    model: str
    n: int
    policy: str
    compile: Callable[[], Any]
    theta: np.ndarray
    predicted: float
    predicted_setup: float
    problem: Any = None
    times: list[float] = field(default_factory=list)
    setups: list[float] = field(default_factory=list)

    def set_up(self) -> None:
        """Draw and compile, timed."""
        began = clock()
        self.problem = self.compile()
        self.setups.append(clock() - began)

    def evaluate(self) -> None:
        """Two evaluations, timed."""
        self.problem.value_grad(self.theta)  # a fit evaluates one problem again and again, so its data are at hand
        for _ in range(2):
            began = clock()
            self.problem.value_grad(self.theta)
            self.times.append(clock() - began)


def field_cases(quick: bool):
    grid, dense = ff.BoltzmannMachine.grid, ff.BoltzmannMachine
    pairs = list(pairwise(range(8)))
    mixed = ff.MarkovRandomField([2, 3, 2, 4, 2, 3, 2, 2], [*pairs, (0, 2, 4), (3, 5, 7)])
    yield "dense 6", dense(6), 50_000, ("PL1", "PL2", "FL", "Partition(2)")
    yield "dense 12", dense(12), 2_000, ("PL1", "PL2", "PL3", "FL", "0.3*PL1")
    yield (
        "dense 20",
        dense(20, biases=True),
        5_000,
        ("PL1", "PL2", "0.3*PL1", "0.1*PL2", "Partition(2)", "0.2*PL1/row"),
    )
    yield "grid 5×5", grid(5, 5), 10_000, ("PL1", "PL2", "FL", "Partition(2)")
    yield "grid 12×12", grid(12, 12), 5_000, ("PL1", "0.3*PL1", "Partition(2)", "0.2*PL1/row")
    yield "Potts 3×3, q=3", ff.Potts.grid(3, 3, 3), 2_000, ("PL1", "0.3*PL1", "FL")
    yield "general, 8 variables", mixed, 3_000, ("PL1", "PL2", "FL")
    if quick:
        return
    yield "dense 60", dense(60), 5_000, ("PL1", "PL2", "0.2*PL1", "Partition(2)", "Partition(3)", "0.2*PL1/row")
    yield "dense 200", dense(200), 4_000, ("PL1", "0.5*PL1", "0.5*PL1/row")
    yield "grid 8×8", grid(8, 8), 2_000, ("PL1", "FL", "PL2(connected)")
    yield "Potts 5×4, q=4", ff.Potts.grid(5, 4, 4), 1_000, ("PL1", "PL2(connected)", "0.3*PL1")
    yield "Potts 6×6, q=3", ff.Potts.grid(6, 6, 3), 1_500, ("PL1", "FL")


def sequences(labels: int, features: int, each: int, n: int, seed: int) -> Sequences:
    """Random sequences of 5 to 45 tokens with ``each`` features a token."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(5, 46, n))))
    tokens = int(offsets[-1])
    indices = np.minimum(rng.geometric(20.0 / features, tokens * each) - 1, features - 1).astype(np.int32)
    tags = ((indices[::each] + rng.integers(0, 2, tokens)) % labels).astype(np.int32)
    return Sequences(offsets, np.arange(0, tokens * each + 1, each), indices, None, tags, features, labels)


def chain_cases(quick: bool):
    data = sequences(8, 2_000, 5, 4_000, 0)
    yield "CRF, 8 labels", ChainCRF(8, 2_000).observe(data), data, ("PL1", "FL", "0.3*PL1")
    one = sequences(20, 3_000, 1, 5_000, 1)
    yield "Boltzmann chain, 20 labels", BoltzmannChain(20, 3_000), one, ("PL1", "FL")
    if quick:
        return
    wide = sequences(22, 20_000, 7, 5_000, 2)
    yield "CRF, 22 labels", ChainCRF(22, 20_000).observe(wide), wide, ("PL1", "PL2", "FL", "0.3*PL1")
    many = sequences(120, 2_000, 5, 2_500, 3)
    yield "CRF, 120 labels", ChainCRF(120, 2_000).observe(many), many, ("PL1", "FL")


def field_jobs(rates, quick: bool) -> list[Job]:
    jobs = []
    for name, model, n, policies in field_cases(quick):
        table, theta = random_samples(model, n, 0)
        for text in policies:
            work = policy_work(model, table, text, theta)
            bound = Policy.parse(text).bind(model.structure())

            def compiled(model=model, table=table, bound=bound):
                return model.compile(table, bound.draw(0, 0, table.n))

            jobs.append(
                Job(name, n, text, compiled, theta, rates.evaluation_seconds(work), rates.setup_seconds(work))
            )
    return jobs


def chain_jobs(rates, quick: bool) -> list[Job]:
    jobs = []
    for name, model, data, policies in chain_cases(quick):
        rng = np.random.default_rng(5)
        theta = rng.normal(size=model.n_parameters) * 0.1
        for text in policies:
            lam, _, name_only = text.rpartition("*")
            work = timed_work(model, data, name_only, theta).work(Share(float(lam or 1), 1.0))
            bound = Policy.parse(text).bind(model.structure(data))

            def compiled(model=model, data=data, bound=bound):
                return model.compile(data, bound.draw(0, 0, len(data)))

            jobs.append(
                Job(name, len(data), text, compiled, theta, rates.evaluation_seconds(work), rates.setup_seconds(work))
            )
    return jobs


def drift_of(first: dict[int, float]) -> float:
    """The median ratio of the seconds of a few of the calibration's runs now to those in ``first`` (filled if empty)."""
    chosen = (0, 2, 5, 10, 19)
    least = {}
    with use_threads(1):
        for place in chosen:
            own = CalibrationRun.of(*runs()[place])
            for _ in range(3):
                own.evaluate()
            least[place] = min(own.evaluations)
    if not first:
        first.update(least)
    return float(np.median([least[place] / first[place] for place in chosen]))


def compare(threads: int, rounds: int, quick: bool) -> tuple[list[tuple[Any, ...]], np.ndarray]:
    """Rows for the table, and (measured, predicted, setup, predicted setup) of each job."""
    ff.set_threads(threads)
    began = time.perf_counter()
    rates = calibration(ff.fit, fresh=True)
    seconds = time.perf_counter() - began
    first: dict[int, float] = {}
    drift_of(first)
    print(
        f"\n{threads} thread{'s' if threads > 1 else ''}: calibration in {seconds:.2f} s, explains its own runs within "
        f"{100 * rates.error:.0f}% (median); gain of threads {rates.gain:.2f}, fork {1e6 * rates.fork:.0f} µs"
    )
    jobs = field_jobs(rates, quick) + chain_jobs(rates, quick)
    for _ in range(2):
        for job in jobs:
            job.set_up()
    for _ in range(rounds):
        for job in jobs:
            job.evaluate()
    for job in jobs:
        job.set_up()
    rows: list[tuple[Any, ...]] = []
    data = []
    for job in jobs:
        measured, setup = float(np.median(job.times)), float(np.median(job.setups))
        data.append((measured, job.predicted, setup, job.predicted_setup))
        rows.append((job.model, job.n, job.policy, 1e3 * measured, 1e3 * job.predicted, job.predicted / measured,
                     1e3 * setup, job.predicted_setup / setup))  # fmt: skip
    columns = ("model", "n", "policy", "ms", "predicted", "ratio", "setup ms", "setup ratio")
    formats = ("", "", "", ".3g", ".3g", ".2f", ".3g", ".2f")
    print(aligned_text(PlainTable("One evaluation of value and gradient", columns, tuple(rows), "", formats)))
    points = np.array(data)
    total = 20 * points[:, 0] + points[:, 2], 20 * points[:, 1] + points[:, 3]
    for label, expected, seen in (
        ("evaluation", points[:, 1], points[:, 0]),
        ("setting up", points[:, 3], points[:, 2]),
        ("setting up and 20 evaluations", total[1], total[0]),
    ):
        away = np.abs(np.log(expected / seen))
        print(f"{label}: within 25%: {100 * np.mean(away <= np.log(1.25)):.0f}% of {len(away)}, median error "
              f"{100 * (np.exp(np.median(away)) - 1):.0f}%, largest factor {np.exp(away.max()):.2f}")  # fmt: skip
    print(f"drift of the machine since the calibration: {drift_of(first):.2f}")
    return rows, points


def draw(found: dict[int, np.ndarray], folder: Path) -> None:
    """Predicted against measured, with the band of 25%."""
    with figure(5.6, 5.2) as drawing:
        axes = drawing.add_axes((0.12, 0.11, 0.85, 0.86))
        points = 1e3 * np.concatenate([own[:, :2] for own in found.values()])
        ends = np.array([0.6 * points.min(), 1.7 * points.max()])
        axes.fill_between(ends, ends / 1.25, ends * 1.25, color="#e9e4dc", linewidth=0, label="within 25%")
        axes.plot(ends, ends, color="#6b6b6b", linewidth=0.8)
        for (threads, own), (mark, colour) in zip(found.items(), (("o", "#2b5c8a"), ("^", "#b5482a")), strict=False):
            axes.plot(1e3 * own[:, 0], 1e3 * own[:, 1], mark, color=colour, markersize=4.5, markeredgewidth=0, alpha=0.85,
                      label=f"{threads} thread{'s' if threads > 1 else ''}")  # fmt: skip
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("one evaluation, measured (milliseconds, median)")
        axes.set_ylabel("predicted (milliseconds)")
        axes.legend(frameon=False, loc="upper left")
    for path in save_figure(drawing, make_folder(folder), "cost-model", kinds=("png",)):
        print("written:", path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for cost-model.png")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, get_threads()}))
    parser.add_argument("--quick", action="store_true", help="half of the models")
    options = parser.parse_args()
    found = {}
    for threads in options.threads:
        with one_blas_thread():  # as in a fit
            found[threads] = compare(threads, options.rounds, options.quick)[1]
    ff.set_threads(None)
    if options.out is not None:
        draw(found, options.out)


if __name__ == "__main__":
    main()
