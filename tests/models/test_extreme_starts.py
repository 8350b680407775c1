"""Fits that start where every state is certain."""

import numpy as np
import pytest

import fieldfit as ff


@pytest.mark.parametrize("size", [1e3, -1e3])
@pytest.mark.parametrize("policy", ["PL1", "FL", "PL1 + PL2"])
def test_a_start_without_curvature_leads_to_the_same_optimum(policy, size):
    model = ff.BoltzmannMachine(4, biases=True)
    x = np.random.default_rng(0).integers(0, 2, (300, 4))
    usual = ff.fit(model, x, policy, sigma2=1.0)
    signs = np.where(np.arange(model.n_parameters) % 2, 1.0, -1.0)
    for start in (np.full(model.n_parameters, size), size * signs):
        fit = ff.fit(model, x, policy, sigma2=1.0, start=start)
        assert fit.converged
        np.testing.assert_allclose(fit.theta, usual.theta, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"method": "lbfgs"}, {"tol": "statistical"}], ids=str)
@pytest.mark.parametrize("sigma2", [None, 1.0])
def test_a_start_whose_variances_underflow(sigma2, options):
    model = ff.BoltzmannMachine(4, biases=True)
    x = np.random.default_rng(0).integers(0, 2, (300, 4))
    signs = np.where(np.arange(model.n_parameters) % 2, 1.0, -1.0)
    fit = ff.fit(model, x, "PL1", sigma2=sigma2, start=1e8 * signs, check_drift=False, **options)
    assert np.isfinite(fit.theta).all()
