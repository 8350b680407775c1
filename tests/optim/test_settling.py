"""Penalised fits to very many samples that agree: θ is right although the tolerance exceeds the penalty's gradient."""

import itertools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logsumexp

import fieldfit as ff
from fieldfit.data.container import read_container
from fieldfit.data.sequences import Sequences
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
    given: dict[str, Any] = {"sample_weight": [1e8], "weight_kind": "importance", "sigma2": 1.0, **options}
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


def _penalised_optimum(statistics, counts, sigma2):
    """Σ_g of log-likelihoods of tables ``statistics`` (g, s, r) with ``counts`` (g, s), by Newton steps with halving."""
    theta = np.zeros(statistics.shape[-1])

    def value(theta):
        energy = statistics @ theta
        return float(
            (counts * (logsumexp(energy, axis=1, keepdims=True) - energy)).sum() + theta @ theta / 2 / sigma2
        )

    for _ in range(1000):
        energy = statistics @ theta
        probability = np.exp(energy - logsumexp(energy, axis=1, keepdims=True))
        total = counts.sum(axis=1, keepdims=True)
        mean = np.einsum("gs,gsr->gr", probability, statistics)
        gradient = theta / sigma2 - np.einsum("gs,gsr->r", counts - total * probability, statistics)
        rows = ((statistics - mean[:, None]) * np.sqrt(total * probability)[..., None]).reshape(-1, len(theta))
        step = -np.linalg.solve(rows.T @ rows + np.eye(len(theta)) / sigma2, gradient)
        length = 1.0
        while value(theta + length * step) > value(theta) + 1e-10 * abs(value(theta)) and length > 1e-6:
            length /= 2
        theta = theta + length * step
        if np.abs(step).max() < 1e-6:
            return theta
    raise AssertionError("no optimum")


def _difference(theta, expected):
    return np.abs(theta - expected).max() / max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("policy", ["FL", "PL1 >> FL"])
def test_configurations_that_never_occur(seed, policy):
    # The directions that only the penalty determines have a small part of a gradient that is below the tolerance.
    random = np.random.default_rng(seed)
    model = ff.BoltzmannMachine(4, biases=True)
    states = np.array(list(itertools.product([0, 1], repeat=4)))
    rows = np.sort(random.choice(16, int(random.integers(2, 9)), replace=False))
    counts = np.round(10 ** random.uniform(2, 8) * random.uniform(0.1, 1, len(rows))) + 1
    sigma2 = 10 ** random.uniform(0, 2)
    table = np.zeros((1, 16))
    table[0, rows] = counts
    expected = _penalised_optimum(np.array([model.statistics(states)]), table, sigma2)
    given: dict[str, Any] = {"sample_weight": counts, "weight_kind": "counts", "sigma2": sigma2, "check_drift": False}
    for method in ("lbfgs", "newton") if policy == "FL" else ("auto",):
        fit = ff.fit(model, states[rows], policy, method=method, **given)
        assert fit.converged
        assert _difference(fit.theta, expected) < (2e-4 if policy == "FL" else 0.01)


@pytest.mark.parametrize("seed", range(1, 5))
def test_chains_with_labels_that_never_occur(seed):
    random = np.random.default_rng(seed)
    tokens, labels = (random.integers(0, k, (4, 2)).astype(np.int32) for k in (3, 2))
    counts, sigma2 = np.round(10 ** random.uniform(2, 8, 4)), 10 ** random.uniform(0, 2)
    data = Sequences(np.arange(0, 9, 2), np.arange(9), tokens.ravel(), None, labels.ravel(), 3, 2)
    fit = ff.fit(
        ff.ChainCRF(2, 3, pairs="all"), data, "FL", sample_weight=counts, weight_kind="counts", sigma2=sigma2
    )
    place = {name: k for k, name in enumerate(fit.parameter_names)}
    answers = list(itertools.product(range(2), repeat=2))
    statistics = np.zeros((4, 4, len(place)))
    for sequence, words in enumerate(tokens):
        for number, (first, last) in enumerate(answers):
            names = [
                f"x{words[0]}:y{first}",
                f"x{words[1]}:y{last}",
                f"y{first}->y{last}",
                f"^->y{first}",
                f"y{last}->$",
            ]
            np.add.at(statistics[sequence, number], [place[name] for name in names], 1.0)
    table = np.zeros((4, 4))
    table[np.arange(4), labels @ [2, 1]] = counts
    assert fit.converged
    assert _difference(fit.theta, _penalised_optimum(statistics, table, sigma2)) < 2e-4


