"""Exact sums over Ising grids: log Z and all edge marginals, the first time and again; 12×12 beside pyAgrum.

A first call includes the search for an elimination order; pyAgrum's includes its junction tree. Each size runs in a
process of its own, so that its peak of memory is its own; CPU seconds are beside those on the wall.

Run: python benchmarks/grids.py [size ...]     (pyAgrum is compared if it is installed)
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from measure import child, forget_peak, memory

import fieldfit as ff
from fieldfit.inference import ExactInference

SIZES = (12, 15, 16, 18, 20)


def timed(task: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    task()
    return time.perf_counter() - wall, time.process_time() - processor


def ising(size: int) -> tuple[ExactInference, np.ndarray]:
    model = ff.BoltzmannMachine.grid(size, size, biases=True, states=(-1, 1))
    theta = np.random.default_rng(size).normal(scale=0.4, size=model.n_parameters)
    return ExactInference(model.graph), model.log_tables(theta)


def one_size(size: int) -> None:
    exact, tables = ising(3)
    exact.marginals(tables)
    exact, tables = ising(size)
    start = forget_peak()
    first = timed(lambda: exact.log_partition(tables))
    again = min(timed(lambda: exact.log_partition(tables)) for _ in range(5))
    log_z_peak = memory()[1] - start
    marginals = min(timed(lambda: exact.marginals(tables)) for _ in range(3))
    program = exact.programs(frozenset(range(size * size))).programs[0]
    answer = {
        "first": first,
        "again": again,
        "marginals": marginals,
        "log_z_mb": log_z_peak,
        "mb": memory()[1] - start,
        "width": program.width,
        "entries": program.cost,
    }
    print(json.dumps(answer))


def peer(exact: ExactInference, tables: np.ndarray) -> tuple[np.ndarray, float]:
    """pyAgrum's posteriors of all edges of a new network, and its seconds without building the network."""
    import pyagrum

    graph = exact.graph
    net = pyagrum.MarkovRandomField()
    for v in range(graph.n_variables):
        net.add(pyagrum.LabelizedVariable(f"v{v}", f"v{v}", 2))
    names = [[f"v{v}" for v in scope] for scope in graph.scopes]
    for f, scope in enumerate(names):
        net.addFactor(scope)
        values = np.exp(tables[graph.offsets[f] : graph.offsets[f + 1]]).reshape((2,) * len(scope))
        net.factor(set(scope))[:] = np.ascontiguousarray(values.T)  # pyAgrum has the first variable run fastest
    start = time.perf_counter()
    engine = pyagrum.ShaferShenoyMRFInference(net)
    pairs = [scope for scope in names if len(scope) == 2]
    for scope in pairs:
        engine.addJointTarget(set(scope))
    engine.makeInference()
    found = [engine.jointPosterior(set(scope)) for scope in pairs]
    seconds = time.perf_counter() - start
    states = [(a, b) for a in range(2) for b in range(2)]
    values = [table[{s[0]: a, s[1]: b}] for s, table in zip(pairs, found, strict=True) for a, b in states]
    return np.array(values), seconds


def race(size: int = 12, repeats: int = 9) -> None:
    try:
        import pyagrum  # noqa: F401
    except ImportError:
        print("pyAgrum is not installed: no comparison")
        return
    ours, theirs = [], []
    for _ in range(repeats):
        exact, tables = ising(size)
        start = time.perf_counter()
        marginals = exact.marginals(tables)
        ours.append(time.perf_counter() - start)
        values, seconds = peer(exact, tables)
        theirs.append(seconds)
    pairs = [f for f, scope in enumerate(exact.graph.scopes) if len(scope) == 2]
    entries = np.concatenate([np.arange(exact.graph.offsets[f], exact.graph.offsets[f + 1]) for f in pairs])
    ratios = sorted(b / a for a, b in zip(ours, theirs, strict=True))
    print(
        f"{size}×{size}, all edge marginals, first call: fieldfit {1e3 * statistics.median(ours):.0f} ms, pyAgrum "
        f"{1e3 * statistics.median(theirs):.0f} ms; ratio {statistics.median(ratios):.1f} "
        f"({ratios[0]:.1f} to {ratios[-1]:.1f} over {repeats} turns)"
    )
    print(f"largest difference of a marginal: {np.abs(values - marginals[entries]).max():.1e}")


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        one_size(int(sys.argv[2]))
        return
    race()
    print("        width  million   log Z, ms: wall (CPU)             all marginals, ms   peak MB:")
    print("grid           entries   first call     again              again               log Z  marginals")
    for size in [int(text) for text in sys.argv[1:]] or SIZES:
        row = child(__file__, str(size))

        def shown(pair: list[float]) -> str:
            return f"{1e3 * pair[0]:.1f} ({1e3 * pair[1]:.1f})"

        print(
            f"{size}×{size}   {row['width']:>3} {row['entries'] / 1e6:>10.2f}   {shown(row['first']):<14} "
            f"{shown(row['again']):<18} {shown(row['marginals']):<19} {row['log_z_mb']:>5.0f}  {row['mb']:>5.0f}"
        )


if __name__ == "__main__":
    main()
