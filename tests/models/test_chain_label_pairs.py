"""Features of label pairs: every token has its own edge matrix, in probability space where it fits, else in log space."""

import numpy as np
import pytest
from chain_oracle import K, central_gradient, composite, crf_tables, mixtures, random_sequences

from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_problem import ChainProblem

LENGTHS = (4, 1, 0, 2, 6, 3)
# Weights that fit, weights of which one alone leaves the range of a factor, and scores that underflow.
SCALES = {"plain": 1.0, "wide": 60.0, "wild": 600.0}


def make(valued, scale):
    data = random_sequences(3, lengths=LENGTHS, valued=valued)
    model = ChainCRF(K, data.n_features, label_pairs=True).observe(data)
    return data, model, scale * np.random.default_rng(4).normal(size=model.n_parameters)


@pytest.mark.parametrize("valued", [True, False])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("mixture", ["FL", "PL1", "PL2", "PL1@.5 + PL2@.7 + FL@.3", "sparse and FL"])
def test_values_are_those_of_enumeration(valued, scale, mixture):
    data, model, theta = make(valued, SCALES[scale])
    families = mixtures(LENGTHS)[mixture]
    problem = ChainProblem(model.layout, data, families)
    expected = composite(lambda i: crf_tables(model, theta, data, i), data, families)
    tolerance = 1e-10 * max(1.0, SCALES[scale])
    np.testing.assert_allclose(problem.row_values(theta), expected, rtol=0, atol=tolerance)
    assert problem.value_grad(theta)[0] == pytest.approx(expected.sum(), abs=5 * tolerance)


@pytest.mark.parametrize("valued", [True, False])
@pytest.mark.parametrize("scale", ["plain", "wide"])
def test_gradients_are_those_of_central_differences(valued, scale):
    data, model, theta = make(valued, SCALES[scale])
    families = mixtures(LENGTHS)["PL1@.5 + PL2@.7 + FL@.3"]
    problem = ChainProblem(model.layout, data, families)
    gradient = problem.value_grad(theta)[1]
    slope = central_gradient(lambda t: problem.row_values(t).sum(), theta)
    np.testing.assert_allclose(gradient, slope, rtol=0, atol=1e-7 * SCALES[scale])
    # The derivative of log space in a direction is another way through the same sums.
    v = np.random.default_rng(5).normal(size=len(theta))
    assert gradient @ v == pytest.approx(problem.row_products(theta, v).sum(), abs=1e-9 * SCALES[scale])


def test_one_weight_out_of_range_leaves_the_other_sequences_alone():
    data, model, theta = make(False, 1.0)
    problem = ChainProblem(model.layout, data, mixtures(LENGTHS)["FL"])
    column = model.layout.bounds[3]
    for weight in (-1000.0, 1000.0):
        theta[column] = weight
        expected = composite(lambda i: crf_tables(model, theta, data, i), data, problem.families)
        np.testing.assert_allclose(problem.row_values(theta), expected, rtol=1e-13, atol=1e-9)
        assert np.isfinite(problem.value_grad(theta)[1]).all()


def test_many_features_of_a_token_do_not_overflow_on_the_way():
    # 40 features a token whose factors would be e^±1000 in their product, though the score is small.
    n, copies = 6, 20
    data = random_sequences(1, lengths=(n,), n_features=2 * copies, valued=False)
    indices = np.tile(np.arange(2 * copies, dtype=np.int32), n)
    data = type(data)(data.offsets, 2 * copies * np.arange(n + 1), indices, None, data.labels, 2 * copies, K)
    model = ChainCRF(K, 2 * copies, label_pairs=True, transitions="none").observe(data)
    theta = np.zeros(model.n_parameters)
    columns = theta[model.layout.bounds[3] :]
    features = np.repeat(np.arange(2 * copies), np.diff(model.layout.column_ptr))
    for size in (1.0, 7.0, 50.0):
        columns[:] = np.where(features < copies, size, -size) + 0.01 * np.arange(len(columns)) / len(columns)
        problem = ChainProblem(model.layout, data, mixtures((n,))["FL"])
        expected = composite(lambda i: crf_tables(model, theta, data, i), data, problem.families)
        np.testing.assert_allclose(problem.row_values(theta), expected, rtol=0, atol=1e-10)
