"""Moment conditions: mean zero, derivatives, and the first stage's score as a sum of them."""

from __future__ import annotations

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.samples import Table
from fieldfit.models.field import FieldModel
from fieldfit.policies import Policy
from fieldfit.refinement.conditions import NodeConditions
from fieldfit.refinement.model_moments import all_points, drawn_points, score_moments
from fieldfit.refinement.stacking import stack

MODELS: dict[str, FieldModel] = {
    "boltzmann": ff.BoltzmannMachine(4, [(0, 1), (1, 2), (2, 3)], True),
    "signs": ff.BoltzmannMachine.grid(2, 3, states=(-1, 1)),
    "dense": ff.BoltzmannMachine(5, biases=True, states=(-1, 1)),
    "tied": ff.BoltzmannMachine.grid(2, 3, tied=True, biases=True, states=(-1, 1)),
    "agree": ff.Potts(4, 3, [(0, 1), (1, 2), (2, 3), (0, 3)], couplings="agree"),
    "tables": ff.Potts.grid(2, 2, 3),
    "triples": ff.MarkovRandomField(
        [2, 3, 2, 2],
        [ff.Factor((0, 1, 2)), ff.Factor((2, 3)), ff.Factor((0,), [0, 1.0], "t"), ff.Factor((3,), [0, 2.0], "t")],
    ),
    "forbidden": ff.MarkovRandomField(
        [2, 2, 3],
        [
            ff.Factor((0, 1), log_offset=[[0.0, 0.0], [0.0, -np.inf]]),
            ff.Factor((1, 2)),
            ff.Factor((0,), [0, 1.0], "h"),
        ],
    ),
}
CASES = [
    ("PL1", 1),
    ("PL1", 2),
    ("PL1", 3),
    ("PL2", 1),
    pytest.param("PL2", 2, marks=pytest.mark.slow),
    ("FL", 1),
    ("PL1@0.7 + PL2@0.3", 1),
]


def theta_of(model: FieldModel, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=model.n_parameters) * 0.6


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize(("policy", "distance"), CASES)
def test_moments_under_the_model(name: str, policy: str, distance: int) -> None:
    model = MODELS[name]
    theta = theta_of(model)
    found = stack(model, Policy.parse(policy).bind(model.structure()), distance)
    points = all_points(model, theta)
    moments = score_moments(found.conditions, points, theta)
    mean = found.conditions.summed(points.codes, points.weight)(theta)
    np.testing.assert_allclose(mean, 0.0, atol=1e-10)
    derivative = found.conditions.derivative(points.codes, theta, points.weight, None)
    np.testing.assert_allclose(moments.K, -derivative, atol=1e-10)


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize(("policy", "distance"), CASES)
def test_sums_and_derivatives_of_samples(name: str, policy: str, distance: int) -> None:
    model = MODELS[name]
    theta = theta_of(model, 1)
    points = all_points(model, theta_of(model, 2))
    random = np.random.default_rng(3)
    codes = points.codes[random.integers(0, len(points.codes), 30)]
    weight = random.uniform(0.5, 2.0, 30)
    bound = Policy.parse(policy).bind(model.structure())
    found = stack(model, bound, distance)
    conditions = found.conditions
    g = np.concatenate([block for _, block in conditions.value_blocks(codes, theta)])
    summed = conditions.summed(codes, weight)
    sums = summed(theta)
    np.testing.assert_allclose(sums, weight @ g, atol=1e-10)
    # The scores of the first stage are sums of conditions.
    problem = model.compile(Table(codes, model.names, model.states), bound.draw(0, 0, 30))
    np.testing.assert_allclose(found.first @ sums, problem.value_grad(theta, weight)[1], atol=1e-9)
    derivative = conditions.derivative(codes, theta, weight, None)
    for direction in random.choice([-1.0, 1.0], size=(3, model.n_parameters)):
        up, down = summed(theta + 1e-5 * direction), summed(theta - 1e-5 * direction)
        np.testing.assert_allclose((up - down) / 2e-5, derivative @ direction, atol=2e-6)


def test_selected_components_only() -> None:
    model = MODELS["signs"]
    theta = theta_of(model)
    bound = Policy.parse("0.4*PL1").bind(model.structure())
    found = stack(model, bound, 2)
    codes = all_points(model, theta).codes
    selection = bound.draw(5, 0, len(codes))
    mask = found.mask(selection)
    assert mask is not None
    assert mask.shape == (len(codes), model.m)
    sums = found.conditions.summed(codes, None, mask)(theta)
    problem = model.compile(Table(codes, model.names, model.states), selection)
    np.testing.assert_allclose(found.first @ sums, problem.value_grad(theta)[1], atol=1e-10)
    derivative = found.first @ found.conditions.derivative(codes, theta, None, mask)
    np.testing.assert_allclose(derivative, problem.hessian_matrix(theta), atol=1e-9)


