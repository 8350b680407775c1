"""Squared error against processor time on a narrow and a wide grid: first stages, refined estimators, full likelihood.

    python benchmarks/refined_seconds.py [--minutes 60] [--replications 100 12] [--out docs/figures] [--store FOLDER]

Writes refined-seconds.csv and refined-seconds.png. All policies fit the same simulated samples on one thread; errors are
relative to maximum likelihood's. Results are appended to files in `--store` as they come, so that a run that was stopped
goes on where it ended.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np

import fieldfit as ff

#: Policy, processor seconds, relative squared error and its standard error.
Row = tuple[str, float, float, float]
SAMPLES, COUPLING = 2_000, 0.5
#: Side of each grid, and the policies that are compared on it.
PANELS = {
    6: ("PL1", "PL2", "FL", "PL1 >> FL", "PL1 >> optimal(1)", "PL1 >> optimal(2)", "PL1 >> FL~20000"),
    18: ("PL1", "PL1 >> optimal(2)", "FL"),
}


def extend(side: int, path: Path, replications: int, end: float) -> None:
    """Append (squared error, processor seconds) of each policy for further samples."""
    model = ff.BoltzmannMachine.grid(side, side, states=(-1, 1))
    signs = np.array([1.0 if bin(5 * k + 3).count("1") % 2 else -1.0 for k in range(model.n_parameters)])
    theta = COUPLING * signs
    done = len(path.read_text().splitlines()) if path.exists() else 0
    if done >= replications or time.process_time() > end:
        return
    for policy in PANELS[side]:  # imports and compiled tables are not measured
        ff.fit(model, model.sample(theta, 300, 0).values, policy)
    for seed in range(done, replications):
        x = model.sample(theta, SAMPLES, 7_000 + seed).values
        row: list[float] = []
        for policy in PANELS[side]:
            began = time.process_time()
            fit = ff.fit(model, x, policy, random_state=seed)
            seconds = time.process_time() - began
            row += [float(np.sum((fit.theta - theta) ** 2)), seconds]
        with path.open("a", newline="") as file:
            csv.writer(file).writerow([f"{value:.8g}" for value in row])
        if time.process_time() > end:
            return


def summarised(side: int, path: Path) -> tuple[list[Row], int]:
    """(policy, median seconds, relative squared error, its standard error) for each policy, and the number of samples."""
    table = np.loadtxt(path, delimiter=",", ndmin=2)
    errors, seconds = table[:, 0::2], table[:, 1::2]
    full = errors[:, PANELS[side].index("FL")]
    rows = []
    for place, policy in enumerate(PANELS[side]):
        ratio = errors[:, place].mean() / full.mean()
        noise = np.std(errors[:, place] - ratio * full, ddof=1) / full.mean() / np.sqrt(len(full))
        rows.append((policy, float(np.median(seconds[:, place])), float(ratio), float(noise)))
    return rows, len(full)


def draw(panels: dict[int, tuple[list[Row], int]], path: Path) -> None:
    """Seconds against relative squared error, with bars of two standard errors; a panel for each grid."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    for axes, (side, (rows, count)) in zip(figure.subplots(1, len(panels), sharey=True), panels.items(), strict=True):
        for policy, second, relative, error in rows:
            colour = "tab:blue" if ">>" in policy else "tab:grey"
            axes.errorbar(second, relative, yerr=2 * error, fmt="o", color=colour, capsize=3)
            left = second == max(row[1] for row in rows)  # the slowest has no room to its right: below its bar
            axes.annotate(
                policy,
                (second, relative - 2 * error if left else relative),
                xytext=(4, -14) if left else (7, -12),
                textcoords="offset points",
                ha="right" if left else "left",
                fontsize=9,
            )
        axes.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        times = [row[1] for row in rows]
        ticks = [
            t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0) if min(times) / 2 < t < 2 * max(times)
        ]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.margins(x=0.15, y=0.1)
        axes.set_xlabel("processor seconds of a fit")
        axes.set_title(f"{side}×{side} grid, {count} simulated samples", fontsize=10)
    figure.axes[0].set_ylabel("squared error relative to FL")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, write the table and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--replications", type=int, nargs=2, default=[100, 12], help="of the narrow and the wide grid"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="processor minutes, at most")
    parser.add_argument("--store", type=Path, default=Path("build/refined-seconds"))
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    options = parser.parse_args()
    options.store.mkdir(parents=True, exist_ok=True)
    ff.set_threads(1)
    end = time.process_time() + 60 * options.minutes
    panels = {}
    for side, count in zip(PANELS, options.replications, strict=True):
        path = options.store / f"{side}.csv"
        extend(side, path, count, end)
        if path.exists() and len(path.read_text().splitlines()) > 1:
            panels[side] = summarised(side, path)
    with (options.out / "refined-seconds.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["grid", "policy", "processor_seconds", "relative_squared_error", "standard_error", "fits"])
        for side, (rows, count) in panels.items():
            writer.writerows([f"{side}x{side}", *row, count] for row in rows)
            for row in rows:
                print(side, count, *row)
    if len(panels) == len(PANELS):
        draw(panels, options.out / "refined-seconds.png")


if __name__ == "__main__":
    main()
