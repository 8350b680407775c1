"""Penalised fits of columns whose moments are singular: constant ones, copies and opposites."""

import numpy as np
import pytest
from scipy.optimize import minimize

import fieldfit as ff


def optimum(x: np.ndarray, sigma2: float) -> np.ndarray:
    """Maximum penalised pseudo-likelihood of a Boltzmann machine with biases, by Newton's method."""
    n, m = x.shape
    i, j = np.triu_indices(m, 1)
    r = len(i) + m
    design = np.zeros((m, n, r))  # the features of variable v, given the others
    for e, (a, b) in enumerate(zip(i, j, strict=True)):
        design[a, :, e], design[b, :, e] = x[:, b], x[:, a]
    for v in range(m):
        design[v, :, len(i) + v] = 1.0
    flat, target = design.reshape(-1, r), x.T.ravel()

    def value(theta):
        eta = flat @ theta
        return np.logaddexp(0, eta).sum() - target @ eta + theta @ theta / (2 * sigma2)

    def gradient(theta):
        return flat.T @ (1 / (1 + np.exp(-(flat @ theta))) - target) + theta / sigma2

    def hessian(theta):
        p = 1 / (1 + np.exp(-(flat @ theta)))
        return (flat * (p * (1 - p))[:, None]).T @ flat + np.eye(r) / sigma2

    found = minimize(value, np.zeros(r), jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-9})
    return found.x


RANDOM = np.random.default_rng(0)
ROWS = RANDOM.integers(0, 2, (400, 4))
ROWS[:, 3] = ROWS[:, 0] ^ (RANDOM.random(400) < 0.2)
ONE, ZERO = np.ones((400, 1), dtype=int), np.zeros((400, 1), dtype=int)


@pytest.mark.parametrize("sigma2", [0.3, 1.0, 30.0])
@pytest.mark.parametrize(
    "samples",
    [
        np.tile([1, 1, 1, 0], (1000, 1)),
        np.zeros((300, 4), dtype=int),
        np.hstack([ROWS, ONE]),
        np.hstack([ROWS, ONE, ZERO]),
        np.hstack([ROWS, ROWS[:, :1]]),
        np.hstack([ROWS, 1 - ROWS[:, :1]]),
    ],
    ids=["all constant", "all zero", "one", "one and zero", "copy", "opposite"],
)
def test_singular_moments_under_a_penalty(samples, sigma2):
    fit = ff.fit(ff.BoltzmannMachine(samples.shape[1], biases=True), samples, "PL1", sigma2=sigma2, tol=1e-9)
    assert fit.converged
    assert fit.iterations < 300
    np.testing.assert_allclose(fit.theta, optimum(samples.astype(float), sigma2), atol=2e-5)
