"""Tables with rare cells among very many samples: a fit that says converged is near its optimum, in standard errors."""

import numpy as np
import pytest

import fieldfit as ff

MODEL = ff.BoltzmannMachine(2, biases=True, states=(0, 1))
CELLS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])


def exact(counts):
    """θ and its standard errors: with three parameters, log odds of a 2×2 table."""
    c00, c01, c10, c11 = counts
    theta = np.log([c00 * c11 / (c01 * c10), c10 / c00, c01 / c00])
    return theta, np.sqrt([(1 / np.asarray(counts)).sum(), 1 / c10 + 1 / c00, 1 / c01 + 1 / c00])


@pytest.mark.parametrize("method", ["auto", "lbfgs"])
@pytest.mark.parametrize("policy", ["FL", "PL1", "PL1 >> FL"])
@pytest.mark.parametrize(
    "counts", [(41395493, 32263, 2, 99769458), (235870, 167, 2, 332390), (9, 8, 47, 126244326000)]
)
def test_the_estimate_is_within_a_twentieth_of_its_standard_error(counts, policy, method):
    fit = ff.fit(MODEL, CELLS, policy, sample_weight=counts, weight_kind="counts", method=method, check_drift=False)
    theta, errors = exact(counts)
    assert fit.converged
    assert fit.separated == ()
    assert (np.abs(fit.theta - theta) / errors).max() < 0.05
    np.testing.assert_allclose(fit.standard_errors(), errors, rtol=0.05)


@pytest.mark.slow
def test_random_tables():
    random = np.random.default_rng(5)
    for largest in (6, 8, 10, 12):
        for _ in range(10):
            counts = np.round(10 ** random.uniform(0, largest, 4))
            for method in ("auto", "lbfgs"):
                fit = ff.fit(MODEL, CELLS, "FL", sample_weight=counts, weight_kind="counts", method=method)
                theta, errors = exact(counts)
                assert not fit.converged or (np.abs(fit.theta - theta) / errors).max() < 0.05
                assert fit.converged or method == "lbfgs"


def test_weights_of_equal_size_change_nothing():
    random = np.random.default_rng(0)
    x = (random.random((40_000, 2)) < (0.01, 0.4)).astype(int)
    plain, scaled = (ff.fit(MODEL, x, "PL1", sample_weight=np.full(len(x), w)) for w in (1.0, 1e-6))
    np.testing.assert_allclose(scaled.theta, plain.theta, atol=1e-6)
    assert scaled.convergence.iterations == plain.convergence.iterations
