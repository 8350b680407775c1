"""Grids of problems × solvers, and how solvers stop."""

import math
from typing import Any

import numpy as np
import pytest
from optimisation_problems import all_problems, double_well, logistic_data, logistic_functions, quadratic, rosenbrock
from scipy.special import expit

from fieldfit.optim import Status, minimise, minimise_lbfgs, minimise_newton, minimise_proximal
from fieldfit.threads import set_threads
from fieldfit.types import FieldfitError

PROBLEMS = {problem.name: problem for problem in all_problems()}


def diagonal_of(problem, x):
    diagonal = np.array([problem.product(x, row) @ row for row in np.eye(x.size)])
    return np.maximum(np.abs(diagonal), 1e-3)


def lbfgs(problem, **options):
    return minimise_lbfgs(problem.fun, problem.start, **options)


def lbfgs_diagonal(problem, **options):
    return lbfgs(problem, preconditioner=diagonal_of(problem, problem.start), **options)


def lbfgs_operator(problem, **options):
    x = problem.start
    matrix = np.array([problem.product(x, row) for row in np.eye(x.size)])
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.maximum(np.abs(values), 1e-2) * np.geomspace(0.5, 2.0, x.size)
    return lbfgs(problem, preconditioner=lambda v: vectors @ ((vectors.T @ v) / values), **options)


def newton(problem, **options):
    return minimise_newton(problem.fun, problem.product, problem.start, dense_below=0, **options)


def newton_diagonal(problem, **options):
    return minimise_newton(
        problem.fun,
        problem.product,
        problem.start,
        dense_below=0,
        hessian_diagonal=lambda x: diagonal_of(problem, x),
        **options,
    )


def newton_dense(problem, **options):
    return minimise_newton(problem.fun, problem.product, problem.start, dense_below=10_000, **options)


def automatic(problem, **options):
    return minimise(problem.fun, problem.start, hessian_product=problem.product, **options)


SOLVERS = [lbfgs, lbfgs_diagonal, lbfgs_operator, newton, newton_diagonal, newton_dense, automatic]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.__name__)
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_reaches_the_optimum(name, solver):
    problem = PROBLEMS[name]
    calls = {"fun": 0}

    def counted(x):
        calls["fun"] += 1
        return problem.fun(x)

    watched = type(problem)(name, counted, problem.product, problem.start, problem.minimum, problem.point)
    solution = solver(watched, gtol=1e-7, max_iter=5000)
    assert solution.status is Status.CONVERGED, solution
    assert solution.converged
    assert solution.message == "converged: gradient norm below tolerance"
    assert np.abs(problem.fun(solution.x)[1]).max() <= 1e-7
    np.testing.assert_array_equal(solution.gradient, problem.fun(solution.x)[1])
    assert solution.gradient_norm == np.abs(solution.gradient).max()
    assert solution.evaluations == calls["fun"]
    assert solution.iterations == len(solution.history) - 1
    assert solution.history[-1].value == solution.value
    # A double well has many local optima: any will do, as long as the start's saddle was left.
    if "well" in name:
        assert solution.value < problem.fun(problem.start)[0] - 0.1 * problem.start.size
        assert (problem.product(solution.x, np.ones(problem.start.size)) > 0).all()
    else:
        assert solution.value == pytest.approx(problem.minimum, rel=1e-10, abs=1e-10)
    if problem.point is not None:
        np.testing.assert_allclose(solution.x, problem.point, atol=2e-6)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.__name__)
def test_start_at_the_optimum_is_one_evaluation(solver):
    problem = quadratic(40, 100.0)
    problem.start = problem.point
    solution = solver(problem, gtol=1e-9)
    assert solution.converged
    assert (solution.iterations, solution.evaluations) == (0, 1)
    np.testing.assert_array_equal(solution.x, problem.point)


def test_one_evaluation_an_iteration_in_the_common_case():
    problem = next(problem for name, problem in PROBLEMS.items() if name.startswith("logistic"))
    solution = lbfgs(problem, gtol=1e-6)
    assert solution.evaluations <= solution.iterations + 5


