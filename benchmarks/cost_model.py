"""Predicted against measured seconds over models, sizes and policies that the calibration has not seen.

    python benchmarks/cost_model.py [--out FOLDER] [--rounds 7]

All problems are compiled first and then evaluated in turn, round by round (interleaved), so that a slow minute of the
machine hits all of them; measured are medians. The aim: within 25%.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import fieldfit as ff
from fieldfit.data.samples import Table
from fieldfit.planner.calibration import calibration, run_work
from fieldfit.policies import Policy
from fieldfit.report.figures import figure, make_folder, save_figure
from fieldfit.report.table import PlainTable, aligned_text


def cases():
    grid, dense = ff.BoltzmannMachine.grid, ff.BoltzmannMachine
    yield "dense 6", dense(6), 50_000, ("PL1", "PL2", "FL", "Partition(2)")
    yield "dense 12", dense(12), 2_000, ("PL1", "PL2", "PL3", "FL")
    yield (
        "dense 20",
        dense(20, biases=True),
        5_000,
        ("PL1", "PL2", "0.3*PL1", "0.1*PL2", "Partition(2)", "0.2*PL1/row"),
    )
    yield "dense 60", dense(60), 5_000, ("PL1", "0.2*PL1", "Partition(2)", "Partition(3)")
    yield "dense 200", dense(200), 2_000, ("PL1", "0.5*PL1/row")
    yield "grid 5×5", grid(5, 5), 10_000, ("PL1", "PL2", "FL", "Partition(2)")
    yield "grid 12×12", grid(12, 12), 5_000, ("PL1", "0.3*PL1", "Partition(2)", "0.2*PL1/row")
    yield "Potts 3×3, q=3", ff.Potts.grid(3, 3, 3), 2_000, ("PL1", "0.3*PL1", "FL")
    yield "Potts 5×4, q=4", ff.Potts.grid(5, 4, 4), 1_000, ("PL1", "PL2(connected)", "0.3*PL1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    began = time.perf_counter()
    rates = calibration(fresh=True)
    print(f"calibration: {time.perf_counter() - began:.2f} s, own median error {100 * rates.error:.0f}%")
    rng = np.random.default_rng(0)
    jobs = []
    for name, model, n, policies in cases():
        codes = np.stack([rng.integers(0, c, n) for c in model.graph.cardinalities], axis=1).astype(np.int32)
        table = Table(codes, model.names, model.states)
        theta = rng.normal(size=model.n_parameters) * 0.1
        for text in policies:
            work = run_work(model, table, text, theta)
            bound = Policy.parse(text).bind(model.structure())
            setups = []
            for _ in range(2):
                began = time.perf_counter()
                problem = model.compile(table, bound.draw(0, 0, n))
                setups.append(time.perf_counter() - began)
            problem.value_grad(theta)
            jobs.append((name, n, text, problem, theta, work, min(setups), []))
    for _ in range(options.rounds):
        for *_, problem, theta, _work, _setup, times in jobs:
            problem.value_grad(theta)  # a fit evaluates one problem again and again, so its data are at hand
            for _ in range(2):
                began = time.perf_counter()
                problem.value_grad(theta)
                times.append(time.perf_counter() - began)
    rows, points = [], []
    for name, n, text, _, _, work, setup, times in jobs:
        measured, predicted = float(np.median(times)), rates.evaluation_seconds(work)
        points.append((measured, predicted, setup, rates.setup_seconds(work), float(np.min(times))))
        least = points[-1][4]
        rows.append((name, n, text, 1e3 * measured, 1e3 * predicted, predicted / measured, predicted / least,
                     points[-1][3] / setup))  # fmt: skip
    columns = ("model", "n", "policy", "median ms", "predicted ms", "ratio", "to least", "setup ratio")
    formats = ("", "", "", ".3g", ".3g", ".2f", ".2f", ".2f")
    print(aligned_text(PlainTable("One evaluation of value and gradient", columns, tuple(rows), "", formats)))
    data = np.array(points)
    for label, left, right in (("median", data[:, 1], data[:, 0]), ("least", data[:, 1], data[:, 4]),
                               ("setup", data[:, 3], data[:, 2])):  # fmt: skip
        away = np.abs(np.log(left / right))
        within = np.mean(away <= np.log(1.25))
        print(f"{label}: median error {100 * (np.exp(np.median(away)) - 1):.0f}%, within 25%: {100 * within:.0f}%, "
              f"largest factor {np.exp(away.max()):.2f}")  # fmt: skip
    if options.out is not None:
        with figure(5.4, 5.0) as drawing:
            axes = drawing.add_axes((0.13, 0.12, 0.84, 0.84))
            ends = np.array([0.6 * data[:, :2].min(), 1.6 * data[:, :2].max()]) * 1e3
            axes.fill_between(ends, ends / 1.25, ends * 1.25, color="#e9e4dc", linewidth=0, label="within 25%")
            axes.plot(ends, ends, color="#6b6b6b", linewidth=0.8)
            axes.plot(1e3 * data[:, 0], 1e3 * data[:, 1], "o", color="#2b5c8a", markersize=4.5, label="evaluation")
            axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
            axes.set_xlabel("measured, ms (median)")
            axes.set_ylabel("predicted from counted operations, ms")
            axes.legend(frameon=False)
        for path in save_figure(drawing, make_folder(options.out), "cost-model"):
            print("written:", path)


if __name__ == "__main__":
    main()
