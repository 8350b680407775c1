"""Joint states that never occur: directions of θ along which the likelihood grows for ever."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.models.identification import interactions, null_space
from fieldfit.types import ModelError, SeparationWarning


def models():
    """Models whose parameters write joint states in different ways."""
    distance = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    return {
        "boltzmann": ff.BoltzmannMachine(4, biases=True),
        "without biases": ff.BoltzmannMachine(4),
        "signs": ff.BoltzmannMachine(4, biases=True, states=(-1, 1)),
        "some shared": ff.BoltzmannMachine(4, biases=True, states=(-1, 1), edge_groups=list("aabcde")),
        "potts": ff.Potts(4, 3),
        "tables": ff.MarkovRandomField(
            [3] * 4, [ff.Factor((0, 1)), ff.Factor((1, 2), distance, "distance"), ff.Factor((1, 2, 3))]
        ),
    }


@pytest.mark.parametrize("name", list(models()))
@pytest.mark.parametrize("seed", range(4))
def test_the_likelihood_grows_for_ever_along_each_direction(name, seed):
    """No sample's statistic is above another's along −d, some joint state's is, and the objective only rises."""
    random = np.random.default_rng(seed)
    model = models()[name]
    q = len(model.states[0])
    codes = np.where(random.random((40, 4)) < 0.15, random.integers(0, q, (40, 4)), seed % q)
    values = np.array(model.states[0])[codes]
    directions = model.boundary_directions(model.read(values)).toarray()
    every = np.array(list(itertools.product(range(q), repeat=4)))
    of_states = (
        model.features[model.graph.entries(every).ravel()].toarray().reshape(len(every), -1, model.n_parameters)
    )
    of_samples = model.features[model.graph.entries(codes).ravel()].toarray().reshape(40, -1, model.n_parameters)
    theta = random.normal(size=model.n_parameters)
    fit = ff.fit(model, values, "FL", sigma2=10.0)
    assert len(directions) or name == "without biases"
    for d in directions:
        if np.abs(d[d != 0]).min() < np.abs(d).max() * 0.999 and name in ("potts", "tables"):
            continue  # small parts of a gauge are left out: the direction is not exact
        samples, states = of_samples.sum(axis=1) @ d, of_states.sum(axis=1) @ d
        assert np.ptp(samples) < 1e-9
        side = np.sign(samples[0] - states[np.argmax(np.abs(states - samples[0]))])
        assert (side * (samples[0] - states) > -1e-9).all()
        far = [fit.prepared.problem.value_grad(theta + side * t * d)[0] for t in (0.0, 1.0, 3.0, 10.0)]
        assert (np.diff(far) > 0).all()


@pytest.mark.parametrize("flipped", list(itertools.product((False, True), repeat=2)))
def test_parameters_without_errors_are_those_of_the_missing_state_in_any_coding(flipped):
    random = np.random.default_rng(0)
    x = (random.random((2000, 4)) < [0.05, 0.05, 0.5, 0.5]).astype(int)
    x = x[~((x[:, 0] == 1) & (x[:, 1] == 1))]
    x[:, :2] = np.where(flipped, 1 - x[:, :2], x[:, :2])
    fit = ff.fit(ff.BoltzmannMachine(4, biases=True), x, "PL1", sigma2=10.0)
    expected = {(False, False): set(), (False, True): {"x0"}, (True, False): {"x1"}, (True, True): {"x0", "x1"}}
    errors, model_based = fit.standard_errors(), fit.standard_errors("model")
    without = {name for name, error in zip(fit.parameter_names, errors, strict=True) if np.isnan(error)}
    assert without == {"x0:x1", *expected[flipped]}
    # Where there is a robust error it is about the model's: the samples are from a model of the family.
    known = ~np.isnan(errors)
    assert (np.abs(errors[known] / model_based[known] - 1) < 0.3).all()


def test_without_a_penalty_the_same_states_separate_however_early_the_fit_stops():
    x = (np.random.default_rng(0).random((400, 3)) < 0.4).astype(int)
    x = x[(x[:, 0] == 1) | (x[:, 1] == 1)]
    with pytest.warns(match="optimum lies at infinity"):
        fit = ff.fit(ff.BoltzmannMachine(3, biases=True), x, "PL1", tol=1e-3)
    assert set(fit.separated) == {"x0:x1", "x0", "x1"}


def test_parameters_of_their_own_are_judged_beside_shared_ones():
    random = np.random.default_rng(0)
    x = (random.random((2000, 5)) < [0.5, 0.5, 0.5, 0.02, 0.02]).astype(int)
    x[:, 4] &= 1 - x[:, 3]
    model = ff.BoltzmannMachine(5, biases=True, states=(-1, 1), edge_groups=list("aabcdefghi"))
    fit = ff.fit(model, 2 * x - 1, "PL1", sigma2=1.0)
    assert [name for name, held in zip(fit.model.parameter_names, fit.held, strict=True) if held] == ["i", "x3", "x4"]
    with pytest.warns(SeparationWarning):
        assert ff.fit(model, 2 * x - 1, "PL1", max_iter=4).separated == ("i", "x3", "x4")


