"""L1 and elastic net: optimality conditions, and scikit-learn's optimum."""

from typing import Any

import numpy as np
import pytest
from optimisation_problems import logistic_data, logistic_functions

from fieldfit import _kernels
from fieldfit.optim import Status, minimise, minimise_lbfgs, minimise_proximal
from fieldfit.types import FieldfitError


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
    diagonal = 0.25 * (X**2).sum(0) + l2 if scaled else None
    solution = minimise_proximal(fun, np.zeros(X.shape[1]), l1, gtol=1e-6, diagonal=diagonal)
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
    solution = minimise_proximal(fun, np.zeros(X.shape[1]), l1, gtol=1e-8)
    peer = lasso_logistic(X, y, 1.0 / l1)
    assert solution.value <= fun(peer)[0] + l1 * np.abs(peer).sum() + 1e-9
    np.testing.assert_allclose(solution.x, peer, atol=1e-4)
    # Just above the largest useful weight everything is exactly 0, just below it something is not.
    largest = 1.0 / l1_min_c(X, y, loss="log", fit_intercept=False)
    for factor, empty in ((1.001, True), (0.98, False)):
        edge = minimise_proximal(fun, np.full(X.shape[1], 0.1), factor * largest, gtol=1e-8)
        assert edge.converged
        assert (not edge.x.any()) == empty


def lasso_logistic(X, y, C):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        C=C, l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-10, max_iter=20_000, random_state=0
    )
    return model.fit(X, y).coef_[0]


def test_only_some_parameters_are_penalised():
    X, y = logistic_data()
    fun, _ = logistic_functions(X, y, 0.0)
    l1 = np.where(np.arange(X.shape[1]) < 5, 0.0, 25.0)
    solution = minimise_proximal(fun, np.zeros(X.shape[1]), l1, gtol=1e-7)
    assert solution.converged
    assert violation(solution.x, fun(solution.x)[1], l1).max() <= 1e-7
    assert (solution.x[:5] != 0).all()


def test_zero_weights_give_the_smooth_optimum():
    X, y = logistic_data()
    fun, _ = logistic_functions(X, y, 1.0)
    plain = minimise_lbfgs(fun, np.zeros(X.shape[1]), gtol=1e-8)
    penalised = minimise_proximal(fun, np.zeros(X.shape[1]), 0.0, gtol=1e-8)
    assert penalised.converged
    np.testing.assert_allclose(penalised.x, plain.x, atol=1e-7)


def test_soft_threshold_in_closed_form():
    centre = np.linspace(-2.0, 2.0, 41)
    scale = np.geomspace(1.0, 50.0, 41)
    solution = minimise_proximal(
        lambda x: (0.5 * (scale * (x - centre) ** 2).sum(), scale * (x - centre)), np.ones(41), scale * 0.7, gtol=1e-9
    )
    assert solution.converged
    expected = np.sign(centre) * np.maximum(np.abs(centre) - 0.7, 0.0)
    np.testing.assert_allclose(solution.x, expected, atol=1e-9)
    np.testing.assert_array_equal(solution.x[np.abs(centre) < 0.69], 0.0)


def test_start_at_the_optimum_and_interrupts():
    def fun(x):
        return 0.5 * (x - 0.1) @ (x - 0.1), x - 0.1

    still = minimise_proximal(fun, np.zeros(3), 1.0, gtol=1e-9)
    assert (still.iterations, still.evaluations, still.converged) == (0, 1, True)
    calls = 0

    def interrupted(x):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return fun(x)

    stopped = minimise_proximal(interrupted, np.full(3, 5.0), 1.0)
    assert stopped.status is Status.INTERRUPTED
    np.testing.assert_array_equal(stopped.x, 5.0)
    assert stopped.value == pytest.approx(fun(np.full(3, 5.0))[0] + 15.0)


def test_values_that_overflow_are_stepped_around():
    def fun(x):
        with np.errstate(all="ignore"):
            return (x - np.log(x)).sum(), 1.0 - 1.0 / x

    solution = minimise_proximal(fun, np.full(5, 5.0), 1.0, gtol=1e-8)
    assert solution.converged
    np.testing.assert_allclose(solution.x, 0.5, atol=1e-7)


