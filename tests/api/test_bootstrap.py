"""`fit.bootstrap`: the same as fits of resamples by hand, the errors that the sandwich has, and what it refuses."""

import joblib
import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics.expectations import replicate_seeds
from fieldfit.types import DataError, FieldfitError

MODEL = ff.BoltzmannMachine(3)
X = MODEL.sample([1.0, -1.0, 0.5], 300, random_state=0).values


def test_rows_are_fits_of_resampled_rows():
    fit = ff.fit(MODEL, X, "PL1", sigma2=2.0)
    found = fit.bootstrap(3, random_state=4)
    for line, seed in enumerate(replicate_seeds(4, 3)):
        rows = np.random.default_rng(seed).integers(300, size=300)
        again = ff.fit(MODEL, X[rows], "PL1", sigma2=2.0, tol=1e-8)
        np.testing.assert_allclose(found.theta[line], again.theta, atol=1e-5)


@pytest.mark.slow
def test_rows_keep_their_selection():
    """Resamples lie around the estimate, to 1/√60 of its standard error: 0.6 of it is passed by chance with p < 1e-4."""
    fit = ff.fit(MODEL, X, "0.2*PL1", random_state=9)
    away = np.abs(fit.theta - ff.fit(MODEL, X, "PL1").theta) / fit.standard_errors()
    assert away.max() > 2.0  # the selection alone has moved the estimate
    found = fit.bootstrap(60)
    assert (np.abs(np.median(found.theta, axis=0) - fit.theta) < 0.6 * fit.standard_errors()).all()


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing():
    fit = ff.fit(MODEL, X, "0.5*PL1")
    seen = []
    alone = fit.bootstrap(6, progress=lambda done, total: seen.append((done, total)))
    np.testing.assert_array_equal(alone.theta, fit.bootstrap(6, n_jobs=2).theta)
    with joblib.parallel_config("multiprocessing"):
        np.testing.assert_array_equal(alone.theta, fit.bootstrap(6, n_jobs=2).theta)
    assert seen == [(k, 6) for k in range(1, 7)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rows", "parametric"])
def test_errors_are_those_of_the_sandwich(kind):
    """The deviation over 250 resamples is known to 1/√500 = 4.5%: 20% is passed by chance with p < 1e-4."""
    fit = ff.fit(MODEL, MODEL.sample([1.0, -1.0, 0.5], 2000, random_state=1).values, "0.5*PL1")
    found = fit.bootstrap(250, kind=kind)
    np.testing.assert_allclose(found.standard_errors(), fit.standard_errors(), rtol=0.2)
    np.testing.assert_allclose(found.conf_int(), fit.conf_int(), atol=0.7 * fit.standard_errors().max())


def test_groups_are_drawn_whole():
    groups = np.repeat(np.arange(100), 3)
    fit = ff.fit(MODEL, X, "PL1", groups=groups)
    found = fit.bootstrap(4, random_state=1)
    assert found.kind == "groups"
    seed = replicate_seeds(1, 4)[2]
    chosen = np.random.default_rng(seed).integers(100, size=100)
    rows = (3 * chosen[:, None] + np.arange(3)).ravel()
    again = ff.fit(MODEL, X[rows], "PL1", tol=1e-8)
    np.testing.assert_allclose(found.theta[2], again.theta, atol=1e-5)


def test_counts_are_drawn_as_their_copies():
    rows, counts = np.unique(X, axis=0, return_counts=True)
    fit = ff.fit(MODEL, rows, "PL1", sample_weight=counts, weight_kind="counts")
    found = fit.bootstrap(40)
    # 40 resamples know a deviation to 11%; 60% is passed by chance with p < 1e-6.
    np.testing.assert_allclose(found.standard_errors(), fit.standard_errors(), rtol=0.6)


def test_one_lattice_is_simulated():
    model = ff.TiedField.grid(8, 8)
    fit = ff.fit(model, model.sample([-0.5, 0.3, 0.3], 1, random_state=0), "PL1")
    found = fit.bootstrap(3)
    assert found.kind == "parametric"
    with pytest.raises(DataError, match="parametric"):
        fit.bootstrap(3, kind="rows")


def test_tables_functions_and_words():
    fit = ff.fit(MODEL, X, "PL1", fixed={"x1:x2": 0.5})
    found = fit.bootstrap(39)
    table = found.table(parameters=["x1:x0", "x1:x2"])
    assert list(table.index) == ["x0:x1", "x1:x2"]
    assert table.loc["x1:x2", "std_error"] == 0
    place = np.sort(found.theta[:, 0])
    np.testing.assert_array_equal(table.loc["x0:x1", ["lower", "upper"]], place[[0, 38]])  # α(B + 1) = 1
    difference = found.functional({"x0:x1": 1, "x0:x2": -1})
    largest = found.functional(np.max, name="largest")
    assert difference.lower < difference.estimate < difference.upper
    assert largest.estimate == fit.theta.max()
    assert str(found) == "bootstrap of rows, 39 resamples"
    assert "39 resamples" in repr(found)
    assert "x0:x1" in found._repr_html_()


@pytest.mark.slow
def test_an_optimum_at_infinity_has_no_standard_error():
    x = X.copy()
    x[:, 2] = x[:, 0]
    x[:2, 2] = 1 - x[:2, 0]  # two rows keep x0:x2 finite; a resample without them does not
    model = ff.BoltzmannMachine(3, biases=True)
    fit = ff.fit(model, x, "PL1")
    found = fit.bootstrap(40)
    place = model.parameter_names.index("x0:x2")
    assert found.separated[:, place].any()
    assert np.isnan(found.standard_errors()[place])
    assert np.isinf(found.conf_int()[place, 1])


def test_refusals_are_sentences():
    fit = ff.fit(MODEL, X, "PL1", groups=np.repeat(np.arange(100), 3))
    for kind in ("rows", "parametric"):
        with pytest.raises(DataError, match="groups"):
            fit.bootstrap(3, kind=kind)
    plain = ff.fit(MODEL, X, "PL1")
    with pytest.raises(DataError, match="no groups"):
        plain.bootstrap(3, kind="groups")
    with pytest.raises(FieldfitError, match="'rows'"):
        plain.bootstrap(3, kind="columns")  # type: ignore[arg-type]
    with pytest.raises(FieldfitError, match="resamples"):
        plain.bootstrap(1)
    weighted = ff.fit(MODEL, X, "PL1", sample_weight=np.linspace(1, 2, 300))
    with pytest.raises(DataError, match="Uneven"):
        weighted.bootstrap(3, kind="parametric")
