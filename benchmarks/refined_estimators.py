"""Mean squared error of refined estimators relative to maximum likelihood, in the same simulated samples.

    python benchmarks/refined_estimators.py [--replications 500] [--case NAME] [--minutes 60]

Results are appended to a file in `--store` as they come, so that a run that was stopped goes on where it ended; the table
of docs/beyond-the-paper.md is written again at the end.

Bars: chain of 8 with couplings ±1 at most 1.03; 3×3 grid with ±0.8 at most 1.07; the five nodes of Figure 1 at most 1.02;
on a 6×6 grid two thirds of PL1's excess removed at n = 2,000 and 80% at n = 20,000.
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fieldfit as ff
from fieldfit.types import FloatArray

PAGE = Path(__file__).parents[1] / "docs" / "beyond-the-paper.md"
HEAD = "| field | n | fits | PL1 | PL1 >> optimal | excess removed |"
#: Replications of a case before the next case's turn.
_TURN = 25
COLUMNS = ("seed", "pl1", "refined", "fl", "pl1_seconds", "refined_seconds", "fl_seconds", "accepted")


def signs(n: int) -> FloatArray:
    """A fixed pattern of −1 and +1: the parity of the bits of 5k + 3."""
    return np.array([1.0 if bin(5 * k + 3).count("1") % 2 else -1.0 for k in range(n)])


@dataclass(frozen=True)
class Case:
    """A model at θ with n samples; ``bar`` is the largest ratio, ``removed`` the least part of the excess removed."""

    name: str
    model: ff.BoltzmannMachine
    theta: FloatArray
    n: int
    bar: float | None = None
    removed: float | None = None

    @property
    def file(self) -> str:
        """The name of the file with its results."""
        return f"{self.name} n{self.n}.csv".replace(",", "").replace(" ", "-")


def cases() -> list[Case]:
    """All cases, the small ones first."""
    chain = ff.BoltzmannMachine(8, [(k, k + 1) for k in range(7)], states=(-1, 1))
    small = ff.BoltzmannMachine.grid(3, 3, states=(-1, 1))
    large = ff.BoltzmannMachine.grid(6, 6, states=(-1, 1))
    return [
        Case("chain of 8, couplings ±1", chain, np.where(np.arange(7) % 2, 1.0, -1.0), 2_000, bar=1.03),
        Case("grid 3×3, couplings ±0.8", small, 0.8 * signs(12), 2_000, bar=1.07),
        Case("five nodes of Figure 1", ff.BoltzmannMachine(5), np.repeat([-1.0, 1.0], 5), 2_000, bar=1.02),
        *(
            Case(f"grid 6×6, couplings ±{size}", large, size * signs(60), n, removed=part)
            for n, part in ((2_000, 2 / 3), (20_000, 0.8))
            for size in (0.5, 0.8)
        ),
    ]


def replicate(case: Case, seed: int) -> tuple[float, ...]:
    """One sample, three fits: squared errors, processor seconds, and whether the refined estimate was accepted."""
    x = case.model.sample(case.theta, case.n, 1_000_003 + seed).values
    clock = time.process_time
    times = [clock()]
    first = ff.fit(case.model, x, "PL1", random_state=seed)
    times.append(clock())
    refined = ff.refine(first, "optimal")
    times.append(clock())
    full = ff.fit(case.model, x, "FL")
    times.append(clock())
    errors = [float(np.sum((fit.theta - case.theta) ** 2)) for fit in (first, refined, full)]
    return (seed, *errors, *np.diff(times), refined.refined)


def extend(case: Case, folder: Path, replications: int, end: float) -> None:
    """Append replications to the case's file until there are enough or the time is over."""
    path = folder / case.file
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n")
    rows = read(case, folder)
    done = set() if rows is None else set(rows[:, 0].astype(int).tolist())
    for seed in sorted(set(range(replications)) - done):
        if time.process_time() > end:
            return
        row = replicate(case, seed)
        with path.open("a", newline="") as file:
            csv.writer(file).writerow([f"{value:.8g}" for value in row])


