"""L1 and elastic net: optimality conditions, and scikit-learn's optimum."""

import numpy as np
import pytest
from optimisation_problems import logistic_data, logistic_functions

from fieldfit.optim import Status, minimise_lbfgs


def violation(x, gradient, l1):
    """How far 0 is from the subdifferential, coordinate by coordinate."""
    at_zero = np.maximum(np.abs(gradient) - l1, 0.0)
    return np.abs(np.where(x == 0, at_zero, gradient + l1 * np.sign(x)))


@pytest.mark.parametrize("l1", [0.5, 5.0, 30.0])
@pytest.mark.parametrize("l2", [0.0, 2.0])
@pytest.mark.parametrize("scaled", [False, True])
def test_optimality_conditions(l1, l2, scaled):
    X, y = logistic_data()
    fun, _ = logistic_functions(X, y, l2)
    preconditioner = 0.25 * (X**2).sum(0) + l2 if scaled else None
    solution = minimise_lbfgs(
        fun, np.zeros(X.shape[1]), gtol=1e-6, max_iter=3000, l1=l1, preconditioner=preconditioner
    )
    assert solution.converged, solution
    value, gradient = fun(solution.x)
    assert violation(solution.x, gradient, l1).max() <= 1e-6
    assert solution.value == pytest.approx(value + l1 * np.abs(solution.x).sum(), rel=1e-12)
    assert solution.gradient_norm == pytest.approx(violation(solution.x, gradient, l1).max(), abs=1e-9)
    assert (solution.x == 0).any()
    assert (solution.x != 0).any()


@pytest.mark.parametrize("l1", [1.0, 8.0])
def test_agrees_with_scikit_learn_lasso_logistic(l1):
    from sklearn.svm import l1_min_c

    X, y = logistic_data()
    fun, _ = logistic_functions(X, y, 0.0)
    solution = minimise_lbfgs(fun, np.zeros(X.shape[1]), gtol=1e-8, max_iter=5000, l1=l1)
    peer = lasso_logistic(X, y, 1.0 / l1)
    assert solution.value <= fun(peer)[0] + l1 * np.abs(peer).sum() + 1e-9
    np.testing.assert_allclose(solution.x, peer, atol=1e-4)
    # Just above the largest useful weight everything is exactly 0, just below it something is not.
    largest = 1.0 / l1_min_c(X, y, loss="log", fit_intercept=False)
    for factor, empty in ((1.001, True), (0.98, False)):
        edge = minimise_lbfgs(fun, np.full(X.shape[1], 0.1), gtol=1e-8, max_iter=5000, l1=factor * largest)
        assert edge.converged
        assert (not edge.x.any()) == empty


def lasso_logistic(X, y, C):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=C, l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-10, max_iter=20_000)
    return model.fit(X, y).coef_[0]


def test_only_some_parameters_are_penalised():
    X, y = logistic_data()
    fun, _ = logistic_functions(X, y, 0.0)
    l1 = np.where(np.arange(X.shape[1]) < 5, 0.0, 25.0)
    solution = minimise_lbfgs(fun, np.zeros(X.shape[1]), gtol=1e-7, max_iter=5000, l1=l1)
    assert solution.converged
    assert violation(solution.x, fun(solution.x)[1], l1).max() <= 1e-7
    assert (solution.x[:5] != 0).all()


def test_zero_weights_give_the_smooth_optimum():
    X, y = logistic_data()
    fun, _ = logistic_functions(X, y, 1.0)
    plain = minimise_lbfgs(fun, np.zeros(X.shape[1]), gtol=1e-8)
    orthant = minimise_lbfgs(fun, np.zeros(X.shape[1]), gtol=1e-8, max_iter=5000, l1=0.0)
    assert orthant.converged
    np.testing.assert_allclose(orthant.x, plain.x, atol=1e-7)


def test_soft_threshold_in_closed_form():
    centre = np.linspace(-2.0, 2.0, 41)
    scale = np.geomspace(1.0, 50.0, 41)
    solution = minimise_lbfgs(
        lambda x: (0.5 * (scale * (x - centre) ** 2).sum(), scale * (x - centre)),
        np.ones(41),
        gtol=1e-9,
        l1=scale * 0.7,
    )
    assert solution.converged
    expected = np.sign(centre) * np.maximum(np.abs(centre) - 0.7, 0.0)
    np.testing.assert_allclose(solution.x, expected, atol=1e-9)
    np.testing.assert_array_equal(solution.x[np.abs(centre) < 0.69], 0.0)


def test_start_at_the_optimum_and_interrupts():
    def fun(x):
        return 0.5 * (x - 0.1) @ (x - 0.1), x - 0.1

    still = minimise_lbfgs(fun, np.zeros(3), l1=1.0, gtol=1e-9)
    assert (still.iterations, still.evaluations, still.converged) == (0, 1, True)
    calls = 0

    def interrupted(x):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return fun(x)

    stopped = minimise_lbfgs(interrupted, np.full(3, 5.0), l1=1.0)
    assert stopped.status is Status.INTERRUPTED
    np.testing.assert_array_equal(stopped.x, 5.0)
    assert stopped.value == pytest.approx(fun(np.full(3, 5.0))[0] + 15.0)


def test_values_that_overflow_are_stepped_around():
    def fun(x):
        with np.errstate(all="ignore"):
            return (x - np.log(x)).sum(), 1.0 - 1.0 / x

    solution = minimise_lbfgs(fun, np.full(5, 5.0), l1=1.0, gtol=1e-8)
    assert solution.converged
    np.testing.assert_allclose(solution.x, 0.5, atol=1e-7)
