"""``Nodewise >> optimal``: separate fits of the variables, combined by optimal matrix weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import DataError, ModelError, PolicyError

CHAIN = ff.BoltzmannMachine(5, [(k, k + 1) for k in range(4)], biases=True, states=(-1, 1))
THETA = np.array([1.0, -1.0, 1.0, -1.0, 0.2, -0.2, 0.2, -0.2, 0.2])


def test_near_the_joint_refinement(tmp_path: Path) -> None:
    x = np.asarray(CHAIN.sample(THETA, 4000, 1).values)
    joint, fit = ff.fit(CHAIN, x, "PL1 >> optimal(1)"), ff.fit(CHAIN, x, "Nodewise >> optimal")
    assert str(fit.estimator) == "Nodewise >> optimal"
    errors = joint.standard_errors()
    assert np.max(np.abs(fit.theta - joint.theta) / errors) < 0.15
    np.testing.assert_allclose(fit.standard_errors(), errors, rtol=0.03)
    np.testing.assert_allclose(fit.standard_errors("model"), joint.standard_errors("model"), rtol=0.03)
    theory = ff.theory(CHAIN, fit.theta, "Nodewise >> optimal").standard_errors(4000)
    np.testing.assert_allclose(fit.standard_errors("model"), theory, rtol=0.01)
    test, other = fit.specification_test(), joint.specification_test()
    assert test.degrees_of_freedom == other.degrees_of_freedom
    assert test.statistic == pytest.approx(other.statistic, rel=0.1)
    assert "5 separate fits converged and were combined" in fit.summary()
    influence = fit.influence()
    np.testing.assert_allclose(influence.sum(axis=0), 0.0, atol=1e-5)
    fit.save(tmp_path / "nodes.ff")
    loaded = ff.load(tmp_path / "nodes.ff", x)
    assert str(loaded.estimator) == "Nodewise >> optimal"
    np.testing.assert_array_equal(loaded.theta, fit.theta)
    np.testing.assert_allclose(loaded.influence(), influence, atol=1e-12)
    assert loaded.specification_test() == test


def test_separate_estimates_are_logistic_regressions() -> None:
    """Two variables: each regression is that of the joint pseudo-likelihood with parameters of its own."""
    pair = ff.BoltzmannMachine(2, biases=True)
    x = np.asarray(pair.sample([1.0, -0.5, 0.3], 500, 2).values)
    fit = ff.fit(pair, x, "Nodewise >> optimal")
    counts = np.array([[np.sum((x[:, 0] == a) & (x[:, 1] == b)) for b in (0, 1)] for a in (0, 1)])
    ratio = np.log(counts[1, 1] * counts[0, 0] / (counts[0, 1] * counts[1, 0]))
    # Both regressions have the log odds ratio as their slope, so that every average of them has it.
    name = fit.parameter_names.index(next(n for n in fit.parameter_names if ":" in n))
    assert fit.theta[name] == pytest.approx(ratio, abs=1e-6)


@pytest.mark.slow
def test_tied_fixed_and_weighted() -> None:
    tied = ff.BoltzmannMachine.grid(3, 3, tied=True, biases=True, states=(-1, 1))
    x = np.asarray(tied.sample([0.3, 0.3, 0.1], 3000, 3).values)
    fit, full = ff.fit(tied, x, "Nodewise >> optimal"), ff.fit(tied, x, "FL")
    assert np.max(np.abs(fit.theta - full.theta) / full.standard_errors()) < 1.5
    rows, counts = np.unique(x, axis=0, return_counts=True)
    weighted = ff.fit(tied, rows, "Nodewise >> optimal", sample_weight=counts, weight_kind="counts")
    np.testing.assert_allclose(weighted.theta, fit.theta, atol=1e-6)
    np.testing.assert_allclose(weighted.standard_errors(), fit.standard_errors(), rtol=1e-5)
    x = np.asarray(CHAIN.sample(THETA, 3000, 4).values)
    name = CHAIN.parameter_names[0]
    held = ff.fit(CHAIN, x, "Nodewise >> optimal", fixed={name: 1.0})
    joint = ff.fit(CHAIN, x, "PL1 >> optimal(1)", fixed={name: 1.0})
    assert held.theta[0] == 1.0
    assert np.max(np.abs(held.theta - joint.theta)[1:] / joint.standard_errors()[1:]) < 0.2


@pytest.mark.slow
def test_errors_and_coverage_in_simulations() -> None:
    """150 fits: as accurate as theory says, and 95% of the intervals cover."""
    chain = ff.BoltzmannMachine(5, [(k, k + 1) for k in range(4)], states=(-1, 1))
    theta = np.array([1.0, -1.0, 1.0, -1.0])
    information = np.linalg.inv(ff.theory(chain, theta, "Nodewise >> optimal").covariance)
    total, covered = 0.0, 0
    for seed in range(150):
        fit = ff.fit(chain, chain.sample(theta, 1500, seed).values, "Nodewise >> optimal")
        total += 1500 * float((fit.theta - theta) @ information @ (fit.theta - theta))
        interval = fit.conf_int(0.95)
        covered += int(np.sum((interval[:, 0] < theta) & (interval[:, 1] > theta)))
    # χ² with 600 degrees of freedom: a standard deviation of 35; and 5% for second-order terms.
    assert abs(total - 600) < 4 * 35 + 0.05 * 600
    # 600 intervals at 95%: four standard errors are 0.036.
    assert abs(covered / 600 - 0.95) < 0.036


def test_refused_with_a_sentence() -> None:
    x = np.asarray(CHAIN.sample(THETA, 200, 0).values)
    with pytest.raises(PolicyError, match="no sigma2"):
        ff.fit(CHAIN, x, "Nodewise >> optimal", sigma2=1.0)
    with pytest.raises(PolicyError, match="no instruments beyond the neighbours"):
        ff.fit(CHAIN, x, "Nodewise >> optimal(2)")
    lacking = x.astype(float)
    lacking[0, 0] = np.nan
    with pytest.raises(DataError, match="needs complete samples"):
        ff.fit(CHAIN, lacking, "Nodewise >> optimal")
    pair = ff.BoltzmannMachine(3, [(0, 1), (1, 2)], biases=True)
    apart = np.array([[0, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0]])
    with pytest.raises(ModelError, match="separate fit of the variable"):
        ff.fit(pair, apart, "Nodewise >> optimal")
