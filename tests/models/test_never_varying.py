"""Statistics that are the same in every sample, against a comparison of every sample's statistics."""

from __future__ import annotations

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import ModelError


def per_sample(model, codes):
    """The statistics of each sample (n, r): the features at its entries, added up."""
    return np.stack([model.features[model.graph.entries(row[None])[0]].sum(axis=0) for row in codes])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_agrees_with_the_statistics_of_every_sample(seed, rate):
    random = np.random.default_rng(seed)
    models = {
        "boltzmann": ff.BoltzmannMachine(6, biases=True),
        "potts": ff.Potts(6, 3),
        "mrf": ff.MarkovRandomField(
            [3] * 6,
            [
                ff.Factor((0, 1)),
                ff.Factor((1, 2), [[0, 1, 2], [1, 0, 1], [2, 1, 0]], "distance"),
                ff.Factor((3, 4, 5)),
            ],
        ),
    }
    for name, model in models.items():
        states = np.array([len(values) for values in model.states])
        codes = np.where(random.random((60, 6)) < rate, random.integers(0, states, (60, 6)), 0)
        statistics = per_sample(model, codes)
        expected = np.ptp(statistics, axis=0) == 0
        assert np.array_equal(model.never_varying(model.read(codes)), expected), name
        assert expected.sum() > 0 or rate > 0.1


def test_shared_parameters_vary_over_the_sites_of_one_sample():
    model = ff.TiedField.grid(5, 5)
    sample = model.read(np.random.default_rng(0).integers(0, 2, (1, 25)))
    assert not model.never_varying(sample).any()
    assert model.never_varying(model.read(np.zeros((1, 25), dtype=int))).all()


def test_unknown_values_and_weights_of_zero_do_not_count():
    model = ff.BoltzmannMachine(3, biases=True)
    x = np.array([[1.0, 0, 0], [np.nan, 1, 1], [0, 0, 1]])
    constant = dict(zip(model.parameter_names, model.never_varying(model.read(x)), strict=True))
    assert [name for name, same in constant.items() if same] == ["x0:x1", "x0:x2"]
    weighted = model.read(np.array([[1, 1, 0], [0, 1, 0], [1, 1, 1]]), sample_weight=[1.0, 1.0, 0.0])
    assert model.never_varying(weighted).tolist() == [False, True, True, False, True, True]


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
    assert np.isfinite(fit.functional(lambda theta: float(np.tanh(theta).sum())).standard_error)
    assert set(never) <= set(fit.debiased().separated)
    with pytest.raises(ModelError, match="kind='model'"):
        fit.wald_test([never[0]])
    assert f"{len(never)} parameters have the same statistic" in fit.summary()
    fit.save(tmp_path / "fit.ff")
    np.testing.assert_array_equal(ff.load(tmp_path / "fit.ff").standard_errors(), fit.standard_errors())


def test_equal_rows_have_no_robust_errors():
    fit = ff.fit(ff.BoltzmannMachine(4, biases=True), np.ones((50, 4), dtype=int), "PL1", sigma2=1.0)
    assert np.isnan(fit.table()["z"]).all()
