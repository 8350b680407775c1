"""The units of a feature change no decision: standard errors, identification, separation and theory scale with it."""

import warnings

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics import range_inverse
from fieldfit.asymptotics.criterion import Criterion
from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.data.sequences import Sequences
from fieldfit.refinement.expansion import covariance_root
from fieldfit.types import IdentifiabilityError, SeparationWarning

FACTORS = [1e-8, 1e8, *(pytest.param(factor, marks=pytest.mark.slow) for factor in (1e-5, 1e-3, 2e4, 1e5))]
#: For what takes longer: the ends and one on either side of 1.
LARGEST = [1e8, *(pytest.param(factor, marks=pytest.mark.slow) for factor in (1e-8, 1e-5, 1e-3, 2e4, 1e5))]
BOTH = np.array([[0, 0], [0, 1.0]])
THETA = np.array([0.8, -0.6, 0.2, 0.1, -0.3])


def chain(scale: float) -> ff.MarkovRandomField:
    """Three variables, two couplings and three biases; the second coupling's feature is ``scale`` times as large."""
    biases = [ff.Factor((k,), [0, 1.0], f"h{k}") for k in range(3)]
    factors = [ff.Factor((0, 1), BOTH, "J01"), ff.Factor((1, 2), BOTH * scale, "J12"), *biases]
    return ff.MarkovRandomField([2, 2, 2], factors)


def sizes(scale: float) -> np.ndarray:
    return np.array([1, scale, 1, 1, 1])


def fitted(scale: float, policy: str = "PL1", **options) -> ff.Fit:
    samples = chain(1.0).sample(THETA, 2000, 0).codes
    return ff.fit(chain(scale), samples, policy, tol=1e-10, **options)


@pytest.fixture(scope="module")
def unscaled():
    """A function of (function, arguments) at the scale 1, which computes each result once."""
    known = {}

    def result(function, *arguments, **options):
        key = (function, *arguments, *options.items())
        if key not in known:
            known[key] = function(1.0, *arguments, **options)
        return known[key]

    return result


@pytest.fixture(scope="module")
def reference(unscaled) -> ff.Fit:
    fit: ff.Fit = unscaled(fitted)
    return fit


@pytest.fixture(scope="module")
def restricted_reference() -> ff.Fit:
    return fitted(1.0, fixed={"J12": 0.0})


def theory_of(scale: float, policy: str, method: str = "auto"):
    return ff.theory(chain(scale), THETA / sizes(scale), policy, method=method, n_simulated=2000)


def projected(scale: float):
    return ff.project(chain(scale), (chain(1.0), THETA * 1.5), "PL1")


def best(scale: float):
    return ff.best_weights(chain(scale), THETA / sizes(scale), "0.5*PL1 + 0.5*PL2").beta


@pytest.mark.parametrize("scale", FACTORS)
def test_standard_errors_and_effective_parameters(scale, reference):
    fit = fitted(scale)
    assert fit.converged
    assert fit.separated == ()
    np.testing.assert_allclose(fit.theta * sizes(scale), reference.theta, rtol=1e-6)
    for kind in ("robust", "model"):
        expected = reference.standard_errors(kind)
        np.testing.assert_allclose(fit.standard_errors(kind) * sizes(scale), expected, rtol=1e-6)
        assert fit.effective_parameters(kind) == pytest.approx(reference.effective_parameters(kind), rel=1e-6)
    both = ff.compare({"scaled": fit, "plain": reference})
    assert np.ptp(both["claic"]) <= 1e-6


@pytest.mark.parametrize("scale", LARGEST)
def test_tests_of_hypotheses_and_influence(scale, reference, restricted_reference):
    fit = fitted(scale)
    for hypothesis in ("J12", ["J12", "h1"]):
        assert fit.wald_test(hypothesis).statistic == pytest.approx(
            reference.wald_test(hypothesis).statistic, rel=1e-6
        )
    restricted, first = fitted(scale, fixed={"J12": 0.0}), restricted_reference
    assert restricted.score_test().statistic == pytest.approx(first.score_test().statistic, rel=1e-6)
    ratio, expected = ff.likelihood_ratio(fit, restricted), ff.likelihood_ratio(reference, first)
    assert ratio.p == pytest.approx(expected.p, rel=1e-5)


