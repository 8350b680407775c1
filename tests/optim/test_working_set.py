"""Evaluations without the coordinates that stay at 0: same optimum, and every optimality condition holds."""

import numpy as np
import pytest

from fieldfit.optim import working_set
from fieldfit.optim.proximal import minimise_proximal
from fieldfit.optim.solution import Status
from fieldfit.types import FloatArray

SIZE, L1 = 6_000, 40.0


class Regression:
    """Least squares of many coordinates; counts the coordinates of every evaluation."""

    def __init__(self, seed=5, spread=2.0):
        random = np.random.default_rng(seed)
        self.A = random.normal(size=(150, SIZE)) * np.geomspace(0.5, spread, SIZE)
        self.b = self.A[:, ::400] @ random.normal(size=15) + 0.1 * random.normal(size=150)
        self.sizes: list[int] = []

    def part(self, A):
        def fun(x: FloatArray) -> tuple[float, FloatArray]:
            self.sizes.append(x.size)
            residual = A @ x - self.b
            return float(residual @ residual) / 2 + 0.05 * float(x @ x), A.T @ residual + 0.1 * x

        return fun

    @property
    def fun(self):
        return self.part(self.A)

    def smaller(self, at_zero):
        places = np.flatnonzero(~at_zero)
        return self.part(self.A[:, places]), places


def conditions(problem, x):
    """The largest violation of the optimality conditions, from the gradient of all coordinates."""
    gradient = problem.fun(x)[1]
    away = np.abs(gradient + L1 * np.sign(x))[x != 0]
    return max(away.max(), (np.abs(gradient) - L1)[x == 0].max())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_the_same_and_few_coordinates_are_evaluated(seed):
    problem = Regression(seed)
    plain = minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-9)
    whole = sum(problem.sizes)
    problem.sizes.clear()
    found = minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-9, smaller=problem.smaller)
    assert plain.converged
    assert found.converged
    assert abs(found.value - plain.value) < 1e-8 * abs(plain.value)
    assert found.evaluations == len(problem.sizes)
    assert sum(problem.sizes) < whole / 2
    assert problem.sizes[-1] == SIZE  # all derivatives were seen in the end
    np.testing.assert_allclose(found.gradient, problem.fun(found.x)[1], atol=1e-8)
    assert conditions(problem, found.x) < 1e-8


@pytest.mark.slow
def test_coordinates_that_have_to_leave_zero_come_back(monkeypatch):
    """Everything at 0 is left out, and nothing is checked until the rest has converged."""
    monkeypatch.setattr(working_set, "_SAFE_SHARE", 1.0)
    monkeypatch.setattr(working_set, "_FIRST_INTERVAL", 10_000)
    problem = Regression()
    plain = minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-9)
    problem.sizes.clear()
    found = minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-9, smaller=problem.smaller)
    checks = np.flatnonzero(np.array(problem.sizes) == SIZE)
    assert len(checks) > 3  # it had to come back to all of them
    assert abs(found.value - plain.value) < 1e-8 * abs(plain.value)
    assert conditions(problem, found.x) < 1e-8


def test_a_run_that_ends_early_has_the_gradient_of_all_coordinates():
    problem = Regression()
    found = minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-12, max_iter=7, smaller=problem.smaller)
    assert found.status is Status.ITERATION_LIMIT
    assert min(problem.sizes) < SIZE
    np.testing.assert_allclose(found.gradient, problem.fun(found.x)[1], rtol=1e-12)


class Kept:
    """Holds the last state of a descent in memory."""

    def __init__(self, saved=None):
        self.saved, self.last = saved, None

    def keep(self, state, iteration, *, last):
        self.last = state()


@pytest.mark.slow
@pytest.mark.parametrize("cut", [1, 5, 6, 9, 14])
def test_a_descent_goes_on_with_the_same_bits(cut):
    problem = Regression()
    whole, first = (minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-9, smaller=problem.smaller), Kept())
    minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-9, max_iter=cut, keeper=first, smaller=problem.smaller)
    assert ("set_places" in first.last) == (cut >= 5)
    rest = minimise_proximal(
        problem.fun, np.zeros(SIZE), L1, gtol=1e-9, keeper=Kept(first.last), smaller=problem.smaller
    )
    np.testing.assert_array_equal(rest.x, whole.x)
    assert rest.iterations == whole.iterations


@pytest.mark.slow
def test_a_problem_that_gains_nothing_is_asked_once():
    problem, asked = Regression(), []

    def smaller(at_zero):
        asked.append(at_zero.sum())

    plain = minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-9)
    problem.sizes.clear()
    found = minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-9, smaller=smaller)
    assert len(asked) == 1
    assert set(problem.sizes) == {SIZE}
    assert found.evaluations <= len(problem.sizes)
    np.testing.assert_array_equal(found.x, plain.x)


def test_vectors_of_the_descent_are_those_of_the_set():
    """Also where the function has all coordinates: pairs and steps are short."""
    problem, first = Regression(), Kept()
    minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-9, keeper=first)
    inside = first.last["set_places"]
    assert len(inside) < SIZE / 10
    assert first.last["steps"].shape[1] == len(inside)
    assert first.last["x"].shape == (SIZE,)
    assert set(np.flatnonzero(first.last["x"])) <= set(inside)


@pytest.mark.slow
def test_a_search_that_fails_is_repeated_with_all_coordinates():
    """A smaller function whose values are wrong: its searches fail, and the descent goes on without it."""
    problem = Regression()
    plain = minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-9)

    def smaller(at_zero):
        fun, places = problem.smaller(at_zero)
        return lambda x: (fun(x)[0] + 1e6, fun(x)[1]), places

    first = Kept()
    found = minimise_proximal(problem.fun, np.zeros(SIZE), L1, gtol=1e-9, smaller=smaller, keeper=first)
    assert "set_places" not in first.last
    assert first.last["set_counts"][2] == 1
    assert found.converged
    assert abs(found.value - plain.value) < 1e-8 * abs(plain.value)
    assert conditions(problem, found.x) < 1e-8
