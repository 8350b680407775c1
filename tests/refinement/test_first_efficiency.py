"""The first stage judged alone, before any matrix over all conditions is made."""

from __future__ import annotations

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.policies import Policy
from fieldfit.refinement.first_efficiency import first_efficiency
from fieldfit.refinement.stacking import stack


@pytest.mark.parametrize("size", [0.1, 0.8])
def test_near_the_exact_one(size: float) -> None:
    model = ff.BoltzmannMachine.grid(3, 3, states=(-1, 1))
    theta = size * np.where(np.arange(12) % 3, 1.0, -1.0)
    theory = ff.asymptotics(model, theta, "PL1")
    assert theory.mle_covariance is not None
    exact = float(np.sum(np.linalg.inv(theory.mle_covariance) * theory.covariance)) / 12
    own = stack(model, Policy.parse("PL1").bind(model.structure()), 1)
    # Twelve variances from 4,000 draws: the ratio is known to about 2%.
    assert abs(first_efficiency(model, theta, own, None, np.ones(12, dtype=bool), 0) / exact - 1) < 0.08


def test_a_dense_machine_with_weak_couplings_has_nothing_to_refine() -> None:
    model = ff.BoltzmannMachine(18, biases=True)
    theta = np.random.default_rng(0).normal(size=model.n_parameters) * 0.1
    x = model.sample(theta, 3000, 0).values
    first = ff.fit(model, x, "PL1")
    refined = ff.refine(first)
    assert not refined.refined
    assert refined.refinement is not None
    assert "nothing to refine" in refined.refinement.lines()[1]
    np.testing.assert_array_equal(refined.theta, first.theta)
    np.testing.assert_allclose(refined.standard_errors(), first.standard_errors())
    assert "the estimate is the first stage's" in refined.summary()
