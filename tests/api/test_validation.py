"""Held-out likelihood and goodness of fit."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import fieldfit as ff
from fieldfit.api.validation import fitted_like, fold_members
from fieldfit.types import DataError, FieldfitError

MODEL = ff.BoltzmannMachine(4)
THETA = np.array([-1.0, 1.0, 0.5, -0.5, 1.0, -1.0])
X = MODEL.sample(THETA, 1_000, 1).values


def test_cross_validation_is_what_it_says():
    frame = ff.cross_validate(MODEL, X, ["PL1", "FL"], sigma2=[None, 0.01], folds=4, random_state=3)
    assert len(frame) == 4
    assert frame["nll"].is_monotonic_increasing
    assert frame["sigma2"].dtype == np.float64
    line = frame[(frame["policy"] == "FL") & np.isinf(frame["sigma2"])].iloc[0]
    members = fold_members(1_000, 4, 3)
    loss = np.empty(1_000)
    for fold in range(4):
        theta = ff.fit(MODEL, X[members != fold], "FL").theta
        loss[members == fold] = -MODEL.conditional(theta, X[members == fold], range(4))
    assert line["nll"] == pytest.approx(loss.mean(), rel=1e-6)
    assert line["std_error"] == pytest.approx(loss.std(ddof=1) / np.sqrt(1_000), rel=1e-5)
    assert frame["excess"].iloc[0] == 0.0
    assert frame["excess_std_error"].iloc[1] < 0.2 * frame["std_error"].iloc[1]  # PL1 and FL lose on the same samples
    assert np.isinf(frame["sigma2"].iloc[:2]).all()  # a strong penalty loses


def test_cross_validation_of_models_by_another_score():
    models = {"pairs": MODEL, "chain": ff.BoltzmannMachine(4, [(0, 1), (1, 2), (2, 3)])}
    frame = ff.cross_validate(models, X, score="PL1", folds=2)
    assert list(frame["model"]) == ["pairs", "chain"]
    with pytest.raises(DataError, match="too few"):
        ff.cross_validate(MODEL, X[:5], folds=3)
    for wrong in (1, 2.5):
        with pytest.raises(FieldfitError, match="2 folds"):
            ff.cross_validate(MODEL, X, folds=wrong)  # type: ignore[arg-type]


@pytest.mark.slow
def test_goodness_of_fit_sees_what_the_model_lacks():
    good = ff.fit(MODEL, X, "PL1").goodness_of_fit(n_simulated=99)
    assert good["p"].min() > 0.01
    independent = ff.BoltzmannMachine(4, [(0, 1)], biases=True)
    bad: Any = ff.fit(independent, X, "PL1").goodness_of_fit(n_simulated=99)
    assert bad.loc["E x0·x2", "p"] == pytest.approx(0.01)
    assert abs(bad.loc["E x0·x2", "z"]) > 5
    own = ff.fit(MODEL, X, "PL1").goodness_of_fit(lambda table: table.codes.max(axis=1).mean(), n_simulated=50)
    assert own.loc["statistic 0", "observed"] == np.asarray(X).max(axis=1).mean()
    with pytest.raises(FieldfitError, match="names"):
        ff.fit(MODEL, X, "PL1").goodness_of_fit(lambda table: 1.0, names=["a", "b"])


@pytest.mark.slow
def test_goodness_of_fit_rejects_no_more_than_its_level():
    """60 datasets from the model, 8 statistics: conservative, so p ≤ 0.1 at most 10% of the time (5% more is 4 errors)."""
    ff.set_threads(1)
    small = []
    for seed in range(60):
        fit = ff.fit(MODEL, MODEL.sample(THETA, 400, seed + 100).values, "PL1")
        small.append(np.mean(fit.goodness_of_fit(n_simulated=39, random_state=seed)["p"] <= 0.1))
    assert np.mean(small) < 0.15


@pytest.mark.slow
def test_refitted_goodness_of_fit_has_uniform_p_values():
    """60 datasets from the model, the third moment of three variables, 19 refits each.

    Under the null p is uniform on 1/20 … 1: its mean is 0.525 with error 0.037, so 4 errors are 0.15; and P(p ≤ 0.25) is
    0.25 with error 0.056. Without refitting p is too large: the estimate has taken up most of the deviation.
    """
    ff.set_threads(1)

    def third(table):
        return table.codes[:, :3].prod(axis=1).mean()

    refitted, plain = [], []
    for seed in range(60):
        fit = ff.fit(MODEL, MODEL.sample(THETA, 300, seed + 500).values, "PL1")
        options: dict[str, Any] = {"n_simulated": 19, "random_state": seed}
        refitted.append(fit.goodness_of_fit(third, refit=True, **options)["p"].iloc[0])
        plain.append(fit.goodness_of_fit(third, **options)["p"].iloc[0])
    assert abs(np.mean(refitted) - 0.525) < 0.15
    assert 0.03 < np.mean(np.array(refitted) <= 0.25) < 0.47
    assert np.mean(plain) > np.mean(refitted) + 0.1


def test_refitting_keeps_penalty_and_fixed_parameters():
    fit = ff.fit(MODEL, X, "0.7*PL1", sigma2=0.5, fixed={"x0:x1": -1.0})
    frame = fit.goodness_of_fit(n_simulated=3, refit=True)
    assert list(frame.columns) == ["observed", "expected", "std_dev", "z", "p"]
    assert np.isfinite(frame.to_numpy()).all()
    again = fitted_like(fit, fit.dataset, 1)
    assert again.theta[again.parameter_names.index("x0:x1")] == -1.0
    np.testing.assert_array_equal(again.free, fit.free)
    np.testing.assert_array_equal(again.sigma2, fit.sigma2)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_simulated_datasets_keep_what_is_given(missing):
    model = ff.MarkovRandomField([2, 2, 3, 2], [(0, 1), (1, 2), (2, 3), (0, 3)], given=[3])
    random = np.random.default_rng(5)
    values = np.stack([random.integers(0, c, 6_000) for c in (2, 2, 3, 2)], axis=1).astype(float)
    values[:, :3][random.random((6_000, 3)) < missing] = np.nan
    table = model.read(values)
    theta = random.normal(size=model.n_parameters)
    simulated = model.simulate(table, theta, 3)
    np.testing.assert_array_equal(simulated.codes[:, 3], table.codes[:, 3])
    np.testing.assert_array_equal(simulated.codes < 0, table.codes < 0)
    for x3 in (0, 1):
        rows = (table.codes[:, 3] == x3) & (table.codes[:, 1] >= 0)
        expected = model.marginals(theta, {3: x3})[1][1]
        # about 3,000 (2,100) draws: five standard errors are below 0.055
        assert np.mean(simulated.codes[rows, 1]) == pytest.approx(expected, abs=0.055)
    assert not np.array_equal(simulated.codes, model.simulate(table, theta, 4).codes)
    np.testing.assert_array_equal(simulated.codes, model.simulate(table, theta, 3).codes)


ROWS, COUNTS = np.unique(X, axis=0, return_counts=True)
BIASED = ff.BoltzmannMachine(4, biases=True)


@pytest.mark.slow
def test_cross_validation_with_counts_is_that_of_repeated_rows():
    options: dict[str, Any] = {"sigma2": [None, 0.05], "folds": 3, "random_state": 2}
    counted = ff.cross_validate(MODEL, ROWS, ["PL1", "FL"], sample_weight=COUNTS, weight_kind="counts", **options)
    repeated = ff.cross_validate(MODEL, np.repeat(ROWS, COUNTS, axis=0), ["PL1", "FL"], **options)
    pd.testing.assert_frame_equal(counted, repeated, rtol=1e-9)
    table = MODEL.read(ROWS, sample_weight=COUNTS, weight_kind="counts")  # a dataset that has them already
    pd.testing.assert_frame_equal(ff.cross_validate(MODEL, table, ["PL1", "FL"], **options), repeated, rtol=1e-9)


def test_cross_validation_with_importance_weights_is_what_it_says():
    weight = np.random.default_rng(2).exponential(size=1_000)
    line = ff.cross_validate(MODEL, X, "PL1", folds=3, random_state=1, sample_weight=weight).iloc[0]
    members, loss = fold_members(1_000, 3, 1), np.empty(1_000)
    for fold in range(3):
        inside, outside = members != fold, members == fold
        theta = ff.fit(MODEL, X[inside], "PL1", sample_weight=weight[inside]).theta
        loss[outside] = -MODEL.conditional(theta, X[outside], range(4))
    assert line["nll"] == pytest.approx(loss @ weight / weight.sum(), rel=1e-8)
    scaled = ff.cross_validate(MODEL, X, "PL1", folds=3, random_state=1, sample_weight=5 * weight).iloc[0]
    assert scaled[["nll", "std_error"]].tolist() == pytest.approx(line[["nll", "std_error"]].tolist(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("refit", [False, True])
def test_goodness_of_fit_of_counts_is_that_of_repeated_rows(refit):
    counted = ff.fit(BIASED, ROWS, "PL1", sample_weight=COUNTS, weight_kind="counts", tol=1e-11)
    repeated = ff.fit(BIASED, np.repeat(ROWS, COUNTS, axis=0), "PL1", tol=1e-11)
    one, other = (fit.goodness_of_fit(n_simulated=9, refit=refit) for fit in (counted, repeated))
    pd.testing.assert_frame_equal(one, other, rtol=1e-4, atol=1e-4)
    assert one.loc["E x0", "observed"] == pytest.approx(np.mean(np.asarray(X)[:, 0]))
    assert float(one["std_dev"]["E x0"]) < 0.05  # of 1,000 samples, not of 16


def test_goodness_of_fit_refuses_uneven_importance_weights():
    weight = np.where(np.asarray(X)[:, 0] == 1, 3.0, 1.0)
    with pytest.raises(DataError, match="the distribution that the samples were drawn from"):
        ff.fit(BIASED, X, "PL1", sample_weight=weight).goodness_of_fit(n_simulated=3)
    even = ff.fit(BIASED, np.vstack([X, 1 - X]), "PL1", sample_weight=np.r_[np.full(1_000, 2.0), np.zeros(1_000)])
    frame = ff.fit(BIASED, X, "PL1").goodness_of_fit(n_simulated=3)
    pd.testing.assert_frame_equal(even.goodness_of_fit(n_simulated=3), frame, rtol=1e-3, atol=1e-3)


def test_statistics_are_over_the_known_values():
    values = np.asarray(X).astype(float)
    values[np.random.default_rng(3).random(values.shape) < 0.3] = np.nan
    fit = ff.fit(BIASED, values, "PL1")
    frame: Any = fit.goodness_of_fit(n_simulated=49)
    assert frame.loc["E x0", "observed"] == pytest.approx(np.nanmean(values[:, 0]))
    assert frame.loc["E x1·x3", "observed"] == pytest.approx(np.nanmean(values[:, 1] * values[:, 3]))
    complete = values[~np.isnan(values).any(axis=1)]
    assert frame.loc["sd of the sum", "observed"] == pytest.approx(complete.sum(axis=1).std())
    # The simulated datasets miss the same values: their means are those of the model, to five standard errors.
    marginal = BIASED.marginals(fit.theta)[0][1]
    assert frame.loc["E x0", "expected"] == pytest.approx(marginal, abs=5 * frame.loc["E x0", "std_dev"] / 7)
    assert frame["p"].min() > 0.01


def test_a_statistic_that_is_no_number_has_no_p():
    fit = ff.fit(MODEL, X, "PL1")
    frame = fit.goodness_of_fit(lambda table: [np.nan, table.codes.mean()], n_simulated=5)
    assert np.isnan(frame["p"].iloc[0])
    assert np.isfinite(frame["p"].iloc[1])
    calls = []

    def sometimes(table):
        calls.append(table)
        return np.nan if len(calls) == 3 else table.codes.mean()

    assert np.isnan(fit.goodness_of_fit(sometimes, n_simulated=5)["p"].iloc[0])
    values = np.asarray(X).astype(float)
    values[np.arange(1_000), np.arange(1_000) % 4] = np.nan  # no sample is complete
    frame = ff.fit(MODEL, values, "PL1").goodness_of_fit(n_simulated=5)
    assert np.isnan(frame.loc["sd of the sum", ["observed", "p"]].astype(float)).all()
    assert frame["p"].drop("sd of the sum").notna().all()
