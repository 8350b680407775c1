"""Automatic weights of a chain CRF: the same code through the same sums, exact and diagonal forms."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics.criterion import Criterion
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.sum_problem import SumProblem
from fieldfit.objective import Objective
from fieldfit.policies import Policy
from fieldfit.types import PolicyError
from fieldfit.weights import AutoWeights, automatic_weights
from fieldfit.weights.choice import Exact
from fieldfit.weights.groups import groups_of
from fieldfit.weights.statistics import DataStatistics


def sticky_sequences(n=250, n_labels=2, n_features=3, seed=0):
    """Labels that tend to stay, and a feature that tends to show them."""
    random = np.random.default_rng(seed)
    lengths = random.integers(3, 9, n)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    labels = random.integers(0, n_labels, offsets[-1])
    for start, stop in pairwise(offsets):
        for t in range(start + 1, stop):
            if random.random() < 0.5:
                labels[t] = labels[t - 1]
    features = np.where(random.random(len(labels)) < 0.4, labels, random.integers(0, n_features, len(labels)))
    indptr = np.arange(len(labels) + 1)
    return Sequences(offsets, indptr, features.astype(np.int32), None, labels.astype(np.int32), n_features, n_labels)


@pytest.fixture(scope="module")
def chain():
    data = sticky_sequences()
    model = ChainCRF(data.n_labels, data.n_features, pairs="all").observe(data)
    bound = Policy.parse("PL1 + 0.5*FL").bind(model.structure(data))
    selection = bound.draw(3, 0, data.n_sequences)
    r = model.n_parameters
    objective = Objective(model.compile(data, selection), np.full(r, 0.1), np.zeros(r), np.ones(r, dtype=bool))
    return data, model, bound, selection, objective


@pytest.mark.parametrize("form", ["exact", "diagonal"])
def test_weights_of_a_chain(chain, form):
    data, model, bound, selection, objective = chain
    found = automatic_weights(
        bound, selection, lambda z: model.compile(data, z), objective, AutoWeights(form=form, fallback=False)
    )
    assert found.converged
    assert found.form == form
    assert found.beta.sum() == pytest.approx(1.0)
    assert np.isfinite(found.J_exact)
    groups = groups_of(bound, "term")
    mixed = SumProblem([model.compile(data, z) for z in groups.drawn(selection)], weights=np.ones(2))
    statistics = DataStatistics(mixed, groups.names, objective.free)
    dense, diagonals = statistics.dense(found.theta), statistics.diagonal(found.theta)
    criterion = Exact.of(dense) if form == "exact" else Criterion.log_diagonal(diagonals).over_weights()
    for beta in (np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.5, 0.5])):
        assert criterion.value(found.beta) <= criterion.value(beta) + 1e-9


def test_published_formula_of_a_chain(chain):
    data, model, bound, selection, objective = chain
    published = automatic_weights(
        bound, selection, lambda z: model.compile(data, z), objective, AutoWeights(formula="published")
    )
    exact = automatic_weights(bound, selection, lambda z: model.compile(data, z), objective, AutoWeights())
    assert published.converged
    assert published.beta[1] > exact.beta[1]  # it does not see the noise of selecting half the sentences


def test_a_ridge_draws_the_update_to_equal_weights():
    data = sticky_sequences(80)
    model = ff.ChainCRF(data.n_labels, data.n_features, pairs="all").observe(data)
    fit = ff.fit(model, data, "PL1 + 0.5*FL", weights=[0.5, 0.5], sigma2=10.0, random_state=1)
    away = [abs(float(ff.update_weights(fit, gamma=gamma)[0]) - 0.5) for gamma in (0.0, 1.0, 1e6)]
    assert away[0] > away[1] > away[2]
    assert away[2] < 1e-3
    with pytest.raises(PolicyError, match="gamma"):
        ff.update_weights(fit, gamma=-1.0)


def test_parameters_that_only_the_penalty_holds_have_no_part_in_the_weights():
    # The third column is constant: with a weak penalty its probabilities are 1 up to rounding, and its bread is 0.
    x = np.random.default_rng(0).integers(0, 2, (200, 2))
    fixed = np.column_stack([x, np.ones(200, dtype=int)])
    model, three = ff.BoltzmannMachine(2, biases=True), ff.BoltzmannMachine(3, [(0, 1)], biases=True)
    plain = ff.fit(model, x, "PL1 + FL", weights=[0.5, 0.5], sigma2=1.0)
    more = ff.fit(three, fixed, "PL1 + FL", weights=[0.5, 0.5], sigma2=[1.0, 1.0, 1.0, 1e300])
    more = replace(more, theta=np.append(plain.theta, 800.0))
    np.testing.assert_allclose(ff.update_weights(more), ff.update_weights(plain), atol=1e-6)
