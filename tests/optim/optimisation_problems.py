"""Objectives with a known optimum: (value, gradient), Hessian products and a start."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import rosen, rosen_der, rosen_hess_prod
from scipy.special import expit


@dataclass
class Objective:
    name: str
    fun: Any
    product: Any
    start: np.ndarray
    minimum: float
    point: np.ndarray | None = None


def quadratic(size, condition, seed=0):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    matrix = (basis * np.geomspace(1.0, condition, size)) @ basis.T
    matrix = 0.5 * (matrix + matrix.T)
    point = rng.normal(size=size)
    return Objective(
        f"quadratic {size} {condition:g}",
        lambda x: (0.5 * (x - point) @ matrix @ (x - point), matrix @ (x - point)),
        lambda x, v: matrix @ v,
        np.zeros(size),
        0.0,
        point,
    )


def logistic_data(n=300, size=40, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, size)) * np.geomspace(0.3, 3.0, size)
    y = (rng.random(n) < expit(X @ rng.normal(size=size) * 0.3)).astype(float)
    return X, y


def logistic_functions(X, y, l2):
    def fun(x):
        h = X @ x
        return np.logaddexp(0, h).sum() - y @ h + 0.5 * l2 * x @ x, X.T @ (expit(h) - y) + l2 * x

    def product(x, v):
        p = expit(X @ x)
        return X.T @ (p * (1 - p) * (X @ v)) + l2 * v

    return fun, product


def logistic():
    from sklearn.linear_model import LogisticRegression

    X, y = logistic_data()
    peer = LogisticRegression(C=1.0, fit_intercept=False, solver="newton-cholesky", tol=1e-10).fit(X, y)
    fun, product = logistic_functions(X, y, 1.0)
    point = peer.coef_[0]
    return Objective("logistic", fun, product, np.zeros(X.shape[1]), fun(point)[0], point)


def rosenbrock(size):
    return Objective(
        f"rosenbrock {size}",
        lambda x: (rosen(x), rosen_der(x)),
        rosen_hess_prod,
        # With many coordinates there is a second local minimum near x_1 = -1: start on the other side.
        np.array([-1.2, 1.0]) if size == 2 else np.zeros(size),
        0.0,
    )


def double_well(size):
    """Σ (x² − 1)²/4 with a tilt, from near the top between the wells: negative curvature at the start."""
    tilt = 0.05 * np.cos(np.arange(size))
    best = 0.0
    for t in tilt:
        roots = np.roots([1.0, 0.0, -1.0, t])
        real = roots[np.abs(roots.imag) < 1e-9].real
        best += min((r * r - 1) ** 2 / 4 + t * r for r in real)
    return Objective(
        f"double well {size}",
        lambda x: (((x * x - 1) ** 2 / 4 + tilt * x).sum(), x * (x * x - 1) + tilt),
        lambda x, v: (3 * x * x - 1) * v,
        -0.01 * np.sign(tilt),
        best,
    )


def all_problems():
    return [
        quadratic(5, 10.0),
        quadratic(60, 1e4),
        quadratic(30, 1e5),
        logistic(),
        rosenbrock(2),
        rosenbrock(40),
        double_well(6),
        double_well(100),
    ]
