"""Mean squared error of refined estimators relative to maximum likelihood, in the same simulated samples.

    python benchmarks/refined_estimators.py [--replications 500] [--large 100] [--case NAME] [--minutes 60]

Bars: chain of 8 with couplings ±1 at most 1.03; 3×3 grid with ±0.8 at most 1.07; the five nodes of Figure 1 at most 1.02;
on a 6×6 grid two thirds of PL1's excess removed at n = 2,000 and 80% at n = 20,000.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import fieldfit as ff
from fieldfit.types import FloatArray


def signs(n: int) -> FloatArray:
    """A fixed pattern of −1 and +1: the parity of the bits of 5k + 3."""
    return np.array([1.0 if bin(5 * k + 3).count("1") % 2 else -1.0 for k in range(n)])


def cases() -> dict[str, tuple[ff.BoltzmannMachine, FloatArray, int, bool]]:
    """Model, θ, n, and whether it is one of the large ones."""
    chain = ff.BoltzmannMachine(8, [(k, k + 1) for k in range(7)], states=(-1, 1))
    small = ff.BoltzmannMachine.grid(3, 3, states=(-1, 1))
    large = ff.BoltzmannMachine.grid(6, 6, states=(-1, 1))
    return {
        "chain of 8, ±1": (chain, np.where(np.arange(7) % 2, 1.0, -1.0), 2_000, False),
        "grid 3×3, ±0.8": (small, 0.8 * signs(12), 2_000, False),
        "five nodes, Figure 1": (ff.BoltzmannMachine(5), np.repeat([-1.0, 1.0], 5), 2_000, False),
        "grid 6×6, ±0.5": (large, 0.5 * signs(60), 2_000, True),
        "grid 6×6, ±0.8": (large, 0.8 * signs(60), 2_000, True),
        "grid 6×6, ±0.5, n = 20,000": (large, 0.5 * signs(60), 20_000, True),
        "grid 6×6, ±0.8, n = 20,000": (large, 0.8 * signs(60), 20_000, True),
    }


def measure(
    model: ff.BoltzmannMachine, theta: FloatArray, n: int, replications: int, minutes: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Squared errors of PL1, PL1 >> optimal and FL (3, replications), their seconds, and p-values of Hansen's test.

    Fewer replications where they take longer than ``minutes``.
    """
    end = time.perf_counter() + 60 * minutes
    errors, seconds, p = np.zeros((3, replications)), np.zeros((3, replications)), np.zeros(replications)
    for seed in range(replications):
        x = model.sample(theta, n, 1_000_003 + seed).values
        began = time.perf_counter()
        first = ff.fit(model, x, "PL1", random_state=seed)
        middle = time.perf_counter()
        refined = ff.refine(first, "optimal")
        after = time.perf_counter()
        full = ff.fit(model, x, "FL")
        seconds[:, seed] = middle - began, after - began, time.perf_counter() - after
        errors[:, seed] = [float(np.sum((fit.theta - theta) ** 2)) for fit in (first, refined, full)]
        p[seed] = refined.specification_test().p_value if refined.refined and not seed % 5 else np.nan
        if time.perf_counter() > end:
            return errors[:, : seed + 1], seconds[:, : seed + 1], p[: seed + 1]
    return errors, seconds, p


def main() -> None:
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--large", type=int, default=100)
    parser.add_argument("--case", default="")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of each case at most")
    options = parser.parse_args()
    print("| field | fits | PL1 | PL1 >> optimal | excess removed | seconds PL1, refined, FL | J rejects at 5% |")
    print("|---|---|---|---|---|---|---|")
    for name, (model, theta, n, large) in cases().items():
        if options.case not in name:
            continue
        count = options.large if large else options.replications
        count = max(5, count // 5) if n > 2_000 else count
        errors, seconds, p = measure(model, theta, n, count, options.minutes)
        count = errors.shape[1]
        base = errors[2].mean()
        ratio = errors.mean(axis=1) / base
        noise = [
            np.std(line / base - r * errors[2] / base) / np.sqrt(count) for line, r in zip(errors, ratio, strict=True)
        ]
        removed = 1 - (ratio[1] - 1) / (ratio[0] - 1)
        times = ", ".join(f"{value:.2f}" for value in np.median(seconds, axis=1))
        print(
            f"| {name} | {count} | {ratio[0]:.3f} ± {noise[0]:.3f} | {ratio[1]:.3f} ± {noise[1]:.3f} | {removed:.0%} "
            f"| {times} | {np.mean(p[~np.isnan(p)] < 0.05):.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
