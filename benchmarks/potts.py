"""Potts fields: one evaluation against sparse one-hot products and the machine's rates, growth, fits on images, group L1.

Run: python benchmarks/potts.py [evaluation] [growth] [images] [groups]. CPU seconds of one thread, best of a few runs in
turn, so that a busy machine slows both sides alike; one evaluation also on two cores, by the clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import fieldfit as ff
from fieldfit import _kernels
from fieldfit.models.potts_problem import PottsProblem
from fieldfit.policies import Policy
from fieldfit.threads import use_threads

#: Bytes of a number.
_BYTES = {"double": 8, "single": 4}
#: Bytes of a vector and floating-point operations in a cycle, by the instruction set that the kernels use.
_MACHINE = {"baseline": (16, 4), "avx2": (32, 16), "avx512": (64, 32)}


def cpu(run: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    run()
    return time.process_time() - began


def wall(run: Callable[[], object]) -> float:
    """Seconds of one call by the clock."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def compiled(n: int, model: ff.Potts) -> PottsProblem:
    """Independent uniform states: the kernel's work does not depend on them."""
    codes = np.random.default_rng(0).integers(0, model.q, (n, model.m), dtype=np.int32)
    parts = Policy.parse("PL1").bind(model.structure()).draw(0, 0, n).parts
    return PottsProblem(codes, model.tables, parts, single=model.precision == "single")


def one_evaluation(n: int = 5000, m: int = 100, q: int = 21) -> None:
    """One value and gradient, the same sums by sparse products, and what the machine's rate of loads and stores allows."""
    random = np.random.default_rng(1)
    problems = {name: compiled(n, ff.Potts(m, q, precision=name)) for name in ("double", "single")}
    theta = random.normal(scale=0.05, size=problems["double"].n_parameters)
    columns = problems["double"]._columns
    places = (columns.T + q * np.arange(m)).ravel()
    onehot = sp.csr_array((np.ones(n * m), (np.repeat(np.arange(n), m), places)), shape=(n, m * q))
    weights = random.normal(size=(m * q, m * q))
    peers: dict[str, Any] = {"double": onehot, "single": onehot.astype(np.float32)}
    transposed = {name: peer.T.tocsr() for name, peer in peers.items()}
    tables = {"double": weights, "single": weights.astype(np.float32)}
    ours: dict[str, list[float]] = {name: [] for name in problems}
    theirs: dict[str, list[float]] = {name: [] for name in problems}
    square, rate = random.normal(size=(1024, 1024)), []
    vector, flops = _MACHINE[_kernels.isa()]

    def both_products(name: str) -> None:
        transposed[name] @ (peers[name] @ tables[name])

    with threadpool_limits(1), use_threads(1):
        for _ in range(3):
            for name, problem in problems.items():
                ours[name].append(cpu(partial(problem.value_grad, theta)))
                theirs[name].append(cpu(partial(both_products, name)))
            rate.append(2 * 1024**3 / cpu(lambda: square @ square))
    clocked: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in problems}
    with threadpool_limits(2), use_threads(2):
        for _ in range(3):
            for name, problem in problems.items():
                clocked[name][0].append(wall(partial(problem.value_grad, theta)))
                clocked[name][1].append(wall(partial(both_products, name)))
    clock = max(rate) / flops
    print(f"PL1 value and gradient, n={n:,}, m={m}, q={q}, one thread, CPU seconds")
    print(f"  a matrix product runs at {max(rate) / 1e9:.0f} GF/s: {clock / 1e9:.2f} G cycles a second or more")
    for name in problems:
        seconds, peer = min(ours[name]), min(theirs[name])
        # Rows list all states but one, without gaps, since those of several sites may be joined. Two loads and one store in
        # a cycle: half a cycle for each vector of a sum, one for each vector of a scatter.
        cycles = (q - 1) * _BYTES[name] / vector * 1.5
        limit = n * m * (m - 1) * cycles / clock
        print(f"  {name}: {seconds:.3f}; sparse one-hot products alone {peer:.3f}: ratio {peer / seconds:.1f}")
        print(
            f"    limit {limit:.3f}, n m (m-1) rows of {cycles:g} cycles: ours takes {seconds / limit:.1f} times the limit"
        )
    print("the same on two cores, seconds by the clock (sparse products of SciPy use one of them)")
    for name, (ours_wall, theirs_wall) in clocked.items():
        seconds, peer = min(ours_wall), min(theirs_wall)
        print(f"  {name}: {seconds:.3f}; sparse one-hot products alone {peer:.3f}: ratio {peer / seconds:.1f}")


