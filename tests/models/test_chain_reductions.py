"""Smaller chains with the same fit: symbols that training lacks share a weight, features that it lacks are left out."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.chains import Sequences
from fieldfit.types import DataError, ModelError

OFFSETS, LABELS = [0, 3, 5, 9], [0, 1, 1, 0, 1, 1, 0, 0, 1]


def sequences(symbols, n_symbols):
    return Sequences(OFFSETS, np.arange(10), symbols, None, LABELS, n_symbols, 2)  # type: ignore[arg-type]


def test_a_shared_symbol_has_the_likelihood_of_the_whole_chain():
    whole = ff.BoltzmannChain(2, 6)
    reduced = ff.BoltzmannChain(2, 4, unseen=3)
    theta = np.random.default_rng(0).normal(size=reduced.n_parameters)
    A, start, B = reduced.split(theta)
    full = np.concatenate([A.ravel(), start, np.column_stack([B[:, :3], *[B[:, 3]] * 3]).ravel()])
    assert reduced.parameter_copies.sum() == whole.n_parameters
    symbols = np.array([0, 1, 2, 2, 1, 5, 3, 0, 4])
    expected = whole.log_likelihood(full, sequences(symbols, 6))
    np.testing.assert_allclose(
        reduced.log_likelihood(theta, sequences(np.minimum(symbols, 3), 4)), expected, rtol=1e-12
    )
    assert np.exp(expected).sum() < 1


def test_labels_and_symbols_are_drawn_as_by_the_whole_chain():
    reduced, whole = ff.BoltzmannChain(2, 3, unseen=4), ff.BoltzmannChain(2, 6)
    theta = np.random.default_rng(1).normal(size=reduced.n_parameters)
    A, start, B = reduced.split(theta)
    full = np.concatenate([A.ravel(), start, np.column_stack([B[:, :2], *[B[:, 2]] * 4]).ravel()])
    n = 4000
    lengths = np.arange(0, 2 * n + 1, 2)

    def drawn(model, values):
        empty = Sequences(lengths, np.arange(2 * n + 1), np.zeros(2 * n, int), None, np.zeros(2 * n, int),
                             model.n_symbols, 2)  # fmt: skip
        result = model.simulate(empty, values, 3)
        return np.bincount(result.labels * 3 + np.minimum(result.indices, 2), minlength=6) / (2 * n)

    # Tokens of a sequence depend on each other, so a frequency varies at most as one of 4,000: 5 standard errors.
    np.testing.assert_allclose(drawn(reduced, theta), drawn(whole, full), atol=5 * np.sqrt(2 * 0.25 / n))


def test_a_symbol_stands_for_at_least_one():
    with pytest.raises(ModelError, match="from 1 to"):
        ff.BoltzmannChain(2, 4, unseen=0)


@pytest.mark.parametrize("policy", ["PL1 + 0.5*PL2@0.3", "FL"])
def test_windows_with_a_shared_symbol_have_the_values_of_the_whole_chain(policy):
    whole, reduced = ff.BoltzmannChain(2, 6), ff.BoltzmannChain(2, 4, unseen=3)
    theta = np.random.default_rng(4).normal(size=reduced.n_parameters)
    A, start, B = reduced.split(theta)
    full = np.concatenate([A.ravel(), start, np.column_stack([B[:, :3], *[B[:, 3]] * 3]).ravel()])
    symbols = np.array([0, 1, 2, 2, 1, 5, 3, 0, 4])
    problems = []
    for model, codes in ((whole, symbols), (reduced, np.minimum(symbols, 3))):
        data = sequences(codes, model.n_symbols)
        problems.append(model.compile(data, ff.Policy.parse(policy).bind(model.structure(data)).draw(1, 0, 3)))
    weight = np.array([0.5, 2.0, 1.0])
    np.testing.assert_allclose(problems[1].row_values(theta), problems[0].row_values(full), rtol=1e-12)
    values = [problem.value_grad(at, weight)[0] for problem, at in zip(problems, (full, theta), strict=True)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_a_shared_symbol_is_saved_and_its_derivatives_are_right(tmp_path):
    model = ff.BoltzmannChain(2, 4, unseen=7)
    data = sequences([0, 1, 2, 2, 1, 0, 0, 0, 1], 4)
    fit = ff.fit(model, data, "PL1 + 0.5*PL2", weights=[0.3, 0.7], sigma2=3.0 / model.parameter_copies, tol=1e-10)
    fit.save(tmp_path / "fit")
    np.testing.assert_array_equal(ff.load(tmp_path / "fit").model.parameter_copies, model.parameter_copies)
    random = np.random.default_rng(2)
    theta, v = random.normal(size=(2, model.n_parameters))
    problem = fit.problem
    (up, gradient_up), (down, gradient_down) = (problem.value_grad(theta + h * v) for h in (1e-5, -1e-5))
    assert (up - down) / 2e-5 == pytest.approx(problem.value_grad(theta)[1] @ v, rel=1e-7)
    np.testing.assert_allclose((gradient_up - gradient_down) / 2e-5, problem.hessian_product(theta, v), atol=1e-7)
    scores = problem.scores(theta, 0, 3)
    np.testing.assert_allclose(scores.sum(axis=0), problem.value_grad(theta)[1], atol=1e-10)
    np.testing.assert_allclose(problem.row_products(theta, v), scores @ v, atol=1e-10)


@pytest.mark.parametrize("pairs", ["observed", "all"])
def test_features_without_tokens_are_left_out(pairs):
    data = sequences([0, 4, 2, 2, 4, 0, 0, 0, 4], 6)
    whole = ff.ChainCRF(2, 6, pairs=pairs).observe(data)
    kept = whole.keep_features([0, 2, 4])
    codes = np.array([0, -1, 1, -1, 2, -1])
    fits = [ff.fit(m, d, "PL1", sigma2=2.0, tol=1e-10) for m, d in ((whole, data), (kept, data.recode(codes, 3)))]
    assert fits[0].objective == pytest.approx(fits[1].objective, abs=1e-9)
    assert set(fits[1].theta.round(6)) <= set(fits[0].theta.round(6))
    with pytest.raises(ModelError, match="ascending"):
        whole.keep_features([2, 0])
    with pytest.raises(DataError, match="one code for each of 6"):
        data.recode([0, 1], 2)