@pytest.mark.parametrize("states", [(0, 1), (-1, 1), (-2, 3)])
def test_sums_of_dense_fields_come_from_the_kernel_of_pl1(states: tuple[int, int]) -> None:
    """The same sums, with biases and without, with weights of samples and without."""
    random = np.random.default_rng(0)
    for biases in (False, True):
        model = ff.BoltzmannMachine(7, biases=biases, states=states)
        theta = random.normal(size=model.n_parameters) * 0.4
        codes = random.integers(0, 2, (300, 7)).astype(np.int32)
        bound = Policy.parse("PL1").bind(model.structure())
        problem = model.compile(Table(codes, model.names, model.states), bound.draw(0, 0, 300))
        conditions = NodeConditions(model, model.structure().free)
        for weight in (None, random.uniform(0.5, 2.0, 300)):
            by_kernel = conditions.summed_by(problem, weight)
            assert by_kernel is not None
            np.testing.assert_allclose(by_kernel(theta), conditions.summed(codes, weight)(theta), atol=1e-9)
    # Other weights of components, or a part of them: not the sums of conditions.
    for policy in ("PL1@0.5", "0.5*PL1", "PL2"):
        bound = Policy.parse(policy).bind(model.structure())
        problem = model.compile(Table(codes, model.names, model.states), bound.draw(0, 0, 300))
        assert conditions.summed_by(problem) is None
    sparse = ff.BoltzmannMachine.grid(6, 6)
    bound = Policy.parse("PL1").bind(sparse.structure())
    codes = random.integers(0, 2, (50, 36)).astype(np.int32)
    problem = sparse.compile(Table(codes, sparse.names, sparse.states), bound.draw(0, 0, 50))
    assert NodeConditions(sparse, sparse.structure().free).summed_by(problem) is None


def test_derivatives_of_dense_fields_by_pairs_of_instruments() -> None:
    """One product for all variables gives the derivatives of one block for each of them, with weights and Z."""
    random = np.random.default_rng(1)
    model = ff.BoltzmannMachine(7, biases=True, states=(-1, 1))
    theta = random.normal(size=model.n_parameters) * 0.4
    codes = random.integers(0, 2, (700, 7)).astype(np.int32)
    by_pairs, one_by_one = (NodeConditions(model, model.structure().free) for _ in range(2))
    assert by_pairs._pairs_of_instruments is not None
    one_by_one.__dict__["_pairs_of_instruments"] = None
    for weight in (None, random.uniform(0.5, 2.0, 700)):
        for mask in (None, random.integers(0, 2, (700, 7)).astype(float)):
            found, expected = (c.derivative(codes, theta, weight, mask) for c in (by_pairs, one_by_one))
            np.testing.assert_allclose(found, expected, atol=1e-9)
    sparse = ff.BoltzmannMachine.grid(6, 6)
    assert NodeConditions(sparse, sparse.structure().free)._pairs_of_instruments is None


@pytest.mark.parametrize("name", list(MODELS))
def test_whether_a_larger_distance_adds_conditions(name: str) -> None:
    """Known without building them."""
    model = MODELS[name]
    for distance in (1, 2):
        near, far = (NodeConditions(model, model.structure().free, d) for d in (distance, distance + 1))
        assert near.grows(distance + 1) == (far.size > near.size)


@pytest.mark.parametrize("name", ["dense", "tied", "triples"])
def test_products_of_draws_in_single_precision(name: str) -> None:
    """They differ from products in double precision by less than the smallest ridge (1e-5); the noise is about 1e-2."""
    model = MODELS[name]
    theta = theta_of(model)
    conditions = stack(model, Policy.parse("PL1").bind(model.structure()), 2).conditions
    points = drawn_points(model, theta, None, 5_000, 1, 0)
    moments = score_moments(conditions, points, theta)
    g = np.concatenate([block for _, block in conditions.value_blocks(points.codes, theta)])
    f = model.statistics(points.codes)
    f = f - f.mean(axis=0)
    size_g, size_f = np.sqrt((g**2).mean(axis=0)), f.std(axis=0)
    for found, exact, scale in (
        (moments.V, g.T @ g / len(g), np.outer(size_g, size_g)),
        (moments.K, g.T @ f / len(g), np.outer(size_g, size_f)),
        (moments.information, f.T @ f / len(f), np.outer(size_f, size_f)),
    ):
        assert np.all(np.abs(found - exact) <= 1e-5 * scale)
    assert moments.draws == 5_000


def test_statistics_of_a_machine_are_those_of_its_tables() -> None:
    random = np.random.default_rng(1)
    tied = ff.BoltzmannMachine.grid(3, 3, tied=True, biases=True, states=(-1, 2))
    for model in (ff.BoltzmannMachine(5, biases=True), tied):
        codes = random.integers(0, 2, (20, model.m)).astype(np.int32)
        np.testing.assert_allclose(model.statistics(codes), FieldModel.statistics(model, codes))
