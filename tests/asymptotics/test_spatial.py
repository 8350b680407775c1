"""Standard errors of one sample on a graph: the meat against its definition, and coverage on simulated lattices."""

import itertools

import networkx as nx
import numpy as np
import pytest
from scipy import stats

import fieldfit as ff
from fieldfit.asymptotics.spatial import spatial_meat
from fieldfit.models.located import LocatedScores
from fieldfit.types import DataError, FieldfitError


def test_the_meat_is_the_sum_over_pairs_of_sites():
    graph = nx.grid_2d_graph(7, 8)
    nodes = list(graph.nodes)
    edges = [(nodes.index(a), nodes.index(b)) for a, b in graph.edges]
    model = ff.TiedField.pairwise(edges, m=56)
    random = np.random.default_rng(0)
    terms = random.normal(size=(2 * 56, 2))
    sites, samples = np.tile(np.arange(56), 2), np.repeat([0, 1], 56)
    for bandwidth in (0, 1, 3):
        found = spatial_meat(LocatedScores(terms, sites, samples), model.graph.neighbours, bandwidth)
        distance = dict(nx.all_pairs_shortest_path_length(nx.Graph(edges)))
        kernel = np.array(
            [[min(1.0, max(0.0, 2 * (1 - distance[s][t] / (bandwidth + 1)))) for t in range(56)] for s in range(56)]
        )
        centred = terms - terms.mean(axis=0)
        expected = sum(centred[samples == i].T @ kernel @ centred[samples == i] for i in (0, 1))
        expected /= 1 - kernel.sum(axis=1).mean() / 112
        assert found.bandwidth == bandwidth
        assert not found.raised
        np.testing.assert_allclose(found.matrix, expected, rtol=1e-12)
        assert found.degrees == pytest.approx(2 * 56**2 / np.square(kernel).sum())


@pytest.mark.slow
def test_the_degrees_of_freedom_are_those_of_the_variation_of_the_meat():
    """Of 600 meats of independent terms; the relative variance has a standard error of about 8%."""
    model, random = ff.TiedField.grid(20, 20), np.random.default_rng(0)
    sites, samples = np.arange(400), np.zeros(400, dtype=np.int64)
    found = [
        spatial_meat(LocatedScores(random.normal(size=(400, 1)), sites, samples), model.graph.neighbours, 2)
        for _ in range(600)
    ]
    values = np.array([meat.matrix[0, 0] for meat in found])
    assert values.var() / values.mean() ** 2 == pytest.approx(2 / found[0].degrees, rel=0.3)


def test_intervals_of_one_sample_are_by_students_t(tmp_path):
    model = ff.TiedField.grid(12, 12)
    fit = ff.fit(model, model.sample([-0.5, 0.3, 0.3], 1, random_state=0, method="gibbs"), "PL1")
    degrees, errors = fit.accuracy().degrees, fit.standard_errors()
    assert 5 < degrees < 50
    half = stats.t.ppf(0.95, degrees) * errors
    np.testing.assert_allclose(fit.conf_int(0.9), np.stack([fit.theta - half, fit.theta + half], axis=1))
    table = fit.table(0.9)
    np.testing.assert_allclose(table[["lower", "upper"]], fit.conf_int(0.9))
    np.testing.assert_allclose(table["p"], 2 * stats.t.sf(np.abs(table["z"]), degrees))
    one = fit.functional(0, level=0.9)
    assert (one.lower, one.upper, one.p()) == pytest.approx((*fit.conf_int(0.9)[0], table["p"].iloc[0]))
    fit.save(tmp_path / "one.ff")
    np.testing.assert_array_equal(ff.load(tmp_path / "one.ff").conf_int(), fit.conf_int())
    normal = fit.conf_int(0.9, "model")
    np.testing.assert_allclose(np.ptp(normal, axis=1) / fit.standard_errors("model"), 2 * stats.norm.ppf(0.95))


