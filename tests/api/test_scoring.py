"""``A >> FL~M``: Fisher scoring with draws of the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import DataError, ModelError, PolicyError

GRID = ff.BoltzmannMachine.grid(3, 3, states=(-1, 1))
THETA = 0.5 * np.where(np.arange(12) % 3, 1.0, -1.0)


def test_near_maximum_likelihood_with_errors_that_know_the_draws(tmp_path: Path) -> None:
    x = np.asarray(GRID.sample(THETA, 1000, 1).values)
    full, fit = ff.fit(GRID, x, "FL"), ff.fit(GRID, x, "PL1 >> FL~4000")
    assert fit.refined
    assert str(fit.estimator) == "PL1 >> FL~4000"
    # n/M = 1/4: the draws add about half a standard error to the difference.
    distance = (fit.theta - full.theta) / full.standard_errors()
    assert np.sqrt(np.mean(distance**2)) < 1.0
    np.testing.assert_allclose(fit.standard_errors() / full.standard_errors(), np.sqrt(1.25), rtol=0.12)
    np.testing.assert_allclose(fit.standard_errors("model") / full.standard_errors("model"), np.sqrt(1.25), rtol=0.12)
    text = fit.summary()
    assert "split R̂ at most 1.0" in text
    assert "effective number of draws at least" in text
    influence = fit.influence()
    np.testing.assert_allclose(influence.sum(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(fit.influence(x[:4]), influence[:4], atol=1e-12)
    np.testing.assert_allclose(fit.influence(rows=[2, 5]), influence[[2, 5]], atol=1e-12)
    # To first order it is the influence on the full likelihood's estimate.
    assert np.corrcoef(influence.ravel(), full.influence().ravel())[0, 1] > 0.97
    with pytest.raises(PolicyError, match="nothing to test"):
        fit.specification_test()
    fit.save(tmp_path / "drawn.ff")
    loaded = ff.load(tmp_path / "drawn.ff")
    np.testing.assert_array_equal(loaded.theta, fit.theta)
    np.testing.assert_allclose(loaded.standard_errors(), fit.standard_errors())
    assert loaded.summary().splitlines()[4:6] == text.splitlines()[4:6]
    np.testing.assert_allclose(ff.load(tmp_path / "drawn.ff", x).influence(), influence, atol=1e-12)


def test_threads_do_not_matter_and_seeds_do() -> None:
    x = GRID.sample(THETA, 300, 2).values
    found = []
    for threads in (1, 2):
        ff.set_threads(threads)
        try:
            found.append(ff.fit(GRID, x, "PL1 >> FL~1000").theta)
        finally:
            ff.set_threads(None)
    np.testing.assert_array_equal(found[0], found[1])
    assert np.any(ff.fit(GRID, x, "PL1 >> FL~1000", random_state=1).theta != found[0])


@pytest.mark.slow
def test_errors_and_coverage_in_simulations() -> None:
    """150 fits with n = M: squared errors are twice those of maximum likelihood, and 95% of the intervals cover."""
    information = np.linalg.inv(ff.theory(GRID, THETA, "FL").covariance)
    total, covered, n = 0.0, 0, 1000
    for seed in range(150):
        fit = ff.fit(GRID, GRID.sample(THETA, n, seed).values, f"PL1 >> FL~{n}", random_state=seed)
        total += n * float((fit.theta - THETA) @ information @ (fit.theta - THETA))
        interval = fit.conf_int(0.95)
        covered += int(np.sum((interval[:, 0] < THETA) & (interval[:, 1] > THETA)))
    # Twice χ² with 1,800 degrees of freedom: a standard deviation of 120; and 5% for autocorrelation and curvature.
    assert abs(total - 3600) < 4 * 120 + 0.05 * 3600
    # 1,800 intervals at 95%: four standard errors are 0.02.
    assert abs(covered / 1800 - 0.95) < 0.02


def test_draws_that_miss_a_rare_state_do_not_lead_away() -> None:
    """With this seed the second step follows a covariance with an eigenvalue of 0.01 in place of 0.2, far out and on."""
    grid = ff.BoltzmannMachine.grid(2, 3, states=(-1, 1))
    model = ff.BoltzmannMachine(6, grid.edge_array, biases=True, states=(-1, 1))
    random = np.random.default_rng(3)
    theta = np.r_[0.4 * random.normal(size=7), 0.3 * random.normal(size=6)]
    x = model.sample(theta, 300, random_state=1085).values
    exact, fit = (ff.fit(model, x, policy, random_state=85) for policy in ("FL", "PL1 >> FL~400"))
    assert (
        np.abs((fit.theta - exact.theta) / exact.standard_errors()).max() < 4
    )  # of 13, each with a variance of 0.75
    assert (fit.standard_errors() < 2 * exact.standard_errors()).all()


def test_penalty_weights_fixed_and_tied_parameters() -> None:
    x = np.asarray(GRID.sample(THETA, 600, 3).values)
    names = GRID.parameter_names
    full = ff.fit(GRID, x, "FL", sigma2=0.05, fixed={names[0]: -0.5})
    fit = ff.fit(GRID, x, "PL1 >> FL~20000", sigma2=0.05, fixed={names[0]: -0.5})
    assert fit.theta[0] == -0.5
    assert np.isnan(fit.standard_errors()[0]) == np.isnan(full.standard_errors()[0])
    errors = full.standard_errors()[1:]
    assert np.max(np.abs(fit.theta - full.theta)[1:] / errors) < 0.7
    np.testing.assert_allclose(fit.standard_errors()[1:], errors, rtol=0.1)
    rows, counts = np.unique(x, axis=0, return_counts=True)
    weighted = ff.fit(GRID, rows, "PL1 >> FL~20000", sample_weight=counts, weight_kind="counts")
    plain = ff.fit(GRID, x, "FL")
    assert np.max(np.abs(weighted.theta - plain.theta) / plain.standard_errors()) < 0.7
    np.testing.assert_allclose(weighted.standard_errors(), plain.standard_errors(), rtol=0.1)
    tied = ff.BoltzmannMachine.grid(3, 3, tied=True, biases=True, states=(-1, 1))
    x = tied.sample([0.3, 0.3, 0.1], 500, 4).values
    one, best = ff.fit(tied, x, "PL1 >> FL~5000"), ff.fit(tied, x, "FL")
    assert np.max(np.abs(one.theta - best.theta) / best.standard_errors()) < 1.2


def test_refused_with_numbers() -> None:
    strong = ff.BoltzmannMachine(12, biases=True, states=(-1, 1))
    x = np.concatenate([np.ones((100, 12)), -np.ones((100, 12))]).astype(int)
    x[np.arange(0, 200, 8), np.arange(25) % 12] *= -1
    with pytest.raises(PolicyError, match=r"do not mix.*Split R̂ is \d+\.\d\d for .*effective number of draws is"):
        ff.refine(ff.fit(strong, x, "PL1", sigma2=10.0), "FL~1000")
    x = GRID.sample(THETA, 200, 0).values
    with pytest.raises(PolicyError, match="Write FL~120 or more"):
        ff.fit(GRID, x, "PL1 >> FL~110")
    lacking = np.array(x, dtype=float)
    lacking[3, 2] = np.nan
    with pytest.raises(DataError, match="needs complete samples"):
        ff.fit(GRID, lacking, "PL1 >> FL~1000")
    with pytest.raises(PolicyError, match="L1 penalty"):
        ff.fit(GRID, x, "PL1 >> FL~1000", l1=1.0)
    crf = ff.MarkovRandomField(
        [2, 2, 2], [ff.Factor((a, b), [[1.0, -1.0], [-1.0, 1.0]], f"J{a}{b}") for a, b in ((0, 1), (1, 2))], given=[0]
    )
    with pytest.raises(ModelError, match="another one for each sample"):
        ff.fit(crf, np.random.default_rng(0).integers(0, 2, (50, 3)), "PL1 >> FL~1000")
