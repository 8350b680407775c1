"""The contract that every field model keeps: agreement with enumeration, derivatives, shards, threads, files.

A new model must add an example here: `test_every_model_has_an_example` fails otherwise.
"""

from typing import Any

import numpy as np
import pytest
from oracle import central_gradient, joint_states, log_conditional

import fieldfit as ff
from fieldfit.api import find_models
from fieldfit.data.samples import Table
from fieldfit.models.field import FieldModel
from fieldfit.policies import Policy, Selection


def triangle_features():
    random = np.random.default_rng(11)
    return ff.MarkovRandomField(
        [2, 3, 2, 2],
        [
            ff.Factor((0, 1, 2), random.normal(size=(2, 3, 2, 2)), ("shared", "own")),
            ff.Factor((2, 3), random.normal(size=(2, 2)), "shared"),
            ff.Factor((3,)),
            ff.Factor((1, 3), log_offset=random.normal(size=(3, 2))),
        ],
        names=["a", "b", "c", "d"],
    )


def conditional_field():
    return ff.MarkovRandomField([2, 2, 3, 2], [(0, 1), (1, 2), (2, 3), (0, 3)], given=[3])


EXAMPLES = {
    "boltzmann": [
        ff.BoltzmannMachine(4),
        ff.BoltzmannMachine(4, [(0, 1), (1, 2), (2, 3), (0, 3)], biases=True, states=(-1, 1)),
        ff.BoltzmannMachine.grid(2, 3, tied=True, biases=True),
    ],
    "potts": [
        ff.Potts(3, 3),
        ff.Potts.grid(2, 2, 3, tied=True),
        ff.Potts(4, 2, [(0, 1), (1, 2), (2, 3)], couplings="agree"),
    ],
    "mrf": [triangle_features(), conditional_field()],
}
MODELS = [pytest.param(m, id=f"{kind}-{k}") for kind, models in EXAMPLES.items() for k, m in enumerate(models)]
POLICIES = [
    "FL",
    "PL1",
    "PL2@0.5 + PL1",
    "0.6*PL1 + 0.4*PL2",
    "PL1[0:2]@[0.5,2] + 0.5*FL/row",
    "Blocks({0,1},{2})",
    "Components({0}|{1}, {1,2}|{}, {2}|{0})",
    "Partition(2) + 0.3*FL",
    "Multinomial(0.5*PL1 + 0.5*FL)",
]


def sample(model, n=14, missing=0.0, seed=0):
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(0, c, n) for c in model.graph.cardinalities], axis=1).astype(np.int32)
    codes[random.random(codes.shape) < missing] = -1
    return Table(np.ascontiguousarray(codes), model.names, model.states)


def compiled(model, policy, missing=0.0, n=14):
    table = sample(model, n, missing)
    selection = Policy.parse(policy).bind(model.structure()).draw(5, 0, table.n)
    theta = np.random.default_rng(3).normal(scale=0.7, size=model.n_parameters)
    return table, selection, model.compile(table, selection), theta


def chosen(part, i):
    if part.indices is not None:
        return part.indices[part.indptr[i] : part.indptr[i + 1]].tolist()
    return [] if part.rows is not None and not part.rows[i] else range(part.family.size)


def oracle_rows(model, table, selection, theta):
    """m_θ(X_i, Z_i) by families, from the joint table alone."""
    tables = model.log_tables(theta)
    result = np.zeros((table.n, len(selection.parts)))
    for f, part in enumerate(selection.parts):
        for i in range(table.n):
            for j in chosen(part, i):
                a, b = part.family.component(j)
                weight = part.beta[j] if isinstance(part.beta, np.ndarray) else part.beta
                result[i, f] += weight * log_conditional(model.graph, tables, table.codes[i], a, b)
    return result


def test_every_model_has_an_example():
    fields = {kind for kind, model in find_models().items() if issubclass(model, FieldModel)}
    assert fields == set(EXAMPLES)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_values_and_derivatives(model, policy, missing):
    table, selection, problem, theta = compiled(model, policy, missing)
    expected = oracle_rows(model, table, selection, theta)
    np.testing.assert_allclose(problem.row_values(theta), expected.sum(axis=1), atol=1e-10)
    weight = np.random.default_rng(8).uniform(0.1, 2.0, table.n)
    value, gradient = problem.value_grad(theta, weight)
    assert value == pytest.approx(weight @ expected.sum(axis=1), abs=1e-9)
    np.testing.assert_allclose(
        gradient, central_gradient(lambda t: problem.value_grad(t, weight)[0], theta), atol=2e-7
    )
    v = np.random.default_rng(9).normal(size=len(theta))
    np.testing.assert_allclose(
        problem.hessian_product(theta, v, weight),
        central_gradient(lambda t: problem.value_grad(t, weight)[1], theta) @ v,
        atol=3e-7,
    )
    scores = problem.scores(theta, 0, table.n)
    np.testing.assert_allclose(scores, central_gradient(problem.row_values, theta), atol=1e-7)
    np.testing.assert_allclose(problem.row_products(theta, v), scores @ v, atol=1e-10)
    np.testing.assert_allclose(
        problem.score_product(theta, v, weight), (scores * weight[:, None]).T @ (scores @ v), atol=1e-9
    )
    np.testing.assert_allclose(
        np.einsum("ifr,f->ir", problem.family_scores(theta, 3, 9), problem.betas), scores[3:9], atol=1e-12
    )


