"""Processor time of `PL1 >> optimal` with local weights on large graphs: is it linear in the number of parameters?

    python benchmarks/local_weights.py [--grids 25 50 100] [--graphs 500 1000]

Grids and random graphs (three edges for each variable) with couplings ±0.5 and n = 300 samples by Gibbs sampling; one
thread.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import fieldfit as ff


def models(grids: list[int], graphs: list[int]) -> list[tuple[str, ff.BoltzmannMachine]]:
    """Names and models, the small ones first."""
    made = [(f"grid {side}×{side}", ff.BoltzmannMachine.grid(side, side, states=(-1, 1))) for side in grids]
    for m in graphs:
        random = np.random.default_rng(1)
        edges: set[tuple[int, int]] = set()
        while len(edges) < 3 * m:
            j, k = sorted(random.integers(0, m, 2).tolist())
            if j < k:
                edges.add((j, k))
        made.append((f"random graph, {m:,} nodes", ff.BoltzmannMachine(m, sorted(edges), states=(-1, 1))))
    return made


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--grids", type=int, nargs="*", default=[25, 50, 100])
    parser.add_argument("--graphs", type=int, nargs="*", default=[500, 1000])
    options = parser.parse_args()
    ff.set_threads(1)
    for name, model in models(options.grids, options.graphs):
        random = np.random.default_rng(0)
        theta = 0.5 * random.choice([-1.0, 1.0], model.n_parameters)
        x = model.sample(theta, 300, 1, method="gibbs").values
        began = time.process_time()
        first = ff.fit(model, x, "PL1")
        middle = time.process_time()
        refined = ff.refine(first, "optimal")
        one, two = middle - began, time.process_time() - middle
        assert refined.refinement is not None
        ratio = float(np.sum((refined.theta - theta) ** 2) / np.sum((first.theta - theta) ** 2))
        print(
            f"{name}: {model.n_parameters:,} parameters, PL1 {one:.1f} s, second stage {two:.1f} s, "
            f"{1e3 * two / model.n_parameters:.2f} ms for each parameter; squared error {ratio:.3f} times "
            f"PL1's; graph distance {vars(refined.refinement.account)['distance']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