def read(case: Case, folder: Path) -> FloatArray | None:
    """The results so far (replications, columns), each seed once."""
    path = folder / case.file
    if not path.exists() or len(path.read_text().splitlines()) < 3:
        return None
    rows = np.genfromtxt(path, delimiter=",", skip_header=1).reshape(-1, len(COLUMNS))
    return np.asarray(rows[np.unique(rows[:, 0], return_index=True)[1]])


def ratio(errors: FloatArray, full: FloatArray) -> tuple[float, float]:
    """The ratio of mean squared errors in the same samples, and its standard error (delta method)."""
    found = float(errors.mean() / full.mean())
    return found, float(np.std(errors - found * full, ddof=1) / full.mean() / np.sqrt(len(full)))


def part_removed(rows: FloatArray) -> tuple[float, float]:
    """The part of PL1's excess that the second stage removes, and its standard error (delta method)."""
    first, refined, full = rows[:, 1:4].T
    excess = float(np.mean(first - full))
    part = float(np.mean(first - refined) / excess)
    return part, float(np.std(first - refined - part * (first - full), ddof=1) / abs(excess) / np.sqrt(len(rows)))


def table(folder: Path) -> list[str]:
    """The lines of the table."""
    lines = [HEAD, "|---|---|---|---|---|---|"]
    for case in cases():
        rows = read(case, folder)
        if rows is None:
            continue
        first, refined = (ratio(rows[:, column], rows[:, 3]) for column in (1, 2))
        part, error = part_removed(rows)
        lines.append(
            f"| {case.name} | {case.n:,} | {len(rows)} | {first[0]:.3f} ± {first[1]:.3f} | {refined[0]:.3f} ± "
            f"{refined[1]:.3f} | {part:.0%} ± {error:.0%} |"
        )
    return lines


def report(folder: Path) -> None:
    """What the table does not say: bars, seconds, and how often refined estimates were accepted."""
    for case in cases():
        rows = read(case, folder)
        if rows is None:
            continue
        found, part = ratio(rows[:, 2], rows[:, 3])[0], part_removed(rows)[0]
        met = found <= case.bar if case.bar is not None else part >= (case.removed or 0.0)
        seconds = ", ".join(f"{value:.3f}" for value in np.median(rows[:, 4:7], axis=0))
        print(
            f"{case.name}, n = {case.n:,}: bar {'met' if met else 'MISSED'}; processor seconds of PL1, second stage and FL "
            f"{seconds}; accepted {rows[:, 7].mean():.1%}"
        )


def write_page(lines: list[str]) -> None:
    """Replace the table of the page."""
    text = PAGE.read_text().split("\n")
    start = text.index(HEAD)
    end = start
    while text[end].startswith("|"):
        end += 1
    PAGE.write_text("\n".join([*text[:start], *lines, *text[end:]]))


def main() -> None:
    """Simulate, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--case", default="", help="part of a case's name")
    parser.add_argument("--samples", type=int, default=0, help="only the cases with this n")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="processor minutes, at most")
    parser.add_argument("--store", type=Path, default=Path("build/refined-estimators"))
    parser.add_argument("--dry", action="store_true", help="do not write the page")
    options = parser.parse_args()
    options.store.mkdir(parents=True, exist_ok=True)
    ff.set_threads(1)
    end = time.process_time() + 60 * options.minutes
    chosen = [case for case in cases() if options.case in case.name and options.samples in (0, case.n)]
    for count in range(min(_TURN, options.replications), options.replications + _TURN, _TURN):
        for case in chosen:  # in turns, so that a run that is stopped has all cases
            extend(case, options.store, min(count, options.replications), end)
    lines = table(options.store)
    print("\n".join(lines))
    report(options.store)
    if not options.dry:
        write_page(lines)


if __name__ == "__main__":
    main()