@pytest.mark.slow
def test_independent_sites_have_the_sandwich_of_logistic_regression():
    random = np.random.default_rng(1)
    z = random.normal(size=(500, 2))
    y = (random.random(500) < 1 / (1 + np.exp(-z[:, 0]))).astype(int)
    fit = ff.fit(ff.TiedField.pairwise(np.empty((0, 2)), z), y[None], "PL1")
    design = np.column_stack([np.ones(500), z])
    p = 1 / (1 + np.exp(-design @ fit.theta))
    bread = np.linalg.inv(design.T @ (design * (p * (1 - p))[:, None]))
    scores = design * (y - p)[:, None]
    covariance = bread @ scores.T @ scores @ bread * 500 / 499
    np.testing.assert_allclose(fit.standard_errors(), np.sqrt(np.diag(covariance)), rtol=1e-6)


@pytest.mark.slow
def test_one_sample_says_which_errors_it_has():
    model = ff.TiedField.grid(30, 30)
    fit = ff.fit(model, model.sample([-0.5, 0.3, 0.3], 1, random_state=0, method="gibbs"), "PL1")
    np.testing.assert_array_equal(fit.standard_errors(), fit.standard_errors("spatial"))
    assert "1 sample," in fit.summary()
    assert "within distance 5 of each other in the graph (spatial HAC)" in fit.summary()
    assert "400 simulated samples" in fit.summary(kind="model")
    # The two kinds agree: the model is right, and simulation adds about 4%.
    np.testing.assert_allclose(fit.standard_errors("model"), fit.standard_errors(), rtol=0.35)
    with pytest.raises(DataError, match="smaller bandwidth"):
        fit.spatial_accuracy(bandwidth=30)
    with pytest.raises(FieldfitError, match="'spatial'"):
        fit.standard_errors("windows")  # type: ignore[arg-type]


@pytest.mark.slow
def test_models_without_located_components_have_them_too():
    machine = ff.BoltzmannMachine.grid(20, 20, tied=True, biases=True, states=(-1, 1))
    field = ff.TiedField.grid(20, 20, states=(-1, 1), coupling="product")
    x = machine.sample([0.2, 0.2, 0.1], 1, random_state=0, method="gibbs").values
    by_clique = ff.fit(machine, x, "PL1").standard_errors()
    by_site = ff.fit(field, x, "PL1").standard_errors()
    np.testing.assert_allclose(by_clique[:2], by_site[1:], rtol=0.1)


def test_few_samples_may_be_asked_for_spatial_errors():
    model = ff.TiedField.grid(12, 12)
    x = model.sample([-0.4, 0.4, 0.4], 40, random_state=0, method="gibbs")
    fit = ff.fit(model, x, "PL1")
    np.testing.assert_allclose(fit.standard_errors("spatial"), fit.standard_errors(), rtol=0.3)


def test_too_few_sites_have_no_errors(tmp_path):
    model = ff.TiedField.pairwise([(0, 1)], m=2)
    fit = ff.fit(model, [[0, 1]], "PL1", sigma2=1.0)
    assert np.isnan(fit.standard_errors()).all()
    fit.save(tmp_path / "two.fit")
    assert "standard errors need the data" in ff.load(tmp_path / "two.fit").summary()


def test_an_untied_parameter_of_one_sample_is_refused():
    with pytest.raises(DataError, match="never change"):
        ff.fit(ff.BoltzmannMachine(3), [[0, 1, 1]], "PL1")


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["PL1", "rows"])
def test_coverage_on_simulated_lattices(policy):
    """600 intervals at 95%: with a share outside 0.92 to 0.98 this fails by chance in fewer than 1 of 1,000 runs.

    The three intervals of a lattice are nearly independent. The full-size figures are those of benchmarks/lattices.py.
    """
    size = 32
    model = ff.TiedField.grid(size, size, states=(-1, 1), coupling="product")
    theta = np.array([0.1, 0.25, 0.25])
    if policy == "rows":
        rows = np.arange(size * size).reshape(size, size).tolist()
        policy = "Blocks(" + ",".join("{" + ",".join(map(str, row)) + "}" for row in rows) + ")"
    draws = model.sample(theta, 200, random_state=4, method="gibbs", burn_in=300, thin=30).values
    inside = []
    for draw in draws:
        interval = ff.fit(model, draw[None], policy, check_drift=False).conf_int()
        inside.append((interval[:, 0] <= theta) & (theta <= interval[:, 1]))
    assert 0.92 <= np.mean(inside) <= 0.98