def proximal_gradient(fun, x, l1, step, iterations):
    """The oracle: accelerated proximal gradient steps of a length that is sure to be short enough."""
    at, momentum = x, 1.0
    for _ in range(iterations):
        moved = at - step * fun(at)[1]
        new = np.sign(moved) * np.maximum(np.abs(moved) - step * l1, 0.0)
        following = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        at, x, momentum = new + (momentum - 1) / following * (new - x), new, following
    return x


@pytest.mark.slow
@pytest.mark.parametrize(("l1", "l2"), [(2.0, 0.0), (2.0, 3.0), (10.0, 0.5)])
def test_agrees_with_proximal_gradient_steps(l1, l2):
    X, y = logistic_data()
    fun, _ = logistic_functions(X, y, l2)
    step = 1.0 / (0.25 * np.linalg.norm(X, 2) ** 2 + l2)
    oracle = proximal_gradient(fun, np.zeros(X.shape[1]), l1, step, 4000)
    assert violation(oracle, fun(oracle)[1], l1).max() < 1e-6
    solution = minimise_proximal(fun, np.zeros(X.shape[1]), l1, gtol=1e-8)
    assert solution.converged
    np.testing.assert_allclose(solution.x, oracle, atol=1e-6)
    np.testing.assert_array_equal(solution.x == 0, oracle == 0)


