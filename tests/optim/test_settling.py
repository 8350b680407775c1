"""Penalised fits to very many samples that agree: θ is right although the tolerance exceeds the penalty's gradient."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import fieldfit as ff
from fieldfit.data.container import read_container
from fieldfit.optim import minimise
from fieldfit.optim.settling import Settling
from fieldfit.types import ConvergenceWarning, FieldfitError

ROW = np.array([0, 1, 1, 0, 1])
MODEL = ff.BoltzmannMachine(5, biases=True)


def optimum(n, sigma2):
    """The penalised pseudo-likelihood of n rows ROW by Newton steps, in the exponents −z of log(1 + e^−z)."""
    values = np.array([MODEL.statistics(row) for row in _flips()])
    differences = values[0] - values[1:]  # of ROW from each of its neighbours
    theta = np.zeros(MODEL.n_parameters)
    for _ in range(200):
        wrong = expit(-differences @ theta)
        gradient = n * differences.T @ wrong - theta / sigma2
        hessian = n * (differences.T * (wrong * (1 - wrong))) @ differences + np.eye(len(theta)) / sigma2
        theta = theta + np.linalg.solve(hessian, gradient)
    assert np.abs(np.linalg.solve(hessian, gradient)).max() < 1e-10
    return theta


def _flips():
    return [ROW, *(np.where(np.arange(5) == j, 1 - ROW, ROW) for j in range(5))]


@pytest.mark.parametrize("method", ["newton", "lbfgs", "auto"])
@pytest.mark.parametrize("sigma2", [1.0, 100.0])
@pytest.mark.parametrize("n", [1e4, 1e6, 1e8, 1e10])
def test_identical_rows(n, sigma2, method):
    fit = ff.fit(MODEL, [ROW], "PL1", sample_weight=[n], weight_kind="counts", sigma2=sigma2, method=method)
    assert fit.converged
    expected = optimum(n, sigma2)
    np.testing.assert_allclose(fit.theta, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("PL1", {"sample_weight": [1e8], "weight_kind": "importance"}),
        ("PL1@1e8", {}),
        ("PL1", {"sample_weight": [1e8], "weight_kind": "counts", "shards": 1}),
    ],
    ids=["importance", "weight of the component", "shards"],
)
def test_other_ways_to_weigh(policy, options):
    fit = ff.fit(MODEL, [ROW], policy, sigma2=1.0, **options)
    assert fit.converged
    np.testing.assert_allclose(fit.theta, optimum(1e8, 1.0), atol=2e-4)


def test_an_l1_penalty():
    # For each variable n·P(wrong) times the sum of signs is balanced by l1; a smaller tolerance shows where.
    options: dict[str, Any] = {"sample_weight": [1e8], "weight_kind": "counts", "l1": 1.0, "sigma2": 1.0}
    near, nearer = (ff.fit(MODEL, [ROW], "PL1", tol=tol, **options) for tol in (1e-6, 1e-13))
    assert near.converged
    np.testing.assert_allclose(near.theta, nearer.theta, atol=2e-4)


def test_equal_columns():
    values = np.array([[0] * 5, [1] * 5])
    options: dict[str, Any] = {"sample_weight": [5e8, 5e8], "weight_kind": "counts", "sigma2": 1.0}
    near, nearer = (ff.fit(MODEL, values, "PL1", tol=tol, **options) for tol in (1e-6, 1e-14))
    assert near.converged
    np.testing.assert_allclose(near.theta, nearer.theta, atol=2e-4)


def test_ordinary_data_take_a_few_more_evaluations():
    theta = np.random.default_rng(0).normal(0, 0.5, MODEL.n_parameters)
    values = MODEL.sample(theta, 5_000, random_state=1).values
    penalised = ff.fit(MODEL, values, "PL1", sigma2=1e4)
    plain = ff.fit(MODEL, values, "PL1")
    assert penalised.iterations == plain.iterations
    assert plain.evaluations < penalised.evaluations <= plain.evaluations + 4


def test_parameters_without_a_penalty_are_left_out():
    # Their optimum may lie at infinity, where no step along the gradient reaches a minimum.
    def fun(x):
        return float(np.exp(-x[0]) + 0.5e-9 * x[1] ** 2), np.array([-np.exp(-x[0]), 1e-9 * x[1]])

    settling = Settling(np.array([False, True]), np.array([0.0, 1e-9]), 1e-3)
    solution = minimise(fun, np.array([20.0, 5e-4]), gtol=1e-6, settling=settling)
    assert solution.converged
    assert solution.iterations == 0


def test_rounding_ends_a_descent_within_the_tolerance():
    model = ff.Potts(4, 3)
    options: dict[str, Any] = {"sample_weight": [1e8, 1], "weight_kind": "counts", "group_l1": 1.0, "sigma2": 10.0}
    fit = ff.fit(model, [[0, 1, 2, 0], [1, 1, 0, 0]], "PL1", **options)
    assert fit.converged


@pytest.mark.parametrize("options", [{"method": "lbfgs"}, {"method": "newton"}, {"l1": 1.0}], ids=str)
def test_a_checkpoint_keeps_the_smaller_tolerance(options, tmp_path):
    given: dict[str, Any] = {"sample_weight": [1e8], "weight_kind": "counts", "sigma2": 1.0, **options}
    whole = ff.fit(MODEL, [ROW], "PL1", **given)
    lowered = 0
    for stop in range(max(1, whole.iterations - 5), whole.iterations):
        path = tmp_path / f"state{stop}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            ff.fit(MODEL, [ROW], "PL1", max_iter=stop, checkpoint=path, **given)
        lowered += "target" in read_container(path)[1]
        rest = ff.fit(MODEL, [ROW], "PL1", checkpoint=ff.Checkpoint(path, resume=True), **given)
        assert rest.theta.tobytes() == whole.theta.tobytes()
        assert rest.iterations == whole.iterations
    assert lowered


def _bowl(curvature):
    def fun(x):
        return 0.5 * float(curvature * x @ x), curvature * x

    return fun


def test_the_step_ends_beyond_a_minimum_that_is_near():
    everything = np.array([True, True])
    settling = Settling(everything, np.zeros(2), 1e-3)
    for curvature in (1.0, 1e-9):
        assert minimise(_bowl(curvature), np.array([5e-4, 0.0]), gtol=1.0, settling=settling).iterations == 0
    far = minimise(_bowl(1e-9), np.array([2.0, 0.0]), gtol=1.0, settling=settling)
    assert far.converged
    assert np.abs(far.x).max() <= 1e-3
    assert minimise(_bowl(1e-9), np.array([2.0, 0.0]), gtol=1.0).iterations == 0


def test_coordinates_in_other_units():
    settling = Settling(np.array([True, True]), np.array([1e-9, 1e-9]), 1e-3)
    scaled = settling.scaled(np.array([2.0, 4.0]), None)
    np.testing.assert_allclose(scaled.precision, [2.5e-10, 6.25e-11])
    solution = minimise(_bowl(1e-9), np.array([2.0, 0.0]), gtol=1.0, units=np.array([1e3, 1.0]), settling=settling)
    assert solution.converged
    assert np.abs(solution.x).max() <= 1e-3


def test_a_damaged_tolerance_is_refused():
    class Kept:
        saved = None

        def keep(self, state, iteration, *, last):
            self.state = state()

    keeper = Kept()
    settling = Settling(np.array([True, True]), np.zeros(2), 1e-3)
    minimise(_bowl(1e-9), np.array([2.0, 1.0]), gtol=1.0, settling=settling, keeper=keeper, max_iter=1)
    keeper.saved = {**keeper.state, "target": np.array([np.nan])}
    with pytest.raises(FieldfitError, match="saved state"):
        minimise(_bowl(1e-9), np.array([2.0, 1.0]), gtol=1.0, settling=settling, keeper=keeper)


@pytest.mark.parametrize("method", ["newton", "lbfgs", "auto"])
@pytest.mark.parametrize("sigma2", [1.0, 100.0])
@pytest.mark.parametrize("n", [1e4, 1e6, 1e8, 1e12])
def test_one_cell_is_empty(n, sigma2, method):
    """Directions that the data determine do not hide the one in which only the penalty holds θ."""
    states = np.array([[0, 0], [1, 1], [0, 1], [1, 0]])
    values = np.array([[a * b, a, b] for a, b in states], dtype=np.float64)
    theta = np.zeros(3)
    for _ in range(200):  # Newton steps, shortened while the cell empties; sums without cancellation
        energies = values @ theta
        p = np.exp(energies - energies.max())
        p /= p.sum()
        slope = 3 * n * (values.T @ p) - n * values[:3].sum(axis=0) + theta / sigma2
        centred = values - values.T @ p
        step = np.linalg.solve(3 * n * (centred.T * p) @ centred + np.eye(3) / sigma2, slope)
        theta = theta - step
    model = ff.BoltzmannMachine(2, biases=True)
    counts = np.full(3, int(n))
    fit = ff.fit(model, states[:3], "FL", sample_weight=counts, weight_kind="counts", sigma2=sigma2, method=method)
    assert fit.converged
    np.testing.assert_allclose(fit.theta, theta, atol=2e-3 * np.abs(theta).max())
