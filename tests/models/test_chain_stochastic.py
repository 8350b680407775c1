"""Stochastic gradient steps on chains: each step against marginals, and where a fit by them ends."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.chains import Sequences
from fieldfit.models.chain_problem import ChainProblem, Windows
from fieldfit.objective import Objective
from fieldfit.optim import Status
from fieldfit.types import ConvergenceWarning, FieldfitError

WHOLE = (Windows(0, 1.0, None, None, None),)


def random_sequences(n, n_labels, n_features, seed, values=False, longest=9):
    random = np.random.default_rng(seed)
    lengths = random.integers(0, longest, n)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    tokens = int(offsets[-1])
    counts = random.integers(1, 4, tokens)
    pointer = np.concatenate(([0], np.cumsum(counts)))
    # Some features are frequent, and have rows of a table of their own in the kernels.
    indices = np.minimum(random.geometric(0.2, int(pointer[-1])) - 1, n_features - 1)
    strengths = random.normal(size=len(indices)) if values else None
    labels = (indices[pointer[:-1]] + random.integers(0, 2, tokens)) % n_labels
    return Sequences(offsets, pointer, indices, strengths, labels, n_features, n_labels)


def stepped(model, theta, data, members, rate, precision, n_batches):
    """θ after a step on the sequences ``members``: residuals from marginals, token by token."""
    layout, theta = model.layout, theta.copy()
    a, b, c, d, _ = layout.bounds
    K = layout.n_labels
    edges, first, last = np.zeros((K, K)), np.zeros(K), np.zeros(K)
    counts = np.bincount(data.indices, minlength=data.n_features)
    moves = []
    for sequence in members:
        part = data.subset(np.array([sequence]))
        if not part.n_tokens:
            continue
        residual = np.eye(K)[part.labels] - model.marginals(theta, part)
        edges -= model.edge_marginals(theta, part).sum(axis=0)
        np.add.at(edges, (part.labels[:-1], part.labels[1:]), 1.0)
        first, last = first + residual[0], last + residual[-1]
        for token in range(part.n_tokens):
            for q in range(part.indptr[token], part.indptr[token + 1]):
                strength = 1.0 if part.values is None else part.values[q]
                moves.append((int(part.indices[q]), strength * residual[token]))
    for feature, change in moves:
        if layout.pair_ptr is None:
            places, labels = np.arange(feature * K, feature * K + K), np.arange(K)
        else:
            places = np.arange(layout.pair_ptr[feature], layout.pair_ptr[feature + 1])
            labels = layout.pair_labels[places]
        theta[places] = (theta[places] + rate * change[labels]) / (1 + rate * precision / counts[feature])
    less = 1 + rate * precision / n_batches
    theta[a:b] = (theta[a:b] + rate * edges.reshape(-1)[layout.transition_pairs]) / less
    if layout.start:
        theta[b:c] = (theta[b:c] + rate * first) / less
    if layout.end:
        theta[c:d] = (theta[c:d] + rate * last) / less
    return theta


@pytest.mark.parametrize(
    ("pairs", "transitions", "ends", "values"),
    [("all", "all", True, False), ("observed", "observed", False, True), ("observed", "all", True, False)],
)
def test_steps_are_those_of_the_marginals(pairs, transitions, ends, values):
    data = random_sequences(40, 5, 30, seed=1, values=values)
    model = ff.ChainCRF(5, 30, pairs=pairs, transitions=transitions, start=ends, end=ends).observe(data)
    problem = ChainProblem(model.layout, data, WHOLE)
    assert problem.tokens.n_hot > 0
    batches = problem.batches(0.7)
    theta = np.random.default_rng(2).normal(size=model.n_parameters)
    expected = theta.copy()
    for batch, rate in ((3, 0.3), (0, 0.1), (batches.n_batches - 1, 0.2)):
        before = theta.copy()
        value = batches.walk(theta, np.array([batch]), np.array([rate]))
        members = np.flatnonzero(batches._values)
        members = members[np.argsort(-np.diff(data.offsets)[members], kind="stable")]  # longest first, as they go
        assert 1 <= len(members) <= 4
        np.testing.assert_allclose(value, -model.log_likelihood(before, data.subset(members)).sum(), rtol=1e-12)
        expected = stepped(model, expected, data, members, rate, 0.7, batches.n_batches)
        np.testing.assert_allclose(theta, expected, rtol=0, atol=1e-10)
    assert not np.array_equal(theta, before)


def test_all_batches_together_are_all_sequences_and_rate_0_moves_nothing():
    data = random_sequences(150, 3, 12, seed=3)
    model = ff.ChainCRF(3, 12).observe(data)
    problem = ChainProblem(model.layout, data, WHOLE)
    batches = problem.batches(1.0)
    theta = np.random.default_rng(4).normal(size=model.n_parameters)
    moved = theta.copy()
    value = batches.walk(moved, np.arange(batches.n_batches), np.zeros(batches.n_batches))
    np.testing.assert_array_equal(moved, theta)
    np.testing.assert_allclose(value, -problem.value_grad(theta)[0], rtol=1e-12)
    np.testing.assert_allclose(batches.value(theta), value + 0.5 * theta @ theta, rtol=1e-12)


@pytest.mark.parametrize("policy", ["FL", "PL1 + 0.5*FL@0.3", "PL2@0.7"])
def test_a_small_step_on_every_batch_is_a_step_along_the_gradient(policy):
    data = random_sequences(120, 3, 12, seed=5)
    model = ff.ChainCRF(3, 12).observe(data)
    weight = np.random.default_rng(6).uniform(0.5, 2.0, data.n)
    bound = ff.Policy.parse(policy).bind(model.structure(data))
    problem = model.compile(data, bound.draw(0, 0, data.n))
    batches = problem.batches(0.3, weight)
    theta = np.random.default_rng(7).normal(size=model.n_parameters)
    moved, rate = theta.copy(), 1e-8
    batches.walk(moved, np.arange(batches.n_batches), np.full(batches.n_batches, rate))
    objective = Objective(problem, np.full(len(theta), 0.3), theta, np.ones(len(theta), bool), weight)
    gradient = objective.value_grad(theta)[1]
    # Steps see the weights that earlier steps have moved: an error of the order of the rate.
    used = np.abs(moved - theta) > 0
    np.testing.assert_allclose((theta - moved)[used] / rate, gradient[used], rtol=0, atol=2e-4)
    assert used.mean() > 0.8


def fitted(data, model, threads=None, **options):
    with ff.use_threads(threads):
        return ff.fit(model, data, "FL", sigma2=1.0, method="sgd", **options)


@pytest.mark.slow
def test_a_fit_ends_near_the_optimum_whatever_the_threads():
    data = random_sequences(1500, 4, 40, seed=8, longest=12)
    model = ff.ChainCRF(4, 40).observe(data)
    fit = fitted(data, model)
    best = ff.fit(model, data, "FL", sigma2=1.0)
    assert fit.objective <= best.objective
    assert best.objective - fit.objective < 0.01 * abs(best.objective)
    assert not fit.converged
    assert "0.3%" in fit.message
    assert fit.convergence.iterations < 40
    np.testing.assert_array_equal(fitted(data, model, threads=2).theta, fitted(data, model, threads=1).theta)
    assert not np.array_equal(fitted(data, model, random_state=1).theta, fit.theta)
    again = ff.fit(model, data, "FL", sigma2=1.0, start=fit.theta)
    np.testing.assert_allclose(again.theta, best.theta, atol=1e-3)


def test_rates_suit_features_of_any_size():
    data = random_sequences(300, 3, 12, seed=9)
    large = Sequences(data.offsets, data.indptr, data.indices, np.full(len(data.indices), 100.0), data.labels, 12, 3)
    model = ff.ChainCRF(3, 12).observe(large)
    fit = fitted(large, model, max_iter=30)
    assert fit.objective > ff.ChainCRF(3, 12).observe(data).log_likelihood(np.zeros(model.n_parameters), data).sum()


def test_what_stochastic_gradients_cannot_do_is_refused():
    data = random_sequences(20, 3, 5, seed=10)
    model = ff.ChainCRF(3, 5).observe(data)
    some = model.parameter_names[0]
    for options in ({"l1": 0.1}, {"fixed": {some: 0.0}}, {"sigma2": {some: 1.0, None: 2.0}}):
        with pytest.raises(FieldfitError, match="use method='lbfgs'"):
            ff.fit(model, data, "FL", method="sgd", **{"sigma2": 1.0, **options})  # type: ignore[arg-type]
    pairs = ff.ChainCRF(3, 5, label_pairs=True).observe(data)
    with pytest.raises(FieldfitError, match="label pairs"):
        ff.fit(pairs, data, "FL", sigma2=1.0, method="sgd")
    with pytest.raises(FieldfitError, match="chains"):
        ff.fit(ff.BoltzmannMachine(2), [[0, 1], [1, 0]], "PL1", sigma2=1.0, method="sgd")
    with pytest.raises(FieldfitError, match="number for tol"):
        ff.fit(model, data, "FL", sigma2=1.0, method="sgd", tol="statistical")
    with pytest.raises(FieldfitError, match="converges"):
        ff.fit(model, data, "PL1 + FL", sigma2=1.0, method="sgd", weights="auto")


def test_the_callback_ends_a_fit_after_an_epoch():
    data = random_sequences(100, 3, 12, seed=11)
    model = ff.ChainCRF(3, 12).observe(data)
    told = []

    def tell(state):
        told.append(state.iteration)
        return state.iteration == 2

    with pytest.warns(ConvergenceWarning):
        fit = fitted(data, model, progress=tell)
    assert told == [0, 1, 2]
    assert fit.convergence.iterations == 2
    assert Status.CALLBACK.value in fit.message
