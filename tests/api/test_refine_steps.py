"""``A >> B``, control variates for a random B, and stopping by sampling error."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import FieldfitError, ModelError, PolicyError, SeparationWarning

MACHINE = ff.BoltzmannMachine(5)
THETA = np.repeat([-1.0, 1.0], 5)
GRID = ff.BoltzmannMachine.grid(3, 3, biases=True, states=(-1, 1))
TRUTH = np.r_[np.full(12, 0.5), np.full(9, 0.2)]


def test_statistical_tolerance_stops_within_the_sampling_error() -> None:
    x = GRID.sample(TRUTH, 2000, 1).values
    for policy in ("PL1", "FL", "0.5*PL1 + PL2"):
        exact, early = ff.fit(GRID, x, policy), ff.fit(GRID, x, policy, tol="statistical")
        assert early.converged
        assert "of the sampling error" in early.message or "gradient norm below" in early.message
        distance = (early.theta - exact.theta) / exact.standard_errors()
        assert np.sqrt(np.mean(distance**2)) < 0.1
        assert early.iterations <= exact.iterations
        # What the check costs counts: a small fit has at most the one evaluation more that says when to check.
        assert early.evaluations + early.hessian_products <= exact.evaluations + exact.hessian_products + 1
    with pytest.raises(FieldfitError, match="must be a number above 0, or 'statistical'"):
        ff.fit(GRID, x, tol="small")  # type: ignore[arg-type]
    with pytest.raises(FieldfitError, match="smooth objective"):
        ff.fit(GRID, x, tol="statistical", l1=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "seed"), [("complete", 0), ("grid", 1)])
def test_every_parameter_of_a_second_stage_is_near_its_optimum(shape: str, seed: int) -> None:
    """Within 5% of its standard error, known to a few percent: with the Hessian as a matrix, and with its products."""
    models = {
        "grid": ff.BoltzmannMachine.grid(5, 8, biases=True, states=(-1, 1)),
        "complete": ff.BoltzmannMachine(8, biases=True, states=(-1, 1)),
    }
    model = models[shape]
    random = np.random.default_rng(seed)
    for _ in range(4):
        theta = random.normal(0, 0.4, model.n_parameters)
        x = model.sample(theta, 1000, random_state=int(random.integers(10**9))).values
        fit = ff.fit(model, x, "PL1 >> FL", check_drift=False)
        exact = ff.fit(model, x, "FL", tol=1e-9, start=fit.theta, check_drift=False)
        assert np.max(np.abs(fit.theta - exact.theta) / exact.standard_errors()) < 0.055


def test_newton_steps_on_another_policy(tmp_path: Path) -> None:
    x = GRID.sample(TRUTH, 2000, 2).values
    full, steps = ff.fit(GRID, x, "FL"), ff.fit(GRID, x, "PL1 >> FL")
    assert str(steps.estimator) == "PL1 >> FL"
    assert np.max(np.abs(steps.theta - full.theta) / full.standard_errors()) < 0.1
    np.testing.assert_allclose(steps.standard_errors(), full.standard_errors(), rtol=0.02)
    steps.save(tmp_path / "steps.ff")
    loaded = ff.load(tmp_path / "steps.ff", x)
    assert str(loaded.estimator) == "PL1 >> FL"
    np.testing.assert_array_equal(loaded.theta, steps.theta)
    np.testing.assert_allclose(loaded.influence(), steps.influence())
    with pytest.raises(PolicyError, match="second stage already"):
        ff.refine(steps, "optimal")
    same = ff.theory(MACHINE, THETA, "PL1 >> FL")
    np.testing.assert_allclose(same.covariance, ff.theory(MACHINE, THETA, "FL").covariance, rtol=1e-9)


@pytest.mark.parametrize("lam", [0.1, 0.5])
def test_information_of_control_variates(lam: float) -> None:
    """(1 − λ)·G + λ·I with G the information of A and I that of maximum likelihood."""
    theory = ff.theory(MACHINE, THETA, f"PL1 >> {lam}*FL")
    G = np.linalg.inv(ff.theory(MACHINE, THETA, "PL1").covariance)
    information = np.linalg.inv(ff.theory(MACHINE, THETA, "FL").covariance)
    np.testing.assert_allclose(
        np.linalg.inv(theory.covariance), (1 - lam) * G + lam * information, rtol=1e-6, atol=1e-9
    )


@pytest.mark.slow
def test_fits_reach_that_information() -> None:
    """100 fits of a chain: squared errors in the metric of the predicted information add up to χ² with 300 degrees."""
    chain = ff.BoltzmannMachine(4, [(0, 1), (1, 2), (2, 3)], states=(-1, 1))
    theta = np.array([1.0, -1.0, 1.0])
    information = np.linalg.inv(ff.theory(chain, theta, "PL1 >> 0.3*FL").covariance)
    total = 0.0
    for seed in range(100):
        fit = ff.fit(chain, chain.sample(theta, 1500, seed).values, "PL1 >> 0.3*FL", random_state=seed)
        assert fit.refined
        total += 1500 * float((fit.theta - theta) @ information @ (fit.theta - theta))
    # Mean 300, standard deviation 24.5: four of them, and 5% for second-order terms.
    assert abs(total - 300) < 4 * 24.5 + 0.05 * 300


def test_refused_with_a_sentence() -> None:
    x = MACHINE.sample(THETA, 300, 0).values
    with pytest.raises(PolicyError, match="uses every sample"):
        ff.fit(MACHINE, x, "0.5*PL1 >> 0.2*FL")
    with pytest.raises(PolicyError, match="one component for each sample"):
        ff.fit(MACHINE, x, "PL1 >> 0.2*PL2")
    pair = ff.BoltzmannMachine(2, biases=True)
    apart = np.array([[0, 0], [0, 1], [1, 1], [1, 1], [0, 0]])
    with pytest.warns(SeparationWarning), pytest.raises(ModelError, match="optimum at infinity"):
        ff.fit(pair, apart, "PL1 >> FL")


@pytest.mark.parametrize("first", ["PL1", "0.3*PL1/row"])
@pytest.mark.parametrize("factor", [1.0, 1e8])
def test_the_first_stage_is_only_a_start(first: str, factor: float) -> None:
    """It ends early, and the optimum of the second stage is reached to 5% of the sampling error, whatever the units."""
    model = ff.BoltzmannMachine.grid(3, 3, states=(-factor, factor))
    x = GRID.sample(TRUTH, 2000, 5).values * factor
    alone, exact = ff.fit(model, x, first), ff.fit(model, x, "FL", tol=1e-9)
    steps = ff.fit(model, x, f"{first} >> FL")
    assert steps.converged
    assert "of the sampling error" in steps.message
    assert steps.iterations <= 4  # of the second stage
    # The distance in the metric of the information, by an enumeration of the states.
    states = np.array(np.meshgrid(*[[-1.0, 1.0]] * 9, indexing="ij")).reshape(9, -1).T
    features = np.stack([states[:, j] * states[:, k] for j, k in model.edges], axis=1)
    share = np.exp(features @ (exact.theta * factor**2))
    share /= share.sum()
    information = (features.T * share) @ features - np.outer(share @ features, share @ features)

    def distance(theta: np.ndarray) -> float:
        away = (theta - exact.theta) * factor**2
        return float(np.sqrt(len(x) * away @ information @ away / len(away)))

    assert distance(steps.theta) < 0.06 < 0.2 < distance(alone.theta)


def test_a_fit_that_is_a_start_takes_fewer_evaluations() -> None:
    from fieldfit.api.estimation import fit_policy
    from fieldfit.api.options import EstimationOptions
    from fieldfit.policies import Policy

    x = GRID.sample(TRUTH, 2000, 6).values
    options = EstimationOptions(
        sigma2=None, l1=None, group_l1=None, weights=None, random_state=0, sample_weight=None, weight_kind="importance",
        groups=None, start=None, fixed=None, method="auto", tol=1e-6, max_iter=1000, wide_rows="refuse", progress=None,
        stopping=None, backend=None, shards=None, checkpoint=None, check_drift=False,
    )  # fmt: skip
    whole, start = (
        fit_policy(GRID, x, Policy.parse("PL1"), replace(options, as_start=rough)) for rough in (False, True)
    )
    assert start.converged
    assert start.evaluations + start.hessian_products < 0.7 * (whole.evaluations + whole.hessian_products)
    # About as far from the optimum as PL1 is from maximum likelihood.
    assert np.sqrt(np.mean(((start.theta - whole.theta) / whole.standard_errors()) ** 2)) < 0.5


@pytest.mark.parametrize(
    ("theta", "seed", "sigma2"),
    [
        ([-0.739, -1.201, 0.853, -0.953, 1.259, -1.779], 163, 1.0),
        ([-0.586, 0.948, 0.373, 1.393, 2.613, -0.874], 573, None),
    ],
)
def test_the_last_step_is_judged_with_the_curvature_where_it_ended(theta, seed, sigma2) -> None:
    # The Hessian of the point before called an error of 8% of the sampling error (35% of one standard error) 5%.
    model = ff.BoltzmannMachine(3, biases=True, states=(-1, 1))
    x = model.sample(theta, 1000, random_state=seed).values
    staged = ff.fit(model, x, "PL1 >> FL", sigma2=sigma2)
    exact = ff.fit(model, x, "FL", sigma2=sigma2, tol=1e-10)
    away = (staged.theta - exact.theta) / exact.standard_errors()
    assert np.sqrt(np.mean(away**2)) < 0.05


def test_an_interrupt_before_the_first_stage_begins_returns_a_fit(monkeypatch) -> None:
    def interrupted(objective, seed):
        raise KeyboardInterrupt

    monkeypatch.setattr("fieldfit.api.solve.start_tolerance", interrupted)
    x = GRID.sample(TRUTH, 200, 1).values
    fit = ff.fit(GRID, x, "PL1 >> FL", check_drift=False)
    assert not fit.converged
    assert fit.interrupted


@pytest.mark.parametrize("tol", [1e-9, 1e-3])
def test_the_tolerance_of_the_second_stage(tol: float) -> None:
    """A number below the usual one asks for the optimum itself; a larger one stops both stages before."""
    model = ff.BoltzmannMachine.grid(3, 3)
    x = model.sample(np.linspace(-1, 1, 12), 500, random_state=1).values
    fit, optimum = ff.fit(model, x, "PL1 >> FL", tol=tol), ff.fit(model, x, "FL", tol=1e-10)
    usual = ff.fit(model, x, "PL1 >> FL")
    away, usually = (np.abs(own.theta - optimum.theta).max() for own in (fit, usual))
    assert fit.gradient_norm <= tol * len(x)
    assert away < 1e-7 if tol < 1e-6 else away >= usually > 1e-7


@pytest.mark.parametrize(("policy", "tol"), [("FL", "statistical"), ("PL1 >> FL", 1e-6)])
def test_counts_are_copies_for_the_sampling_error(policy: str, tol: Any) -> None:
    # Weights that are taken for importance weights overstate it by the square root of the counts.
    model = ff.BoltzmannMachine(5, biases=True)
    rows = np.array(list(itertools.product([0, 1], repeat=5)))
    theta = np.random.default_rng(3).normal(0, 0.7, model.n_parameters)
    energy = model.statistics(rows) @ theta
    counts = np.round(1e9 * np.exp(energy - np.logaddexp.reduce(energy)))
    given: dict[str, Any] = {"sample_weight": counts, "weight_kind": "counts"}
    fit = ff.fit(model, rows, policy, tol=tol, **given)
    exact = ff.fit(model, rows, "FL", tol=1e-10, **given)
    assert fit.converged
    assert (np.abs(fit.theta - exact.theta) / exact.standard_errors()).max() < 0.05
