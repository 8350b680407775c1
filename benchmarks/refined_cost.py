"""Processor time of `PL1 >> optimal` on a dense machine, relative to PL1 alone.

    python benchmarks/refined_cost.py [--variables 30] [--samples 100000] [--repeats 5]

Normal couplings of size c/√m, small biases, states ±1; samples by Gibbs sampling. Both stages are timed in turns on
one thread.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import fieldfit as ff


def main() -> None:
    """Print a line for each c."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variables", type=int, default=30)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    ff.set_threads(1)
    m = options.variables
    model = ff.BoltzmannMachine(m, biases=True, states=(-1, 1))
    edges = model.n_parameters - m
    for size in (0.3, 1.5):
        random = np.random.default_rng(0)
        theta = np.r_[random.normal(size=edges) * size / np.sqrt(m), random.normal(size=m) * 0.1]
        x = model.sample(theta, options.samples, 1, method="gibbs").values
        seconds = np.zeros((2, options.repeats + 1))
        for repeat in range(options.repeats + 1):  # the first is not counted
            began = time.process_time()
            first = ff.fit(model, x, "PL1")
            middle = time.process_time()
            refined = ff.refine(first, "optimal")
            seconds[:, repeat] = middle - began, time.process_time() - middle
        one, two = np.median(seconds[:, 1:], axis=1)
        assert refined.refinement is not None
        account = refined.refinement.account
        print(
            f"c = {size}: PL1 {one:.2f} s, second stage {two:.2f} s, both {1 + two / one:.1f} times PL1; accepted: "
            f"{account.accepted}\n  " + "\n  ".join(account.lines("optimal")),
            flush=True,
        )


if __name__ == "__main__":
    main()
