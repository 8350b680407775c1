"""The preconditioners of pairwise fields: near the inverse Hessian, positive, and worth their cost on correlated data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.models.node_blocks import NodeBlocks
from fieldfit.models.pairwise import PairwiseProblem
from fieldfit.models.potts_problem import PottsProblem
from fieldfit.models.reduced_blocks import ReducedBlocks
from fieldfit.objective import Objective
from fieldfit.optim import minimise
from fieldfit.policies import Policy


def correlated(n: int, m: int, seed: int = 0) -> np.ndarray:
    """Binary rows of long runs: a threshold of a smooth random curve."""
    random = np.random.default_rng(seed)
    steps = random.normal(size=(n, m)).cumsum(axis=1) / np.sqrt(m) + random.normal(size=(n, 1))
    return np.asarray(steps + 0.1 * random.normal(size=(n, m)) > 0, dtype=int)


def objective(model: ff.BoltzmannMachine, codes: np.ndarray, sigma2: float, weight=None) -> Objective:
    data = model.read(codes)
    problem = model.compile(data, Policy.parse("PL1").bind(model.structure()).draw(0, 0, len(codes)))
    r = model.n_parameters
    return Objective(problem, np.full(r, 1 / sigma2), np.zeros(r), np.ones(r, dtype=bool), weight)


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("states", [(0, 1), (-1, 1)])
def test_blocks_solve_with_the_hessian(states, biases) -> None:
    model = ff.BoltzmannMachine(12, biases=biases, states=states)
    codes = np.array(states)[correlated(600, 12)]
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 600)
    own = objective(model, codes, 0.8, weight)
    random = np.random.default_rng(2)
    theta, v = random.normal(size=(2, model.n_parameters)) * 0.3
    found = own.problem.late_preconditioner(theta, own.precision, weight)
    assert isinstance(found, NodeBlocks)
    hessian = -own.problem.hessian_matrix(theta, weight) + np.diag(own.precision)
    exact = np.linalg.solve(hessian, v)
    error = replace(found, accuracy=0.01)(v) - exact
    assert np.sqrt(error @ hessian @ error) < 0.02 * np.sqrt(exact @ hessian @ exact)
    # A product with the blocks is a product with the Hessian, up to single precision and the ridge.
    np.testing.assert_allclose(found.product(v), hessian @ v, rtol=1e-4, atol=1e-3)


def test_blocks_on_a_graph_with_missing_edges() -> None:
    edges = [(j, k) for j in range(9) for k in range(j + 1, 9) if (j, k) not in {(0, 1), (3, 7)}]
    model = ff.BoltzmannMachine(9, edges, biases=True)
    own = objective(model, correlated(400, 9), 1.0)
    v = np.random.default_rng(2).normal(size=model.n_parameters)
    found = own.problem.late_preconditioner(np.zeros(model.n_parameters), own.precision)
    assert isinstance(found, NodeBlocks)
    hessian = -own.problem.hessian_matrix(np.zeros(model.n_parameters)) + np.diag(own.precision)
    exact = np.linalg.solve(hessian, v)
    assert np.linalg.norm(replace(found, accuracy=0.01)(v) - exact) < 0.05 * np.linalg.norm(exact)


def test_reduced_blocks_in_all_directions_are_the_blocks() -> None:
    random = np.random.default_rng(0)
    design = np.concatenate([correlated(80, 10), np.ones((80, 1))], axis=1).astype(np.float32)
    variance = random.uniform(0.0, 0.25, (80, 10)).astype(np.float32)
    w = random.normal(size=(10, 11)).astype(np.float32)
    products = ReducedBlocks.of(design, variance, 11).products(w)  # so few samples that none is left out
    for j in range(10):
        np.testing.assert_allclose(products[j], (design.T * variance[:, j]) @ (design @ w[j]), rtol=1e-4, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("biases", [False, True])
def test_reduced_blocks_are_near_the_hessian_on_correlated_data(biases, monkeypatch) -> None:
    m = 40
    monkeypatch.setattr("fieldfit.models.node_blocks.MOST_NODE_BLOCK_BYTES", 4 * m * 24**2)
    monkeypatch.setattr("fieldfit.models.node_blocks.LEAST_DIRECTIONS", 24)
    model = ff.BoltzmannMachine(m, biases=biases)
    own = objective(model, correlated(1000, m), 1.0)
    theta = np.random.default_rng(2).normal(size=model.n_parameters) * 0.1
    found = own.problem.late_preconditioner(theta, own.precision)
    assert isinstance(found, NodeBlocks)
    assert isinstance(found.blocks, ReducedBlocks)
    assert found.blocks.basis.shape[1] == 24
    hessian = -own.problem.hessian_matrix(theta) + np.diag(own.precision)
    exact = replace(found, accuracy=1e-4)
    inverse = np.array([exact(unit) for unit in np.eye(model.n_parameters)])
    np.testing.assert_allclose(inverse, inverse.T, atol=1e-3 * np.abs(inverse).max())
    root = np.linalg.cholesky(hessian)
    ratios = np.linalg.eigvalsh(root.T @ (inverse + inverse.T) / 2 @ root)
    assert ratios.min() > 0.3
    assert ratios.max() < 3.0


@pytest.mark.slow
def test_reduced_blocks_save_evaluations(monkeypatch) -> None:
    from sklearn.datasets import load_digits

    images = (load_digits().data > 7).astype(int)
    images = images[:, (images.min(axis=0) < 1) & (images.max(axis=0) > 0)]
    n, m = images.shape
    monkeypatch.setattr("fieldfit.models.node_blocks.MOST_NODE_BLOCK_BYTES", 4 * m * 32**2)
    monkeypatch.setattr("fieldfit.models.node_blocks.LEAST_DIRECTIONS", 32)
    own = objective(ff.BoltzmannMachine(m, biases=True), images, 1.0)
    near = own.preconditioner
    assert near is not None
    start = np.zeros(len(own.precision))
    staged = minimise(own.value_grad, start, preconditioner=near, gtol=1e-6 * n)
    assert staged.converged
    assert staged.evaluations <= 40


def test_where_there_are_no_blocks() -> None:
    model = ff.BoltzmannMachine(8)
    data = model.read(correlated(100, 8))
    for text in ("PL2", "0.5*PL1"):
        problem = model.compile(data, Policy.parse(text).bind(model.structure()).draw(0, 0, 100))
        assert isinstance(problem, PairwiseProblem)
        assert problem.late_preconditioner(np.zeros(28), np.zeros(28)) is None


@pytest.mark.slow
def test_images_of_digits_need_few_evaluations() -> None:
    from sklearn.datasets import load_digits

    images = (load_digits().data > 7).astype(int)
    images = images[:, (images.min(axis=0) < 1) & (images.max(axis=0) > 0)]
    n, m = images.shape
    model = ff.BoltzmannMachine(m, biases=True)
    own = objective(model, images, 1.0)
    start = np.zeros(model.n_parameters)
    near = own.preconditioner
    assert near is not None
    staged = minimise(own.value_grad, start, preconditioner=near, gtol=1e-6 * n)
    plain = minimise(own.value_grad, start, preconditioner=lambda v: near(v), gtol=1e-6 * n)  # the first stage only
    assert staged.converged
    assert staged.evaluations <= 40 < plain.evaluations / 2
    assert staged.value == pytest.approx(plain.value, rel=1e-8)


def test_the_centred_operator_of_a_potts_field_is_symmetric_and_positive() -> None:
    model = ff.Potts(6, 4)
    random = np.random.default_rng(0)
    codes = (random.integers(0, 2, (300, 6)) + random.integers(0, 3, (300, 1))).clip(0, 3)
    parts = Policy.parse("PL1@2").bind(model.structure()).draw(0, 0, 300).parts
    problem = PottsProblem(model.read(codes).codes, model.tables, parts)
    precision = random.uniform(0.5, 2.0, model.n_parameters)
    operator = problem.preconditioner(np.zeros(model.n_parameters), precision)
    assert operator is not None
    matrix = np.array([operator(unit) for unit in np.eye(model.n_parameters)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix)[0] > 0
    assert (
        PottsProblem(codes, ff.Potts(6, 4, tied=True).tables, parts).preconditioner(np.zeros(20), np.zeros(20))
        is None
    )


@pytest.mark.slow
def test_potts_fits_take_fewer_evaluations_with_it() -> None:
    model = ff.Potts(30, 12)
    random = np.random.default_rng(1)
    codes = (random.poisson(1.0, (800, 30)) + random.poisson(1.0, (800, 1))).clip(0, 11)
    parts = Policy.parse("PL1").bind(model.structure()).draw(0, 0, 800).parts
    problem = PottsProblem(model.read(codes).codes, model.tables, parts)
    r = model.n_parameters
    precision = np.full(r, 5.0)
    precision[model.n_couplings :] = 0.02
    own = Objective(problem, precision, np.zeros(r), np.ones(r, dtype=bool))
    near, diagonal = own.preconditioner, own.hessian_diagonal
    assert near is not None
    assert diagonal is not None
    centred = minimise(own.value_grad, np.zeros(r), method="lbfgs", preconditioner=near, gtol=1e-5 * 800)
    plain = minimise(
        own.value_grad, np.zeros(r), method="lbfgs", preconditioner=diagonal(np.zeros(r)), gtol=1e-5 * 800
    )
    assert centred.converged
    assert centred.evaluations < 0.7 * plain.evaluations
    assert centred.value == pytest.approx(plain.value, rel=1e-6)


def test_the_centred_operator_inverts_the_curvature_near_independence() -> None:
    model = ff.Potts(5, 3, [(0, 1), (3, 1), (2, 4)])
    random = np.random.default_rng(4)
    codes = random.integers(0, 3, (200, 5))
    parts = Policy.parse("PL1@1.5").bind(model.structure()).draw(0, 0, 200).parts
    problem = PottsProblem(model.read(codes).codes, model.tables, parts)
    precision = random.uniform(0.5, 2.0, model.n_parameters)
    operator = problem.preconditioner(np.zeros(model.n_parameters), precision)
    assert operator is not None
    # In the centred coordinates (J, h') couplings and sites do not mix: H = Cᵀ D C with h' = h + Σ J f.
    f, q, count = operator.frequencies, 3, model.n_couplings
    centre, curvature = np.eye(model.n_parameters), np.diag(precision)
    for e, (a, b) in enumerate(model.edge_array.tolist()):
        for s, t in np.ndindex(q, q):
            place = e * q * q + s * q + t
            centre[count + a * q + s, place] += f[b, t]
            centre[count + b * q + t, place] += f[a, s]
            curvature[place, place] += 2 * 300 * f[a, s] * (1 - f[a, s]) * f[b, t] * (1 - f[b, t])
    for j in range(5):
        at = slice(count + j * q, count + (j + 1) * q)
        curvature[at, at] += 300 * (np.diag(f[j]) - np.outer(f[j], f[j]))
    v = random.normal(size=model.n_parameters)
    np.testing.assert_allclose(centre.T @ (curvature @ (centre @ operator(v))), v, atol=1e-9)


def test_the_centred_operator_is_positive_without_a_penalty() -> None:
    model = ff.Potts(4, 3)
    codes = np.random.default_rng(5).integers(0, 3, (100, 4))
    parts = Policy.parse("PL1").bind(model.structure()).draw(0, 0, 100).parts
    problem = PottsProblem(model.read(codes).codes, model.tables, parts)
    operator = problem.preconditioner(np.zeros(model.n_parameters), np.zeros(model.n_parameters))
    assert operator is not None
    matrix = np.array([operator(unit) for unit in np.eye(model.n_parameters)])
    assert np.linalg.eigvalsh((matrix + matrix.T) / 2)[0] > 0
