"""Hessian and moment of the scores of dense pairwise fields by matrix products, against one product for each parameter."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.models import pairwise_curvature, sparse_moments
from fieldfit.models.pairwise import PairwiseProblem
from fieldfit.models.pairwise_curvature import curvature_matrix, has_matrix_products
from fieldfit.models.pairwise_information import is_fast, layout_codes
from fieldfit.models.problem import Problem
from fieldfit.policies import as_policy

MANY = [(a, b) for a in range(9) for b in range(a + 1, 9) if (a * b) % 3 != 1]
PATH = [(a, a + 1) for a in range(39)]


def problem_of(model: ff.BoltzmannMachine, samples: np.ndarray, policy: str) -> PairwiseProblem:
    table = model.read(samples)
    bound = as_policy(policy).bind(model.structure(table))
    problem = model.compile(table, bound.draw(0, 0, len(samples)))
    assert isinstance(problem, PairwiseProblem)
    return problem


def by_products(problem: PairwiseProblem, theta: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """The Hessian by matrix products, however few edges there are."""
    layout, m = problem._layout, problem.field.n_variables
    degrees = np.bincount(problem.field.edges.ravel(), minlength=m)
    assert has_matrix_products(layout, m, dense=problem.dense, degrees=degrees)
    codes = layout_codes(layout, m)
    matrix = curvature_matrix(
        layout, codes, problem.field.edges, *problem.field.to_field(theta), weight, dense=problem.dense
    )
    return -problem.field.congruent(matrix)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("states", [(0, 1), (-1, 1), (0.5, 2.0)])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize(
    ("m", "edges", "policy"),
    [
        (7, None, "PL1"),
        (7, None, "PL2"),
        (8, None, "PL1 + 0.3*PL2"),
        (8, None, "PL1@0.5 + 0.3*PL2@0.2"),
        (8, None, "PL1/row@0.4 + 0.3*PL2/row@0.5"),
        (9, MANY, "PL1 + 0.3*PL2@0.2"),
        (40, PATH, "PL1@0.4"),
        (40, PATH, "PL1"),
    ],
)
def test_hessian_and_scores(m, edges, policy, biases, states, weighted):
    random = np.random.default_rng(m)
    model = ff.BoltzmannMachine(m, edges=edges, biases=biases, states=states)
    theta = random.normal(scale=0.7, size=model.n_parameters)
    problem = problem_of(model, np.array(states)[random.integers(0, 2, (300, m))], policy)
    weight = random.random(300) if weighted else None
    expected = Problem.hessian_matrix(problem, theta, weight)
    np.testing.assert_allclose(by_products(problem, theta, weight), expected, atol=1e-11 * np.abs(expected).max())
    scores = problem.scores(theta, 0, 300)
    moment = (scores if weight is None else scores * weight[:, None]).T @ scores
    np.testing.assert_allclose(problem.score_moment(theta, weight), moment, atol=1e-11 * np.abs(moment).max())


@pytest.mark.parametrize("policy", ["PL1", "PL1 + 0.3*PL2", "PL2@0.3"])
@pytest.mark.parametrize("equal", [False, True])
def test_many_edges_and_equal_samples(policy, equal):
    random = np.random.default_rng(3)
    model = ff.BoltzmannMachine(31, biases=True)
    samples = (random.random((120, 31)) < 0.2).astype(int)
    if equal:
        samples[50:] = samples[random.integers(0, 50, 70)]
        samples[:20] = samples[20:40]
    problem = problem_of(model, samples, policy)
    assert not is_fast(problem._layout, 31, len(problem.field.edges))
    theta = random.normal(scale=0.3, size=model.n_parameters)
    theta[-31:] -= 1.5
    for weight in (None, random.random(120)):
        found = problem.hessian_matrix(theta, weight)
        for direction in random.normal(size=(8, len(theta))):  # an error in any entry changes all products of its row
            expected = problem.hessian_product(theta, direction, weight)
            np.testing.assert_allclose(found @ direction, expected, atol=1e-11 * np.abs(expected).max())
        np.testing.assert_array_equal(found, found.T)
        scores = problem.scores(theta, 0, 120)
        moment = (scores if weight is None else scores * weight[:, None]).T @ scores
        np.testing.assert_allclose(problem.score_moment(theta, weight), moment, atol=1e-11 * np.abs(moment).max())


@pytest.mark.parametrize("policy", ["PL1", "PL1@0.4", "PL1/row@0.5"])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("equal", [False, True])
def test_scores_of_samples_with_few_ones(policy, biases, equal, monkeypatch):
    """The sums over pairs of variables, in several parts, are the products of all scores."""
    monkeypatch.setattr(sparse_moments, "_WAITING_RESIDUALS", 2000)
    random = np.random.default_rng(5)
    model = ff.BoltzmannMachine(20, biases=biases)
    samples = (random.random((400, 20)) < 0.05).astype(int)
    problem = problem_of(model, samples[np.r_[:400, :300]] if equal else samples, policy)
    assert sparse_moments.is_sparse(samples.astype(np.uint8), len(problem.field.edges))
    theta = random.normal(scale=0.3, size=model.n_parameters)
    for weight in (None, random.random(problem.n_samples)):
        scores = problem.scores(theta, 0, problem.n_samples)
        moment = (scores if weight is None else scores * weight[:, None]).T @ scores
        np.testing.assert_allclose(problem.score_moment(theta, weight), moment, atol=1e-11 * np.abs(moment).max())


@pytest.mark.parametrize("policy", ["PL1", "PL1@0.4", "PL2", "PL2@0.3", "PL1 + 0.3*PL2"])
@pytest.mark.parametrize("states", [(0, 1), (-1, 1)])
def test_hessian_of_samples_with_few_ones(policy, states, monkeypatch):
    """Sparse pair products, in several chunks, give the Hessian of one product for each parameter."""
    monkeypatch.setattr(pairwise_curvature, "_CHUNK_NUMBERS", 1)  # chunks of 128 samples
    random = np.random.default_rng(6)
    model = ff.BoltzmannMachine(12, biases=True, states=states)
    samples = (random.random((300, 12)) < 0.08).astype(int)
    assert pairwise_curvature.has_few_ones(samples.astype(np.uint8))
    assert not pairwise_curvature.has_few_ones(1 - samples.astype(np.uint8))
    problem = problem_of(model, np.array(states)[samples], policy)
    theta = random.normal(scale=0.3, size=model.n_parameters)
    for weight in (None, random.random(300)):
        expected = Problem.hessian_matrix(problem, theta, weight)
        np.testing.assert_allclose(by_products(problem, theta, weight), expected, atol=1e-11 * np.abs(expected).max())


def test_extreme_fields_lose_nothing():
    """Conditional probabilities within 1e-100 of 0 and 1 add curvature of that size, not rounding."""
    model = ff.BoltzmannMachine(31, biases=True)
    random = np.random.default_rng(4)
    problem = problem_of(model, random.integers(0, 2, (100, 31)), "PL1 + PL2")
    theta = np.zeros(model.n_parameters)
    theta[-31:] = np.where(np.arange(31) % 2, 230.0, -230.0)
    # Without couplings every variable is alone, in its own block and in 30 pairs.
    biases = np.diag(problem.hessian_matrix(theta))[-31:]
    np.testing.assert_allclose(biases, -100 * 31 * np.exp(-230.0), rtol=1e-10)
