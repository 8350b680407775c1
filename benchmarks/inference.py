"""Exact inference against pyAgrum: log Z and all clique marginals of a 25-node, 50-edge binary graph, row by row.

Both do the same work in one run: for each evidence row (three observed nodes) the posterior of every edge's clique.
pyAgrum has no log Z of a Markov random field given evidence, so it does a little less.

Run: python benchmarks/inference.py [rows]     (pyAgrum is compared if it is installed)
"""

from __future__ import annotations

import importlib.util
import sys
import time

import networkx as nx
import numpy as np

from fieldfit.inference import ExactInference, FactorGraph


def field(seed: int = 3) -> tuple[FactorGraph, np.ndarray]:
    graph = nx.gnm_random_graph(25, 50, seed=seed)
    factors = FactorGraph((2,) * 25, tuple(tuple(sorted(edge)) for edge in graph.edges))
    return factors, np.random.default_rng(seed).normal(size=factors.table_size)


def peer(factors: FactorGraph, tables: np.ndarray, evidence: np.ndarray) -> tuple[float, np.ndarray]:
    import pyagrum

    net = pyagrum.MarkovRandomField()
    for v in range(factors.n_variables):
        net.add(pyagrum.LabelizedVariable(f"v{v}", f"v{v}", 2))
    for f, scope in enumerate(factors.scopes):
        net.addFactor([f"v{v}" for v in scope])
        values = np.exp(tables[factors.offsets[f] : factors.offsets[f + 1]].reshape(2, 2))
        # pyAgrum has the first variable run fastest
        net.factor({f"v{v}" for v in scope})[:] = np.ascontiguousarray(values.T)
    engine = pyagrum.ShaferShenoyMRFInference(net)
    names = [{f"v{v}" for v in scope} for scope in factors.scopes]
    start = time.perf_counter()
    first = np.zeros(factors.table_size)
    for row, line in enumerate(evidence):
        engine.setEvidence({f"v{v}": int(s) for v, s in enumerate(line) if s >= 0})
        free = [k for k, scope in enumerate(factors.scopes) if all(line[v] < 0 for v in scope)]
        for k in free:
            engine.addJointTarget(names[k])
        engine.makeInference()
        for k in free:
            table = engine.jointPosterior(names[k])
            if row == 0:
                order = [f"v{v}" for v in factors.scopes[k]]
                states = [{order[0]: a, order[1]: b} for a in range(2) for b in range(2)]
                first[factors.offsets[k] : factors.offsets[k + 1]] = [table[state] for state in states]
    return (time.perf_counter() - start) / len(evidence), first


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    factors, tables = field()
    evidence = np.full((rows, 25), -1, dtype=np.int32)
    evidence[:, [1, 5, 9]] = np.random.default_rng(0).integers(0, 2, (rows, 3))
    exact = ExactInference(factors)
    start = time.perf_counter()
    exact.programs(frozenset(v for v in range(25) if v not in (1, 5, 9)))
    building = time.perf_counter() - start
    times = []
    for _ in range(7):
        start = time.perf_counter()
        _, marginals = exact.batch(tables, evidence)
        times.append((time.perf_counter() - start) / rows)
    ours = min(times)
    if importlib.util.find_spec("pyagrum") is None:
        print(f"fieldfit: {ours * 1e3:.4f} ms a row ({building * 1e3:.1f} ms to compile once)")
        print("pyAgrum is not installed: not compared")
        return
    theirs, first = peer(factors, tables, evidence[: min(rows, 100)])
    free = [k for k, scope in enumerate(factors.scopes) if all(evidence[0, v] < 0 for v in scope)]
    entries = np.concatenate([np.arange(factors.offsets[k], factors.offsets[k + 1]) for k in free])
    print(f"largest difference of a marginal: {np.abs(first[entries] - marginals[0, entries]).max():.1e}")
    print(f"fieldfit: {ours * 1e3:.4f} ms a row ({building * 1e3:.1f} ms to compile once)")
    print(f"pyAgrum:  {theirs * 1e3:.4f} ms a row")
    print(f"ratio:    {theirs / ours:.0f}")


if __name__ == "__main__":
    main()