@pytest.mark.slow
def test_correlated_columns_need_few_evaluations():
    """Columns with common factors: the Hessian on the coordinates in use is what counts, and is what is modelled."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(400, 8)) @ rng.normal(size=(8, 300)) + 0.3 * rng.normal(size=(400, 300))
    y = (rng.random(400) < 1 / (1 + np.exp(-X[:, :10].sum(1)))).astype(float)
    fun, _ = logistic_functions(X, y, 0.0)
    solution = minimise_proximal(fun, np.zeros(300), 1.0, gtol=1e-4)
    assert solution.converged
    assert violation(solution.x, fun(solution.x)[1], 1.0).max() <= 1e-4
    assert 0 < (solution.x != 0).sum() < 100
    assert solution.evaluations < 400
    assert solution.evaluations < 1.2 * solution.iterations + 10


def test_from_far_away_and_with_fewer_pairs():
    X, y = logistic_data()
    fun, _ = logistic_functions(X, y, 0.0)
    reference = minimise_proximal(fun, np.zeros(X.shape[1]), 3.0, gtol=1e-8)
    far = minimise_proximal(fun, np.full(X.shape[1], -20.0), 3.0, gtol=1e-8, history=2, max_iter=5000)
    assert far.converged
    np.testing.assert_allclose(far.x, reference.x, atol=1e-6)


@pytest.mark.parametrize("history", [1, 3, None])
def test_the_choice_of_a_method_hands_the_history_on(history):
    X, y = logistic_data()
    fun, _ = logistic_functions(X, y, 0.0)
    start = np.zeros(X.shape[1])
    chosen = minimise(fun, start, l1=3.0, gtol=1e-8, history=history)
    assert chosen.history[-1].value == chosen.value
    own = minimise_proximal(fun, start, 3.0, gtol=1e-8, history=history)
    np.testing.assert_array_equal(chosen.x, own.x)
    assert chosen.evaluations == own.evaluations
    by_itself = minimise_proximal(fun, start, 3.0, gtol=1e-8)
    assert (chosen.evaluations == by_itself.evaluations) == (history is None)
    with pytest.raises(FieldfitError, match="at least 1 pair"):
        minimise(fun, start, l1=3.0, history=0)


def test_not_convex():
    """Double wells with a penalty: a stationary point, and never above the start."""

    def fun(x):
        return ((x**2 - 1) ** 2 / 4).sum(), x * (x**2 - 1)

    start = np.linspace(-0.9, 0.9, 21)
    solution = minimise_proximal(fun, start, 0.1, gtol=1e-8)
    assert solution.converged
    assert violation(solution.x, fun(solution.x)[1], 0.1).max() <= 1e-8
    assert solution.value <= fun(start)[0] + 0.1 * np.abs(start).sum()


def test_without_bound():
    assert minimise_proximal(
        lambda x: (-np.inf if x[0] > 3 else -2 * x[0], np.array([-2.0])), np.zeros(1), 1.0
    ).status is (Status.UNBOUNDED)


def test_refusals_and_the_choice_of_a_method():
    def fun(x):
        return 0.5 * x @ x, x.copy()

    with pytest.raises(FieldfitError, match="entry 1 is -1"):
        minimise_proximal(fun, np.ones(2), np.array([0.0, -1.0]))
    with pytest.raises(FieldfitError, match="shape"):
        minimise_proximal(fun, np.ones(2), np.ones(3))
    with pytest.raises(FieldfitError, match="at least 1 pair"):
        minimise_proximal(fun, np.ones(2), 1.0, history=0)
    with pytest.raises(FieldfitError, match="diagonal preconditioner"):
        minimise(fun, np.ones(2), l1=1.0, preconditioner=lambda v: v)
    start = np.full(2, 3.0)
    assert minimise(fun, start, l1=1.0, preconditioner=np.ones(2)).evaluations <= 3
    assert minimise_proximal(lambda x: (np.nan, x), start, 1.0).status is Status.NOT_FINITE
    assert minimise_proximal(fun, start, 1e-3, max_iter=0).status is Status.ITERATION_LIMIT


# --- the model's minimum ----------------------------------------------------------------------------------------------


def quadratic(n, k, seed=0):
    """B = diag(scale) − left rightᵀ, positive definite, with the rest of a model."""
    rng = np.random.default_rng(seed)
    right = rng.normal(size=(n, k))
    left = right @ np.diag(-rng.random(k))
    scale = rng.random(n) + 0.5
    return scale, left, right, rng.normal(size=n) * 3, rng.normal(size=n) * (rng.random(n) < 0.5), rng.random(n)


@pytest.mark.parametrize(("n", "k"), [(1, 0), (7, 3), (40, 6), (33, 1)])
def test_coordinate_descent_finds_the_minimum_of_the_model(n, k):
    scale, left, right, g, x, l1 = quadratic(n, k)
    B = np.diag(scale) - left @ right.T
    step, products = np.zeros(n), np.zeros(k)
    passes = _kernels.lasso_descent(
        gradient=g,
        scale=scale,
        left=left,
        right=right,
        curvature=np.diag(B).copy(),
        point=x,
        l1=l1,
        limit=5000,
        tol=1e-13,
        step=step,
        products=products,
    )
    assert 0 < passes < 5000
    assert violation(x + step, g + B @ step, l1).max() < 1e-10
    np.testing.assert_allclose(products, right.T @ step, atol=1e-12)


def test_every_pass_lowers_the_model():
    scale, left, right, g, x, l1 = quadratic(40, 6, 3)
    B = np.diag(scale) - left @ right.T

    def value(d):
        return g @ d + 0.5 * d @ B @ d + l1 @ np.abs(x + d)

    step, products, values = np.zeros(40), np.zeros(6), [value(np.zeros(40))]
    for _ in range(8):
        assert (
            _kernels.lasso_descent(
                gradient=g,
                scale=scale,
                left=left,
                right=right,
                curvature=np.diag(B).copy(),
                point=x,
                l1=l1,
                limit=1,
                tol=0.0,
                step=step,
                products=products,
            )
            == 1
        )
        values.append(value(step))
    assert (np.diff(values) < 0).all()


def test_coordinate_descent_refuses_wrong_shapes():
    one, two, thin = np.ones(1), np.ones(2), np.ones((2, 3))
    good: dict[str, Any] = {
        "gradient": two, "scale": two, "left": thin, "right": thin, "curvature": two, "point": two, "l1": two,
        "limit": 1, "tol": 0.0, "step": np.zeros(2), "products": np.zeros(3),
    }  # fmt: skip
    for name in ("scale", "curvature", "point", "l1", "step"):
        with pytest.raises(ValueError, match="1 entries where 2"):
            _kernels.lasso_descent(**good | {name: one.copy()})
    with pytest.raises(ValueError, match="a row of right"):
        _kernels.lasso_descent(**good | {"right": np.ones((2, 2))})
    with pytest.raises(ValueError, match="products"):
        _kernels.lasso_descent(**good | {"products": np.zeros(2)})
    with pytest.raises(ValueError, match="positive"):
        _kernels.lasso_descent(**good | {"curvature": np.zeros(2)})