@pytest.mark.slow
def test_hessian_products_are_counted():
    problem = rosenbrock(40)
    calls = 0

    def product(x, v):
        nonlocal calls
        calls += 1
        return problem.product(x, v)

    for dense_below in (0, 100):
        calls = 0
        solution = minimise_newton(problem.fun, product, problem.start, gtol=1e-8, dense_below=dense_below)
        assert solution.hessian_products == calls > 0


def test_newton_is_exact_on_a_quadratic_with_its_hessian():
    problem = quadratic(30, 1e4)
    matrix = np.array([problem.product(problem.start, row) for row in np.eye(30)])
    solution = minimise_newton(problem.fun, None, problem.start, gtol=1e-7, hessian=lambda x: matrix)
    assert (solution.iterations, solution.hessian_products) == (1, 0)
    operator = minimise_lbfgs(
        problem.fun, problem.start, gtol=1e-7, preconditioner=lambda v: np.linalg.solve(matrix, v)
    )
    assert operator.iterations == 1


def test_singular_hessian_with_a_flat_direction():
    """An over-complete table: the value does not change along (1, ..., 1)."""
    counts = np.arange(1.0, 51.0)

    def fun(x):
        weights = np.exp(x - x.max())
        return counts.sum() * (np.log(weights.sum()) + x.max()) - counts @ x, (
            counts.sum() * weights / weights.sum() - counts
        )

    def product(x, v):
        p = np.exp(x - x.max())
        p /= p.sum()
        return counts.sum() * (p * v - p * (p @ v))

    for dense_below in (0, 100):
        solution = minimise_newton(fun, product, np.zeros(50), gtol=1e-8, dense_below=dense_below)
        assert solution.converged
        np.testing.assert_allclose(np.exp(solution.x - solution.x[0]), counts / counts[0], rtol=1e-6)


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
def test_no_parameters(method):
    solution = minimise(
        lambda x: (3.0, np.zeros(0)), np.zeros(0), hessian_product=lambda x, v: v, method=method, gtol=1e-5
    )
    assert solution.converged
    assert (solution.value, solution.gradient_norm, solution.iterations) == (3.0, 0.0, 0)


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
@pytest.mark.parametrize("dense_or_long", [3, 60])
def test_values_that_overflow_are_stepped_around(method, dense_or_long):
    """−log x + x, infinite (or NaN) for x ≤ 0: full steps from x = 5 leave the domain."""

    def fun(x):
        with np.errstate(all="ignore"):
            return (x - np.log(x)).sum(), 1.0 - 1.0 / x

    solution = minimise(
        fun,
        np.full(dense_or_long, 5.0),
        hessian_product=lambda x, v: v / x**2,
        method=method,
        gtol=1e-8,
    )
    assert solution.converged
    np.testing.assert_allclose(solution.x, 1.0, atol=1e-7)


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("size", [3, 60])
def test_a_start_that_is_not_finite(method, value, size):
    solution = minimise(
        lambda x: (value, np.ones(size)), np.zeros(size), hessian_product=lambda x, v: v, method=method
    )
    assert solution.status is Status.NOT_FINITE
    assert not solution.converged
    solution = minimise(
        lambda x: (0.0, np.full(size, value)), np.zeros(size), hessian_product=lambda x, v: v, method=method
    )
    assert solution.status is Status.NOT_FINITE


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
@pytest.mark.parametrize("size", [3, 60])
def test_unbounded_objectives_do_not_converge(method, size):
    solution = minimise(
        lambda x: (-x.sum(), -np.ones(size)),
        np.zeros(size),
        hessian_product=lambda x, v: np.zeros(size),
        method=method,
        max_iter=500,
    )
    assert solution.status is Status.UNBOUNDED
    assert not solution.converged
    solution = minimise(
        lambda x: (-float(x @ x), -2 * x),
        np.ones(size),
        hessian_product=lambda x, v: -2 * v,
        method=method,
        max_iter=5,
    )
    assert solution.status in (Status.UNBOUNDED, Status.ITERATION_LIMIT)


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
def test_separable_data_stop_at_the_limit_or_where_the_gradient_vanishes(method):
    X = np.array([[-2.0], [-1.0], [1.0], [3.0]])
    y = np.array([0.0, 0.0, 1.0, 1.0])
    fun, product = logistic_functions(X, y, 0.0)
    limited = minimise(fun, np.zeros(1), hessian_product=product, method=method, gtol=1e-12, max_iter=3)
    assert limited.status is Status.ITERATION_LIMIT
    assert limited.iterations == 3
    far = minimise(fun, np.zeros(1), hessian_product=product, method=method, gtol=1e-6, max_iter=100)
    assert far.converged
    assert far.x[0] > 8


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
@pytest.mark.parametrize("at", [1, 2, 7])
def test_interrupt_returns_the_last_accepted_point(method, at):
    problem = rosenbrock(40)
    calls = 0

    def fun(x):
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return problem.fun(x)

    solution = minimise(fun, problem.start, hessian_product=problem.product, method=method, gtol=1e-8)
    assert solution.status is Status.INTERRUPTED
    assert solution.message == "stopped: interrupted"
    assert not solution.converged
    assert solution.evaluations == at
    if at == 1:
        np.testing.assert_array_equal(solution.x, problem.start)
        assert math.isnan(solution.value)
    else:
        assert solution.value == problem.fun(solution.x)[0] <= problem.fun(problem.start)[0]
        np.testing.assert_array_equal(solution.gradient, problem.fun(solution.x)[1])


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
def test_other_errors_of_the_objective_come_through(method):
    def fun(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        minimise(fun, np.zeros(3), hessian_product=lambda x, v: v, method=method)


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
def test_callback_sees_each_iteration_and_can_stop(method):
    problem = rosenbrock(40)
    seen = []

    def callback(progress, x):
        assert not x.flags.writeable
        assert progress.value == problem.fun(x)[0]
        seen.append(progress)
        return progress.iteration == 4

    solution = minimise(problem.fun, problem.start, hessian_product=problem.product, method=method, callback=callback)
    assert solution.status is Status.CALLBACK
    assert tuple(seen) == solution.history
    assert [progress.iteration for progress in seen] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
def test_relative_change(method):
    problem = rosenbrock(40)
    solution = minimise(
        problem.fun, problem.start, hessian_product=problem.product, method=method, gtol=0.0, ftol=0.5
    )
    assert solution.status is Status.SMALL_CHANGE
    assert solution.converged


@pytest.mark.parametrize("solver", [lbfgs, lbfgs_operator, newton, newton_dense])
def test_a_tolerance_below_rounding_is_said_to_be_too_small(solver):
    problem = next(problem for name, problem in PROBLEMS.items() if name.startswith("logistic"))
    solution = solver(problem, gtol=1e-320, max_iter=1000)
    assert solution.status in (Status.ROUNDING, Status.LINE_SEARCH)
    assert not solution.converged
    assert solution.iterations < 500
    reached = solver(problem, gtol=1e-9, max_iter=1000)
    np.testing.assert_allclose(solution.x, reached.x, atol=1e-7)
    assert min(line.gradient_norm for line in solution.history) < 1e-10


def test_a_gradient_that_is_wrong_is_not_called_converged():
    solution = minimise_lbfgs(lambda x: (float(x @ x), -2 * x), np.ones(4))
    assert solution.status is Status.LINE_SEARCH
    assert not solution.converged


@pytest.mark.slow
def test_a_buffer_that_the_objective_reuses():
    problem = rosenbrock(40)
    buffer = np.empty(40)

    def fun(x):
        value, buffer[:] = problem.fun(x)
        return value, buffer

    for method in ("lbfgs", "newton"):
        again = minimise(fun, problem.start, hessian_product=problem.product, method=method, gtol=1e-8)
        plain = minimise(problem.fun, problem.start, hessian_product=problem.product, method=method, gtol=1e-8)
        np.testing.assert_array_equal(again.x, plain.x)
        assert again.evaluations == plain.evaluations


@pytest.mark.slow
@pytest.mark.parametrize("size", [50_000, 250_000])
@pytest.mark.parametrize("l1", [None, 0.05])
def test_threads_do_not_change_the_bits(size, l1):
    """Double and single precision histories, both longer than the limit below which one thread does it all."""
    rng = np.random.default_rng(5)
    scale, centre = np.exp(rng.normal(size=size)), rng.normal(size=size)

    def fun(x):
        d = x - centre
        # einsum keeps one order of the sum, whatever BLAS does.
        return 0.5 * float(np.einsum("i,i,i->", d, d, scale)) / size, scale * d / size

    results = []
    try:
        for threads in (1, 2):
            set_threads(threads)
            options: dict[str, Any] = {"gtol": 0.0, "max_iter": 15, "history": 4}
            if l1 is None:
                results.append(minimise_lbfgs(fun, np.zeros(size), **options))
            else:
                results.append(minimise_proximal(fun, np.zeros(size), l1 / size, **options))
    finally:
        set_threads(None)
    np.testing.assert_array_equal(results[0].x, results[1].x)
    assert results[0].value == results[1].value
    assert results[0].evaluations == results[1].evaluations


def test_single_precision_history_converges_as_far(monkeypatch):
    import fieldfit.optim.memory as memory

    problem = next(problem for name, problem in PROBLEMS.items() if name.startswith("logistic"))
    double = lbfgs(problem, gtol=1e-9)
    monkeypatch.setattr(memory, "SINGLE_PRECISION_FROM", 0)
    single = lbfgs(problem, gtol=1e-9)
    assert single.converged
    # Rounding alone (another compiler, a sanitised build) changes the number by a few in a hundred.
    assert abs(single.iterations - double.iterations) <= 0.05 * double.iterations
    np.testing.assert_allclose(single.x, double.x, atol=1e-8)


def test_history_of_one_and_longer_than_the_run():
    for history in (1, 2, 300):
        solution = lbfgs(PROBLEMS["logistic"], gtol=1e-7, history=history)
        assert solution.converged


def test_memory_matches_the_two_loop_recursion():
    from fieldfit.optim.memory import Memory

    rng = np.random.default_rng(0)
    size, capacity = 30, 4
    root = rng.normal(size=(size, size))
    hessian = root @ root.T + np.eye(size)
    diagonal = np.exp(rng.normal(size=size))
    memory = Memory(size, capacity, diagonal)
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    x, g = np.zeros(size), rng.normal(size=size)
    for turn in range(9):
        step = rng.normal(size=size)
        change = hessian @ step if turn != 5 else -hessian @ step  # the sixth has negative curvature
        new_x, new_g = x + step, g + change
        taken = memory.append((new_x, x), new_g - g, new_g, None)
        assert taken == (turn != 5)
        pairs = ([*pairs, (new_x - x, new_g - g)] if taken else pairs[1:])[-capacity:]
        x, g = new_x, new_g
        q, alphas = g.copy(), []
        for s, y in reversed(pairs):
            alphas.append(s @ q / (s @ y))
            q -= alphas[-1] * y
        s, y = pairs[-1]
        r = q / diagonal * (s @ y) / (y @ (y / diagonal))
        for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
            r += (alpha - y @ r / (s @ y)) * s
        direction, trial = np.empty((2, size))
        slope = memory.direction(x, g, None, direction, trial)
        np.testing.assert_allclose(direction, -r, rtol=1e-9, atol=1e-9 * np.abs(r).max())
        assert slope == pytest.approx(-g @ r, rel=1e-9)


def test_negative_curvature_is_followed():
    problem = double_well(100)
    solution = newton(problem, gtol=1e-9)
    assert solution.converged
    assert (3 * solution.x**2 - 1 > 0).all()


def test_auto_prefers_newton_only_where_products_are_cheap():
    X, y = logistic_data()
    fun, product = logistic_functions(X, y, 1.0)
    start = np.zeros(X.shape[1])
    assert minimise(fun, start, hessian_product=product).hessian_products > 0
    assert minimise(fun, start, hessian_product=product, product_cost=5.0).hessian_products == 0
    assert minimise(fun, start, hessian_product=product, preconditioner=lambda v: v).hessian_products == 0
    assert minimise(fun, start, hessian_product=product, l1=0.1).hessian_products == 0
    p = expit(X @ start)
    diagonal = minimise(fun, start, hessian_diagonal=lambda x: (X**2).T @ (p * (1 - p)) + 1.0)
    assert diagonal.converged


def test_bad_arguments_are_sentences():
    def fun(x):
        return float(x @ x), 2 * x

    cases = [
        (lambda: minimise(fun, np.zeros((2, 2))), "must be a vector"),
        (lambda: minimise(fun, np.array([0.0, np.nan])), "entry 1 is not"),
        (lambda: minimise(fun, np.ones(2), method="sgd"), "'auto', 'lbfgs' or 'newton'"),
        (lambda: minimise(fun, np.ones(2), method="newton"), "hessian_product or hessian"),
        (lambda: minimise(fun, np.ones(2), method="newton", l1=1.0, hessian_product=lambda x, v: v), "no L1"),
        (lambda: minimise(fun, np.ones(2), preconditioner=np.array([1.0, 0.0])), "entry 1 is 0.0"),
        (lambda: minimise(fun, np.ones(2), preconditioner=np.ones(3)), r"must be \(2,\)"),
        (lambda: minimise(fun, np.ones(2), preconditioner=lambda v: np.ones(3)), r"must be \(2,\)"),
        (lambda: minimise(fun, np.ones(2), l1=np.array([1.0, -1.0])), "entry 1 is -1.0"),
        (lambda: minimise(fun, np.ones(2), l1=np.ones(3)), "L1 weights have shape"),
        (lambda: minimise(fun, np.ones(2), l1=1.0, preconditioner=lambda v: v), "needs a diagonal"),
        (lambda: minimise(fun, np.ones(2), history=0), "at least 1 pair"),
        (lambda: minimise(lambda x: (0.0, np.ones(3)), np.ones(2)), "gradient of shape"),
        (lambda: minimise(fun, np.ones(2), hessian=lambda x: np.eye(3)), "The Hessian has shape"),
    ]
    for call, message in cases:
        with pytest.raises(FieldfitError, match=message):
            call()


@pytest.mark.parametrize(
    "solver",
    [
        lambda fun, product, **options: minimise_lbfgs(fun, np.zeros(30), **options),
        lambda fun, product, **options: minimise_proximal(fun, np.zeros(30), 1e-3, **options),
        lambda fun, product, **options: minimise_newton(fun, product, np.zeros(30), dense_below=0, **options),
        lambda fun, product, **options: minimise(fun, np.zeros(30), hessian_product=product, **options),
    ],
)
def test_values_in_single_precision_do_not_end_a_run(solver):
    random = np.random.default_rng(0)
    matrix = random.normal(size=(30, 30))
    matrix = matrix @ matrix.T + 0.1 * np.eye(30)
    optimum = random.normal(size=30)

    def fun(x):
        away = x - optimum
        return float(
            np.float32(1e5 + 0.5 * away @ matrix @ away + 0.1 * np.sum(away**4))
        ), matrix @ away + 0.4 * away**3

    def product(x, v):
        return matrix @ v + 1.2 * (x - optimum) ** 2 * v

    solution = solver(fun, product, gtol=1e-6, value_noise=1e-7)
    assert solution.status is Status.CONVERGED
    assert solution.gradient_norm <= 1e-6
