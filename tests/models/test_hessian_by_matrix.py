"""Hessian products of the full likelihood where the Hessian itself costs no more than one of them."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.models.problem import Problem
from fieldfit.objective import Objective
from fieldfit.policies import Policy


def full_likelihood(model: ff.BoltzmannMachine, x: np.ndarray) -> Problem:
    problem: Problem = model.compile(model.read(x), Policy.parse("FL").bind(model.structure()).draw(0, 0, len(x)))
    return problem


def dense(states: int = 60) -> tuple[Problem, np.ndarray]:
    model = ff.BoltzmannMachine(14, biases=True)
    theta = np.random.default_rng(0).normal(scale=0.3, size=model.n_parameters)
    return full_likelihood(model, np.asarray(model.sample(theta, states, 1).values)), theta


def test_products_are_those_of_the_problem_at_every_point() -> None:
    problem, theta = dense()
    random = np.random.default_rng(1)
    precision, weight = random.uniform(size=len(theta)), random.uniform(0.5, 2.0, 60)
    free = random.uniform(size=len(theta)) < 0.8
    objective = Objective(problem, precision, theta, free, weight)
    assert objective.by_matrix
    for point in (theta, theta + 0.1, theta):  # a matrix that was kept must not serve another point
        x, v = point[free], random.normal(size=int(free.sum()))
        direction = np.zeros_like(theta)
        direction[free] = v
        expected = precision * direction - problem.hessian_product(objective.full(x), direction, weight)
        np.testing.assert_allclose(objective.hessian_product(x, v), expected[free], atol=1e-10)


def test_one_matrix_serves_all_products_at_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, theta = dense()
    points = []
    hessian_matrix = type(problem).hessian_matrix

    def counted(self: Problem, at: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        points.append(at)
        return hessian_matrix(self, at, weight)

    monkeypatch.setattr(type(problem), "hessian_matrix", counted)
    everything = np.ones(len(theta), dtype=bool)
    solution = Objective(problem, np.full(len(theta), 0.1), np.zeros(len(theta)), everything).minimise(
        gtol=1e-6, max_iter=100
    )
    assert solution.converged
    assert solution.hessian_products > 2 * len(points)
    assert len(points) <= solution.iterations


def test_sums_over_a_sparse_graph_keep_their_products() -> None:
    """A chain has 2^18 states, and a sum that takes a few hundred products: its Hessian is made of those."""
    model = ff.BoltzmannMachine(18, [(v, v + 1) for v in range(17)], biases=True)
    theta = np.random.default_rng(0).normal(scale=0.3, size=model.n_parameters)
    problem = full_likelihood(model, np.asarray(model.sample(theta, 60, 1).values))
    assert problem.hessian_evaluations == 2 * model.n_parameters
    objective = Objective(problem, np.zeros(len(theta)), theta, np.ones(len(theta), dtype=bool))
    assert not objective.by_matrix
    np.testing.assert_allclose(problem.hessian_matrix(theta), Problem.hessian_matrix(problem, theta), atol=1e-10)
