"""The diagonal of a general field's information from marginals, against the Hessian matrix itself."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.problem import Problem
from fieldfit.policies import Policy
from fieldfit.weights.groups import DrawnPolicy
from fieldfit.weights.statistics import DataStatistics


@pytest.mark.parametrize("policy", ["PL1 + 0.4*PL2 + 0.3*FL", "Partition(2) + PL1@[1,2,3,4] + 0.2*FL"])
@pytest.mark.parametrize("missing", [False, True])
def test_it_is_the_diagonal_of_the_hessian(policy, missing):
    model = ff.Potts(4, 3)
    random = np.random.default_rng(0)
    theta = random.normal(scale=0.5, size=model.n_parameters)
    x = model.sample(theta, 120, 1).values.astype(object)
    if missing:
        x[5, 1] = x[7, 2] = x[7, 3] = None
    problem = model.compile(model.read(x), Policy.parse(policy).bind(model.structure()).draw(0, 0, 120))
    weight = random.uniform(0.5, 2.0, 120)
    for betas in ([0.3, 1.2, 2.0], [0.0, 1.0, 0.0], [0.0, 0.7, 1.0]):
        other = problem.with_betas(np.array(betas))
        for w in (None, weight):
            expected = -np.diagonal(other.hessian_matrix(theta, w))
            np.testing.assert_allclose(other.information_diagonal(theta, w), expected, atol=1e-10)


def test_parameters_of_several_tables_have_none():
    model = ff.Potts(4, 3, tied=True)
    x = model.sample(np.zeros(model.n_parameters), 60, 1).values
    problem = model.compile(model.read(x), Policy.parse("PL1 + FL").bind(model.structure()).draw(0, 0, 60))
    assert problem.information_diagonal(np.zeros(model.n_parameters)) is None


def test_statistics_of_a_potts_model_are_the_exact_diagonals():
    model = ff.Potts(4, 3)
    random = np.random.default_rng(1)
    theta = random.normal(scale=0.5, size=model.n_parameters)
    table = model.read(model.sample(theta, 300, 1).values)
    bound = Policy.parse("PL1 + 0.4*PL2").bind(model.structure())
    selection = bound.draw(0, 0, 300)
    problem = model.compile(table, selection)
    assert isinstance(problem, FieldProblem)
    judged = DrawnPolicy.of(bound, "term", selection, problem, lambda z: model.compile(table, z)).by_group(
        np.ones(2), "exact"
    )
    statistics = DataStatistics(judged, ("PL1", "PL2"), np.ones(model.n_parameters, dtype=bool))
    dense, diagonal = statistics.dense(theta), statistics.diagonal(theta)
    np.testing.assert_allclose(diagonal.J, np.einsum("grr->gr", dense.J), atol=1e-10)
    np.testing.assert_allclose(diagonal.K, np.einsum("ghrr->ghr", dense.K), atol=1e-10)


MODELS = {
    "small blocks and a small field": (ff.Potts(4, 3), "PL1 + 0.4*PL2 + 0.3*FL"),
    "shared parameters": (ff.Potts(4, 3, tied=True), "PL1 + FL"),
    "a lattice of states": (ff.Potts(5, 3), "0.5*PL1 + 0.3*FL"),
    "wide blocks with something clamped": (ff.Potts(6, 3), "0.2*PL4 + 0.3*FL"),
    "binary, beside another kernel": (ff.BoltzmannMachine(13, biases=True), "PL1 + 0.3*FL"),
    "pieces that are not joined": (ff.Potts(6, 4, edges=[(0, 1), (1, 2), (3, 4)]), "PL1 + FL"),
    "larger tables": (ff.MarkovRandomField([2, 3, 4, 2, 5], [(0, 1, 2), (2, 3), (4,), (4, 1, 2)]), "PL1 + FL"),
}


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("missing", [False, True])
def test_hessian_matrices_state_by_state_are_those_of_the_products(name, missing):
    model, policy = MODELS[name]
    random = np.random.default_rng(3)
    theta = random.normal(scale=0.5, size=model.n_parameters)
    x = model.sample(theta, 40, 1).values.astype(object)
    if missing:
        x[5, 1] = x[7, 2] = x[7, 3] = None
    problem = model.compile(model.read(x), Policy.parse(policy).bind(model.structure()).draw(0, 0, 40))
    weight = random.normal(size=40)
    last = np.zeros(problem.n_families)
    last[-1] = 2.0
    for other, w in ((problem, None), (problem, weight), (problem.with_betas(last), weight)):
        directions = random.normal(size=(8, len(theta)))  # an error in any entry changes all products of its row
        expected = [other.hessian_product(theta, v, w) for v in directions]
        for _ in range(2):  # the second time with what the first has kept
            found = other.hessian_matrix(theta, w)
            np.testing.assert_allclose(directions @ found, expected, atol=1e-10 * max(1.0, np.abs(expected).max()))
        np.testing.assert_array_equal(found, found.T)


def test_forbidden_states_have_no_share():
    offset = np.zeros((3, 3))
    offset[0, 2] = -np.inf
    model = ff.MarkovRandomField([3] * 5, [ff.Factor((0, 1), log_offset=offset), (1, 2), (2, 3), (3, 4), (0, 4)])
    theta = np.random.default_rng(0).normal(scale=0.3, size=model.n_parameters)
    table = model.read(model.sample(theta, 40, 1).values)
    problem = model.compile(table, Policy.parse("PL1 + FL").bind(model.structure()).draw(0, 0, 40))
    found = problem.hessian_matrix(theta)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, Problem.hessian_matrix(problem, theta), atol=1e-10)


def test_too_many_numbers_are_left_to_the_products(monkeypatch):
    model, policy = MODELS["small blocks and a small field"]
    theta = np.random.default_rng(3).normal(scale=0.5, size=model.n_parameters)
    table = model.read(model.sample(theta, 90, 1).values)
    problem = model.compile(table, Policy.parse(policy).bind(model.structure()).draw(0, 0, 90))
    expected = problem.hessian_matrix(theta)
    monkeypatch.setattr("fieldfit.models.field_problem.MOST_STATE_ENTRIES", 2_000)
    monkeypatch.setattr("fieldfit.models.field_information.MOST_LATTICE_STATES", 10)
    again = model.compile(table, Policy.parse(policy).bind(model.structure()).draw(0, 0, 90))
    np.testing.assert_allclose(again.hessian_matrix(theta), expected, atol=1e-10)
