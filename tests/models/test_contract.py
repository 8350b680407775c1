"""Every model keeps the contract of contract.py.

A new model must add an example here: `test_every_model_has_an_example` fails otherwise.
"""

import contract
import numpy as np
import pytest
from contract import CRFExample, FieldExample, JointChainExample, TripleExample

import fieldfit as ff
from fieldfit.api.files import find_models
from fieldfit.data.sequences import Sequences
from fieldfit.policies import Policy, Selection
from fieldfit.types import DataError, ModelError


def triangle_features(order):
    random = np.random.default_rng(11)
    at = [order[v] for v in range(4)]
    cardinalities, names = [0] * 4, [""] * 4
    for v, (states, name) in enumerate(zip([2, 3, 2, 2], "abcd", strict=True)):
        cardinalities[at[v]], names[at[v]] = states, name
    return ff.MarkovRandomField(
        cardinalities,
        [
            ff.Factor((at[0], at[1], at[2]), random.normal(size=(2, 3, 2, 2)), ("shared", "own")),
            ff.Factor((at[2], at[3]), random.normal(size=(2, 2)), "shared"),
            ff.Factor((at[3],)),
            ff.Factor((at[1], at[3]), log_offset=random.normal(size=(3, 2))),
        ],
        names=names,
    )


def conditional_field(order):
    cardinalities = [0] * 4
    for v, states in enumerate([2, 2, 3, 2]):
        cardinalities[order[v]] = states
    return ff.MarkovRandomField(cardinalities, renamed([(0, 1), (1, 2), (2, 3), (0, 3)], order), given=[order[3]])


def tied_field(order, states):
    """Sites and edges with covariates, and a clique of three, in the variables that ``order`` gives."""
    random = np.random.default_rng(5)
    at = np.array([order[v] for v in range(4)])
    edges = at[np.array([(0, 1), (1, 2), (2, 3), (0, 3)])]
    sites = ff.Cliques(
        at[:, None],
        np.eye(states)[:, 1:],
        [f"{name}{state}" for state in range(1, states) for name in ("bias", "z")],
        np.column_stack([np.ones(4), random.normal(size=4)]),
    )
    agree = ff.Cliques(
        edges, np.eye(states), ["agree", "agree*e"], np.column_stack([np.ones(4), random.normal(size=4)])
    )
    three = ff.Cliques(at[[[0, 1, 2]]], random.normal(size=(states,) * 3), "three")
    return ff.TiedField(4, [sites, agree, three], range(states))


def renamed(edges, order):
    return [(order[j], order[k]) for j, k in edges]


PATH, CYCLE = [(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2), (2, 3), (0, 3)]
GRID = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
DIRECTIONS = ["horizontal"] * 4 + ["vertical"] * 3

EXAMPLES = {
    "boltzmann": [
        FieldExample(4, lambda order: ff.BoltzmannMachine(4)),
        FieldExample(4, lambda order: ff.BoltzmannMachine(4, renamed(CYCLE, order), biases=True, states=(-1, 1))),
        FieldExample(
            6,
            lambda order: ff.BoltzmannMachine(
                6, renamed(GRID, order), biases=True, edge_groups=DIRECTIONS, bias_groups=["bias"] * 6
            ),
        ),
    ],
    "potts": [
        FieldExample(3, lambda order: ff.Potts(3, 3)),
        FieldExample(4, lambda order: ff.Potts(4, 3, renamed(CYCLE, order), tied=True)),
        FieldExample(4, lambda order: ff.Potts(4, 2, renamed(PATH, order), couplings="agree")),
    ],
    "mrf": [FieldExample(4, triangle_features), FieldExample(4, conditional_field)],
    "tied": [
        FieldExample(4, lambda order: tied_field(order, 3)),
        FieldExample(4, lambda order: tied_field(order, 2)),
    ],
    "chain_crf": [
        CRFExample(pairs="all"),
        CRFExample(),
        CRFExample(pairs="all", label_pairs=True),
        CRFExample(transitions="observed", start=False, end=False),
        TripleExample(),
        TripleExample(transitions="none", end=False, unseen_transitions="forbidden"),
    ],
    "boltzmann_chain": [JointChainExample()],
}
# Parameters are names: pytest keeps them until the interpreter ends, and models keep compiled sums.
NAMED = {f"{kind}-{k}": example for kind, examples in EXAMPLES.items() for k, example in enumerate(examples)}
CASES = [
    (name, policy, missing)
    for name, example in NAMED.items()
    for policy in example.policies
    for missing in example.missing
]


def test_every_model_has_an_example():
    assert set(find_models()) == set(EXAMPLES)


@pytest.mark.parametrize(("name", "policy", "missing"), CASES)
def test_values_and_derivatives(name, policy, missing):
    contract.check_values_and_derivatives(NAMED[name], policy, missing)


