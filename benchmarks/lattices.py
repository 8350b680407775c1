"""Coverage of 95% intervals from one 64 × 64 lattice: one sample, errors from the dependence between its sites.

    python benchmarks/lattices.py [replications] [size] [model …]

For each model: lattices drawn by Gibbs sampling at known θ, one fit for each, and the share of intervals that contain θ,
with the mean standard error over the standard deviation of the estimates in brackets; with --simulated for errors from
simulation.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import fieldfit as ff


def block_text(blocks: list[list[int]]) -> str:
    """A policy of these blocks."""
    return "Blocks(" + ",".join("{" + ",".join(map(str, block)) + "}" for block in blocks) + ")"


def cases(size: int) -> dict[str, tuple[ff.TiedField, list[float], list[str]]]:
    """Models with their θ and the policies that they are fitted by."""
    sites = np.arange(size * size).reshape(size, size)
    rows = block_text(sites.tolist())
    combs = block_text([sites[start::2].ravel().tolist() for start in (0, 1)])
    water = np.random.default_rng(0).normal(size=(size, size, 2))
    ising: dict[str, Any] = {"states": (-1, 1), "coupling": "product"}
    return {
        "ising": (ff.TiedField.grid(size, size, **ising), [0.1, 0.3, 0.3], ["PL1", "PL2(connected)", rows, combs]),
        "potts": (ff.TiedField.grid(size, size, states=(0, 1, 2)), [0.1, -0.1, 0.6, 0.6], ["PL1", "PL2(connected)"]),
        "triples": (ff.TiedField.grid(size, size, triples=True), [-0.2, 0.4, 0.4, 0.2], ["PL1"]),
        "covariates": (
            ff.TiedField.grid(size, size, water, directions=False),
            [-0.5, 0.8, -0.4, 0.6],
            ["PL1", "0.3*PL1"],
        ),
    }


def measure(model: ff.TiedField, theta: list[float], policy: str, draws: np.ndarray, kind: str) -> tuple[str, float]:
    """Coverage and size of the errors, by parameter, and the CPU seconds of one fit with its errors."""
    estimates, errors, intervals = [], [], []
    began = time.process_time()
    for number, draw in enumerate(draws):
        fit = ff.fit(model, draw[None], policy, random_state=number, check_drift=False)  # coverage only
        estimates.append(fit.theta)
        errors.append(fit.standard_errors(kind))  # type: ignore[arg-type]
        intervals.append(fit.conf_int(kind=kind))  # type: ignore[arg-type]
    seconds = (time.process_time() - began) / len(draws)
    found, error = np.array(estimates), np.array(errors)
    ends = np.array(intervals)
    cover = np.mean((ends[:, :, 0] <= theta) & (theta <= ends[:, :, 1]), axis=0)
    ratio = error.mean(axis=0) / found.std(axis=0, ddof=1)
    pairs = ", ".join(
        f"{name} {c:.3f} ({r:.2f})" for name, c, r in zip(model.parameter_names, cover, ratio, strict=True)
    )
    return pairs, seconds


def main() -> None:
    """Print one line for each model and policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("replications", nargs="?", type=int, default=400)
    parser.add_argument("size", nargs="?", type=int, default=64)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--simulated", action="store_true", help="errors from simulation")
    parser.add_argument("--seed", type=int, default=7, help="seed of the lattices")
    parser.add_argument("--policies", nargs="*", type=int, help="numbers of the policies of each model; default: all")
    chosen = parser.parse_args()
    ff.set_threads(1)
    kind = "model" if chosen.simulated else "robust"
    names = {2: "rows, each given the others", 3: "every other row given the rest"}
    for name, (model, theta, policies) in cases(chosen.size).items():
        if chosen.models and name not in chosen.models:
            continue
        draws = model.sample(theta, chosen.replications, random_state=chosen.seed, method="gibbs", thin=50).values
        for number, policy in enumerate(policies):
            if chosen.policies and number not in chosen.policies:
                continue
            pairs, seconds = measure(model, theta, policy, draws, kind)
            label = names.get(number, policy)
            print(f"{name} | {label} | {pairs} | {seconds:.2f} s", flush=True)


if __name__ == "__main__":
    main()
