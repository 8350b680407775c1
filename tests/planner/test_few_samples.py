"""Plans for few samples: moments come from simulated samples, and agree with the theory at the pilot's θ."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.policies import Policy
from fieldfit.variance.sampled_moments import Control


@pytest.fixture(scope="module")
def field():
    """13 variables, 91 parameters, 8,192 states."""
    model = ff.BoltzmannMachine(13, biases=True)
    return model, 0.7 * np.random.default_rng(5).normal(size=model.n_parameters)


def test_variances_agree_with_theory(field):
    """The squared error of a bread from a few hundred samples would add several percent."""
    model, theta = field
    x = model.sample(theta, 400, random_state=1).values
    plan = ff.plan(model, x, policies=["PL1", "PL3", "FL"])
    assert "simulated" in plan.method
    table = plan.table.set_index("policy")
    for policy in ("PL1", "PL3"):
        theory, found = ff.asymptotics(model, plan.theta, policy), table.loc[policy]
        exact = np.trace(np.linalg.solve(theory.mle_covariance, theory.covariance)) / model.n_parameters
        assert abs(found["variance"] / exact - 1) < 4 * found["error"] + 0.002


def test_expensive_hessians_are_controlled_by_cheap_ones(field):
    """Breads from 100 of 4,000 samples, with PL1's as control variate, against sums over all states."""
    model, theta = field
    samples = model.read(model.sample(theta, 4_000, random_state=2).values)
    states, probability = model.weighted_samples(theta)

    def problem(policy, rows):
        return model.compile(rows, Policy.parse(policy).bind(model.structure(rows)).draw(0, 0, rows.n))

    plain, triples, full = (problem(policy, samples) for policy in ("PL1", "PL3", "FL"))
    few = np.where(np.arange(samples.n) < 100, 1.0, 0.0)
    breads = Control(plain, 100, full).breads([plain, triples, full], theta, None)
    np.testing.assert_allclose(breads[0].mean(axis=0), -plain.hessian_matrix(theta) / samples.n, rtol=1e-10)
    np.testing.assert_allclose(breads[2][0], -full.hessian_matrix(theta) / samples.n, rtol=1e-10)
    np.testing.assert_array_equal(breads[2][0], breads[2][1])
    exact = -problem("PL3", states).hessian_matrix(theta, probability)
    # 4,000 samples would have 0.16 times the error of 100.
    alone = -triples.hessian_matrix(theta, few) / 100
    away = np.linalg.norm(breads[1].mean(axis=0) - exact)
    assert away < 0.35 * np.linalg.norm(alone - exact)
    # The difference between the halves is of the size of the error.
    apart = np.linalg.norm(breads[1][0] - breads[1][1]) / 2
    assert 0.5 * away < apart < 2 * away
