"""The joint L1 path with missing values, interaction screening, and moments of data and network."""

import contextlib

import numpy as np
import pytest

import fieldfit as ff
from fieldfit import networks
from fieldfit.api.runaway import runaway
from fieldfit.data.samples import Table
from fieldfit.policies import as_policy
from fieldfit.types import ModelError, RunawayWarning, WidthError


def conditional_gradient(x, couplings, thresholds):
    """Gradient of the mean log pseudo-likelihood for couplings (upper triangle as a matrix) and thresholds, by hand."""
    p = 1 / (1 + np.exp(-(x @ couplings + thresholds)))
    residual = x - p
    both = residual.T @ x / len(x)
    return both + both.T, residual.mean(axis=0)


@pytest.mark.slow
def test_the_joint_path_satisfies_its_optimality_conditions(frame):
    _, path = networks.joint_network(frame)
    x = frame.to_numpy(dtype=float)
    scale = x.std(axis=0)
    first, second = np.triu_indices(5, 1)
    for place in range(0, len(path.lambdas), 6):
        w = np.zeros((5, 5))
        w[first, second] = path.thetas[place, :10]
        gradient, threshold = conditional_gradient(x, w + w.T, path.thetas[place, 10:])
        bound = path.lambdas[place] * (scale[first] + scale[second])
        slope, found = gradient[first, second], w[first, second]
        assert abs(threshold).max() < 2e-6
        assert (abs(slope) <= bound + 2e-6).all()
        np.testing.assert_allclose(slope[found != 0], (bound * np.sign(found))[found != 0], atol=2e-6)
    assert np.count_nonzero(path.thetas[0, :10]) == 0


@pytest.mark.slow
def test_the_joint_network_finds_the_chain(frame, chain):
    network, path = networks.joint_network(frame, gamma=0.5)
    assert np.array_equal(np.sign(network.couplings), np.sign(chain))
    best = path.ebic.argmin()
    size = np.count_nonzero(path.thetas[best, :10])
    price = 2 * (np.log(800) + 2 * 0.5 * np.log(4))
    assert path.ebic[best] == pytest.approx(-2 * path.log_likelihood[best] + price * size)


@pytest.mark.slow
def test_missing_values_are_summed_out_and_wide_rows_listed(frame):
    gaps = frame.astype(float)
    gaps.iloc[:60, 0] = np.nan
    gaps.iloc[60:64, :4] = np.nan
    network, path = networks.joint_network(gaps)
    assert len(path.dropped_rows) == 0
    assert network.n == 800
    narrow, path = networks.joint_network(gaps, largest_table=8)
    assert path.dropped_rows.tolist() == [60, 61, 62, 63]
    assert narrow.n == 796
    np.testing.assert_allclose(narrow.couplings, network.couplings, atol=0.15)
    complete, _ = networks.joint_network(frame)
    np.testing.assert_allclose(complete.couplings, network.couplings, atol=0.6)


@pytest.fixture(scope="module")
def gappy():
    """Codes of 40 rows and 9 columns in all patterns of missing values: none, some, all but one, all."""
    random = np.random.default_rng(0)
    codes = (random.random((40, 9)) < 0.5).astype(np.int8)
    codes[random.random(codes.shape) < np.linspace(0, 0.9, 40)[:, None]] = -1
    codes[-1] = -1
    return codes


def general_problem(codes, largest_table=1 << 22):
    """The same pseudo-likelihood by sums over a general graph."""
    model = ff.BoltzmannMachine(codes.shape[1], biases=True, largest_table=largest_table)
    table = Table(codes.astype(np.int32), model.names, ((0, 1),) * model.m)
    return model.compile(table, as_policy("PL1").bind(model.structure(table)).draw(0, 0, table.n))


@pytest.mark.slow
@pytest.mark.parametrize("largest_table", [8, 9, 64])
def test_rows_that_are_too_wide_are_those_of_a_general_graph(gappy, largest_table):
    with pytest.raises(WidthError) as refused:
        general_problem(gappy, largest_table)
    answers = networks.Responses(tuple("abcdefghi"), gappy, ((0, 1),) * 9)
    _, path = networks.joint_network(answers, largest_table=largest_table)
    np.testing.assert_array_equal(path.dropped_rows, refused.value.rows)
    with pytest.raises(WidthError, match="Every row"):
        networks.joint_network(answers.subset(refused.value.rows), largest_table=largest_table)


@pytest.mark.parametrize("estimate", [networks.rise_network, networks.log_rise_network])
@pytest.mark.parametrize("name", ["threshold", "strength"])
@pytest.mark.parametrize("value", [np.nan, -1, "", np.array([]), np.inf])
def test_thresholds_and_strengths_that_are_none(estimate, name, value):
    """A threshold of NaN would keep every edge."""
    data = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], 5, axis=0)
    with pytest.raises(ModelError, match=rf"{name} is .*; it must be a number of at least 0"):
        estimate(data, **{name: value})


@pytest.mark.parametrize("estimate", [networks.rise_network, networks.log_rise_network])
def test_interaction_screening_finds_the_chain(draw, chain, estimate):
    sample = draw(4000, 5)
    network = estimate(sample, threshold=0.15)
    assert np.array_equal(np.sign(network.couplings), np.sign(chain))
    weak = estimate(sample, strength=1e-4)
    np.testing.assert_allclose(weak.couplings, chain, atol=0.45)
    np.testing.assert_allclose(weak.thresholds, -0.5, atol=0.45)