@pytest.mark.parametrize("model", MODELS)
def test_shards_add_up(model):
    table, _, problem, theta = compiled(model, "0.6*PL1 + 0.4*FL")
    bound = Policy.parse("0.6*PL1 + 0.4*FL").bind(model.structure())
    total, gradient = 0.0, 0.0
    for start, stop in ((0, 5), (5, 6), (6, table.n)):
        shard = model.compile(table.subset(np.arange(start, stop)), bound.draw(5, start, stop))
        more, slope = shard.value_grad(theta)
        total, gradient = total + more, gradient + slope
    assert total == pytest.approx(problem.value_grad(theta)[0], abs=1e-10)
    np.testing.assert_allclose(gradient, problem.value_grad(theta)[1], atol=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_threads_do_not_change_a_bit(model):
    _, _, problem, theta = compiled(model, "0.6*PL2 + 0.4*FL", n=300)
    results = []
    for threads in (1, 2):
        ff.set_threads(threads)
        value, gradient = problem.value_grad(theta)
        results.append((value, gradient, problem.hessian_product(theta, theta)))
    assert results[0][0] == results[1][0]
    assert np.array_equal(results[0][1], results[1][1])
    assert np.array_equal(results[0][2], results[1][2])


@pytest.mark.parametrize("model", MODELS)
def test_conditionals_sum_to_one(model):
    theta = np.random.default_rng(2).normal(size=model.n_parameters)
    free = [v for v in range(model.m) if v not in model.observed]
    target = free[:2]
    states = model.decode(joint_states([model.graph.cardinalities[v] for v in range(model.m)]))
    logs = model.conditional(theta, states, target, [v for v in range(model.m) if v not in target])
    groups = {}
    for state, log in zip(states, logs, strict=True):
        key = tuple(s for v, s in enumerate(state) if v not in target)
        groups[key] = groups.get(key, 0.0) + np.exp(log)
    np.testing.assert_allclose(list(groups.values()), 1.0, atol=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_save_and_load_give_the_same_bits(model, tmp_path):
    table = sample(model, 60)
    fit = ff.fit(model, table, "0.7*PL1", sigma2=2.0, random_state=4)
    fit.save(tmp_path / "fit.ff")
    again = ff.load(tmp_path / "fit.ff")
    assert np.array_equal(again.theta, fit.theta)
    assert again.theta.tobytes() == fit.theta.tobytes()
    assert list(again.parameter_names) == list(fit.parameter_names)
    assert np.array_equal(again.standard_errors(), fit.standard_errors())
    assert again.report() == fit.report()
    codes = joint_states(model.graph.cardinalities)
    free = [v for v in range(model.m) if v not in model.observed]
    fits: tuple[Any, ...] = (fit, again)
    before, after = (f.model.conditional(f.theta, f.model.decode(codes), free, f.model.observed) for f in fits)
    assert np.array_equal(before, after)


def test_relabelling_the_variables_changes_nothing():
    random = np.random.default_rng(1)
    order = random.permutation(5)
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 3)]
    model = ff.BoltzmannMachine(5, edges, biases=True)
    renamed = ff.BoltzmannMachine(5, [(order[j], order[k]) for j, k in edges], biases=True)
    x = random.integers(0, 2, (200, 5))
    y = np.empty_like(x)
    y[:, order] = x
    one = ff.fit(model, x, "PL1 + PL2", sigma2=5.0, tol=1e-9)
    two = ff.fit(renamed, y, "PL1 + PL2", sigma2=5.0, tol=1e-9)
    np.testing.assert_allclose(one.theta[:6], two.theta[:6], atol=1e-7)
    np.testing.assert_allclose(one.theta[6:], two.theta[6:][order], atol=1e-7)


def test_swapping_states_of_a_symmetric_model_changes_nothing():
    x = np.random.default_rng(6).choice([-1, 1], (150, 4))
    model = ff.BoltzmannMachine(4, states=(-1, 1))
    one, two = ff.fit(model, x, "FL", tol=1e-9), ff.fit(model, -x, "FL", tol=1e-9)
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-7)


def test_an_empty_selection_has_value_zero():
    model = ff.BoltzmannMachine(3)
    table = sample(model, 5)
    selection = Policy.parse("0.000001*FL").bind(model.structure()).draw(0, 0, 5)
    assert selection.count() == 0
    value, gradient = model.compile(table, Selection(5, selection.parts)).value_grad(np.ones(3))
    assert value == 0.0
    assert np.array_equal(gradient, np.zeros(3))
