"""The diagonal of a general field's information from marginals, against the Hessian matrix itself."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.models.field_problem import FieldProblem
from fieldfit.policies import Policy
from fieldfit.weights.mixture import Mixture
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
    judged = Mixture.of(bound, "term", selection, problem, lambda z: model.compile(table, z)).judged(
        np.ones(2), "exact"
    )
    statistics = DataStatistics(judged, np.ones(model.n_parameters, dtype=bool))
    dense, diagonal = statistics.dense(theta), statistics.diagonal(theta)
    np.testing.assert_allclose(diagonal.bread, np.einsum("grr->gr", dense.bread), atol=1e-10)
    np.testing.assert_allclose(diagonal.meat, np.einsum("ghrr->ghr", dense.meat), atol=1e-10)