def test_shared_parameters_vary_over_the_sites_of_one_sample():
    model = ff.TiedField.grid(5, 5)
    sample = model.read(np.random.default_rng(0).integers(0, 2, (1, 25)))
    assert not model.boundary_directions(sample).nnz
    assert model.boundary_directions(model.read(np.zeros((1, 25), dtype=int))).shape[0] == model.n_parameters


def test_a_pair_that_is_never_known_together_is_not_at_the_boundary():
    model = ff.BoltzmannMachine(3, [(0, 1), (1, 2)], biases=True)
    x = model.sample([1.0, 1.0, 0.0, 0.0, 0.0], 300, random_state=0).values.astype(float)
    x[:150, 0] = np.nan
    x[150:, 1] = np.nan
    assert not ff.fit(model, x, "FL", sigma2=100.0).held.any()


def test_samples_of_weight_zero_do_not_count():
    model = ff.BoltzmannMachine(2)
    x = np.array([[1, 0], [0, 1], [0, 0], [1, 1]])
    assert model.boundary_directions(model.read(x)) is None
    weighted = model.read(x, sample_weight=[1.0, 1.0, 1.0, 0.0])
    assert model.boundary_directions(weighted).toarray().any()


def test_two_rare_variables_that_never_meet_have_no_robust_error(tmp_path):
    x = (np.random.default_rng(0).random((2000, 6)) < 0.02).astype(int)
    model = ff.BoltzmannMachine(6, biases=True)
    fit = ff.fit(model, x, "PL1", sigma2=10.0)
    never = [f"x{j}:x{k}" for j in range(6) for k in range(j + 1, 6) if not np.any(x[:, j] & x[:, k])]
    table = fit.table()
    assert never
    assert sorted(table.index[table["std_error"].isna()]) == sorted(never)
    assert np.isfinite(fit.standard_errors("model")).all()
    assert np.isnan(fit.functional(never[0]).standard_error)
    assert np.isnan(fit.functional({never[0]: 1, "x0": -1}).standard_error)
    assert np.isnan(fit.functional(never[0], debias=True).estimate)
    assert np.isnan(fit.functional(lambda theta: theta[0] + theta[1]).standard_error)
    assert np.isfinite(fit.functional(lambda theta: float(theta[-1] + 1e-3 * theta.sum())).standard_error)
    assert set(never) <= set(fit.debiased().separated)
    with pytest.raises(ModelError, match="kind='model'"):
        fit.wald_test([never[0]])
    assert f"{len(never)} parameters have no finite estimate without the penalty" in fit.summary()
    fit.save(tmp_path / "fit.ff")
    np.testing.assert_array_equal(ff.load(tmp_path / "fit.ff").standard_errors(), fit.standard_errors())


def test_equal_rows_have_no_robust_errors():
    fit = ff.fit(ff.BoltzmannMachine(4, biases=True), np.ones((50, 4), dtype=int), "PL1", sigma2=1.0)
    assert np.isnan(fit.table()["z"]).all()


@pytest.mark.parametrize("name", ["boltzmann", "without biases", "signs", "some shared"])
def test_a_boltzmann_machine_determines_its_parameters(name):
    model = models()[name]
    assert model.determined_contrasts() is None
    assert null_space(interactions(model)).shape[1] == 0  # what other models compute for the answer


@pytest.mark.parametrize("size", [0.01, 1, 20, 1000])
@pytest.mark.parametrize(
    "options",
    [
        lambda s: {"fixed": {"x1": 0.3 / s}},
        lambda s: {"fixed": {"x0:x1": 0.1 / s**2}},
        lambda s: {"sigma2": {"x0:x1": s**-4.0, None: None}},
        lambda s: {"sigma2": {"x0:x1": s**-4.0, None: s**-2.0}},
    ],
)
def test_the_sizes_of_states_change_nothing(size, options):
    x = np.repeat([[0, 0], [1, 0], [1, 1]], [30, 20, 25], axis=0)  # (0, 1) never occurs
    plain, scaled = (
        ff.fit(ff.BoltzmannMachine(2, biases=True, states=(0, s)), x * s, "FL", tol=1e-10, **options(s))
        for s in (1, size)
    )
    assert plain.separated == scaled.separated == ()
    units = np.array([size**2, size, size])
    np.testing.assert_allclose(scaled.theta * units, plain.theta, rtol=1e-6)
    np.testing.assert_allclose(scaled.standard_errors() * units, plain.standard_errors(), rtol=1e-6)