@pytest.mark.parametrize("policy", ["PL1 >> FL~4000", "PL1 >> optimal"])
def test_a_refined_estimate_of_one_sample_has_the_errors_of_the_model(policy, tmp_path):
    """Its score is 0 at the estimate. The errors are those of the information, computed here from all states."""
    model = ff.TiedField.grid(3, 4, states=(-1, 1), coupling="product")
    x = model.sample([0.1, 0.2, 0.2], 20, random_state=0).values[2:3]
    fit = ff.fit(model, x, policy)
    spins = np.array(list(itertools.product([-1, 1], repeat=12)))
    at = spins.reshape(-1, 3, 4)
    across, down = (at[:, :, 1:] * at[:, :, :-1]).sum((1, 2)), (at[:, 1:] * at[:, :-1]).sum((1, 2))
    statistics = np.column_stack([(spins == 1).sum(1), across, down])
    p = np.exp(statistics @ fit.theta)
    information = np.cov(statistics.T, aweights=p / p.sum(), ddof=0)
    maximum_likelihood = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(fit.standard_errors(), maximum_likelihood, rtol=0.1)
    np.testing.assert_array_equal(fit.standard_errors(), fit.standard_errors("model"))
    assert "standard errors: model-based" in fit.summary()
    assert "one sample has no spread" in fit.summary()
    assert "one sample has no spread" in str(fit.functional({"vertical": 1}))
    fit.save(tmp_path / "one.ff")
    np.testing.assert_allclose(ff.load(tmp_path / "one.ff").standard_errors(), fit.standard_errors())


@pytest.mark.parametrize(
    ("n", "options"),
    [
        (1, {"groups": ["a"]}),
        (1, {"sample_weight": [3], "weight_kind": "counts"}),
        (1, {"sample_weight": [2.0]}),
        (2, {"sample_weight": [1.0, 0.0]}),
    ],
)
def test_one_sample_with_weights_or_groups_has_the_errors_of_the_model(n, options):
    model = ff.TiedField.grid(3, 4)
    fit = ff.fit(model, model.sample([-0.3, 0.4, 0.3], n, random_state=2), "PL1", **options)
    np.testing.assert_array_equal(fit.standard_errors(), fit.standard_errors("model"))
    assert (fit.standard_errors() > 0.02).all()
    assert "one sample has no spread" in fit.summary()


def test_one_sample_has_no_test_of_the_moment_conditions():
    model = ff.TiedField.grid(3, 4)
    fit = ff.fit(model, model.sample([-0.3, 0.4, 0.3], 1, random_state=2), "PL1 >> optimal(1)")
    assert fit.refined
    assert not fit.testable
    assert "Hansen" not in fit.summary()


def test_one_sequence_has_the_errors_of_the_model():
    random = np.random.default_rng(0)
    labels = ["a" if one else "b" for one in random.random(200) < 0.5]
    sentence = [{"u": float(random.normal() + (label == "a"))} for label in labels]
    fit = ff.CRFTagger(sigma2=None, start_end=False).fit([sentence], [labels]).fit_
    difference = fit.functional({"u:a": 1, "u:b": -1})
    assert difference.standard_error == fit.functional({"u:a": 1, "u:b": -1}, kind="model").standard_error
    assert 0.1 < difference.standard_error < 0.4
    assert "one sample has no spread" in str(difference)
