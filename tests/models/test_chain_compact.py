"""Chains that list the features of a sequence when they need them: the sums of those with lists of all tokens."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from chain_oracle import K, mixtures, plain, random_sequences, without_runs

import fieldfit as ff
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.models.triple_problem import TripleProblem
from fieldfit.threads import use_threads

OPTIONS = [
    {"pairs": "all"},
    {"pairs": "observed", "transitions": "observed"},
    {"pairs": "all", "label_pairs": True},
    {"pairs": "observed", "start": False, "end": False},
]
#: Some features are frequent enough for the table of hot ones, the others are not.
LENGTHS = tuple(np.random.default_rng(0).integers(0, 30, 60).tolist())


def sums(problem: ChainProblem, theta, weight):
    """All that a problem computes."""
    v = np.random.default_rng(3).normal(size=len(theta))
    value, gradient = problem.value_grad(theta, weight)
    return {
        "value": value,
        "gradient": gradient,
        "product": problem.hessian_product(theta, v, weight),
        "diagonal": problem.hessian_diagonal(theta, weight),
        "values": problem.row_values(theta),
        "slopes": problem.row_products(theta, v),
        "scores": problem.family_scores(theta, 2, 9),
    }


def same(one, other):
    for name, numbers in one.items():
        np.testing.assert_allclose(other[name], numbers, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("valued", [False, True])
def test_all_sums_are_those_with_lists(options, valued, monkeypatch):
    monkeypatch.setattr("fieldfit.threads.SMALL_WORK", 0)
    data = random_sequences(3, LENGTHS, n_features=3_000, valued=valued)
    indices = data.indices.copy()
    indices[::3] %= 20
    data = replace(data, indices=indices)
    model = ff.ChainCRF(K, data.n_features, **options).observe(data)
    random = np.random.default_rng(4)
    theta, weight = random.normal(size=model.n_parameters), random.random(data.n_sequences)
    for families in (*mixtures(np.array(LENGTHS)).values(), (plain(0),)):
        lists, compact = (ChainProblem(model.layout, data, families) for _ in range(2))
        compact = compact.compact()
        assert 0 < compact.tokens.n_hot < len(np.unique(data.indices))
        with use_threads(1):
            one = sums(compact, theta, weight)
            same(sums(lists, theta, weight), one)
        with use_threads(2):
            two = sums(compact, theta, weight)
        for name, numbers in one.items():
            np.testing.assert_array_equal(two[name], numbers, err_msg=name)
        at_zero = random.random(model.n_parameters) < 0.7
        at_zero[model.layout.n_state :] = False
        for whole in (lists, compact):
            smaller, places = whole.without(at_zero)
            few = np.where(at_zero, 0.0, theta)
            np.testing.assert_allclose(
                smaller.value_grad(few[places], weight)[1],
                lists.value_grad(few, weight)[1][places],
                rtol=1e-12,
                atol=1e-12,
            )


@pytest.mark.parametrize("pairs", ["all", "observed"])
def test_stochastic_steps_and_second_order_chains_too(pairs):
    data = random_sequences(5, LENGTHS, n_features=300)
    model = ff.ChainCRF(K, data.n_features, pairs=pairs).observe(data)
    results: list[np.ndarray] = []
    for problem in (ChainProblem(model.layout, data, (plain(0),)) for _ in range(2)):
        used = problem.compact() if results else problem
        theta = np.random.default_rng(6).normal(size=model.n_parameters)
        batches = used.batches(0.5)
        value = batches.walk(theta, np.arange(batches.n_batches), np.full(batches.n_batches, 0.1))
        results.append(np.append(theta, value))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-12, atol=1e-12)
    data = without_runs(random_sequences(8, (4, 6) * 30))
    model = ff.ChainCRF(K, data.n_features, order=2, pairs=pairs).observe(data)
    theta = np.random.default_rng(7).normal(size=model.n_parameters)
    lists, compact = (TripleProblem(model.layout, data, (plain(0),)) for _ in range(2))
    np.testing.assert_allclose(
        compact.compact().value_grad(theta)[1], lists.value_grad(theta)[1], rtol=1e-12, atol=1e-12
    )


# Four of the long ones do not fit the memory of sequences that go together. With 22 labels, those which go together are
# sorted by length 64 at a time, and the last short ones of one such group are next to the long ones of the next.
@pytest.mark.parametrize("pairs", ["all", "observed"])
@pytest.mark.parametrize(
    ("labels", "lengths"),
    [(70, (60, 3, 58, 61, 60, 0, 59, 1, 2, 60)), (22, ((200,) * 3 + (5,) * 61) * 4)],
)
def test_long_sequences_with_many_labels_are_those_of_single_sequences(pairs, labels, lengths):
    data = random_sequences(9, lengths, n_labels=labels, n_features=50)
    model = ff.ChainCRF(labels, data.n_features, pairs=pairs).observe(data)
    theta = 0.3 * np.random.default_rng(1).normal(size=model.n_parameters)
    problem = ChainProblem(model.layout, data, (plain(0), plain(2, 0.4)))
    value, gradient = problem.value_grad(theta)
    parts = [
        ChainProblem(model.layout, data.subset([row]), problem.families).value_grad(theta)
        for row in range(len(lengths))
    ]
    assert value == pytest.approx(sum(part for part, _ in parts), rel=1e-12)
    np.testing.assert_allclose(gradient, np.sum([part for _, part in parts], axis=0), rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairs", "valued", "compact"),
    [
        pytest.param(pairs, valued, compact, marks=() if valued == compact == (pairs == "all") else pytest.mark.slow)
        for pairs, valued, compact in product(("all", "observed"), (False, True), (False, True))
    ],
)
def test_ranges_of_features_that_are_summed_side_by_side_change_no_bit(pairs, valued, compact, monkeypatch):
    """Enough data for six chunks and more: six threads sum three ranges of features side by side."""
    monkeypatch.setattr("fieldfit.models.chain_problem.BLOCK_TOKENS", 800)
    random = np.random.default_rng(0)
    lengths = random.integers(20, 60, 60)
    data = random_sequences(1, lengths, n_features=60_000)
    indptr = 600 * np.arange(data.n_tokens + 1)
    indices = random.integers(0, data.n_features, indptr[-1]).astype(np.int32)
    data = replace(data, indptr=indptr, indices=indices, values=random.random(len(indices)) if valued else None)
    model = ff.ChainCRF(K, data.n_features, pairs=pairs).observe(data)
    problem = ChainProblem(model.layout, data, (plain(0),))
    problem = problem.compact() if compact else problem
    assert problem.tokens.n_chunks >= 6
    assert problem.tokens.n_blocks > 1
    theta, v = 0.01 * random.normal(size=(2, model.n_parameters))
    results = []
    for threads in (1, 2, 4, 6):
        with use_threads(threads):
            results.append((problem.value_grad(theta)[1], problem.hessian_product(theta, v)))
    for result in results[1:]:
        for own, one in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(own, one)
    step = 1e-4
    rise = (problem.value_grad(theta + step * v)[0] - problem.value_grad(theta - step * v)[0]) / (2 * step)
    assert rise == pytest.approx(results[0][0] @ v, rel=1e-6)
