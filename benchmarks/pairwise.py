"""Binary pairwise fields: three ratios against what the same machine does otherwise, in one run.

(a) PL1 value + gradient, dense, n = 100,000, m = 500, against the two n × m × m double matrix products it contains.
(b) All PL2 blocks, n = 10,000, m = 50: components a second for value + gradient.
(c) PL1 fit, n = 10,000, m = 100, to a gradient of 1e-4 of the mean loss, against scikit-learn's LogisticRegression node
    by node (float32, the faster of newton-cholesky and lbfgs, one process a core, one BLAS thread each).
(large) The same for n = 100,000 and m = 500, CPU seconds of one thread on both sides. scikit-learn is timed on a few
    variables, each solver, and its faster seconds are multiplied up to all variables.
(digits) The same for scikit-learn's 8 × 8 digits, binarised (pixels above 7), with the penalty ‖w‖²/2 on the couplings.

Run: python benchmarks/pairwise.py [a] [b] [c] [large] [digits] [small]
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from fieldfit.models.pairwise import PairwiseProblem
from fieldfit.models.pairwise_parameters import PairwiseParameters
from fieldfit.optim import minimise_lbfgs
from fieldfit.policies.families import PseudoLikelihood
from fieldfit.policies.selection import FamilySelection
from fieldfit.policies.structure import FieldStructure
from fieldfit.threads import get_threads


def seconds(run: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def dense_problem(codes: np.ndarray, orders: tuple[int, ...]) -> PairwiseProblem:
    m = codes.shape[1]
    edges = np.array(list(itertools.combinations(range(m), 2)))
    everyone = tuple(tuple(v for v in range(m) if v != j) for j in range(m))
    structure = FieldStructure(m, everyone)
    parts = [FamilySelection(structure.bind_family(PseudoLikelihood(k)), 1.0) for k in orders]
    biases = len(edges) + np.arange(m)
    field = PairwiseParameters(m, (0, 1), edges, np.arange(len(edges)), biases, len(edges) + m)
    return PairwiseProblem(codes, field, parts)


def gibbs(rng: np.random.Generator, n: int, m: int, scale: float, sweeps: int) -> np.ndarray:
    weights = rng.normal(scale=scale, size=(m, m))
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    bias = rng.normal(scale=0.3, size=m) - weights.sum(axis=0) / 2
    x = rng.integers(2, size=(n, m)).astype(np.float64)
    for _ in range(sweeps):
        for j in range(m):
            x[:, j] = rng.random(n) < 1.0 / (1.0 + np.exp(-(x @ weights[:, j] + bias[j])))
    return x.astype(np.int8)


def gradient_against_products(n: int = 100_000, m: int = 500) -> None:
    rng = np.random.default_rng(0)
    codes = (rng.random((n, m)) < rng.uniform(0.2, 0.8, m)).astype(np.int8)
    problem = dense_problem(codes, (1,))
    theta = rng.normal(scale=0.05, size=problem.n_parameters)
    ours = seconds(lambda: problem.value_grad(theta), 3)
    x, weights = codes.astype(np.float64), rng.normal(size=(m, m))
    fields = np.empty((n, m))

    def products() -> None:
        np.matmul(x, weights, out=fields)
        fields.T @ x

    theirs = seconds(products, 3)
    print(f"(a) PL1 value + gradient, n={n:,}, m={m}: {ours:.3f} s; the two double products: {theirs:.3f} s;")
    print(f"    ratio {ours / theirs:.2f} (goal: at most 1.3)")


def components_a_second(n: int = 10_000, m: int = 50) -> None:
    rng = np.random.default_rng(1)
    problem = dense_problem(rng.integers(2, size=(n, m)), (2,))
    theta = rng.normal(scale=0.1, size=problem.n_parameters)
    count = n * m * (m - 1) // 2
    ours = seconds(lambda: problem.value_grad(theta))
    product = seconds(lambda: problem.hessian_product(theta, theta))
    print(f"(b) all PL2 blocks, n={n:,}, m={m}: {count / ours / 1e6:.0f} million components a second (goal: 40)")
    print(f"    Hessian product: {count / product / 1e6:.0f} million")


def fit_synthetic() -> None:
    codes = gibbs(np.random.default_rng(2), 10_000, 100, scale=0.25, sweeps=20)
    fit_against_logistic_regression("(c) PL1 fit", codes, 0.0, " (goal: at least 10)")


def fit_large(n: int = 100_000, m: int = 500, nodes: int = 3) -> None:
    import fieldfit as ff

    random = np.random.default_rng(4)
    common = random.normal(size=(n, 10)).astype(np.float32) @ random.normal(scale=0.25, size=(10, m)).astype(
        np.float32
    )
    codes = (common + random.normal(size=(n, m)).astype(np.float32) > random.normal(scale=0.5, size=m)).astype(
        np.int8
    )
    x = codes.astype(np.float32)
    theirs = {}
    _logistic_nodes(x[:100], range(1), "lbfgs", 1.0)  # imports
    for solver in ("lbfgs", "newton-cholesky"):
        began = time.process_time()
        _logistic_nodes(x, range(nodes), solver, 0.0)
        theirs[solver] = (time.process_time() - began) / nodes * m
    del x, common
    with ff.use_threads(1):
        began = time.process_time()
        fit = ff.fit(ff.BoltzmannMachine(m, biases=True), codes, "PL1", tol=1e-4, check_drift=False)
        ours = time.process_time() - began
    peers = ", ".join(f"{solver} {seconds:.0f} s" for solver, seconds in theirs.items())
    print(f"(large) PL1 fit, n={n:,}, m={m}, gradient {fit.gradient_norm / n:.1e} of the mean loss, one thread, CPU:")
    print(f"    {ours:.1f} s, {fit.evaluations} evaluations; scikit-learn, {nodes} variables scaled to {m}: {peers};")
    print(f"    ratio {min(theirs.values()) / ours:.1f} (goal: at least 15)")


def fit_digits() -> None:
    from sklearn.datasets import load_digits

    codes = (load_digits().data > 7).astype(np.int8)
    varying = codes[:, codes.min(axis=0) != codes.max(axis=0)]
    fit_against_logistic_regression("(digits) PL1 fit", np.ascontiguousarray(varying), 1.0)


def fit_against_logistic_regression(title: str, codes: np.ndarray, precision: float, goal: str = "") -> None:
    from joblib import Parallel, delayed

    n, m = codes.shape
    # A process a core, started and warm before the clock runs.
    cores = len(os.sched_getaffinity(0))
    x = codes.astype(np.float32)
    parts = [range(c, m, cores) for c in range(cores)]
    theirs = {}

    def regressions(pool: Parallel, solver: str) -> None:
        pool(delayed(_logistic_nodes)(x, part, solver, precision) for part in parts)

    with Parallel(n_jobs=cores) as pool:
        for solver in ("newton-cholesky", "lbfgs"):
            pool(delayed(_logistic_nodes)(x, range(2 * c, 2 * c + 2), solver, precision) for c in range(cores))
            theirs[solver] = seconds(partial(regressions, pool, solver), 2)
    solver = min(theirs, key=lambda name: theirs[name])

    results = {}

    def fit(kind: str) -> None:
        problem = dense_problem(codes, (1,))
        # Couplings have the penalty, biases (the last m parameters) have none, as in scikit-learn.
        penalty = np.full(problem.n_parameters, precision)
        penalty[-m:] = 0.0

        def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = problem.value_grad(theta)
            return (0.5 * float(penalty @ theta**2) - value) / n, (penalty * theta - gradient) / n

        start = np.zeros(problem.n_parameters)
        preconditioner = None
        if kind == "diagonal":
            preconditioner = np.maximum((problem.hessian_diagonal(start) + penalty) / n, 1e-6)
        if kind == "Sylvester":
            inverse = problem.preconditioner(start, penalty)
            assert inverse is not None
            preconditioner = lambda v: n * inverse(v)  # noqa: E731
        results[kind] = minimise_lbfgs(loss, start, gtol=1e-4, preconditioner=preconditioner)

    times = {kind: seconds(partial(fit, kind), 3) for kind in ("plain", "diagonal", "Sylvester")}
    best = min(times, key=lambda kind: times[kind])
    ours = times[best]
    for kind, value in times.items():
        print(f"    L-BFGS, {kind}: {value:.3f} s, compiling included; {results[kind].evaluations} evaluations")
    table = ", ".join(f"{name} {value:.2f} s" for name, value in theirs.items())
    print(f"{title}, n={n:,}, m={m}: {ours:.3f} s ({best}); scikit-learn node by node: {table};")
    print(f"    ratio {theirs[solver] / ours:.1f}{goal}")


def _logistic_nodes(x: np.ndarray, nodes: range, solver: str, precision: float) -> list[np.ndarray]:
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    coefficients = []
    with threadpool_limits(1):
        for j in nodes:
            rest = np.delete(x, j, axis=1)
            model = LogisticRegression(
                C=1.0 / precision if precision else np.inf, solver=solver, tol=1e-4, max_iter=500
            )
            coefficients.append(model.fit(rest, x[:, j]).coef_[0])
    return coefficients


def small_problem(n: int = 1000, m: int = 5) -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(2, size=(n, m))
    problem = dense_problem(codes, (1, 2))
    theta = rng.normal(size=problem.n_parameters)
    once = seconds(lambda: problem.value_grad(theta), 200)
    print(f"small: PL1 + PL2, n={n}, m={m}: {once * 1e6:.0f} µs a value + gradient (goal: under 100)")


def main() -> None:
    chosen = sys.argv[1:] or ["a", "b", "c", "large", "digits", "small"]
    print(f"{get_threads()} threads")
    runs = {
        "a": gradient_against_products,
        "b": components_a_second,
        "c": fit_synthetic,
        "large": fit_large,
        "digits": fit_digits,
        "small": small_problem,
    }
    for name in chosen:
        runs[name]()


if __name__ == "__main__":
    main()
