"""GraphCRF: nodes of a graph classified together, and scikit-learn's own checks."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import fieldfit as ff
from fieldfit.types import DataError, FieldfitError


@pytest.mark.slow
@parametrize_with_checks([ff.GraphCRF()])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def field():
    """A 12 × 12 field with one covariate, and its labels."""
    X = np.random.default_rng(0).normal(size=(144, 1))
    model = ff.TiedField.grid(12, 12, X, directions=False, states=("N", "Y"))
    return X, model.sample([0.0, 1.0, 0.9], 1, random_state=1).values[0]


def test_it_is_the_fit_of_the_library(field):
    X, y = field
    crf = ff.GraphCRF(grid=(12, 12), sigma2=None).fit(X, y)
    model = ff.TiedField.grid(12, 12, X, directions=False, states=("N", "Y"))
    direct = ff.fit(model, y[None], "PL1")
    np.testing.assert_array_equal(crf.fit_.theta, direct.theta)
    np.testing.assert_allclose(crf.predict_proba(X), np.stack(model.marginals(direct.theta)), atol=1e-12)
    np.testing.assert_array_equal(crf.predict_map(X), model.map_state(direct.theta))
    assert crf.score(X, y) == np.mean(crf.predict(X) == y)


def test_known_neighbours_help(field):
    X, y = field
    crf = ff.GraphCRF(grid=(12, 12)).fit(X, y)
    hidden = np.arange(0, 144, 5)
    known = {site: y[site] for site in range(144) if site % 5}
    alone = crf.predict_proba(X)[hidden, (y[hidden] == "Y").astype(int)]
    helped = crf.predict_proba(X, given=known)[hidden, (y[hidden] == "Y").astype(int)]
    assert np.log(helped).mean() > np.log(alone).mean() + 0.05


@pytest.mark.slow
def test_gibbs_draws_take_over_where_the_graph_is_wide(field):
    X, y = field
    crf = ff.GraphCRF(grid=(12, 12), draws=2000).fit(X, y)
    exact = crf.predict_proba(X)
    crf.model_.largest_table = 64  # on other graphs too: 12 columns no longer fit
    drawn = crf.predict_proba(X)
    assert not np.array_equal(drawn, exact)
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)
    # 144 shares of 2,000 draws, which are correlated: a standard error of at most about 0.03 each.
    np.testing.assert_allclose(drawn, exact, atol=0.12)


@pytest.mark.slow
def test_another_graph_and_three_classes():
    random = np.random.default_rng(2)
    X = random.normal(size=(200, 2))
    y = np.argmax(X @ random.normal(size=(2, 3)) + random.gumbel(size=(200, 3)), axis=1)
    crf = ff.GraphCRF(sigma2=None).fit(X, y)
    peer = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(crf.predict_proba(X), peer.predict_proba(X), atol=1e-4)
    line = ff.GraphCRF([(i, i + 1) for i in range(199)]).fit(X, y)
    assert line.predict_proba(X[:5], edges=[(0, 1), (1, 2)]).shape == (5, 3)
    with pytest.raises(ValueError, match="variables are 0 to 4"):
        line.predict(X[:5])
    with pytest.raises(DataError, match="has 6 sites"):
        ff.GraphCRF(grid=(2, 3)).fit(X, y)
    for pair in (6, (2, 3, 1)):
        with pytest.raises(DataError, match="it must be a pair"):
            ff.GraphCRF(grid=pair).fit(X, y)  # type: ignore[arg-type]
    for side in ("a", -2, 2.5):
        with pytest.raises(FieldfitError, match=r"A side of grid is .*; it must be an integer of at least 1"):
            ff.GraphCRF(grid=(side, 3)).fit(X, y)  # type: ignore[arg-type]
    for node in (-1, 5):
        with pytest.raises(DataError, match="the nodes are the rows 0 to 4 of X"):
            line.predict_proba(X[:5], edges=[(0, 1), (1, 2)], given={node: 0})
    with pytest.raises(DataError, match="given is 5; it must be a mapping"):
        line.predict_proba(X[:5], edges=[(0, 1), (1, 2)], given=5)  # type: ignore[arg-type]


def test_draws_must_be_a_count():
    with pytest.raises(FieldfitError, match="draws is 0"):
        ff.GraphCRF([(0, 1)], draws=0).fit([[0.1], [0.9]], ["a", "b"])


def test_one_class_is_refused_with_its_plain_value():
    with pytest.raises(DataError, match=r"y has one class, 0\.0; a classifier needs"):
        ff.GraphCRF([(0, 1)]).fit([[0.1], [0.9]], np.zeros(2))