def test_screening_objectives_are_zero_in_gradient_at_the_truth():
    # Exact expectations over all states of a field with three variables.
    states = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    couplings = np.array([[0, 0.4, -0.3], [0.4, 0, 0.2], [-0.3, 0.2, 0]])
    fields = np.array([0.2, -0.1, 0.3])
    p = np.exp(0.5 * np.einsum("ij,jk,ik->i", states, couplings, states) + states @ fields)
    p /= p.sum()
    from fieldfit.networks.screening import _objective

    for transform in (lambda v, g: (v, g), lambda v, g: (np.log(v), g / v)):
        for j in range(3):
            design = states * states[:, [j]]
            design[:, j] = states[:, j]
            truth = couplings[j].copy()
            truth[j] = fields[j]
            fun = _objective(design, p, transform)
            np.testing.assert_allclose(fun(truth)[1], 0, atol=1e-12)
            at = truth + 0.3
            steps = 1e-6 * np.eye(3)
            differences = [(fun(at + step)[0] - fun(at - step)[0]) / 2e-6 for step in steps]
            np.testing.assert_allclose(fun(at)[1], differences, atol=1e-8)


@pytest.mark.slow
def test_moments_of_data_and_network(frame):
    network = networks.nodewise_network(frame)
    found = networks.compare_moments(frame, network, draws=2000)
    x = frame.to_numpy(dtype=float)
    np.testing.assert_allclose(found.means[0], x.mean(axis=0))
    np.testing.assert_allclose(found.correlations[0, 0], np.corrcoef(x[:, 0], x[:, 1])[0, 1])
    centred = x - x.mean(axis=0)
    np.testing.assert_allclose(found.triplets[0, 0], (centred[:, 0] * centred[:, 1] * centred[:, 2]).mean())
    assert found.places[0].tolist() == [0, 1, 2]
    assert len(found.places) == 10
    assert not found.runs_away
    assert found.drift < 0.08
    axes = found.draw().axes
    assert [axis.get_xlabel() for axis in axes] == [
        "mean in the data (800 rows)", "correlation in the data", "triplet (central) in the data"
    ]  # fmt: skip
    assert axes[0].get_ylabel() == "mean in the model (2,000 draws)"


def test_moments_of_a_fit_are_those_of_its_network(frame):
    fit = ff.fit(ff.BoltzmannMachine(5, biases=True), frame, "PL1")
    network = networks.Network(tuple("abcde"), fit.couplings().to_numpy(), fit.theta[10:], 800, "PL1")
    found, same = (networks.compare_moments(frame, what, draws=500) for what in (fit, network))
    np.testing.assert_array_equal(found.means, same.means)
    np.testing.assert_array_equal(found.triplets, same.triplets)
    with pytest.raises(ModelError, match="are not the variables"):
        networks.compare_moments(frame.rename(columns={"a": "z"}), fit)
    three = ff.fit(ff.Potts(5, 3), frame, "PL1", sigma2=1.0)
    with pytest.raises(ModelError, match="must have two states"):
        networks.compare_moments(frame, three)


def _attracting(m, coupling, threshold):
    couplings = np.full((m, m), coupling)
    np.fill_diagonal(couplings, 0.0)
    return networks.Network(tuple(f"x{j}" for j in range(m)), couplings, np.full(m, threshold), 800, "by hand")


@pytest.mark.slow
def test_a_network_with_other_means_gets_a_warning_with_a_remedy_that_helps(frame):
    network = networks.nodewise_network(frame)
    far = networks.Network(network.names, network.couplings, network.thresholds + 2.0, 800, "by hand")
    with pytest.warns(RunawayWarning, match="does not have the means of the data: the mean of") as told:
        found = networks.compare_moments(frame, far, draws=500)
    assert found.runs_away
    assert not found.second_mode
    assert "not a second mode" in str(told[0].message)
    assert 'networks.refit(data, network, policy="FL")' in str(told[0].message)
    assert "its means are not those of the data" in repr(found)
    assert any("far from the data's" in text.get_text() for text in found.draw().texts)
    again = networks.compare_moments(frame, networks.refit(frame, far, policy="FL"), draws=5000)
    assert not again.runs_away
    assert again.drift < 0.03


def test_a_network_with_a_second_mode_says_so():
    x = (np.random.default_rng(0).random((400, 12)) < 0.05).astype(int)
    # Chains from the data stay near 0, and chains from random states find the mode of ones.
    two = _attracting(12, 1.6, -8.0)
    with pytest.warns(RunawayWarning, match="chains that start from random states. It depends on the start"):
        found = networks.compare_moments(x, two, draws=500)
    assert found.second_mode
    assert "runs away" in repr(found)


@pytest.mark.parametrize(("yes", "no", "far"), [(0.75, 0.06, True), (0.7, 0.1, False)])
def test_a_fit_and_a_comparison_of_moments_have_one_criterion(yes, no, far):
    """Answers of two kinds of people: a pairwise field fitted by PL1 may not have their means, with any start of chains."""
    random = np.random.default_rng(2)
    x = (random.random((400, 12)) < np.where(random.random(400) < 0.4, yes, no)[:, None]).astype(int)
    model = ff.BoltzmannMachine(12, biases=True)
    fit = ff.fit(model, x, "PL1", check_drift=False)
    exact = np.array([marginal[1] for marginal in model.marginals(fit.theta)])
    assert (np.abs(exact - x.mean(axis=0)).max() > 0.1) == far
    with pytest.warns(RunawayWarning) if far else contextlib.nullcontext():
        assert networks.compare_moments(x, fit).runs_away == far
    assert bool(runaway(fit)) == far


def test_many_variables_have_drawn_triplets():
    x = (np.random.default_rng(0).random((50, 40)) < 0.5).astype(int)
    flat = networks.Network(tuple(f"x{j}" for j in range(40)), np.zeros((40, 40)), np.zeros(40), 50, "by hand")
    found = networks.compare_moments(x, flat, draws=500)
    assert found.places.shape == (3000, 3)
    assert (np.diff(found.places, axis=1) > 0).all()
