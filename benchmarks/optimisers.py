"""What the optimisers cost, as ratios to a peer in the same run.

1. Overhead an iteration at 5.1 million parameters against SciPy's L-BFGS-B, the objective's own time subtracted.
2. PL1 of a dense Boltzmann machine (n=10,000, m=100: 4,950 couplings and 100 biases) to a mean-loss gradient of 1e-4:
   our solvers on one joint objective against scikit-learn's LogisticRegression node by node in its best set-up.

    python benchmarks/optimisers.py [--parameters R] [--samples N] [--variables M] [--strength S] [--repeats K]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import minimize as scipy_minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from fieldfit.optim import Solution, memory, minimise, minimise_lbfgs, minimise_newton
from fieldfit.threads import get_threads


class Separable:
    """½ Σ a_i (x_i − c_i)², with the optimiser's own time between one call and the next."""

    def __init__(self, size: int) -> None:
        rng = np.random.default_rng(0)
        self.scale, self.centre = np.exp(rng.normal(0, 1.5, size)), rng.normal(size=size)
        self.difference, self.gradient = np.empty(size), np.empty(size)
        self.end = np.nan
        self.between: list[float] = []

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The value and the gradient, in a buffer that is used again."""
        self.between.append(time.perf_counter() - self.end)
        np.subtract(x, self.centre, out=self.difference)
        np.multiply(self.difference, self.scale, out=self.gradient)
        value = 0.5 * float(self.difference @ self.gradient)
        self.end = time.perf_counter()
        return value, self.gradient

    def overhead(self, history: int) -> float:
        """Median time between calls, once the history is full; clears the record."""
        times = self.between[history + 5 :]
        self.between, self.end = [], np.nan
        return float(np.median(times))


def overhead(size: int, history: int = 10, iterations: int = 30) -> None:
    print(f"Overhead an evaluation, {size:,} parameters, history {history} (full), {get_threads()} threads")
    objective = Separable(size)
    options = {"maxiter": iterations, "maxcor": history, "gtol": 0.0, "ftol": 0.0}
    scipy_minimize(objective, np.zeros(size), jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    peer = objective.overhead(history)
    print(f"  SciPy L-BFGS-B            {1e3 * peer:6.1f} ms")
    threshold = memory.SINGLE_PRECISION_FROM
    for name, single_from in (("single-precision history", 0), ("double-precision history", size + 1)):
        memory.SINGLE_PRECISION_FROM = single_from
        minimise_lbfgs(objective, np.zeros(size), gtol=0.0, max_iter=iterations, history=history)
        ours = objective.overhead(history)
        print(f"  {name}  {1e3 * ours:6.1f} ms   {peer / ours:4.1f}x")
    memory.SINGLE_PRECISION_FROM = threshold


def sample_field(n: int, m: int, strength: float, sweeps: int = 30) -> np.ndarray:
    """Gibbs samples (n, m) in {0, 1} of a field with couplings N(0, strength²/m)."""
    rng = np.random.default_rng(1)
    W = np.triu(rng.normal(0, strength / np.sqrt(m), (m, m)), 1)
    W = W + W.T
    bias = rng.normal(0, 0.3, m) - W.sum(0) / 2
    X = (rng.random((n, m)) < 0.5).astype(np.float64)
    for _ in range(sweeps):
        for j in range(m):
            X[:, j] = rng.random(n) < expit(X @ W[:, j] + bias[j])
    return X


class JointPseudoLikelihood:
    """Mean negative PL1: H = XW + b, R = σ(H) − X, gradient RᵀX + XᵀR. Fixed chunks of rows, one BLAS thread each."""

    def __init__(self, X: np.ndarray, pool: ThreadPoolExecutor, chunk: int = 1000) -> None:
        self.X = X
        self.n, self.m = X.shape
        self.rows = [slice(i, min(i + chunk, self.n)) for i in range(0, self.n, chunk)]
        self.pairs = np.triu_indices(self.m, 1)
        self.pool = pool
        self.variance = np.empty_like(X)
        self.floor = np.finfo(X.dtype).tiny
        self.at: np.ndarray | None = None

    def unpack(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W symmetric with a zero diagonal, and b, in the precision of X."""
        W = np.zeros((self.m, self.m), dtype=self.X.dtype)
        W[self.pairs] = theta[: -self.m]
        return W + W.T, theta[-self.m :].astype(self.X.dtype)

    def pack(self, outer: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """The gradient of the mean from XᵀR and the column sums of R."""
        return np.asarray(np.concatenate([(outer + outer.T)[self.pairs], sums]) / self.n)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The value and the gradient; keeps p(1 − p) for the products."""
        self.at = theta.copy()
        W, bias = self.unpack(theta)

        def part(rows):
            X = self.X[rows]
            H = X @ W
            H += bias
            p = expit(H)
            # −log p(x) = −log σ((2x−1)h), and σ of it is 1 − |p − x|; the tiny floor is for |h| beyond 80.
            variance = self.variance[rows]
            np.subtract(1, p, out=variance)
            variance *= p
            p -= X
            np.abs(p, out=H)
            np.subtract(1, H, out=H)
            np.maximum(H, self.floor, out=H)
            value = -np.log(H, out=H).sum(dtype=np.float64)
            return value, (X.T @ p).astype(np.float64), p.sum(0, dtype=np.float64)

        values, outers, sums = zip(*self.pool.map(part, self.rows), strict=True)
        return sum(values) / self.n, self.pack(sum(outers), sum(sums))

    def product(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The Hessian at theta times v."""
        if not np.array_equal(self.at, theta):  # after a step that was rejected
            self(theta)
        W, bias = self.unpack(v)

        def part(rows):
            X = self.X[rows]
            R = X @ W
            R += bias
            R *= self.variance[rows]
            return (X.T @ R).astype(np.float64), R.sum(0, dtype=np.float64)

        outers, sums = zip(*self.pool.map(part, self.rows), strict=True)
        return self.pack(sum(outers), sum(sums))

    def diagonal(self, theta: np.ndarray) -> np.ndarray:
        """The Hessian's diagonal VᵀX² + X²ᵀV."""
        if not np.array_equal(self.at, theta):
            self(theta)
        parts = self.pool.map(lambda rows: self.variance[rows].T @ self.X[rows], self.rows)  # x² = x
        return np.asarray(np.maximum(self.pack(sum(parts), self.variance.sum(0)), 1e-8))

    def start(self) -> np.ndarray:
        """Independent variables: no couplings, biases logit(mean)."""
        mean = np.clip(self.X.mean(0, dtype=np.float64), 1 / self.n, 1 - 1 / self.n)
        return np.concatenate([np.zeros(self.pairs[0].size), np.log(mean / (1 - mean))])

    def operator(self) -> Callable[[np.ndarray], np.ndarray]:
        """M⁻¹ for the Hessian of independent variables, with v_j = mean variance of node j and C = Cov(X).

        Its quadratic form is Σ_j v_j [(b_j + μᵀW_j)² + W_jᵀCW_j]. With c_j = b_j + μᵀW_j for the bias, the couplings
        solve CWD + DWC = G with D = diag(v); in the basis U with UᵀDU = 1, UᵀCU = Λ this is a division by λ_i + λ_j.
        The diagonal of W, which is not a parameter, is projected away on both sides.
        """
        mean = np.clip(self.X.mean(0, dtype=np.float64), 1 / self.n, 1 - 1 / self.n)
        second = sum(self.pool.map(lambda rows: (self.X[rows].T @ self.X[rows]).astype(np.float64), self.rows))
        covariance = second / self.n - np.outer(mean, mean)
        covariance[np.diag_indices(self.m)] += 1e-6
        v = mean * (1 - mean)
        root = 1 / np.sqrt(v)
        eigenvalues, Q = np.linalg.eigh(root[:, None] * covariance * root)
        U = root[:, None] * Q
        below = eigenvalues[:, None] + eigenvalues

        def apply(g):
            G = np.zeros((self.m, self.m))
            G[self.pairs] = g[: -self.m]
            cross = np.outer(mean, g[-self.m :])
            G += G.T - cross - cross.T
            np.fill_diagonal(G, 0)
            W = U @ ((U.T @ G @ U) / below) @ U.T
            np.fill_diagonal(W, 0)
            return np.concatenate([W[self.pairs], g[-self.m :] / v - W @ mean])

        return apply


def fit_nodes(X: np.ndarray, nodes: list[int], solver: str) -> None:
    with threadpool_limits(1):
        for j in nodes:
            others = np.delete(X, j, axis=1)
            LogisticRegression(C=np.inf, solver=solver, tol=1e-4, max_iter=500).fit(others, X[:, j] > 0)


def best_of(repeats: int, call: Callable[[], Any]) -> tuple[float, Any]:
    times, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


def solvers(f: JointPseudoLikelihood) -> dict[str, Callable[[], Solution]]:
    """Our solvers on one objective."""
    return {
        "L-BFGS": lambda: minimise_lbfgs(f, f.start(), gtol=1e-4),
        "L-BFGS, diagonal": lambda: minimise(f, f.start(), method="lbfgs", gtol=1e-4, hessian_diagonal=f.diagonal),
        "Newton": lambda: minimise_newton(f, f.product, f.start(), gtol=1e-4),
        "Newton, diagonal": lambda: minimise_newton(f, f.product, f.start(), gtol=1e-4, hessian_diagonal=f.diagonal),
        "Newton, operator": lambda: minimise_newton(f, f.product, f.start(), gtol=1e-4, preconditioner=f.operator()),
        "L-BFGS, operator": lambda: minimise(f, f.start(), gtol=1e-4, preconditioner=f.operator()),
    }


def race(n: int, m: int, strength: float, repeats: int) -> None:
    print(f"\nPL1, n={n:,}, m={m}, couplings N(0, {strength:g}²/m), mean-loss gradient below 1e-4")
    X = sample_field(n, m, strength)
    workers = get_threads()
    single = X.astype(np.float32)
    parts = [list(range(m))[k::workers] for k in range(workers)]
    peers = {}

    def nodes(parallel: Parallel, solver: str) -> None:
        parallel(delayed(fit_nodes)(single, part, solver) for part in parts)

    with Parallel(n_jobs=workers) as parallel:
        for solver in ("lbfgs", "newton-cholesky"):
            parallel(delayed(fit_nodes)(single, part[:1], solver) for part in parts)  # start the processes
            peers[solver], _ = best_of(repeats, partial(nodes, parallel, solver))
            print(f"  scikit-learn {solver:16s} {peers[solver]:7.3f} s")
    peer = min(peers.values())

    with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
        for name, data in (("double", X), ("single", single)):
            for label, solve in solvers(JointPseudoLikelihood(data, pool)).items():
                seconds, solution = best_of(repeats if "operator" in label else 1, solve)
                print(
                    f"  {name} {label:18s} {seconds:7.3f} s  {peer / seconds:5.1f}x  "
                    f"{solution.iterations:4d} iterations {solution.evaluations:4d} evaluations "
                    f"{solution.hessian_products:4d} products"
                    f"  value {solution.value:.7f}  {solution.message}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, default=5_100_000)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--variables", type=int, default=100)
    parser.add_argument("--strength", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    overhead(arguments.parameters)
    race(arguments.samples, arguments.variables, arguments.strength, arguments.repeats)


if __name__ == "__main__":
    main()