@pytest.mark.parametrize("scale", LARGEST)
@pytest.mark.parametrize("policy", ["PL1", "PL1 + 0.5*PL2@0.3", "FL"])
@pytest.mark.parametrize("method", ["enumeration", pytest.param("simulation", marks=pytest.mark.slow)])
def test_theory(scale, policy, method, unscaled):
    expected = unscaled(theory_of, policy, method)
    theory = theory_of(scale, policy, method)
    np.testing.assert_allclose(theory.standard_errors(1) * sizes(scale), expected.standard_errors(1), rtol=1e-6)
    for kind in ("det", "root"):
        assert theory.efficiency(kind) == pytest.approx(expected.efficiency(kind), rel=1e-6)


@pytest.mark.parametrize("scale", FACTORS)
def test_projection(scale, unscaled):
    expected, scaled = unscaled(projected), projected(scale)
    np.testing.assert_allclose(scaled.theta * sizes(scale), expected.theta, rtol=1e-6)
    spread = np.sqrt(np.diag(scaled.covariance)) * sizes(scale)
    np.testing.assert_allclose(spread, np.sqrt(np.diag(expected.covariance)), rtol=1e-6)


def over_complete(scale: float) -> ff.MarkovRandomField:
    """Two variables with a full table and full margins: 4 + 2 + 2 parameters of which 3 functions matter."""
    corner = np.eye(4).reshape(2, 2, 4) * np.array([1, scale, 1, 1])
    names = ("t00", "t01", "t10", "t11")
    return ff.MarkovRandomField(
        [2, 2, 2],
        [
            ff.Factor((0, 1), corner, names),
            ff.Factor((0,), np.eye(2), ("a0", "a1")),
            ff.Factor((1,), np.eye(2), ("b0", "b1")),
            ff.Factor((1, 2), BOTH, "J12"),
            ff.Factor((2,), [0, 1.0], "h2"),
        ],
    )


@pytest.mark.parametrize("scale", [1.0, *LARGEST])
def test_a_gauge_freedom_is_found_at_every_scale(scale):
    samples = over_complete(1.0).sample([0.3, -0.4, 0.2, 0.1, 0, 0.3, 0, -0.2, 0.7, -0.5], 2000, 0).codes
    fit = ff.fit(over_complete(scale), samples, "PL1", tol=1e-10)
    first = ff.fit(over_complete(1.0), samples, "PL1", tol=1e-10)
    assert fit.dense_accuracy().bread.nullity == 5
    np.testing.assert_array_equal(np.isnan(fit.standard_errors()), [True] * 8 + [False] * 2)
    np.testing.assert_allclose(fit.standard_errors()[8:], first.standard_errors()[8:], rtol=1e-6)
    assert fit.effective_parameters() == pytest.approx(first.effective_parameters(), rel=1e-6)
    odds = {"t00": 1, "t01": -scale, "t10": -1, "t11": 1}
    known, expected = fit.functional(odds), first.functional({"t00": 1, "t01": -1, "t10": -1, "t11": 1})
    assert known.estimate == pytest.approx(expected.estimate, rel=1e-6)
    assert known.standard_error == pytest.approx(expected.standard_error, rel=1e-6)
    theta = first.theta / np.array([1, scale, *[1] * 8])
    theory, plain = (ff.theory(over_complete(s), t, "PL1") for s, t in ((scale, theta), (1.0, first.theta)))
    assert theory.basis.shape == plain.basis.shape == (10, 5)
    assert theory.efficiency("det") == pytest.approx(plain.efficiency("det"), rel=1e-6)
    with pytest.raises(IdentifiabilityError, match="does not determine"):
        ff.fit(over_complete(scale), samples, "PL1[2]")


@pytest.mark.parametrize("scale", [1.0, *FACTORS])
def test_separation_is_reported_at_every_scale(scale):
    samples = chain(1.0).sample(THETA, 500, 1).codes.copy()
    samples[:, 2] = samples[:, 1]
    with pytest.warns(SeparationWarning):
        fit = ff.fit(chain(scale), samples, "PL1")
    assert "J12" in fit.separated
    assert "J01" not in fit.separated
    errors = fit.standard_errors()
    assert np.isnan(errors[1])
    assert np.isfinite(errors[0])


@pytest.mark.parametrize("scale", LARGEST)
def test_automatic_weights(scale):
    samples = chain(1.0).sample(THETA, 1000, 2).codes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = ff.fit(chain(scale), samples, "PL1 + PL2", weights="auto")
    assert fit.converged
    assert fit.separated == ()