def growth() -> None:
    """Seconds against samples, sites and edges, with slopes on logarithmic axes."""

    def measured(sizes: list[int], make: Callable[[int], tuple[int, ff.Potts]]) -> tuple[list[float], float]:
        seconds = []
        for size in sizes:
            n, model = make(size)
            problem, theta = compiled(n, model), np.zeros(model.n_parameters)
            with use_threads(1):
                seconds.append(min(cpu(partial(problem.value_grad, theta)) for _ in range(3)))
        return seconds, float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])

    def sparse(edges: int) -> tuple[int, ff.Potts]:
        random = np.random.default_rng(0)
        pairs = np.unique(np.sort(random.integers(0, 10_000, (2 * edges, 2)), axis=1), axis=0)
        pairs = random.permutation(pairs[pairs[:, 0] != pairs[:, 1]])[:edges]
        return 500, ff.Potts(10_000, 4, pairs)

    print("Growth of one evaluation, one thread, CPU seconds")
    for name, sizes, make in (
        ("samples (m=50, q=21)", [2000, 4000, 8000], lambda n: (n, ff.Potts(50, 21))),
        ("sites (n=2,000, q=21)", [30, 60, 120], lambda m: (2000, ff.Potts(m, 21))),
        ("edges (10,000 sites, n=500, q=4)", [12_500, 25_000, 50_000], sparse),
    ):
        seconds, slope = measured(sizes, make)
        row = ", ".join(f"{size:,}: {value:.3f}" for size, value in zip(sizes, seconds, strict=True))
        print(f"  {name}: {row}; slope {slope:.2f}")


