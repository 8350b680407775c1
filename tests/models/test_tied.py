"""TiedField: shared parameters and covariates on any graph, against other models, enumeration and logistic regression."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import fieldfit as ff
from fieldfit.models import state_problem
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.state_problem import StateProblem
from fieldfit.policies import Policy
from fieldfit.types import DataError, FieldfitError, ModelError

COVARIATES = np.random.default_rng(0).normal(size=(12, 2))
#: Families and laws: small blocks state by state, rows by elimination, and mixtures of both.
POLICIES = [
    "PL1",
    "PL2(connected)",
    "0.5*PL1 + PL3(connected)@0.3",
    "Blocks({0,1,2,3},{4},{8,9})",
    "FL + 0.5*PL1",
    "PL1[0:5]",
]


def compiled(model, codes, policy):
    dataset = model.read(codes)
    selection = Policy.parse(policy).bind(model.structure(dataset)).draw(3, 0, dataset.n)
    return model.compile(dataset, selection), selection


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("states", [2, 3])
def test_every_path_agrees_with_the_general_engine(policy, states):
    model = ff.TiedField.grid(3, 4, COVARIATES, states=range(states), triples=True)
    codes = np.random.default_rng(1).integers(0, states, (3, 12))
    problem, selection = compiled(model, codes, policy)
    general = FieldProblem(model.field_arrays, codes.astype(np.int32), selection)
    theta = np.random.default_rng(2).normal(size=model.n_parameters)
    np.testing.assert_allclose(problem.row_values(theta), general.row_values(theta), atol=1e-10)
    np.testing.assert_allclose(problem.value_grad(theta)[1], general.value_grad(theta)[1], atol=1e-10)
    np.testing.assert_allclose(problem.hessian_matrix(theta), general.hessian_matrix(theta), atol=1e-9)
    for own in (problem, general):
        located = own.located_scores(theta)
        total = np.stack([located.terms[located.samples == i].sum(axis=0) for i in range(3)])
        np.testing.assert_allclose(total, own.scores(theta, 0, 3), atol=1e-10)
    if problem.with_betas(np.full(problem.n_families, 2.0)) is not None:
        doubled = problem.with_betas(2.0 * problem.betas)
        np.testing.assert_allclose(doubled.row_values(theta), 2 * problem.row_values(theta), atol=1e-10)


def test_small_blocks_are_evaluated_state_by_state():
    model = ff.TiedField.grid(3, 4)
    codes = np.zeros((1, 12), dtype=int)
    assert isinstance(compiled(model, codes, "PL3(connected)")[0], StateProblem)
    assert isinstance(compiled(model, codes, "FL")[0], FieldProblem)


def test_a_tied_grid_is_the_tied_boltzmann_machine():
    machine = ff.BoltzmannMachine.grid(4, 4, tied=True, biases=True, states=(-1, 1))
    field = ff.TiedField.grid(4, 4, states=(-1, 1), coupling="product")
    x = machine.sample([0.3, 0.2, 0.1], 50, random_state=0).values
    # The bias of a field counts state 1 against state -1: twice that of the machine.
    horizontal, vertical, bias = ff.fit(machine, x, "PL1", tol=1e-9).theta
    np.testing.assert_allclose(ff.fit(field, x, "PL1", tol=1e-9).theta, [2 * bias, horizontal, vertical], atol=1e-6)


@pytest.mark.parametrize("states", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_without_edges_it_is_logistic_regression(states):
    random = np.random.default_rng(3)
    z = random.normal(size=(300, 2))
    y = np.argmax(z @ random.normal(size=(2, states)) + random.gumbel(size=(300, states)), axis=1)
    model = ff.TiedField.pairwise(np.empty((0, 2)), z, states=range(states))
    fit = ff.fit(model, y[None], "PL1", tol=1e-9)
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(z, y)
    weights = np.column_stack([peer.intercept_, peer.coef_])
    weights = weights if states == 2 else weights[1:] - weights[0]
    np.testing.assert_allclose(fit.theta, weights.ravel(), atol=1e-4)
    np.testing.assert_allclose(ff.fit(model, y[None], "FL", tol=1e-9).theta, fit.theta, atol=1e-6)


def test_full_likelihood_of_a_narrow_graph_matches_enumeration():
    model = ff.TiedField.pairwise(
        [(0, 1), (1, 2), (2, 0)],
        COVARIATES[:3],
        edge_covariates=[[0.1], [0.5], [-1.0]],
        covariate_names=["water", "leaf"],
        edge_covariate_names=["length"],
    )
    assert model.parameter_names == ["bias", "water", "leaf", "agree", "agree*length"]
    theta = np.array([0.2, -0.5, 0.3, 0.7, 0.4])
    codes, probabilities = model.joint_probabilities(theta)
    logs = np.array(
        [
            sum(y[v] * (theta[0] + theta[1:3] @ COVARIATES[v]) for v in range(3))
            + sum(
                (y[a] == y[b]) * (theta[3] + theta[4] * e)
                for (a, b), e in zip([(0, 1), (1, 2), (0, 2)], [0.1, 0.5, -1.0], strict=True)
            )
            for y in codes
        ]
    )
    np.testing.assert_allclose(probabilities, np.exp(logs) / np.exp(logs).sum(), atol=1e-12)
    expected = np.array([probabilities[codes[:, v] == 1].sum() for v in range(3)])
    np.testing.assert_allclose([p[1] for p in model.marginals(theta)], expected, atol=1e-12)
    np.testing.assert_array_equal(model.map_state(theta), codes[np.argmax(probabilities)])


def test_the_same_parameters_on_another_graph():
    small = ff.TiedField.grid(2, 2, neighbours=8)
    line = ff.TiedField.grid(1, 5)
    there = small.on(5, line.groups)
    assert there.parameter_names == small.parameter_names
    theta = np.array([0.3, -0.4, 0.9, 0.1, 0.2])
    assert there.log_partition(theta) == pytest.approx(line.log_partition([0.3, -0.4]), abs=1e-12)
    with pytest.raises(ModelError, match="does not: it has"):
        line.on(4, small.groups)


def test_it_is_saved_with_its_covariates(tmp_path):
    model = ff.TiedField.grid(3, 4, COVARIATES, states=("N", "Y"), covariate_names=["water", "leaf"])
    labels = model.sample(np.zeros(5), 1, random_state=0).values
    fit = ff.fit(model, labels, "PL1", sigma2=1.0)
    fit.save(tmp_path / "field.fit")
    again = ff.load(tmp_path / "field.fit")
    assert isinstance(again.model, ff.TiedField)
    np.testing.assert_array_equal(again.model.log_tables(again.theta), model.log_tables(fit.theta))
    np.testing.assert_array_equal(again.standard_errors(), fit.standard_errors())
    assert "spatial" in again.summary()


def test_what_does_not_fit_is_refused_with_its_bytes(monkeypatch):
    monkeypatch.setattr(state_problem, "MOST_STATE_BYTES", 1000)
    model = ff.TiedField.grid(10, 10)
    with pytest.raises(DataError, match=r"2,400 bytes for the states of 100 blocks"):
        ff.fit(model, np.arange(100)[None] % 2, "PL1")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ff.TiedField.grid(2, 2, [[1.0]]), "expected one for each of the 4 nodes"),
        (lambda: ff.TiedField.grid(2, 2, [[np.nan]] * 4), "not finite"),
        (lambda: ff.TiedField.grid(2, 2, [["a"]] * 4), "must be numbers"),
        # Equal names share one parameter: a column of that name would silently be added to the other.
        (
            lambda: ff.TiedField.grid(2, 2, [[1.0]] * 4, covariate_names=["bias"]),
            "Two parameters have the name 'bias'",
        ),
        (lambda: ff.TiedField.grid(2, 2, [[1.0]] * 4, covariate_names=["vertical"]), "the name 'vertical'"),
        (
            lambda: ff.TiedField.grid(3, 3, [[1.0]] * 9, covariate_names=["triple"], triples=True),
            "the name 'triple'",
        ),
        (lambda: ff.TiedField.pairwise([(0, 1)], m=2, edge_groups=["bias"]), "the name 'bias'"),
        (lambda: ff.TiedField(2.5, [ff.Cliques([[0]], [0.0, 1.0], "a")]), "must be an integer"),  # type: ignore[arg-type]
        (lambda: ff.TiedField(2, [ff.Cliques([[0.6]], [0.0, 1.0], "a")]), "not integers"),
        (lambda: ff.TiedField(2, [ff.Cliques([[0, 1], [1]], np.eye(2), "a")]), "not a table of integers"),
        (lambda: ff.TiedField(2, [ff.Cliques([[0]], ["x", "y"], "a")]), "not a table of numbers"),
        (lambda: ff.TiedField.grid(2, 2, coupling="product", states=("a", "b")), "states that are numbers"),
        (lambda: ff.TiedField.pairwise([(0, 1)]), "number of nodes m"),
        (lambda: ff.TiedField.pairwise([(0, 1)], m=2, edge_covariates=[[1.0], [2.0]]), "one for each of 1 edges"),
        (lambda: ff.TiedField(2, [ff.Cliques([[0]], np.eye(2), ["a"])]), "functions and 1 covariates but 1 names"),
        (lambda: ff.TiedField(2, [ff.Cliques([[0]], [1.0, 2.0, 3.0], ["a"])]), "features of shape"),
        (lambda: ff.TiedField(2, []), "at least one group"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((3, None), "cliques is None"),
        ((3, [None]), "list of fieldfit.Cliques"),
        ((3, [ff.Cliques([[0, 1]], np.eye(2), None)]), "has the parameters None"),
        ((3, [ff.Cliques([[0, 1]], np.eye(2), "a")], None), "states is None"),
        ((3, [ff.Cliques([[0, 1]], np.eye(2), "a")], [0, 0]), "the same value twice"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(arguments, said):
    with pytest.raises(FieldfitError, match=said):
        ff.TiedField(*arguments)


@pytest.mark.slow
def test_a_block_of_more_than_a_thousand_sites():
    """Every other row as one block of 1,040 sites (2^1040 states): given the rest its rows are independent chains."""
    model = ff.TiedField.grid(26, 80)
    image = model.sample([-0.2, 0.3, 0.2], 1, random_state=0, method="gibbs", burn_in=50)
    rows = np.arange(26 * 80).reshape(26, 80)[::2]
    spelt = ["{" + ",".join(map(str, block)) + "}" for block in [rows.ravel().tolist(), *rows.tolist()]]
    whole = ff.fit(model, image, f"Blocks({spelt[0]})")
    chains = ff.fit(model, image, f"Blocks({','.join(spelt[1:])})")
    assert whole.objective == pytest.approx(chains.objective, rel=1e-10)
    np.testing.assert_allclose(whole.theta, chains.theta, atol=1e-6)
    np.testing.assert_allclose(whole.standard_errors(), chains.standard_errors(), rtol=1e-4)
