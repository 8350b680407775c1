"""What depends on θ only is computed once for all problems of a model, with the same bits."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.inference import ProgramSet
from fieldfit.models.field_problem import FieldProblem
from fieldfit.policies import Policy


@pytest.fixture
def runs(monkeypatch):
    """The numbers of configurations of all runs of programs."""
    counted: list[int] = []
    plain = ProgramSet.run

    def counting(self, log_tables, configurations, **outputs):
        counted.append(configurations.count)
        return plain(self, log_tables, configurations, **outputs)

    monkeypatch.setattr(ProgramSet, "run", counting)
    return counted


def field(kind="complete"):
    """A field whose FL has more states than are summed one by one, and its samples."""
    if kind == "two parts":
        model = ff.BoltzmannMachine(9, edges=[(i, i + 1) for i in range(7)], biases=True)
    elif kind == "ring":  # too sparse for sums over all states
        model = ff.BoltzmannMachine(24, edges=[(i, (i + 1) % 24) for i in range(24)], biases=True)
    else:
        model = ff.BoltzmannMachine(7, biases=True)
    theta = np.random.default_rng(0).normal(0, 0.5, model.n_parameters)
    values = model.sample(theta, 60, random_state=1).values.astype(float)
    if kind == "missing":
        values[::3, 2] = np.nan
        values[1::5, :2] = np.nan
    return model, values


def compiled(model, values, policy="FL"):
    dataset = model.read(values)
    bound = Policy.parse(policy).bind(model.structure(dataset))
    return FieldProblem(model.field_arrays, dataset.codes, bound.draw(0, 0, dataset.n))


@pytest.mark.parametrize("kind", ["complete", "missing", "two parts", "ring"])
def test_remembered_sums_are_those_of_the_kernel(kind, monkeypatch):
    model, values = field(kind)
    problem = compiled(model, values, "FL + 0.5*PL2" if kind == "missing" else "FL")
    assert problem._runs._joint
    random = np.random.default_rng(2)
    theta, v = random.normal(0, 0.4, (2, model.n_parameters))
    weight = random.random(len(values))
    answers = {}
    for remembered in (True, False):
        if not remembered:
            for name in ("joint_sums", "field_problem"):
                monkeypatch.setattr(f"fieldfit.models.{name}.is_joint", lambda program: False)
            problem = compiled(model, values, "FL + 0.5*PL2" if kind == "missing" else "FL")
            assert not problem._runs._joint
        answers[remembered] = [
            *problem.value_grad(theta, weight),
            problem.hessian_product(theta, v, weight),
            problem.hessian_matrix(theta, weight),
            problem.row_values(theta),
            problem.row_products(theta, v),
            problem.family_scores(theta, 3, 40),
            problem.score_moment(theta),
        ]
    for first, second in zip(answers[True], answers[False], strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-10, atol=1e-10)


def test_problems_of_a_model_share_one_run_at_each_theta(runs):
    model, values = field()
    shards = [compiled(model, part) for part in np.array_split(values, 5)]
    theta, v = np.random.default_rng(3).normal(0, 0.4, (2, model.n_parameters))
    for _ in range(2):
        for shard in shards:
            shard.value_grad(theta)
            shard.hessian_product(theta, v)
            shard.row_products(theta, v)
            shard.family_scores(theta, 0, 4)
    assert runs == [1, 1]
    shards[0].value_grad(-theta)
    shards[0].hessian_product(-theta, v)
    shards[0].hessian_product(-theta, -v)
    assert runs == [1] * 5
    assert shards[1].value_grad(theta)[0] != shards[1].value_grad(-theta)[0]


@pytest.mark.parametrize("kind", ["complete", "ring"])
def test_bits_do_not_depend_on_what_was_asked_before(kind):
    model, values = field(kind)
    theta, v = np.random.default_rng(4).normal(0, 0.4, (2, model.n_parameters))
    questions = {
        "value_grad": lambda problem: np.append(problem.value_grad(theta)[1], problem.value_grad(theta)[0]),
        "hessian_product": lambda problem: problem.hessian_product(theta, v),
        "hessian_matrix": lambda problem: problem.hessian_matrix(theta),
        "row_values": lambda problem: problem.row_values(theta),
        "scores": lambda problem: problem.scores(theta, 0, 9),
    }
    alone = {name: ask(compiled(field(kind)[0], values)).tobytes() for name, ask in questions.items()}
    problem = compiled(model, values)
    for name in [*questions, *reversed(questions)]:
        assert questions[name](problem).tobytes() == alone[name], name
    # Threads at different θ take turns.
    with ThreadPoolExecutor(4) as pool:
        signs = [1.0, -1.0] * 20
        gradients = list(pool.map(lambda sign: problem.value_grad(sign * theta)[1].tobytes(), signs))
    assert len(set(gradients[::2])) == len(set(gradients[1::2])) == 1


def test_models_with_remembered_sums_are_copied():
    model, values = field()
    expected = compiled(model, values).value_grad(np.zeros(model.n_parameters))[0]
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert compiled(other, values).value_grad(np.zeros(model.n_parameters))[0] == expected


def test_no_thread_waits_for_another_one(runs):
    # In a forked process the other thread does not exist, and would never finish.
    model, values = field()
    problem = compiled(model, values)
    theta = np.random.default_rng(5).normal(0, 0.4, model.n_parameters)
    expected = compiled(field()[0], values).value_grad(theta)[1].tobytes()
    runs.clear()
    with ThreadPoolExecutor(1) as pool:
        sums = model.field_arrays.sums
        pool.submit(sums._lock.acquire).result()
        assert problem.value_grad(theta)[1].tobytes() == expected
        assert problem.value_grad(theta)[1].tobytes() == expected
        assert len(runs) == 2
        pool.submit(sums._lock.release).result()
    problem.value_grad(theta)
    problem.value_grad(theta)
    assert len(runs) == 3
