import itertools
import pickle

import numpy as np
import pytest
from chain_oracle import (
    FULL,
    K,
    central_gradient,
    joint_rows,
    joint_score,
    log_sum,
    mixtures,
    plain,
    random_sequences,
    random_symbols,
)

import fieldfit as ff
from fieldfit.models.boltzmann_chain import BoltzmannChain
from fieldfit.models.boltzmann_chain_problem import BoltzmannChainProblem
from fieldfit.types import DataError, ModelError

V = 2
LENGTHS = (4, 1, 0, 2, 3)


def make(seed=0):
    data = random_symbols(seed, LENGTHS, n_symbols=V)
    model = BoltzmannChain(K, V)
    return data, model, np.random.default_rng(seed + 9).normal(size=model.n_parameters)


@pytest.mark.parametrize("mixture", mixtures(LENGTHS))
def test_values_are_those_of_enumeration(mixture):
    data, model, theta = make()
    families = mixtures(LENGTHS)[mixture]
    problem = BoltzmannChainProblem(K, V, data, families)
    expected = joint_rows(model, theta, data, families)
    np.testing.assert_allclose(problem.row_values(theta), expected, atol=1e-10)
    weight = np.random.default_rng(1).normal(size=data.n_sequences)
    assert problem.value_grad(theta, weight)[0] == pytest.approx(weight @ expected, abs=1e-10)


@pytest.mark.parametrize("mixture", mixtures(LENGTHS))
def test_derivatives_are_those_of_central_differences(mixture):
    data, _, theta = make(1)
    problem = BoltzmannChainProblem(K, V, data, mixtures(LENGTHS)[mixture])
    rng = np.random.default_rng(2)
    v, weight = rng.normal(size=len(theta)), rng.normal(size=data.n_sequences)
    gradient = problem.value_grad(theta, weight)[1]
    expected = central_gradient(lambda t: weight @ problem.row_values(t), theta)
    np.testing.assert_allclose(gradient, expected, atol=1e-7)
    step = 1e-5
    ahead, behind = problem.value_grad(theta + step * v, weight)[1], problem.value_grad(theta - step * v, weight)[1]
    np.testing.assert_allclose(problem.hessian_product(theta, v, weight), (ahead - behind) / (2 * step), atol=1e-6)
    scores = problem.scores(theta, 0, data.n_sequences)
    np.testing.assert_allclose(scores @ v, problem.row_products(theta, v), atol=1e-12)
    np.testing.assert_allclose(weight @ scores, gradient, atol=1e-12)


def test_diagonal_is_exact_for_single_tokens():
    data = random_symbols(3, (1,) * 6, n_symbols=V)
    model = BoltzmannChain(K, V)
    theta = np.random.default_rng(4).normal(size=model.n_parameters)
    problem = BoltzmannChainProblem(K, V, data, (FULL,))
    exact = [-problem.hessian_product(theta, e)[i] for i, e in enumerate(np.eye(len(theta)))]
    np.testing.assert_allclose(problem.hessian_diagonal(theta), exact, atol=1e-12)


def test_full_likelihood_sums_to_one():
    model = BoltzmannChain(K, V)
    theta = np.random.default_rng(5).normal(size=model.n_parameters)
    total = 0.0
    for y in itertools.product(range(K), repeat=2):
        for x in itertools.product(range(V), repeat=2):
            data = random_symbols(0, (2,), n_symbols=V)
            data = type(data)(data.offsets, data.indptr, np.array(x, np.int32), None, np.array(y, np.int32), V, K)
            total += np.exp(model.log_likelihood(theta, data)[0])
    assert total == pytest.approx(1.0, abs=1e-12)


