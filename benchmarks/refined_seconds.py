"""Squared error against processor time on a 6×6 grid: first stages, refined estimators and maximum likelihood.

    python benchmarks/refined_seconds.py [--replications 100] [--minutes 60] [--out docs/figures]

Writes refined-seconds.csv and refined-seconds.png. All policies fit the same simulated samples on one thread; errors are
relative to maximum likelihood's.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np

import fieldfit as ff
from fieldfit.types import FloatArray

POLICIES = ("PL1", "PL2", "FL", "PL1 >> FL", "PL1 >> optimal(1)", "PL1 >> optimal(2)", "PL1 >> FL~20000")
SAMPLES, COUPLING = 2_000, 0.5


def measure(replications: int, minutes: float) -> tuple[FloatArray, FloatArray]:
    """Squared errors and processor seconds (policies, replications)."""
    model = ff.BoltzmannMachine.grid(6, 6, states=(-1, 1))
    signs = np.array([1.0 if bin(5 * k + 3).count("1") % 2 else -1.0 for k in range(model.n_parameters)])
    theta = COUPLING * signs
    errors, seconds = np.zeros((2, len(POLICIES), replications))
    end = time.perf_counter() + 60 * minutes
    for policy in POLICIES:  # imports and compiled tables are not measured
        ff.fit(model, model.sample(theta, 1_000, 0).values, policy)
    for seed in range(replications):
        x = model.sample(theta, SAMPLES, 7_000 + seed).values
        for place, policy in enumerate(POLICIES):
            began = time.process_time()
            fit = ff.fit(model, x, policy, random_state=seed)
            seconds[place, seed] = time.process_time() - began
            errors[place, seed] = float(np.sum((fit.theta - theta) ** 2))
        if time.perf_counter() > end:
            return errors[:, : seed + 1], seconds[:, : seed + 1]
    return errors, seconds


def draw(rows: list[tuple[str, float, float, float]], count: int, path: Path) -> None:
    """Seconds against relative squared error, with bars of two standard errors."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    for policy, second, relative, error in rows:
        colour = "tab:blue" if ">>" in policy else "tab:grey"
        axes.errorbar(second, relative, yerr=2 * error, fmt="o", color=colour, capsize=3)
        left = second == max(row[1] for row in rows)  # the slowest has no room to its right
        axes.annotate(
            policy,
            (second, relative),
            xytext=(-7 if left else 7, 5),
            textcoords="offset points",
            ha="right" if left else "left",
        )
    axes.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    ticks = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.margins(x=0.1, y=0.1)
    axes.set_xlabel("processor seconds of a fit")
    axes.set_ylabel("squared error relative to FL")
    axes.set_title(f"6×6 grid, couplings ±{COUPLING:g}, n = {SAMPLES:,}, {count} simulated samples", fontsize=10)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, write the table and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    options = parser.parse_args()
    ff.set_threads(1)
    errors, seconds = measure(options.replications, options.minutes)
    full = errors[POLICIES.index("FL")]
    rows = []
    for place, policy in enumerate(POLICIES):
        ratio = errors[place].mean() / full.mean()
        noise = np.std(errors[place] - ratio * full) / full.mean() / np.sqrt(errors.shape[1])
        rows.append((policy, float(np.median(seconds[place])), float(ratio), float(noise)))
    with (options.out / "refined-seconds.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["policy", "processor_seconds", "relative_squared_error", "standard_error", "fits"])
        writer.writerows([*row, errors.shape[1]] for row in rows)
    draw(rows, errors.shape[1], options.out / "refined-seconds.png")
    for row in rows:
        print(*row)


if __name__ == "__main__":
    main()
