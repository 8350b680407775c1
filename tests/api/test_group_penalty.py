"""Fits with a penalty on the norm of each table of couplings."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.models.potts_coordinates import CentredCoordinates


@pytest.fixture(scope="module")
def answers():
    random = np.random.default_rng(0)
    x = (random.random((800, 6)) < 0.5).astype(int)
    x[:, 1] = np.where(random.random(800) < 0.5, x[:, 0], x[:, 1])
    x[:, 3] = np.where(random.random(800) < 0.4, 1 - x[:, 2], x[:, 3])
    return x


@pytest.fixture(scope="module")
def letters():
    random = np.random.default_rng(1)
    x = random.integers(0, 3, (600, 5))
    x[:, 1] = np.where(random.random(600) < 0.5, x[:, 0], x[:, 1])
    x[:, 4] = np.where(random.random(600) < 0.4, (x[:, 2] + 1) % 3, x[:, 4])
    return x


@pytest.mark.slow
@pytest.mark.parametrize("weight", [5.0, 20.0])
def test_two_states_are_an_l1_penalty(answers, weight):
    """The smallest norm of a 2 × 2 table with the log odds ratio w is |w| / 2, so λ of tables is λ / 2 of couplings."""
    machine, potts = ff.BoltzmannMachine(6, biases=True), ff.Potts(6, 2)
    l1 = np.where(machine.coupling_parameters, weight / 2, 0.0)
    single = ff.fit(machine, answers, l1=l1, tol=1e-9)
    groups = ff.fit(machine, answers, group_l1=weight / 2, tol=1e-9)
    tables = ff.fit(potts, answers, group_l1=weight, tol=1e-9)
    np.testing.assert_allclose(groups.theta, single.theta, atol=1e-6)
    by_pair = tables.theta[: potts.n_couplings].reshape(-1, 4)
    ratios = by_pair[:, 0] + by_pair[:, 3] - by_pair[:, 1] - by_pair[:, 2]
    np.testing.assert_allclose(ratios, single.theta[:15], atol=1e-6)
    assert tables.objective == pytest.approx(single.objective, rel=1e-9)
    assert 0 < (ratios == 0).sum() < 15


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["robust", "model"])
def test_main_effects_next_to_tables_at_zero_have_errors(answers, kind):
    """A main effect adds up entries of the tables of all pairs; zeros count as fixed, as in a machine of 0 and 1."""
    machine = ff.BoltzmannMachine(6, biases=True)
    l1 = np.where(machine.coupling_parameters, 5.0, 0.0)
    single = ff.fit(machine, answers, l1=l1, tol=1e-10)
    tables = ff.fit(ff.Potts(6, 2), answers, group_l1=10.0, tol=1e-10)
    expected = np.concatenate([single.standard_errors(kind)[15:], single.standard_errors(kind)[:15]])
    found = tables.effects(kind=kind)
    assert 0 < np.isnan(expected).sum() < 15
    assert np.isfinite(expected[:6]).all()
    np.testing.assert_allclose(found["std_error"], expected, rtol=1e-5)
    np.testing.assert_allclose(found["estimate"][:6], single.theta[15:], atol=1e-6)


@pytest.mark.parametrize(("policy", "weight"), [("PL1", 25.0), ("PL2(connected)", 120.0), ("FL", 12.0)])
def test_tables_are_zero_together_and_optimal(letters, policy, weight):
    model = ff.Potts(5, 3)
    fit = ff.fit(model, letters, policy, group_l1=weight, sigma2=5.0, tol=1e-8)
    assert fit.converged
    value, gradient = fit.needed.objective.value_grad(fit.theta)
    couplings = fit.theta[: model.n_couplings].reshape(-1, 9)
    slopes = gradient[: model.n_couplings].reshape(-1, 9)
    norms = np.linalg.norm(couplings, axis=1)
    assert set(np.flatnonzero(norms)) >= {0, 8}  # 0:1 and 2:4
    assert (norms == 0).any()
    for table, slope, norm in zip(couplings, slopes, norms, strict=True):
        if norm:
            np.testing.assert_allclose(slope, -weight * table / norm, atol=2e-4)
            assert (table != 0).all()
        else:
            assert np.linalg.norm(slope) <= weight + 1e-4
    np.testing.assert_allclose(gradient[model.n_couplings :], 0.0, atol=2e-4)
    assert fit.objective == pytest.approx(-value - weight * norms.sum(), rel=1e-9)
    assert fit.zeroed.sum() == 9 * (norms == 0).sum()


def test_groups_of_models():
    potts = ff.Potts(3, 2, edges=[(0, 1), (1, 2)])
    np.testing.assert_array_equal(potts.coupling_groups[:4], potts.coupling_groups[0])
    assert len(np.unique(potts.coupling_groups[:8])) == 2
    assert (potts.coupling_groups[8:] == -1).all()
    tied = ff.BoltzmannMachine.grid(3, 3, biases=True, tied=True)
    assert (tied.coupling_groups >= 0).sum() == tied.n_parameters - 1


def test_centred_coordinates():
    model = ff.Potts(4, 3, edges=[(0, 1), (0, 2), (1, 3)])
    random = np.random.default_rng(0)
    frequencies = random.dirichlet(np.ones(3), 4)
    centred = CentredCoordinates(model.tables, frequencies, np.ones(4), np.zeros(model.n_parameters))
    x, g = random.normal(size=(2, model.n_parameters))
    np.testing.assert_allclose(centred.to_theta(centred.from_theta(x)), x, atol=1e-12)
    np.testing.assert_allclose(centred.gradient_by_theta(centred.gradient(g)), g, atol=1e-12)
    assert centred.to_theta(x) @ g == pytest.approx(x @ centred.gradient(g), rel=1e-12)


def test_files_and_summaries(letters, tmp_path):
    fit = ff.fit(ff.Potts(5, 3), letters, group_l1=25.0, sigma2=5.0)
    fit.save(tmp_path / "fit.ff")
    again = ff.load(tmp_path / "fit.ff", letters)
    assert again.group_l1 == 25.0
    assert again.l1 is None
    np.testing.assert_array_equal(again.zeroed, fit.zeroed)
    assert "group_l1 set" in fit.summary()


def test_refused(letters):
    model = ff.Potts(5, 3)
    with pytest.raises(ff.types.ModelError, match="cannot be combined"):
        ff.fit(model, letters, l1=1.0, group_l1=1.0)
    for wrong in (-1.0, np.inf, np.nan, "much"):
        with pytest.raises(ff.types.ModelError, match="group_l1"):
            ff.fit(model, letters, group_l1=wrong)  # type: ignore[arg-type]
    with pytest.raises(ff.types.FieldfitError, match="group_l1"):
        ff.fit(model, letters, "PL1 + PL2", weights="auto", group_l1=1.0)


def test_a_state_that_never_occurs(letters):
    """Its couplings have no curvature and stay at 0."""
    states = ff.Potts(5, 4)
    fit = ff.fit(states, np.vstack([letters, np.full((1, 5), 3)])[:-1], l1=2.0, sigma2=5.0, check_drift=False)
    assert fit.converged
