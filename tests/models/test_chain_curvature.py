"""The sparse factor of a chain's curvature against the Hessian that it stands for."""

import numpy as np
import pytest
from chain_oracle import random_sequences

from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_curvature import window_factor
from fieldfit.models.chain_decoding import ScoredChains
from fieldfit.models.chain_gradients import marginal_gradient
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.policies import as_policy
from fieldfit.types import DataError


def hessian(problem, theta, row_weight=None):
    return np.stack([-problem.hessian_product(theta, e, row_weight) for e in np.eye(problem.n_parameters)])


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["FL", "PL1", "PL2", "0.6*PL1 + 0.7*FL@2", "0.5*PL3/sentence"])
@pytest.mark.parametrize("pairs", ["all", "observed"])
def test_the_factor_has_the_curvature_as_its_mean(policy, pairs):
    """1,000 draws for each window: the error of an entry is about 2% of the largest."""
    data = random_sequences(seed=4, lengths=(3, 1, 5, 2), n_labels=3, n_features=4)
    model = ChainCRF(3, 4, pairs=pairs).observe(data)
    theta = np.random.default_rng(2).normal(size=model.n_parameters)
    bound = as_policy(policy).bind(model.structure(data))
    problem = model.compile(data, bound.draw(3, 0, data.n))
    assert isinstance(problem, ChainProblem)
    weight = np.array([1.0, 0.5, 2.0, 0.0])
    scored = model.scored(theta, data)
    assert isinstance(scored, ScoredChains)
    chains = ScoredChains(data.offsets, scored.scores, 3, scored.edges)
    total = 0.0
    for seed, family in enumerate(problem.families):
        factor = window_factor(model.layout, data, chains, family, weight, 1_000, seed)
        total = total + (factor.T @ factor).toarray()
    exact = hessian(problem, theta, weight)
    np.testing.assert_allclose(total, exact, atol=0.1 * max(np.abs(exact).max(), 1e-9))


def test_the_problems_factor_is_sparse_and_its_scores_are_those_of_the_kernel():
    data = random_sequences(seed=1, lengths=(4, 6, 3) * 200, n_labels=3, n_features=4)
    model = ChainCRF(3, 4).observe(data)
    theta = np.random.default_rng(5).normal(size=model.n_parameters)
    problem = model.compile(data, as_policy("FL").bind(model.structure(data)).draw(0, 0, data.n))
    factor = problem.hessian_factor(theta)
    exact = hessian(problem, theta)
    approximate = (factor.T @ factor).toarray()
    # 600 sentences with 4 draws each: a relative error of about 1/√1800 on the trace.
    assert np.trace(approximate) == pytest.approx(np.trace(exact), rel=0.1)
    np.testing.assert_allclose(approximate, exact, atol=0.15 * np.abs(exact).max())


def test_label_pair_features_have_no_factor():
    data = random_sequences(seed=1, lengths=(4,), n_labels=2, n_features=2)
    model = ChainCRF(2, 2, label_pairs=True).observe(data)
    problem = model.compile(data, as_policy("FL").bind(model.structure(data)).draw(0, 0, data.n))
    assert problem.hessian_factor(np.zeros(model.n_parameters)) is None


@pytest.mark.parametrize("pairs", ["all", "observed"])
def test_the_gradient_of_a_marginal_by_differences(pairs):
    data = random_sequences(seed=7, lengths=(2, 4), n_labels=3, n_features=4)
    model = ChainCRF(3, 4, pairs=pairs).observe(data)
    theta = np.random.default_rng(3).normal(size=model.n_parameters)
    p, gradient = marginal_gradient(model, theta, data, 1, 2, 1)
    assert p == pytest.approx(model.marginals(theta, data)[4, 1], rel=1e-12)
    for place, step in enumerate(1e-5 * np.eye(model.n_parameters)):
        change = model.marginals(theta + step, data)[4, 1] - model.marginals(theta - step, data)[4, 1]
        assert gradient[place] == pytest.approx(change / 2e-5, abs=1e-8)
    for wrong in ((2, 0, 0), (0, 2, 0), (0, 0, 3)):
        with pytest.raises(DataError, match="got"):
            marginal_gradient(model, theta, data, *wrong)
