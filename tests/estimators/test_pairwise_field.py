"""PairwiseField: a table in, log-likelihoods and draws out, and scikit-learn's own checks."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import fieldfit as ff
from fieldfit.types import DataError

NOT_OURS = {
    "check_sample_weight_equivalence_on_dense_data": "its X is continuous, with hundreds of different values",
}


@pytest.mark.slow
@parametrize_with_checks([ff.PairwiseField(max_iter=300)], expected_failed_checks=lambda _: NOT_OURS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    return ff.BoltzmannMachine(4, biases=True).sample(np.linspace(-1, 1, 10), 400, 0).values


def test_it_is_the_fit_of_the_library(table):
    field = ff.PairwiseField("PL1 + 0.5*PL2", sigma2=None, random_state=2).fit(table)
    direct = ff.fit(ff.BoltzmannMachine(4, biases=True), table, "PL1 + 0.5*PL2", random_state=2)
    np.testing.assert_array_equal(field.fit_.theta, direct.theta)
    states = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1).T
    assert np.exp(field.score_samples(states)).sum() == pytest.approx(1.0, abs=1e-10)
    np.testing.assert_array_equal(field.log_likelihood(table), field.score_samples(table))
    assert field.score(table) == pytest.approx(field.log_likelihood(table).mean())


def test_more_states_make_a_potts_model_and_missing_values_are_summed_out(table):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (200, 3)).astype(float)
    values[0, 0] = np.nan
    field = ff.PairwiseField(edges=[(0, 1), (1, 2)]).fit(values)
    assert field.model_.kind == "potts"
    line = np.array([[np.nan, 1.0, 2.0]])
    full = np.array([[s, 1.0, 2.0] for s in range(3)])
    assert np.exp(field.score_samples(line))[0] == pytest.approx(np.exp(field.score_samples(full)).sum(), abs=1e-10)


def test_draws_are_reproducible_and_of_the_right_states(table):
    field = ff.PairwiseField(states=(-1, 1)).fit(2 * table - 1)
    draws = field.sample(5, random_state=4)
    assert draws.shape == (5, 4)
    assert set(np.unique(draws)) <= {-1, 1}
    np.testing.assert_array_equal(draws, field.sample(5, random_state=4))


def test_model_selection_and_pickle(table):
    scores = cross_val_score(ff.PairwiseField(), table, cv=3)
    assert scores.shape == (3,)
    search = GridSearchCV(ff.PairwiseField(), {"policy": ["PL1", "FL"], "sigma2": [1e-3, 10.0]}, cv=2).fit(table)
    assert search.best_params_["sigma2"] == 10.0
    field = ff.PairwiseField("FL").fit(table)
    again = pickle.loads(pickle.dumps(field))
    np.testing.assert_array_equal(again.score_samples(table), field.score_samples(table))
    np.testing.assert_allclose(again.fit_.standard_errors(), field.fit_.standard_errors())


def test_what_is_not_discrete_or_never_seen_is_refused(table):
    with pytest.raises(DataError, match="Bin the columns"):
        ff.PairwiseField().fit(np.random.default_rng(0).normal(size=(300, 2)))
    with pytest.raises(DataError, match="at least 2"):
        ff.PairwiseField().fit(np.ones((5, 2)))
    with pytest.raises(ValueError, match="2"):
        ff.PairwiseField().fit(table).score_samples([[0, 1, 2, 0]])