def test_inverse_on_the_range_is_the_inverse_where_there_is_one():
    random = np.random.default_rng(0)
    root = random.normal(size=(6, 6)) * 10.0 ** np.arange(-6, 6, 2)
    matrix = root.T @ root
    found = range_inverse(matrix)
    assert found.nullity == 0
    assert found.reached.all()
    np.testing.assert_allclose(found.inverse * matrix.T, np.linalg.inv(matrix) * matrix.T, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("defect", [1.0, 1e-3, 1e-12])
def test_small_matrices_are_inverted_as_large_ones_are(defect):
    root = np.random.default_rng(2).normal(size=(20, 8))
    root[:, 7] = root[:, 6] + defect * root[:, 7]
    matrix, larger = root.T @ root, np.eye(300)
    larger[:8, :8] = matrix
    small, large = range_inverse(matrix), range_inverse(larger)
    assert small.nullity == large.nullity == (defect < 1e-6)
    in_large = large.inverse[:8, :8]
    np.testing.assert_allclose(root @ small.inverse @ root.T, root @ in_large @ root.T, rtol=1e-8, atol=1e-8)


def test_inverse_on_the_range_is_zero_along_the_null_space():
    random = np.random.default_rng(1)
    root = random.normal(size=(4, 6))
    matrix, units = root.T @ root, np.ones(6)
    found = range_inverse(matrix, units)
    np.testing.assert_allclose(found.inverse, np.linalg.pinv(matrix, hermitian=True, rcond=1e-9), atol=1e-10)
    assert found.nullity == 2
    assert found.reaches(root).all()
    assert not found.reaches(random.normal(size=(3, 6))).any()


def test_rounding_on_the_diagonal_is_no_information():
    matrix = np.diag([0.2, 3e-17, 0.1])
    found = range_inverse(matrix, np.ones(3))
    np.testing.assert_array_equal(found.reached, [True, False, True])
    found = range_inverse(matrix, np.array([1.0, 1e-8, 1.0]))
    assert found.reached.all()


@pytest.mark.parametrize("scale", LARGEST)
def test_refined_estimates(scale, unscaled):
    policy = "PL1 >> optimal(1)"
    fit, expected = fitted(scale, policy), unscaled(fitted, policy)
    assert expected.refinement.accepted
    assert fit.refinement.accepted
    np.testing.assert_allclose(fit.theta * sizes(scale), expected.theta, rtol=1e-6)
    np.testing.assert_allclose(fit.standard_errors() * sizes(scale), expected.standard_errors(), rtol=1e-6)
    theory, reference = theory_of(scale, policy), unscaled(theory_of, policy)
    np.testing.assert_allclose(theory.standard_errors(1) * sizes(scale), reference.standard_errors(1), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("scale", LARGEST)
@pytest.mark.parametrize("form", ["exact", "diagonal"])
def test_weights_in_both_forms(scale, form, unscaled):
    policy, weights = "0.5*PL1 + 0.5*PL2", ff.AutoWeights(form=form)
    expected = unscaled(fitted, policy, weights=weights).weights.beta
    assert 0.01 < expected[1] < 0.99
    np.testing.assert_allclose(fitted(scale, policy, weights=weights).weights.beta, expected, atol=1e-4)
    np.testing.assert_allclose(best(scale), unscaled(best), atol=1e-4)


def planned_variances(scale: float) -> dict[str, float]:
    samples = chain(1.0).sample(THETA, 2000, 0).codes
    plan = ff.plan(chain(scale), samples, flops=1e9, policies=["PL1", "0.3*PL2", "Partition(2)", "FL"])
    return {str(candidate.policy): candidate.variance for candidate in plan.candidates}


@pytest.mark.slow
@pytest.mark.parametrize("scale", LARGEST)
def test_planned_variances(scale, unscaled):
    expected, scaled = unscaled(planned_variances), planned_variances(scale)
    for policy in ("PL1", "0.3*PL2", "Partition(2)", "FL"):
        assert scaled[policy] == pytest.approx(expected[policy], rel=1e-3)


def test_moments_in_whitened_coordinates():
    """Also with a gauge freedom the criterion is log det M − 2 log det B on an orthonormal basis of the range."""
    rng = np.random.default_rng(3)
    range_basis = np.linalg.qr(rng.normal(size=(5, 3)))[0]
    units = np.array([1.0, 30.0, 0.02, 5.0, 1.0])
    null = np.linalg.qr(np.linalg.qr(range_basis, mode="complete")[0][:, 3:] / units[:, None])[0]
    parts = [units[:, None] * range_basis @ rng.normal(size=(3, 3)) for _ in range(4)]
    squares = np.stack([part @ part.T for part in parts])
    K = np.zeros((2, 2, 5, 5))
    K[0, 0], K[1, 1] = squares[2:]
    moments = MixtureMoments(("a", "b"), squares[:2], K, np.zeros((2, 5, 5)), np.zeros((2, 5, 5)))
    orthonormal = np.linalg.qr(null, mode="complete")[0][:, 2:]
    beta = np.array([0.3, 0.7])
    bread, meat = (orthonormal.T @ matrix[0] @ orthonormal for matrix in moments.moments(np.ones((1, 2)), beta[None]))
    expected = np.linalg.slogdet(meat)[1] - 2 * np.linalg.slogdet(bread)[1]
    assert Criterion.log_determinant(moments).value(np.ones(2), beta) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("pairs", ["observed", "all"])
@pytest.mark.parametrize("scale", FACTORS)
def test_real_valued_attributes_of_tokens(scale, pairs, tmp_path):
    rng = np.random.default_rng(4)
    offsets = np.arange(0, 801, 4)
    labels = rng.integers(0, 2, 800)
    values = np.stack([labels + rng.normal(size=800), rng.normal(size=800)], axis=1)

    def fit(factor: float) -> ff.Fit:
        features = (values * [factor, 1.0]).ravel()
        data = Sequences(offsets, np.arange(801) * 2, np.tile([0, 1], 800), features, labels, 2, 2)  # type: ignore[arg-type]
        return ff.fit(ff.ChainCRF(2, 2, pairs=pairs), data, "PL1", tol=1e-9)

    scaled, expected = fit(scale), fit(1.0)
    assert scaled.converged
    assert scaled.separated == ()
    for contrast, unit in (({"x0:y1": 1, "x0:y0": -1}, scale), ({"x1:y1": 1, "x1:y0": -1}, 1.0)):
        found, wanted = scaled.functional(contrast), expected.functional(contrast)
        assert found.estimate * unit == pytest.approx(wanted.estimate, rel=1e-5)
        assert found.standard_error * unit == pytest.approx(wanted.standard_error, rel=1e-5)
    scaled.save(tmp_path / "fit")
    np.testing.assert_array_equal(ff.load(tmp_path / "fit").model.feature_units, scaled.model.feature_units)


@pytest.mark.parametrize("constant", [-100.0, 1e3, 1e4])
def test_constant_added_to_a_table_changes_nothing(constant):
    """It cancels in every conditional probability."""
    samples = np.random.default_rng(0).integers(0, 2, (500, 2))

    def with_constant(added: float) -> ff.Fit:
        biases = [ff.Factor((k,), [0, 1.0], f"h{k}") for k in range(2)]
        return ff.fit(ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), BOTH + added, "J"), *biases]), samples, "PL1")

    expected, fit = with_constant(0.0), with_constant(constant)
    assert fit.separated == ()
    np.testing.assert_allclose(fit.theta, expected.theta, rtol=1e-6)
    np.testing.assert_allclose(fit.standard_errors(), expected.standard_errors(), rtol=1e-6)


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**20])
def test_units_do_not_change_where_a_fit_stops_by_its_sampling_error(factor):
    random = np.random.default_rng(5)
    tables = [random.normal(size=shape) for shape in ((3, 3, 2), (3, 2, 1), (3, 3, 2, 1))]
    scopes, names = ((0, 1), (1, 2), (0, 1, 2)), (("a", "b"), ("c",), ("d",))

    def model(scale: float) -> ff.MarkovRandomField:
        factors = [ff.Factor(*row) for row in zip(scopes, (scale * table for table in tables), names, strict=True)]
        return ff.MarkovRandomField([3, 3, 2], factors)

    samples = model(1.0).sample([0.5, -0.4, 0.6, 0.3], 1500, 0).codes
    expected, fit = (ff.fit(model(scale), samples, "PL1 >> FL") for scale in (1.0, factor))
    np.testing.assert_allclose(fit.theta * factor, expected.theta, rtol=1e-10)


def test_root_of_a_covariance_is_the_same_in_all_units():
    """Distances that plans draw with it are then the same too."""
    factor = np.random.default_rng(1).normal(size=(5, 5))
    scale = 2.0 ** np.array([0, 26, -26, 13, 0])
    covariance = factor @ factor.T
    np.testing.assert_allclose(
        covariance_root(covariance * scale[:, None] * scale), scale[:, None] * covariance_root(covariance), rtol=1e-10
    )
