"""Fits and Gibbs sampling on one and two threads, on the machine as it is and beside a process that keeps one core busy.

    python benchmarks/busy_threads.py [--only NAME ...] [--turns N]

Both numbers of threads take turns; the ratio of each turn (seconds with one thread over seconds with two, on the wall) is
shown as its median with the middle half of the turns. CPU seconds show whether waiting threads spin. The busy process has
the same priority and is bound to one core, so that one thread has a core of its own. Needs FIELDFIT_DATA for the chains.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from chain_corpora import corpus, crfsuite_like
from measure import child

import fieldfit as ff

Fit = Callable[[], object]
#: Fits are repeated within a turn until they take about this many seconds.
TURN = 0.2


def tagger(name: str, sentences: int, layout: str = "observed", steps: int = 6, **options: Any) -> Fit:
    _, data, _ = corpus(name, sentences)
    model = crfsuite_like(data, layout)
    return lambda: ff.fit(model, data, "FL", sigma2=1.0, tol=1e-12, max_iter=steps, **options)


def field(model: ff.BoltzmannMachine | ff.Potts, policy: str, states: int, samples: int, steps: int = 1000) -> Fit:
    x = np.random.default_rng(0).integers(0, states, (samples, model.m))
    return lambda: ff.fit(model, x, policy, sigma2=1.0, max_iter=steps)


def gibbs(size: int, draws: int) -> Fit:
    model = ff.BoltzmannMachine.grid(size, size, states=(-1, 1))
    theta = np.full(model.n_parameters, 0.3)
    return lambda: model.sample(theta, draws, method="gibbs", burn_in=100)


FITS: dict[str, tuple[str, Callable[[], Fit]]] = {
    "chain": ("CoNLL-2000, 22 labels, L-BFGS", lambda: tagger("conll", 4000)),
    "all": ("the same with all pairs", lambda: tagger("conll", 4000, "all", 4)),
    "atis": ("ATIS, 121 labels, L-BFGS", lambda: tagger("atis", 1500, steps=4)),
    "l1": ("CoNLL-2000, elastic net", lambda: tagger("conll", 2000, l1=0.1)),
    "sgd": ("CoNLL-2000, stochastic gradients", lambda: tagger("conll", 2000, steps=2, method="sgd")),
    "pl1": ("60 binary variables, PL1", lambda: field(ff.BoltzmannMachine(60), "PL1", 2, 20_000)),
    "pl2": ("30 binary variables, PL2", lambda: field(ff.BoltzmannMachine(30), "PL2", 2, 3_000)),
    "potts": ("30 variables of 10 states, PL1", lambda: field(ff.Potts(30, 10), "PL1", 10, 3_000, 10)),
    "blocks": ("Potts grid 8x8, 3 states, PL2", lambda: field(ff.Potts.grid(8, 8, 3), "PL2(connected)", 3, 1_000, 4)),
    "grid": ("grid 12x12, FL by elimination", lambda: field(ff.BoltzmannMachine.grid(12, 12), "FL", 2, 500, 4)),
    "gibbs": ("grid 20x20, Gibbs samples", lambda: gibbs(20, 1_000)),
}


def measure(name: str, turns: int) -> dict[str, object]:
    warnings.simplefilter("ignore")
    task = FITS[name][1]()
    ff.set_threads(1)
    task()
    start = time.perf_counter()
    task()
    repeats = max(1, round(TURN / (time.perf_counter() - start)))
    wall: dict[int, list[float]] = {1: [], 2: []}
    processor: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(turns):
        for threads in (1, 2) if turn % 2 else (2, 1):
            ff.set_threads(threads)
            start, used = time.perf_counter(), time.process_time()
            for _ in range(repeats):
                task()
            wall[threads].append((time.perf_counter() - start) / repeats)
            processor[threads].append((time.process_time() - used) / repeats)
    quotients = np.array(wall[1]) / np.array(wall[2])
    return {
        "wall": [1e3 * float(np.median(wall[t])) for t in (1, 2)],
        "cpu": [1e3 * float(np.median(processor[t])) for t in (1, 2)],
        "ratio": np.percentile(quotients, [50, 25, 75]).tolist(),
    }


def busy_process() -> subprocess.Popen[bytes]:
    """A process that keeps the first core busy, where processes can be bound to one."""
    bound = "if hasattr(os, 'sched_setaffinity'): os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    return subprocess.Popen([sys.executable, "-c", f"import os\n{bound}\nwhile True: pass"])


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(FITS), default=list(FITS))
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    worst = {False: np.inf, True: np.inf}
    for busy in (False, True):
        print("beside a process that keeps one core busy" if busy else "the machine as it is", end="")
        print(f" (load {os.getloadavg()[0]:.1f})")
        other = busy_process() if busy else None
        try:
            for name in options.only:
                row = child(__file__, name, str(options.turns))
                (one, two), (one_cpu, two_cpu), (middle, low, high) = row["wall"], row["cpu"], row["ratio"]
                worst[busy] = min(worst[busy], middle)
                print(
                    f"  {FITS[name][0]:38s} one thread {one:6.1f} ms (CPU {one_cpu:6.1f}), two {two:6.1f} ms "
                    f"(CPU {two_cpu:6.1f}): ratio {middle:.2f} ({low:.2f} to {high:.2f})",
                    flush=True,
                )
        finally:
            if other is not None:
                other.kill()
                other.wait()
    print(
        f"lowest: {worst[False]:.2f} on the machine as it is, {worst[True]:.2f} beside the busy process (goal: 0.91)"
    )


if __name__ == "__main__":
    main()
