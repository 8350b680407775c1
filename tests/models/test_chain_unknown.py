"""Unknown labels in training: the log of the summed probability, its derivatives, and the windows that do not count."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from chain_oracle import FULL, K, central_gradient, composite, crf_tables, mixtures, plain, random_sequences

from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.threads import set_threads
from fieldfit.types import DataError

OPTIONS: dict[str, Any] = {
    "all pairs": {"pairs": "all"},
    "as CRFsuite": {"transitions": "observed", "start": False, "end": False},
    "label pairs": {"label_pairs": True},
}
# Runs at the start, in the middle and at the end of a sequence, several in one, all of it, and none.
LENGTHS = (5, 1, 0, 6, 6, 4, 3, 1, 5)
UNKNOWN: tuple[list[int], ...] = ([0, 2], [], [], [1, 2, 5], [0, 1, 2], [0, 1, 2, 3], [], [0], [4])


def partial_sequences(lengths=LENGTHS, unknown=UNKNOWN, **options):
    data = random_sequences(8, lengths=lengths, **options)
    labels = data.labels.copy()
    for first, places in zip(data.offsets[:-1].tolist(), unknown, strict=True):
        labels[[first + place for place in places]] = -1
    return replace(data, labels=labels)


def make(options):
    data = partial_sequences()
    model = ChainCRF(K, data.n_features, **OPTIONS[options]).observe(data)
    return data, model, np.random.default_rng(1).normal(size=model.n_parameters)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("mixture", mixtures(LENGTHS))
def test_values_are_those_of_enumeration(options, mixture):
    data, model, theta = make(options)
    families = mixtures(LENGTHS)[mixture]
    problem = ChainProblem(model.layout, data, families)
    expected = composite(lambda i: crf_tables(model, theta, data, i), data, families)
    np.testing.assert_allclose(problem.row_values(theta), expected, rtol=0, atol=1e-10)
    weight = np.random.default_rng(3).normal(size=data.n_sequences)
    assert problem.value_grad(theta, weight)[0] == pytest.approx(weight @ expected, abs=1e-10)
    # Nothing is known of these two, so nothing is learned from them.
    assert problem.row_values(theta)[5] == problem.row_values(theta)[7] == 0.0


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    "mixture", ["FL", "PL1", "PL2", "PL1@.5 + PL2@.7 + FL@.3", "rows", "sparse", "sparse and FL"]
)
def test_derivatives_are_those_of_central_differences(options, mixture):
    data, model, theta = make(options)
    problem = ChainProblem(model.layout, data, mixtures(LENGTHS)[mixture])
    rng = np.random.default_rng(5)
    v, weight = rng.normal(size=len(theta)), rng.normal(size=data.n_sequences)
    np.testing.assert_allclose(
        problem.value_grad(theta, weight)[1],
        central_gradient(lambda t: weight @ problem.row_values(t), theta),
        rtol=0,
        atol=1e-7,
    )
    step = 1e-5
    ahead, behind = (problem.value_grad(theta + sign * step * v, weight)[1] for sign in (1, -1))
    np.testing.assert_allclose(
        problem.hessian_product(theta, v, weight), (ahead - behind) / (2 * step), rtol=0, atol=1e-6
    )
    moved = (problem.row_values(theta + step * v) - problem.row_values(theta - step * v)) / (2 * step)
    np.testing.assert_allclose(problem.row_products(theta, v), moved, rtol=0, atol=1e-7)


@pytest.mark.parametrize("options", OPTIONS)
def test_scores_of_sequences_add_up(options):
    data, model, theta = make(options)
    problem = ChainProblem(model.layout, data, mixtures(LENGTHS)["PL1@.5 + PL2@.7 + FL@.3"])
    v = np.random.default_rng(6).normal(size=len(theta))
    scores = problem.scores(theta, 0, data.n_sequences)
    np.testing.assert_allclose(scores.sum(axis=0), problem.value_grad(theta)[1], atol=1e-12)
    np.testing.assert_allclose(scores @ v, problem.row_products(theta, v), atol=1e-12)


def test_the_objective_is_not_concave_and_its_diagonal_stays_positive():
    data, model, theta = make("all pairs")
    problem = ChainProblem(model.layout, data, (FULL,))
    hessian = np.array([problem.hessian_product(theta, e) for e in np.eye(len(theta))])
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)
    assert np.linalg.eigvalsh(hessian).max() > 1e-3
    assert problem.hessian_diagonal(theta).min() >= 0


def test_log_space_gives_the_same():
    # Scores of hundreds underflow in probability space: those segments and runs go through log space.
    lengths, unknown = (6, 5), ([1, 2, 4], [0, 3])
    data = partial_sequences(lengths, unknown)
    model = ChainCRF(K, data.n_features, pairs="all")
    theta = np.random.default_rng(2).normal(size=model.n_parameters) * 400
    families = mixtures(lengths)["PL1@.5 + PL2@.7 + FL@.3"]
    problem = ChainProblem(model.layout, data, families)
    expected = composite(lambda i: crf_tables(model, theta, data, i), data, families)
    np.testing.assert_allclose(problem.row_values(theta), expected, rtol=1e-12, atol=1e-9)
    value, gradient = problem.value_grad(theta)
    assert value == pytest.approx(expected.sum(), rel=1e-12)
    assert np.isfinite(gradient).all()


def test_runs_of_any_length_and_number_keep_their_bits_on_two_threads():
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, 80)
    data = random_sequences(2, lengths=lengths, n_labels=5, n_features=50)
    labels = np.where(rng.random(data.n_tokens) < 0.6, -1, data.labels)
    data = replace(data, labels=labels)
    model = ChainCRF(5, 50).observe(data)
    theta = rng.normal(size=model.n_parameters)
    problem = ChainProblem(model.layout, data, (FULL, plain(1, 0.3), plain(4, 0.2)))
    answers = []
    for threads in (1, 2):
        set_threads(threads)
        try:
            value, gradient = problem.value_grad(theta)
            answers.append((value, gradient, problem.hessian_product(theta, gradient), problem.row_values(theta)))
        finally:
            set_threads(None)
    for one, two in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, two)
    # The same in another way: log Z with the known labels fixed, minus log Z.
    chains = model.scored(theta, data)
    expected = chains.fix(data.labels).marginals()[1] - chains.marginals()[1]
    np.testing.assert_allclose(ChainProblem(model.layout, data, (FULL,)).row_values(theta), expected, atol=1e-10)
    np.testing.assert_allclose(model.log_likelihood(theta, data), expected, atol=1e-10)


def test_a_known_label_more_never_raises_the_likelihood():
    data, model, theta = make("all pairs")
    full = random_sequences(8, lengths=LENGTHS)
    assert (model.log_likelihood(theta, full) <= model.log_likelihood(theta, data) + 1e-12).all()


def test_simulated_labels_are_unknown_where_the_given_ones_are():
    data, model, theta = make("all pairs")
    drawn = model.simulate(data, theta, 1)
    np.testing.assert_array_equal(drawn.labels < 0, data.labels < 0)
    assert (drawn.labels != data.labels).any()
    bare = replace(data, labels=np.full_like(data.labels, -1))
    full = model.simulate(bare, theta, 1)
    assert full.labels.min() >= 0
    known = data.labels >= 0
    np.testing.assert_array_equal(full.labels[known], drawn.labels[known])


def test_training_without_any_label_is_refused():
    data = random_sequences(8)
    nothing = replace(data, labels=np.full_like(data.labels, -1))
    for model in (ChainCRF(K, data.n_features), ChainCRF(K, data.n_features, pairs="all")):
        with pytest.raises(DataError, match="None of the 16 tokens has a known label"):
            model.complete(nothing)
