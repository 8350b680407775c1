"""Long sentences, huge weights, many labels: nothing overflows, and both ways of summing agree."""

import numpy as np
import pytest
from chain_oracle import FULL, K, composite, crf_tables, mixtures, plain, random_sequences

from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_problem import ChainProblem

MIXED = (plain(0, 0.3), plain(1, 0.5), plain(2, 0.7), plain(4, 0.1))


@pytest.mark.parametrize("seed", range(6))
def test_weights_of_a_thousand(seed):
    data = random_sequences(seed, valued=False)
    model = ChainCRF(K, data.n_features, pairs="all")
    theta = np.random.default_rng(seed).choice([-1000.0, 0.0, 1000.0], model.n_parameters)
    problem = ChainProblem(model.layout, data, MIXED)
    expected = composite(lambda i: crf_tables(model, theta, data, i), data, MIXED)
    np.testing.assert_allclose(problem.row_values(theta), expected, rtol=1e-12, atol=1e-9)
    value, gradient = problem.value_grad(theta)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    v = np.random.default_rng(seed + 1).normal(size=len(theta))
    assert np.isfinite(problem.hessian_product(theta, v)).all()
    assert problem.row_products(theta, v).sum() == pytest.approx(gradient @ v, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("scale", [20.0, 100.0, 200.0, 300.0, 400.0])
def test_where_probabilities_nearly_underflow(scale):
    # Some sentences are done in probability space and others in log space; enumeration does not care.
    data = random_sequences(3, valued=False)
    model = ChainCRF(K, data.n_features, pairs="all")
    rng = np.random.default_rng(8)
    theta = rng.normal(size=model.n_parameters) * scale
    problem = ChainProblem(model.layout, data, MIXED)
    expected = composite(lambda i: crf_tables(model, theta, data, i), data, MIXED)
    np.testing.assert_allclose(problem.row_values(theta), expected, rtol=1e-12, atol=1e-9)
    v = rng.normal(size=len(theta)) / scale
    gradient = problem.value_grad(theta)[1]
    assert problem.row_products(theta, v).sum() == pytest.approx(gradient @ v, rel=1e-8, abs=1e-10)
    step = 1e-5
    ahead, behind = problem.value_grad(theta + step * v)[1], problem.value_grad(theta - step * v)[1]
    np.testing.assert_allclose(problem.hessian_product(theta, v), (ahead - behind) / (2 * step), atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_sentence_of_ten_thousand_tokens(scale):
    data = random_sequences(1, lengths=(10_000, 3), valued=False)
    model = ChainCRF(K, data.n_features, pairs="all")
    theta = np.random.default_rng(2).choice([-1.0, 1.0], model.n_parameters) * scale
    problem = ChainProblem(model.layout, data, MIXED)
    value, gradient = problem.value_grad(theta)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    v = np.random.default_rng(3).normal(size=len(theta))
    assert problem.row_products(theta, v).sum() == pytest.approx(gradient @ v, rel=1e-8, abs=1e-7)
    # In log space throughout: the same log Z and marginals.
    nodes, log_z = model.scored(theta, data).marginals()
    np.testing.assert_allclose(model._expectations(theta, data)[1], -log_z, rtol=1e-12)
    np.testing.assert_allclose(model.marginals(theta, data), nodes, atol=1e-9)
    assert len(model.predict(theta, data)) == 10_003


@pytest.mark.parametrize("n_labels", [2, 4, 5, 8, 9, 12, 13, 16, 21, 24, 33, 47, 70])
def test_any_number_of_labels(n_labels):
    data = random_sequences(4, lengths=(7, 3, 9, 1, 12), n_labels=n_labels, n_features=11)
    model = ChainCRF(n_labels, 11, pairs="all")
    rng = np.random.default_rng(0)
    theta = rng.normal(size=model.n_parameters)
    nodes, log_z = model.scored(theta, data).marginals()
    problem = ChainProblem(model.layout, data, (FULL,))
    residuals, values = model._expectations(theta, data)
    np.testing.assert_allclose(-residuals[:, :n_labels], nodes, atol=1e-12)
    np.testing.assert_allclose(-values, log_z, rtol=1e-13)
    mixed = ChainProblem(model.layout, data, MIXED)
    v = rng.normal(size=len(theta))
    for each in (problem, mixed):
        value, gradient = each.value_grad(theta)
        step = 1e-5
        slope = (each.row_values(theta + step * v).sum() - each.row_values(theta - step * v).sum()) / (2 * step)
        assert gradient @ v == pytest.approx(slope, rel=1e-7, abs=1e-6)
        assert each.row_products(theta, v).sum() == pytest.approx(gradient @ v, rel=1e-10, abs=1e-9)
        curvature = (each.value_grad(theta + step * v)[1] - each.value_grad(theta - step * v)[1]) / (2 * step)
        np.testing.assert_allclose(each.hessian_product(theta, v), curvature, atol=1e-5)
        assert value == pytest.approx(each.row_values(theta).sum(), rel=1e-13)


def test_rare_and_frequent_features_give_the_same_gradient():
    # Enough tokens that some features are summed chunk by chunk and others feature by feature.
    data = random_sequences(6, lengths=(25,) * 400, n_labels=4, n_features=3000, valued=True)
    skewed = type(data)(
        data.offsets, data.indptr, (data.indices**2 // 3000).astype(np.int32), data.values, data.labels, 3000, 4
    )
    for pairs in ("all", "observed"):
        model = ChainCRF(4, 3000, pairs=pairs).observe(skewed)
        theta = np.random.default_rng(0).normal(size=model.n_parameters)
        problem = ChainProblem(model.layout, skewed, mixtures((25,) * 400)["PL1@.5 + PL2@.7 + FL@.3"])
        assert 0 < problem.tokens.n_hot < 3000
        gradient = problem.value_grad(theta)[1]
        v = np.random.default_rng(1).normal(size=len(theta))
        step = 1e-5
        slope = (problem.row_values(theta + step * v).sum() - problem.row_values(theta - step * v).sum()) / (2 * step)
        assert gradient @ v == pytest.approx(slope, rel=1e-6)
        # The weight of a single feature, whichever way it is summed.
        for place in (0, 5, model.layout.n_state // 2, model.layout.n_state - 1):
            e = np.zeros(len(theta))
            e[place] = 1.0
            assert problem.row_products(theta, e).sum() == pytest.approx(gradient[place], rel=1e-9, abs=1e-10)