def shapes(n: int, side: int) -> NDArray[np.int64]:
    """Images of overlapping rounded shapes with a little noise: neighbouring pixels are nearly copies."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[:side, :side] / (side - 1)
    images = np.zeros((n, side, side), dtype=bool)
    for image in images:
        for _ in range(random.integers(1, 4)):
            (cx, cy), (a, b), turn = (
                random.uniform(0.25, 0.75, 2),
                random.uniform(0.12, 0.4, 2),
                random.uniform(0, 3.14),
            )
            u = (x - cx) * np.cos(turn) + (y - cy) * np.sin(turn)
            v = (y - cy) * np.cos(turn) - (x - cx) * np.sin(turn)
            image |= np.abs(u / a) ** 3 + np.abs(v / b) ** 3 < 1
        image ^= random.random((side, side)) < 0.005
    return images.reshape(n, -1).astype(np.int64)


def images() -> None:
    """Evaluations and CPU seconds of binary PL1 fits to images.

    An evaluation is one value and gradient over all samples, those of line searches included. The preconditioner makes no
    passes over the samples but one or two when it is made; its products with blocks of the Hessian are in the seconds.
    """
    from sklearn.datasets import load_digits

    print("Binary PL1 fits to images, sigma2=1, gradient 1e-6 for each sample, one thread, CPU seconds")
    for name, data in (
        ("digits, 8x8", (load_digits().data > 7).astype(int)),
        ("shapes, 14x14", shapes(8000, 14)),
        ("shapes, 28x28", shapes(8000, 28)),
    ):
        kept = data[:, (data.min(axis=0) < 1) & (data.max(axis=0) > 0)]
        model = ff.BoltzmannMachine(kept.shape[1], biases=True)
        with use_threads(1):
            began = time.process_time()
            fit = ff.fit(model, kept, "PL1", sigma2=1.0, check_drift=False)
            seconds = time.process_time() - began
            once = cpu(partial(fit.problem.value_grad, fit.theta))
        print(
            f"  {name}: n={len(kept):,}, m={kept.shape[1]}: {fit.evaluations} evaluations, {seconds:.1f} s "
            f"({seconds / once:.0f} evaluations take as long)"
        )


def groups(n: int = 1000, m: int = 14, weights: tuple[float, ...] = (150.0, 100.0)) -> None:
    """A penalty on the norm of each table of couplings against accelerated proximal gradients, to the same objective.

    The peer is FISTA with backtracking and restarts on the same function; it stops at an objective within 1e-6 of ours, for
    each sample, or after 3,000 evaluations.
    """
    from plmc_race import alignment

    for weight in weights:
        race_of_groups(alignment(n, m), weight)


def race_of_groups(codes: NDArray[np.int64], weight: float) -> None:
    """Both solvers for one weight of the penalty."""
    n, m = codes.shape
    model = ff.Potts(m, 21)
    sigma2 = np.full(model.n_parameters, np.inf)
    sigma2[model.n_couplings :] = 50.0
    with use_threads(1):
        began = time.process_time()
        fit = ff.fit(model, codes, "PL1", group_l1=weight, sigma2=sigma2, tol=1e-5, check_drift=False, max_iter=1000)
        ours = time.process_time() - began
        began = time.process_time()
        smooth = fit.needed.objective.value_grad
        value, evaluations = fista(smooth, model.n_parameters, model.n_couplings, weight, -fit.objective + 1e-6 * n)
        theirs = time.process_time() - began
    kept = np.count_nonzero(fit.theta[: model.n_couplings].reshape(-1, 441).any(axis=1))
    print(f"Group L1, n={n:,}, m={m}, q=21, weight {weight:g}: {kept} of {len(model.edges)} tables kept, one thread")
    print(f"  fieldfit: {fit.evaluations} evaluations, {ours:.1f} CPU s, objective {-fit.objective:.3f}")
    print(f"  FISTA: {evaluations} evaluations, {theirs:.1f} CPU s, objective {value:.3f}: ratio {theirs / ours:.1f}")


def fista(
    smooth: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]],
    size: int,
    couplings: int,
    weight: float,
    goal: float,
) -> tuple[float, int]:
    """The penalised value that accelerated proximal gradients reach, and their evaluations."""
    x = ahead = np.zeros(size)
    steepest, momentum, evaluations, best = 1.0, 1.0, 0, np.inf
    while evaluations < 3000 and best > goal:
        value, gradient = smooth(ahead)
        evaluations += 1
        while True:
            moved = ahead - gradient / steepest
            tables = moved[:couplings].reshape(-1, 441)
            norms = np.linalg.norm(tables, axis=1, keepdims=True)
            tables *= np.maximum(1.0 - weight / (steepest * np.maximum(norms, 1e-300)), 0.0)
            step = moved - ahead
            there, _ = smooth(moved)
            evaluations += 1
            if there <= value + gradient @ step + 0.5 * steepest * (step @ step) + 1e-12 * abs(value):
                break
            steepest *= 2.0
        best = there + weight * float(np.linalg.norm(tables, axis=1).sum())
        if (ahead - moved) @ (moved - x) > 0:
            momentum, ahead = 1.0, moved
        else:
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead = moved + (momentum - 1.0) / following * (moved - x)
            momentum = following
        x = moved
    return best, evaluations


if __name__ == "__main__":
    RUNS = {"evaluation": one_evaluation, "growth": growth, "images": images, "groups": groups}
    for chosen in sys.argv[1:] or list(RUNS):
        RUNS[chosen]()
