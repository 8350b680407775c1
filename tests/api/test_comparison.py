"""Criteria and tests: identities, levels under the null by simulation, power, refusals."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics import expectations
from fieldfit.types import DataError, FieldfitError, ModelError

MODEL = ff.BoltzmannMachine(4)
NULL = np.array([-1.0, 1.0, 0.5, -0.5, 0.0, 0.0])
THETA = np.array([-1.0, 1.0, 0.5, -0.5, 1.0, -1.0])
FIXED = {"x1:x3": 0.0, "x2:x3": 0.0}
X = MODEL.sample(THETA, 4_000, 1).values


def test_effective_parameters_of_maximum_likelihood_are_their_number():
    """tr(bread⁻¹ meat) is r in the limit; over 4,000 samples it is within 10% (3 standard errors are about 7%)."""
    assert ff.fit(MODEL, X, "FL").effective_parameters("model") == pytest.approx(6.0, rel=1e-9)
    assert ff.fit(MODEL, X, "FL").effective_parameters() == pytest.approx(6.0, rel=0.1)
    assert ff.fit(MODEL, X, "PL1").effective_parameters("model") > 9.0  # each coupling counts in two conditionals
    assert ff.fit(MODEL, X, "FL", sigma2=1e-3).effective_parameters() < 4.0


def test_criteria_are_their_formulas():
    fit = ff.fit(MODEL, X, "0.7*PL1 + 0.3*PL2", sigma2=2.0)
    value = fit.problem.value_grad(fit.theta)[0]
    trace = fit.effective_parameters()
    assert fit.composite_log_likelihood == pytest.approx(value)
    assert fit.claic() == pytest.approx(-2 * value + 2 * trace)
    assert fit.clbic() == pytest.approx(-2 * value + np.log(4_000) * trace)


def test_the_log_likelihood_is_without_the_penalties_whatever_is_fixed():
    fit = ff.fit(MODEL, X, "PL1", sigma2=2.0, l1=3.0, fixed={"x0:x1": -0.9})
    assert fit.composite_log_likelihood == pytest.approx(fit.problem.value_grad(fit.theta)[0])


def test_compare_ranks_models_and_refuses_other_policies():
    full = ff.fit(MODEL, X, "PL1")
    small = ff.fit(ff.BoltzmannMachine(4, [(0, 1), (0, 2), (0, 3), (1, 2)]), X, "PL1")
    frame = ff.compare({"small": small, "full": full})
    assert list(frame.index) == ["full", "small"]
    assert frame["claic_gap"].iloc[0] == 0.0
    assert frame.loc["small", "parameters"] == 4
    others = (
        ff.fit(MODEL, X, "PL2"),
        ff.fit(MODEL, X[::-1], "PL1"),
        ff.fit(ff.BoltzmannMachine(3), X[:, :3], "PL1"),
    )
    for other in others:
        with pytest.raises(DataError, match="cross_validate"):
            ff.compare([full, other])
    with pytest.raises(FieldfitError, match="several fits"):
        ff.compare(full)  # type: ignore[arg-type]


def test_the_ratio_test_of_maximum_likelihood_is_a_chi_square():
    full, null = (ff.fit(MODEL, X, "FL", fixed=fixed, tol=1e-10) for fixed in (None, {"x0:x3": 0.5}))
    test = ff.likelihood_ratio(full, null)
    np.testing.assert_allclose(test.weights, 1.0, atol=0.1)
    assert test.statistic == pytest.approx(full.wald_test("x0:x3", 0.5).statistic, rel=0.15, abs=0.1)
    assert test.statistic == pytest.approx(null.score_test().statistic, rel=0.15, abs=0.1)


def test_smaller_models_are_nested_by_name():
    small = ff.BoltzmannMachine(4, [(0, 1), (0, 2), (0, 3), (1, 2)])
    by_model = ff.likelihood_ratio(ff.fit(MODEL, X, "PL1"), ff.fit(small, X, "PL1"))
    by_value = ff.likelihood_ratio(ff.fit(MODEL, X, "PL1"), ff.fit(MODEL, X, "PL1", fixed=FIXED))
    assert by_model.statistic == pytest.approx(by_value.statistic, rel=1e-5)
    assert by_model.degrees_of_freedom == 2
    assert by_model.p < 1e-20
    assert "weighted χ²₁" in str(by_model)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["PL1", "0.6*PL1 + 0.4*PL2"])
def test_levels_under_the_null(policy):
    """400 datasets, tests of level 10% and 5%: the part rejected is 0.10 ± 0.015 and 0.05 ± 0.0109 (standard errors).

    The bands are 2.9 of those: a right test fails with probability below 4e-3. The ratio taken for a χ² is far outside,
    which is why the null law matters.
    """
    ff.set_threads(1)
    replications, n = 400, 1_500
    p_values = {name: np.empty(replications) for name in ("wald", "wald model", "score", "ratio")}
    naive = np.empty(replications)
    draws = MODEL.sample(NULL, replications * n, 7).codes.reshape(replications, n, 4)
    for seed, x in enumerate(draws):
        full = ff.fit(MODEL, x, policy, random_state=seed)
        null = ff.fit(MODEL, x, policy, random_state=seed, fixed=FIXED)
        ratio = ff.likelihood_ratio(full, null)
        p_values["wald"][seed] = full.wald_test(list(FIXED)).p
        p_values["wald model"][seed] = full.wald_test(list(FIXED), kind="model").p
        p_values["score"][seed] = null.score_test().p
        p_values["ratio"][seed] = ratio.p
        naive[seed] = np.exp(-ratio.statistic / 2)  # the tail of χ² with 2 degrees of freedom
    for level, band in ((0.1, 0.044), (0.05, 0.032)):
        rates = {name: float(np.mean(p < level)) for name, p in p_values.items()}
        assert all(abs(rate - level) < band for rate in rates.values()), (level, rates)
        assert np.mean(naive < level) > 2 * level


def test_wald_restrictions_in_all_their_forms():
    fit = ff.fit(MODEL, X, "PL1")
    covariance = fit.covariance() / fit.n
    single = fit.wald_test("x0:x1")
    assert single.statistic == pytest.approx(fit.theta[0] ** 2 / covariance[0, 0])
    assert single.p == pytest.approx(fit.table().loc["x0:x1", "p"], rel=1e-6)
    difference = fit.wald_test({"x0:x1": 1, "x2:x3": -1})
    R = np.zeros((1, 6))
    R[0, [0, 5]] = 1, -1
    assert difference.statistic == pytest.approx(fit.wald_test(R).statistic)
    assert fit.wald_test("x0:x1 - x3:x2").statistic == difference.statistic
    assert fit.functional("2*x1:x0 - x2:x3").estimate == 2 * fit.theta[0] - fit.theta[5]
    with pytest.raises(ModelError, match=r"'x9:x2' is not a parameter; the nearest"):
        fit.wald_test(["x0:x1", "x0:x1 - x9:x2"])
    twice = fit.wald_test(np.repeat(R, 2, axis=0))
    assert (twice.statistic, twice.degrees_of_freedom) == pytest.approx((difference.statistic, 1))
    with pytest.raises(ModelError, match="contradict"):
        fit.wald_test(np.repeat(R, 2, axis=0), [0.0, 1.0])
    with pytest.raises(ModelError, match="empty"):
        fit.wald_test([])


def test_tests_that_cannot_be_made_are_refused():
    full, null = ff.fit(MODEL, X, "PL1"), ff.fit(MODEL, X, "PL1", fixed=FIXED)
    penalised = ff.fit(MODEL, X, "PL1", sigma2=1.0)
    with pytest.raises(ModelError, match="without a penalty"):
        ff.likelihood_ratio(penalised, null)
    with pytest.raises(DataError, match="same samples and weights, policy and random_state"):
        ff.likelihood_ratio(full, ff.fit(MODEL, X, "PL2", fixed=FIXED))
    with pytest.raises(ModelError, match="not inside the full one"):
        ff.likelihood_ratio(full, ff.fit(ff.Potts(4, 2, [(0, 1)], couplings="agree", fields=False), X, "PL1"))
    with pytest.raises(ModelError, match="restricts nothing"):
        ff.likelihood_ratio(full, full)
    with pytest.raises(ModelError, match="exchange the two"):
        ff.likelihood_ratio(ff.fit(MODEL, X, "PL1", fixed={"x0:x1": 0.0}), null)
    with pytest.raises(ModelError, match="fixed parameters"):
        full.score_test()
    with pytest.raises(ModelError, match="is not fixed"):
        null.score_test(["x0:x1"])
    with pytest.raises(ModelError, match="only coefficients that are 0"):
        full.wald_test({"x0:x1": 0.0})
    wrong: Any = "model"
    with pytest.raises(FieldfitError, match="rows is 'model'; it must be an integer"):
        full.summary(rows=wrong)


@pytest.mark.slow
def test_false_discoveries_are_controlled():
    """120 datasets of 10 couplings, 8 of them 0, at a rate of 20%: the false part is at most 0.16 on average.

    One standard error of the mean is about 0.02; 0.24 is beyond 3.5 of those.
    """
    ff.set_threads(1)
    model = ff.BoltzmannMachine(5)
    theta = np.zeros(10)
    theta[:2] = 1.0
    draws = model.sample(theta, 120 * 800, 3).codes.reshape(120, 800, 5)
    parts = []
    for x in draws:
        found = ff.fit(model, x, "PL1").discoveries(0.2)
        chosen = found[found["discovered"]]
        assert {"x0:x1", "x0:x2"} <= set(chosen.index)
        parts.append(np.mean([name not in ("x0:x1", "x0:x2") for name in chosen.index]))
    assert 0.04 < np.mean(parts) < 0.24


def test_q_values_are_those_of_the_procedure():
    fit = ff.fit(MODEL, X, "PL1", fixed={"x0:x1": -1.0})
    frame = fit.discoveries(method="by")
    assert frame["q"].isna().sum() == 1  # a fixed parameter is not tested
    p = np.sort(frame["p"].dropna())
    harmonic = np.sum(1 / np.arange(1, 6))
    expected = np.minimum.accumulate((p * 5 * harmonic / np.arange(1, 6))[::-1])[::-1]
    np.testing.assert_allclose(frame["q"].dropna(), np.minimum(expected, 1.0))
    with pytest.raises(FieldfitError, match="'bh' or 'by'"):
        fit.discoveries(method="holm")  # type: ignore[arg-type]


@pytest.mark.slow
def test_simulated_effective_parameters_say_how_well_they_are_known(monkeypatch):
    """100 times 10 probes: squared distances to the trace of the matrices are the squared errors in the mean.

    The ratio of the two means has a relative error of about a fifth (100 squares of skew sums, 100 variances).
    """
    fit = ff.fit(MODEL, X[:200], "PL1", tol=1e-9)
    exact = fit.effective_parameters()
    assert fit.effective_parameters_error() == 0.0
    assert fit.effective_parameters_error("model") == 0.0
    assert "claic_error" not in ff.compare([fit])
    monkeypatch.setattr("fieldfit.api.accuracies.MOST_COVARIANCE_PARAMETERS", 3)
    probed = replace(fit)
    accuracy: Any = probed.accuracy()
    drawn = np.array([accuracy.effective_parameters(seed=seed) for seed in range(100)])
    assert 0.4 < np.mean((drawn[:, 0] - exact) ** 2) / np.mean(drawn[:, 1] ** 2) < 1.8
    assert (probed.effective_parameters(), probed.effective_parameters_error()) == tuple(drawn[0])
    frame = ff.compare({"one": probed})
    assert frame.loc["one", "effective_error"] == drawn[0, 1]
    assert frame.loc["one", "claic_error"] == 2 * drawn[0, 1]
    with pytest.raises(FieldfitError, match="'robust', 'model' or 'spatial'"):
        probed.effective_parameters_error("sandwich")  # type: ignore[arg-type]


@pytest.mark.slow
def test_simulated_matrices_leave_an_error_in_the_effective_parameters(monkeypatch):
    """200 simulated copies of 100 samples in place of sums over states: within 4 errors of them, and not far below."""
    fit = ff.fit(MODEL, X[:100], "PL1", tol=1e-9)
    exact = fit.effective_parameters("model")
    monkeypatch.setattr(expectations, "MOST_ENUMERATED_STATES", 1)
    simulated = replace(fit)
    error = simulated.effective_parameters_error("model")
    assert 0 < error < 0.05 * exact
    assert abs(simulated.effective_parameters("model") - exact) < 4 * error


def test_a_model_with_gauge_freedom_is_tested_like_its_minimal_form():
    """Leaving an edge out of an over-complete Potts model of two states is one restriction, not four."""
    x = X[:800]
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    potts = ff.fit(ff.Potts(4, 2, pairs), x, "PL1", tol=1e-9)
    minimal = ff.fit(ff.BoltzmannMachine(4, biases=True), x, "PL1", tol=1e-9)
    expected = ff.likelihood_ratio(
        minimal, ff.fit(ff.BoltzmannMachine(4, biases=True), x, "PL1", fixed={"x1:x3": 0.0}, tol=1e-9)
    )
    without = ff.fit(ff.Potts(4, 2, [pair for pair in pairs if pair != (1, 3)]), x, "PL1", tol=1e-9)
    edge = {f"x1={a}:x3={b}": 0.0 for a in (0, 1) for b in (0, 1)}
    for null in (without, ff.fit(ff.Potts(4, 2, pairs), x, "PL1", fixed=edge, tol=1e-9)):
        found = ff.likelihood_ratio(potts, null)
        assert found.degrees_of_freedom == 1
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-5)
        np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-4)
    # One entry of the table can be made up for by the others.
    with pytest.raises(ModelError, match="restricts nothing that the data determine"):
        ff.likelihood_ratio(potts, ff.fit(ff.Potts(4, 2, pairs), x, "PL1", fixed={"x1=0:x3=0": 0.0}, tol=1e-9))
    distances = potts.influential(800)["distance"]
    np.testing.assert_allclose(distances, minimal.influential(800)["distance"].reindex(distances.index), rtol=1e-4)


def test_fits_to_other_samples_or_with_other_weights_are_not_compared(tmp_path):
    fit = ff.fit(MODEL, X, "PL1")
    others = [
        ff.fit(MODEL, 1 - X, "PL1"),
        ff.fit(MODEL, X[::-1], "PL1"),
        ff.fit(MODEL, X, "PL1", sample_weight=np.linspace(0.01, 0.02, len(X))),
        ff.fit(MODEL, X, "PL1", sample_weight=np.full(len(X), 2), weight_kind="counts"),
    ]
    for place, other in enumerate(others):
        with pytest.raises(DataError, match="other samples or variables, or with other sample weights"):
            ff.compare([fit, other])
        other.save(tmp_path / f"{place}.ff")
        with pytest.raises(DataError, match="other samples"):
            ff.compare([fit, ff.load(tmp_path / f"{place}.ff")])
    null = ff.fit(MODEL, X, "PL1", fixed=FIXED, sample_weight=np.linspace(0.5, 1, len(X)))
    with pytest.raises(DataError, match="same samples and weights"):
        ff.likelihood_ratio(fit, null)


def test_the_same_samples_are_known_under_other_names_codes_and_equal_weights(tmp_path):
    fit = ff.fit(MODEL, X, "PL1")
    same = [
        ff.fit(ff.BoltzmannMachine(4, names=["a", "b", "c", "d"]), X, "PL1"),
        ff.fit(ff.Potts(4, 2, states=[1, 0]), X, "PL1"),
        ff.fit(ff.Potts(4, 3, states=[0, 1, 2]), X.astype(float), "PL1", sigma2=1.0),
        ff.fit(MODEL, X, "PL1", sample_weight=np.full(len(X), 0.01)),
    ]
    assert {other.fingerprint for other in same} == {fit.fingerprint}
    fit.save(tmp_path / "fit.ff")
    assert ff.load(tmp_path / "fit.ff").fingerprint == fit.fingerprint