def test_samples_have_the_probabilities_of_the_model():
    model = BoltzmannChain(2, 2)
    theta = np.random.default_rng(3).normal(size=model.n_parameters)
    A, start, B = model.split(theta)
    states = list(itertools.product(range(2), repeat=4))  # y1, x1, y2, x2
    scores = [start[y] + B[y, x] + A[y, z] + B[z, w] for y, x, z, w in states]
    probability = np.exp(scores) / np.exp(scores).sum()
    n = 40_000
    drawn = model.sample(theta, [2] * n, random_state=5)
    tokens = np.stack([drawn.labels, drawn.indices], axis=1).reshape(n, 4)
    counts = np.bincount(tokens @ [8, 4, 2, 1], minlength=16) / n
    # Sixteen cells beyond five standard errors: an error probability below 1e-5.
    assert (np.abs(counts - probability) < 5 * np.sqrt(probability * (1 - probability) / n)).all()
    assert (model.sample(theta, [2] * n, random_state=5).labels == drawn.labels).all()
    assert model.sample(theta, [0, 3]).n_sequences == 2
    for lengths in (3, [1.5], [-1]):
        with pytest.raises(ModelError, match="number of tokens of each sequence"):
            model.sample(theta, lengths)


def test_prediction_given_the_symbols():
    data, model, theta = make(2)
    A, start, B = model.split(theta)
    labels, marginals = model.predict(theta, data), model.marginals(theta, data)
    edges, (best, log_probability) = model.edge_marginals(theta, data), model.n_best(theta, data, 2)
    assert model.posterior_decode(theta, data).tolist() == marginals.argmax(axis=1).tolist()
    for i in range(data.n_sequences):
        tokens = slice(data.offsets[i], data.offsets[i + 1])
        x = data.indices[tokens].tolist()
        if not x:
            continue
        paths = list(itertools.product(range(K), repeat=len(x)))
        scores = np.array([joint_score(A, start, B, y, x) for y in paths])
        assert labels[tokens].tolist() == list(paths[int(scores.argmax())])
        p = np.exp(scores - log_sum(scores))
        expected = [[p[[y[t] == k for y in paths]].sum() for k in range(K)] for t in range(len(x))]
        np.testing.assert_allclose(marginals[tokens], expected, atol=1e-12)
        order = np.argsort(-p)
        assert best[:, tokens].tolist() == [list(paths[place]) for place in order[:2]]
        np.testing.assert_allclose(log_probability[i], np.log(p[order[:2]]), atol=1e-10)
        for t in range(1, len(x)):
            pair = [[p[[y[t - 1] == j and y[t] == k for y in paths]].sum() for k in range(K)] for j in range(K)]
            np.testing.assert_allclose(edges[data.offsets[i] + t], pair, atol=1e-12)


def test_weights_of_a_thousand_stay_finite():
    data, model, theta = make(3)
    theta = np.where(theta > 0, 1000.0, -1000.0)
    problem = BoltzmannChainProblem(K, V, data, mixtures(LENGTHS)["PL1@.5 + PL2@.7 + FL@.3"])
    value, gradient = problem.value_grad(theta)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    families = mixtures(LENGTHS)["PL1@.5 + PL2@.7 + FL@.3"]
    np.testing.assert_allclose(
        problem.row_values(theta), joint_rows(model, theta, data, families), rtol=1e-12, atol=1e-10
    )


def test_specification_pickle_and_names():
    data, model, theta = make(4)
    problem = BoltzmannChainProblem(K, V, data, (FULL, plain(1)))
    again = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(again.value_grad(theta)[1], problem.value_grad(theta)[1])
    assert list(BoltzmannChain.from_specification(*model.specification()).parameter_names) == list(
        model.parameter_names
    )
    assert list(BoltzmannChain(2, 1, labels="ab", symbols="x").parameter_names) == [
        "a->a", "a->b", "b->a", "b->b", "^->a", "^->b", "a:x", "b:x",
    ]  # fmt: skip


def test_bad_input_is_refused():
    with pytest.raises(ModelError, match="number of labels is 0"):
        BoltzmannChain(0, 3)
    with pytest.raises(DataError, match="each token has one"):
        BoltzmannChain(K, 5).read(random_sequences())
    with pytest.raises(DataError, match="encode them with"):
        BoltzmannChain(K, 7).read(random_symbols())


def test_names_of_parameters_are_readable():
    assert repr(ff.BoltzmannChain(2, 3).parameter_names).startswith("<12 names of parameters: 'y0->y0', 'y0->y1',")
    with pytest.raises(ModelError, match=r"Chains and conditional models need data: ff\.plan"):
        ff.theory(ff.BoltzmannChain(2, 3), np.zeros(12), "PL1")  # type: ignore[arg-type]
