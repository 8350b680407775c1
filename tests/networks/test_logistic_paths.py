"""L1 paths of logistic regressions: optima against scikit-learn, glmnet's path and network, weights, threads."""

import json
from pathlib import Path

import numpy as np
import pytest

from fieldfit.networks.logistic_paths import logistic_paths
from fieldfit.threads import use_threads

REFERENCE = json.loads((Path(__file__).parent / "glmnet_reference.json").read_text())
ROWS = np.array([[int(cell) for cell in row] for row in REFERENCE["rows"]], dtype=np.uint8)


def objective(codes, weights, target, coefficients, lam):
    """The penalised loss and its smooth gradient on standardised variables."""
    x = codes.astype(float)
    beta = coefficients.copy()
    intercept, beta[target] = beta[target], 0.0
    w = weights / weights.sum()
    eta = intercept + x @ beta
    scale = np.sqrt(w @ x * (1 - w @ x))
    y = x[:, target]
    loss = w @ (np.logaddexp(0, eta) - y * eta) + lam * scale @ abs(beta)
    residual = w * (1 / (1 + np.exp(-eta)) - y)
    return loss, residual.sum(), (x.T @ residual) / scale


@pytest.mark.parametrize("gamma", sorted(REFERENCE["results"]))
def test_the_regressions_are_those_of_glmnet(gamma):
    expected = REFERENCE["results"][gamma]
    paths = logistic_paths(ROWS)
    chosen, places = paths.chosen(float(gamma))
    assert paths.fitted[0].tolist() == expected["path_lengths"]
    lambdas = paths.lambdas[0, np.arange(ROWS.shape[1]), places[0]]
    np.testing.assert_allclose(lambdas, expected["lambdas"], rtol=1e-10)
    reference = np.array(expected["coefficients"])
    assert np.array_equal(chosen[0] != 0, reference != 0)
    np.testing.assert_allclose(chosen[0], reference, atol=3e-5)


def test_every_solution_satisfies_the_optimality_conditions():
    weights = np.random.default_rng(0).integers(0, 4, (2, len(ROWS))).astype(float)
    paths = logistic_paths(ROWS, weights, tol=1e-9)
    assert paths.unfinished == 0
    for b, weight in enumerate(weights):
        for target in range(ROWS.shape[1]):
            for k in range(0, paths.fitted[b, target], 7):
                found, lam = paths.coefficients[b, target, k], paths.lambdas[b, target, k]
                _, intercept, gradient = objective(ROWS, weight, target, found, lam)
                others = np.arange(ROWS.shape[1]) != target
                at_zero = others & (found == 0)
                free = others & (found != 0)
                assert abs(intercept) < 2e-9
                assert (abs(gradient[at_zero]) <= lam + 2e-9).all()
                np.testing.assert_allclose(gradient[free], -lam * np.sign(found[free]), atol=2e-9)


def test_an_optimum_is_that_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    rows = ROWS[:80, :5]
    x = rows.astype(float)
    scaled = x / x.std(axis=0)
    lam = 0.05
    paths = logistic_paths(rows, lambdas=np.array([0.1, lam]), tol=1e-10)
    for target in (0,):
        others = [j for j in range(x.shape[1]) if j != target]
        # saga: liblinear penalises the intercept as well.
        peer = LogisticRegression(l1_ratio=1.0, C=1 / (lam * len(x)), solver="saga", tol=1e-10, max_iter=20_000)
        peer.fit(scaled[:, others], x[:, target])
        ours = paths.coefficients[0, target, 1]
        np.testing.assert_allclose(ours[others], peer.coef_[0] / x.std(axis=0)[others], atol=1e-6)
        assert ours[target] == pytest.approx(peer.intercept_[0], abs=1e-6)


def test_integer_weights_are_copies_and_zero_weights_leave_out():
    counts = np.random.default_rng(1).integers(0, 3, len(ROWS))
    weighted = logistic_paths(ROWS, counts[None].astype(float))
    copied = logistic_paths(np.repeat(ROWS, counts, axis=0))
    assert np.array_equal(weighted.fitted, copied.fitted)
    np.testing.assert_allclose(weighted.coefficients, copied.coefficients, atol=1e-5)
    np.testing.assert_allclose(weighted.log_likelihood, copied.log_likelihood, rtol=1e-7)
    assert np.array_equal(weighted.chosen(0.25)[1], copied.chosen(0.25)[1])


def test_threads_and_progress_change_nothing():
    told = []
    with use_threads(1):
        one = logistic_paths(ROWS)
    with use_threads(2):
        two = logistic_paths(ROWS, progress=lambda done, all_of_them: told.append((done, all_of_them)))
    assert np.array_equal(one.coefficients, two.coefficients)
    assert told[-1] == (ROWS.shape[1], ROWS.shape[1])


def test_constant_columns_have_no_couplings():
    codes = ROWS.copy()
    codes[:, 2] = 1
    paths = logistic_paths(codes)
    assert paths.fitted[0, 2] == 1
    assert paths.coefficients[0, 2, 0, 2] == np.inf
    others = paths.coefficients[0][np.arange(codes.shape[1]) != 2]
    assert (others[:, :, 2] == 0).all()
    assert np.isfinite(others).all()


def test_separated_columns_end_the_path_early():
    codes = ROWS[:, :4].copy()
    codes[:, 3] = codes[
        :, 0
    ]  # equal columns: the regression of one on the other has no finite optimum without penalty
    paths = logistic_paths(codes)
    assert paths.unfinished == 0
    assert paths.fitted[0, 0] < 100
    share = 1 - paths.log_likelihood[0, 0, paths.fitted[0, 0] - 1] / paths.log_likelihood[0, 0, 0]
    assert share > 0.99


@pytest.mark.parametrize("gamma", [0.0, 0.25])
def test_paths_for_ebic_end_early_with_the_same_choice(gamma):
    random = np.random.default_rng(5)
    codes = (random.normal(size=(300, 24)) + random.normal(size=(300, 1)) > 0).astype(np.uint8)
    weights = random.multinomial(300, np.full(300, 1 / 300), size=4).astype(np.float64)
    whole = logistic_paths(codes, weights, tol=1e-5)
    early = logistic_paths(codes, weights, tol=1e-5, gamma=gamma)
    assert early.fitted.sum() < 0.9 * whole.fitted.sum()
    for found, expected in zip(early.chosen(gamma), whole.chosen(gamma), strict=True):
        np.testing.assert_array_equal(found, expected)