def test_a_long_descent_gets_newton_steps():
    # Curvatures from 1e-5 to 1e5 in directions that are no coordinates: thousands of iterations for the pairs alone.
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 40)))[0]
    hessian = (basis * np.logspace(-5, 5, 40)) @ basis.T
    optimum = np.linspace(-1, 1, 40)

    def fun(x):
        slope = hessian @ (x - optimum)
        return 0.5 * float(slope @ (x - optimum)), slope

    settling = Settling(np.ones(40, bool), np.full(40, 1e-9), 1e-6)
    alone = minimise(fun, np.zeros(40), method="lbfgs", gtol=1e-6)
    helped = minimise(
        fun, np.zeros(40), method="lbfgs", gtol=1e-6, settling=replace(settling, matrix=lambda x: hessian)
    )
    assert not alone.converged
    assert helped.converged
    assert helped.iterations < 100
    np.testing.assert_allclose(helped.x, optimum, atol=1e-4)


def test_rounding_ends_the_newton_steps():
    # Two equal columns and hardly any penalty: what is left of the gradient is rounding, and its Newton steps are long.
    noise = np.random.default_rng(0)

    def fun(x):
        return 1e3 + 0.5 * float((x[0] + x[1] - 1) ** 2), np.full(2, x[0] + x[1] - 1) + noise.normal(0, 1e-16, 2)

    settling = Settling(
        np.array([True, True]), np.full(2, 1e-14), 1e-9, lambda x: np.ones((2, 2)) + 1e-14 * np.eye(2)
    )
    solution = minimise(fun, np.zeros(2), method="lbfgs", gtol=1e-9, settling=settling)
    assert solution.converged
    assert solution.iterations < 30


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
def test_a_large_tolerance_does_not_end_a_fit_far_from_the_optimum(method):
    # One of four joint states never occurs: Newton steps are about 1 until θ is near the optimum.
    rows, counts = [[0, 0], [0, 1], [1, 0]], [1e5] * 3
    model = ff.BoltzmannMachine(2, biases=True)
    given: dict[str, Any] = {"sample_weight": counts, "weight_kind": "counts", "sigma2": 100.0, "method": method}
    fit = ff.fit(model, rows, "FL", tol=1e-2, **given)
    expected = _penalised_optimum(
        np.array([model.statistics(np.array([*rows, [1, 1]]))]), np.array([[*counts, 0.0]]), 100.0
    )
    assert fit.converged
    assert np.abs(fit.theta - expected).max() < 0.3


def test_newton_steps_take_a_share_of_the_work():
    # Conjugate gradients come to no end within their share, and the points below the tolerance stay far from the optimum.
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(100, 100)))[0]
    hessian = (basis * np.logspace(-9, 2, 100)) @ basis.T

    def fun(x):
        slope = hessian @ (x - 1)
        return 0.5 * float(slope @ (x - 1)), slope

    settling = Settling(np.ones(100, bool), np.full(100, 1e-12), 1e-9)
    solution = minimise(fun, np.zeros(100), method="lbfgs", gtol=1e-2, max_iter=300, settling=settling)
    assert solution.iterations == 300
    assert solution.evaluations < 600


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_an_l1_penalty_alone_where_rows_never_occur(scale):
    # The Hessian is nearly singular there, and coordinates come to 0 on the way. θ by proximal Newton steps to 1e-10.
    model = ff.BoltzmannMachine(5)
    rows = [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1], [0, 0, 1, 0, 1]]
    counts = scale * np.array([47574.0, 18793, 62776])
    given: dict[str, Any] = {"sample_weight": counts, "weight_kind": "counts", "l1": 0.5672 * scale}
    fit = ff.fit(model, rows, "PL1", check_drift=False, **given)
    assert fit.converged
    assert fit.evaluations < 200
    assert fit.objective == pytest.approx(-63.153812 * scale, rel=1e-6)
    expected = [0, 11.592, 0, -23.803, -22.874, 0, 10.663, -11.337, 11.666, -10.408]
    np.testing.assert_allclose(fit.theta, expected, atol=0.02)


def test_groups_of_couplings_where_states_never_occur():
    # Optimality of each table of couplings: its gradient has the length of the penalty and its direction.
    rows, counts = [[0, 2], [1, 2], [2, 0], [2, 1]], [21133.0, 22090, 85927, 30324]
    fit = ff.fit(ff.Potts(2, 3), rows, "PL1", sample_weight=counts, weight_kind="counts", group_l1=0.612)
    assert fit.converged
    assert fit.evaluations < 250
    slope = fit.objective_function.value_grad(fit.theta)[1][:9]
    np.testing.assert_allclose(-slope, 0.612 * fit.theta[:9] / np.linalg.norm(fit.theta[:9]), atol=1e-3)


@pytest.mark.parametrize("share", [1e-3, 1e-4])
def test_a_newton_step_goes_on_where_differences_of_values_are_rounding(share):
    rows = np.random.default_rng(7).integers(0, 3, size=(30, 8))
    few, many = (
        ff.fit(ff.Potts(8, 3), rows, "PL1", sample_weight=np.full(30, n), group_l1=share * n, tol=1e-12)
        for n in (1e4, 1e8)
    )
    assert few.converged
    assert many.converged
    assert many.objective == pytest.approx(1e4 * few.objective, rel=1e-12)
