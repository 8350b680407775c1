"""Large pairwise fields: whole fits with their CPU seconds and memory, and growth of whole fits with fitted slopes.

    python benchmarks/sizes.py [proteins] [samples] [grid] [untied_grid] [sparse] [growth]

Each size runs in a process of its own with one thread. Memory is the most that the process has had, imports and data
included. Fits end at a gradient of 1e-4 for each sample.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import child

import fieldfit as ff
from fieldfit.threads import use_threads


def walks(n: int, m: int, q: int) -> np.ndarray:
    """States that copy their left neighbour with probability 0.5."""
    random = np.random.default_rng(0)
    x = random.integers(0, q, (n, m), dtype=np.uint8)
    for j in range(1, m):
        copied = random.random(n, dtype=np.float32) < 0.5
        x[copied, j] = x[copied, j - 1]
    return x


def random_edges(m: int, edges: int) -> np.ndarray:
    random = np.random.default_rng(0)
    pairs = np.unique(np.sort(random.integers(0, m, (2 * edges, 2)), axis=1), axis=0)
    chosen: np.ndarray = random.permutation(pairs[pairs[:, 0] != pairs[:, 1]])[:edges]
    return chosen


def proteins() -> tuple[ff.Model, np.ndarray, dict[str, Any]]:
    """120 columns of 21 states, 15,000 sequences."""
    model = ff.Potts(120, 21)
    sigma2 = np.full(model.n_parameters, 1 / (2 * 0.01 * 119 * 20))
    sigma2[model.n_couplings :] = 50.0
    return model, walks(15_000, 120, 21), {"sigma2": sigma2}


def samples() -> tuple[ff.Model, np.ndarray, dict[str, Any]]:
    """500 binary variables, 1,000,000 samples."""
    return ff.BoltzmannMachine(500, biases=True), walks(1_000_000, 500, 2), {}


def grid() -> tuple[ff.Model, np.ndarray, dict[str, Any]]:
    """One image of 1,000 × 1,000 pixels, tied couplings."""
    model = ff.BoltzmannMachine.grid(1000, 1000, biases=True, tied=True)
    return model, walks(1000, 1000, 2).reshape(1, -1), {}


def untied_grid() -> tuple[ff.Model, np.ndarray, dict[str, Any]]:
    """One image of 1,000 × 1,000 pixels, a coupling for each edge and a bias for each pixel."""
    model = ff.BoltzmannMachine.grid(1000, 1000, biases=True)
    return model, walks(1000, 1000, 2).reshape(1, -1), {"sigma2": 1.0}


def sparse() -> tuple[ff.Model, np.ndarray, dict[str, Any]]:
    """10,000 binary variables with 50,000 edges, 1,000 samples."""
    return (
        ff.BoltzmannMachine(10_000, random_edges(10_000, 50_000), biases=True),
        walks(1000, 10_000, 2),
        {"sigma2": 1.0},
    )


SIZES = {"proteins": proteins, "samples": samples, "grid": grid, "untied_grid": untied_grid, "sparse": sparse}


def run(name: str) -> None:
    """One size, for `child`."""
    model, values, settings = SIZES[name]()
    with use_threads(1):
        began = time.process_time()
        fit = ff.fit(model, values, "PL1", tol=1e-4, check_drift=False, **settings)
        seconds = time.process_time() - began
    found = {
        "seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "evaluations": fit.evaluations,
        "converged": fit.converged,
        "parameters": model.n_parameters,
    }
    print(json.dumps(found))


def growth() -> None:
    """CPU seconds of whole fits against samples, variables and edges, with slopes on logarithmic axes."""
    print("Growth of whole PL1 fits, one thread, CPU seconds (evaluations)")
    for model in (ff.BoltzmannMachine(30, biases=True), ff.Potts(12, 8)):  # imports and first calls
        ff.fit(model, walks(500, model.m, 2), "PL1", sigma2=1.0, check_drift=False)
    cases: tuple[tuple[str, list[int], Callable[[int], tuple[ff.Model, np.ndarray]]], ...] = (
        (
            "samples, 100 binary variables",
            [10_000, 40_000, 160_000],
            lambda n: (ff.BoltzmannMachine(100, biases=True), walks(n, 100, 2)),
        ),
        (
            "variables, 10,000 samples",
            [50, 100, 200],
            lambda m: (ff.BoltzmannMachine(m, biases=True), walks(10_000, m, 2)),
        ),
        (
            "edges, 5,000 variables, 500 samples",
            [6250, 12_500, 25_000],
            lambda e: (ff.BoltzmannMachine(5000, random_edges(5000, e), biases=True), walks(500, 5000, 2)),
        ),
        ("samples, Potts 30 × 21", [1000, 2000, 4000], lambda n: (ff.Potts(30, 21), walks(n, 30, 21))),
        ("sites, Potts 1,000 × 21 states", [30, 60, 120], lambda m: (ff.Potts(m, 21), walks(1000, m, 21))),
    )
    for name, sizes, make in cases:
        seconds, counts = [], []
        for size in sizes:
            model, values = make(size)
            with use_threads(1):
                began = time.process_time()
                fit = ff.fit(model, values, "PL1", sigma2=1.0, tol=1e-4, check_drift=False)
            seconds.append(time.process_time() - began)
            counts.append(fit.evaluations)
        slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        row = ", ".join(f"{s:,}: {t:.2f} ({c})" for s, t, c in zip(sizes, seconds, counts, strict=True))
        print(f"  {name}: {row}; slope {slope:.2f}", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        run(sys.argv[2])
        return
    chosen = sys.argv[1:] or [*SIZES, "growth"]
    for name in chosen:
        if name == "growth":
            growth()
            continue
        found = child(__file__, name)
        told = "" if found["converged"] else ", not converged"
        print(
            f"{SIZES[name].__doc__} {found['parameters']:,} parameters: {found['seconds']:.1f} CPU s, "
            f"{found['evaluations']} evaluations{told}, {found['megabytes']:,.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main()
