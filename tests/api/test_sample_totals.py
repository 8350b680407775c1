"""How many samples weights stand for: counts are copies, and the scale of importance weights is no matter."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api.refine import attach
from fieldfit.types import DataError, PolicyError

MODEL = ff.BoltzmannMachine(4, biases=True)
THETA = np.random.default_rng(5).normal(size=10) * 0.6
X = MODEL.sample(THETA, 500, 2).values
ROWS, COUNTS = np.unique(X, axis=0, return_counts=True)
FIXED = {"x0:x1": 0.0, "x2": 0.1}


def numbers(fit, null):
    """Every public number of a fit and of a test against a smaller one."""
    found = {
        "theta": fit.theta,
        "total": fit.total,
        "conf_int": fit.conf_int(),
        "table": fit.table().to_numpy(),
        "functional": fit.functional({"x0:x1": 1, "x2:x3": -1}).standard_error,
        "new": fit.influence(ROWS[:3]),
        "new of one": fit.influence(ROWS[:3], parameters=["x0:x1"]),
        "ratio": [ff.likelihood_ratio(fit, null).statistic, ff.likelihood_ratio(fit, null).p],
        "ratio weights": ff.likelihood_ratio(fit, null).weights,
        "score": null.score_test().statistic,
        "wald": fit.wald_test(list(FIXED)).statistic,
        "discoveries": fit.discoveries()["q"].to_numpy(),
        "log-likelihood": fit.composite_log_likelihood,
        "compare": ff.compare({"full": fit, "null": null}).loc[["full", "null"]].to_numpy(),
    }
    for kind in ("robust", "model"):
        for name in ("covariance", "standard_errors", "effective_parameters", "claic", "clbic"):
            found[f"{name} {kind}"] = getattr(fit, name)(kind)
    for parameters in (None, ["x0:x1", "x3"]):
        sensitivity = fit.gross_error_sensitivity(parameters)
        found[f"sensitivity {parameters}"] = sensitivity.each
        found[f"sensitivities {parameters}"] = [sensitivity.total, sensitivity.standardised, sensitivity.n]
        found[f"change {parameters}"] = sensitivity.to_frame().to_numpy()
    return found


def fits(data, policy, **options):
    return [ff.fit(MODEL, data, policy, fixed=fixed, tol=1e-11, **options) for fixed in (None, FIXED)]


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("policy", ["PL1", "FL", "PL1 + FL@0.5"])
def test_counts_are_repeated_rows_in_every_number(policy, tmp_path):
    counted = fits(ROWS, policy, sample_weight=COUNTS, weight_kind="counts")
    repeated = fits(np.repeat(ROWS, COUNTS, axis=0), policy)
    assert_same(numbers(*counted), numbers(*repeated))
    first = np.concatenate([[0], np.cumsum(COUNTS)[:-1]])
    np.testing.assert_allclose(
        counted[0].influence(), COUNTS[:, None] * repeated[0].influence()[first], rtol=1e-6, atol=1e-10
    )
    assert "500 samples (16 rows with counts)" in counted[0].summary()
    assert "500 samples (16 rows with counts)" in repr(counted[0])
    assert "500 samples, 10 parameters" in repr(repeated[0])
    counted[0].save(tmp_path / "fit.ff")
    again = ff.load(tmp_path / "fit.ff")
    np.testing.assert_array_equal(again.covariance(), counted[0].covariance())
    assert again.clbic() == counted[0].clbic()


@pytest.mark.parametrize("policy", ["PL1", "0.7*PL1 + 0.3*FL@0.5"])
def test_the_scale_of_importance_weights_is_no_matter(policy, tmp_path):
    weight = np.random.default_rng(1).exponential(size=len(X))
    one, other = (fits(X, policy, sample_weight=scale * weight) for scale in (1.0, 3.7))
    assert_same(numbers(*other), numbers(*one))
    np.testing.assert_allclose(other[0].influence(), one[0].influence(), rtol=1e-6, atol=1e-10)
    assert one[0].total == pytest.approx(weight.sum() ** 2 / (weight @ weight))
    assert f"effective size {one[0].total:.1f}" in one[0].summary()
    other[0].save(tmp_path / "fit.ff")
    assert ff.load(tmp_path / "fit.ff").claic() == pytest.approx(one[0].claic(), rel=1e-8)


def test_equal_weights_are_none_and_samples_of_weight_0_are_not_there():
    plain = fits(X, "PL1")
    assert_same(numbers(*fits(X, "PL1", sample_weight=np.full(500, 2.5))), numbers(*plain))
    longer, zeros = np.vstack([X, 1 - X[:100]]), np.r_[np.ones(500), np.zeros(100)]
    assert_same(numbers(*fits(longer, "PL1", sample_weight=zeros)), numbers(*plain))


def test_weighted_maximum_likelihood_has_its_number_of_parameters():
    weight = np.random.default_rng(1).exponential(size=len(X))
    fit = ff.fit(MODEL, X, "FL", sample_weight=weight)
    assert fit.effective_parameters("model") == pytest.approx(10.0, rel=1e-9)


def test_new_samples_come_with_the_weight_of_one():
    """A refit with the sample added, to second order."""
    model = ff.BoltzmannMachine(3)
    x = X[:400, :3]
    weight = np.random.default_rng(1).uniform(0.5, 1.5, size=400)
    fit = ff.fit(model, x, "PL1", sample_weight=weight, tol=1e-12)
    added = ff.fit(model, np.vstack([x, [[1, 1, 1]]]), "PL1", sample_weight=np.r_[weight, fit.unit_weight], tol=1e-12)
    np.testing.assert_allclose(fit.influence([[1, 1, 1]])[0], added.theta - fit.theta, rtol=0.05, atol=1e-4)


def test_fits_are_compared_under_the_same_weights_only():
    weight = np.random.default_rng(1).exponential(size=len(X))
    fit = ff.fit(MODEL, X, "PL1", sample_weight=weight)
    scaled = ff.compare([fit, ff.fit(MODEL, X, "PL1", sample_weight=3 * weight)])
    assert scaled["claic"].iloc[0] == pytest.approx(scaled["claic"].iloc[1])
    for other in (None, weight[::-1]):
        with pytest.raises(DataError, match="weights"):
            ff.compare([fit, ff.fit(MODEL, X, "PL1", sample_weight=other)])


@pytest.mark.parametrize("kind", ["counts", "importance"])
def test_attached_samples_bring_their_weights(kind, tmp_path):
    fit = ff.fit(MODEL, ROWS, "PL1", sample_weight=COUNTS, weight_kind=kind)
    fit.save(tmp_path / "fit.ff")
    again = attach(ff.load(tmp_path / "fit.ff"), ROWS, sample_weight=COUNTS, weight_kind=kind)
    assert (again.total, again.unit_weight) == (fit.total, fit.unit_weight)
    assert again.clbic() == pytest.approx(fit.clbic())


FACTORS = [1e-8, 1e-4, 1e4, 1e8]


@pytest.mark.parametrize("method", ["auto", "lbfgs", "newton"])
@pytest.mark.parametrize("policy", ["PL1", "FL", "0.7*PL1 + 0.3*FL@0.5"])
def test_the_estimate_does_not_depend_on_the_scale_of_sample_weights(policy, method):
    weight = np.random.default_rng(1).exponential(size=len(X))
    wanted = ff.fit(MODEL, X, policy, sample_weight=weight, method=method).theta
    for factor in FACTORS:
        found = ff.fit(MODEL, X, policy, sample_weight=factor * weight, method=method)
        assert found.converged
        np.testing.assert_allclose(found.theta, wanted, atol=1e-9)


@pytest.mark.parametrize("method", ["auto", "lbfgs", "newton"])
@pytest.mark.parametrize("policy", ["PL1@{0}", "FL@{0}", "PL1@{0} + 0.3*PL2@{0}"])
def test_the_estimate_does_not_depend_on_the_scale_of_beta(policy, method):
    wanted = ff.fit(MODEL, X, policy.format(1.0), method=method).theta
    for factor in FACTORS:
        found = ff.fit(MODEL, X, policy.format(factor), method=method)
        assert found.converged
        np.testing.assert_allclose(found.theta, wanted, atol=1e-9)


def test_l1_and_automatic_weights_scale_along():
    weight = np.random.default_rng(1).exponential(size=len(X))
    sparse = ff.fit(MODEL, X, "PL1", sample_weight=weight, l1=20.0).theta
    chosen = ff.fit(MODEL, X, "PL1 + 0.3*FL", sample_weight=weight, weights="auto").theta
    for factor in FACTORS:
        found = ff.fit(MODEL, X, "PL1", sample_weight=factor * weight, l1=20.0 * factor).theta
        np.testing.assert_allclose(found, sparse, atol=1e-9)
        again = ff.fit(MODEL, X, "PL1 + 0.3*FL", sample_weight=factor * weight, weights="auto").theta
        np.testing.assert_allclose(again, chosen, atol=1e-7)


def test_huge_counts_with_a_random_policy_and_an_empty_selection_are_refused_in_a_sentence():
    huge = COUNTS.astype(float)
    huge[0] = 1e12
    assert ff.fit(MODEL, ROWS, "PL1", sample_weight=huge, weight_kind="counts", sigma2=1.0).total > 1e12
    assert ff.fit(MODEL, ROWS, "PL1 + 0.2*PL2", sample_weight=huge, weight_kind="counts", sigma2=1.0).total > 1e12
    many = ff.BoltzmannMachine(10)
    with pytest.raises(DataError, match="the limit is 200,000,000"):
        ff.fit(many, np.eye(10, dtype=int), "PL1 + 0.2*PL2", sample_weight=[1e12] * 10, weight_kind="counts")
    huge[0] = 1e300
    with pytest.raises(DataError, match="weight_kind='importance'"):
        ff.fit(MODEL, ROWS, "PL1 + 0.2*PL2", sample_weight=huge, weight_kind="counts")
    for sigma2 in (None, 1.0):  # with a penalty θ = 0 would be the optimum, whatever the samples are
        with pytest.raises(PolicyError, match="selected no component of any of the 500 samples"):
            ff.fit(MODEL, X, "1e-12*PL1", sigma2=sigma2)


def test_constant_columns_under_a_penalty_are_fitted():
    rows = np.tile([1, 1, 1, 0], (1000, 1))
    wanted = ff.fit(MODEL, rows, "PL1", sigma2=1.0, method="newton", tol=1e-10).theta
    np.testing.assert_allclose(ff.fit(MODEL, rows, "PL1", sigma2=1.0, tol=1e-10).theta, wanted, atol=1e-8)
    assert np.abs(wanted).min() > 0.1