@pytest.mark.parametrize("name", list(NAMED))
def test_shards_add_up(name):
    contract.check_shards(NAMED[name])


@pytest.mark.parametrize("name", list(NAMED))
def test_threads_do_not_change_a_bit(name):
    contract.check_threads(NAMED[name])


@pytest.mark.parametrize("name", list(NAMED))
def test_conditionals_sum_to_one(name):
    contract.check_conditionals(NAMED[name])


@pytest.mark.parametrize("name", list(NAMED))
def test_save_and_load_give_the_same_bits(name, tmp_path):
    contract.check_files(NAMED[name], tmp_path / "fit.ff")


@pytest.mark.parametrize("name", list(NAMED))
def test_relabelling_changes_nothing(name):
    contract.check_relabelling(NAMED[name])


def test_relabelled_estimates_are_the_same_numbers_in_another_order():
    random = np.random.default_rng(1)
    order = random.permutation(5)
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 3)]
    model = ff.BoltzmannMachine(5, edges, biases=True)
    other = ff.BoltzmannMachine(5, renamed(edges, order), biases=True)
    x = random.integers(0, 2, (200, 5))
    y = np.empty_like(x)
    y[:, order] = x
    before = ff.fit(model, x, "PL1 + PL2", sigma2=5.0, tol=1e-9)
    after = ff.fit(other, y, "PL1 + PL2", sigma2=5.0, tol=1e-9)
    np.testing.assert_allclose(before.theta[:6], after.theta[:6], atol=1e-7)
    np.testing.assert_allclose(before.theta[6:], after.theta[6:][order], atol=1e-7)


def test_swapping_states_of_a_symmetric_model_changes_nothing():
    x = np.random.default_rng(6).choice([-1, 1], (150, 4))
    model = ff.BoltzmannMachine(4, states=(-1, 1))
    before, after = ff.fit(model, x, "FL", tol=1e-9), ff.fit(model, -x, "FL", tol=1e-9)
    np.testing.assert_allclose(before.theta, after.theta, atol=1e-7)


def test_an_empty_selection_has_value_zero():
    example = EXAMPLES["boltzmann"][0]
    table = example.samples(5)
    selection = Policy.parse("0.000001*FL").bind(example.model.structure()).draw(0, 0, 5)
    assert selection.count() == 0
    value, gradient = example.model.compile(table, Selection(5, selection.parts)).value_grad(np.ones(6))
    assert value == 0.0
    assert np.array_equal(gradient, np.zeros(6))


def test_a_dataset_of_another_kind_is_refused_in_a_sentence():
    sequences = Sequences([0, 2], [0, 1, 2], [0, 1], None, [0, 1], 2, 2)  # type: ignore[arg-type]
    field, chain = ff.BoltzmannMachine(2), ff.ChainCRF(2, 2).complete(sequences)
    table = field.read([[0, 1], [1, 1]])
    with pytest.raises(DataError, match="takes a Table; got Sequences"):
        field.simulate(sequences, [0.0])
    with pytest.raises(DataError, match="Sequences; got Table"):
        chain.structure(table)
    with pytest.raises(DataError, match="Sequences; got Table"):
        chain.complete(table)


def test_what_a_model_tells_of_itself():
    """Callers ask the model instead of its class: fields and chains answer in their own ways."""
    field, conditional = EXAMPLES["mrf"]
    assert field.model.joint
    assert not conditional.model.joint
    assert field.model.as_field("Sampling") is field.model
    assert field.model.symbol_chain is None
    with pytest.raises(ModelError, match="A tagger needs a chain CRF"):
        field.model.as_crf("A tagger")
    table = field.model.all_samples(24)
    assert table.codes.tolist() == [list(state) for state in np.ndindex(2, 3, 2, 2)]
    assert field.model.all_samples(23) is None
    dataset = field.samples(5)
    states, once, squared = field.model.expected_states(np.zeros(field.model.n_parameters), dataset, 100)
    assert states.n == 24
    assert once.sum() == pytest.approx(5)
    assert squared.sum() == pytest.approx(5)
    for example in (*EXAMPLES["chain_crf"], *EXAMPLES["boltzmann_chain"]):
        model, sequences = example.model, example.samples(5)
        assert not model.joint
        assert model.mean_groups is None
        assert model.symbol_chain is (model if example in EXAMPLES["boltzmann_chain"] else None)
        with pytest.raises(ModelError, match="Sampling is for fields"):
            model.as_field("Sampling")
        assert model.all_samples(10**9) is None
        assert model.expected_states(np.zeros(model.n_parameters), sequences, 10**9) is None
        with pytest.raises(ModelError, match="with the encoder of its tagger"):
            model.read_file("sentences.txt")
        assert model.with_input_names(["a", "b", "c"], None).parameter_names[0] != model.parameter_names[0]
