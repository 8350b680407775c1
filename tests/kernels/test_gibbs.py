"""Gibbs sampling: its draws have the field's distribution, and what would lead outside the tables is refused."""

import itertools

import numpy as np
import pytest

from fieldfit import _kernels
from fieldfit.inference import FactorGraph
from fieldfit.inference.gibbs import PairwiseOdds, gibbs_sample
from fieldfit.threads import use_threads

GRAPH = FactorGraph((2, 3, 2), [(0, 1), (1, 2), (0, 2)])
TABLES = np.random.default_rng(3).normal(size=GRAPH.table_size)


@pytest.fixture
def given(monkeypatch):
    """The arguments of the kernel for four draws from two chains."""
    arguments = {}
    monkeypatch.setattr(_kernels, "gibbs", lambda **named: arguments.update(named))
    gibbs_sample(GRAPH, TABLES, 4, 0, burn_in=2, thin=1, chains=2)
    monkeypatch.undo()
    return arguments


def test_draws_have_the_distribution_of_the_field():
    n = 40_000
    draws = gibbs_sample(GRAPH, TABLES, n, 1, burn_in=50, thin=4, chains=8)
    states = np.array(list(itertools.product(range(2), range(3), range(2))), dtype=np.int32)
    weight = np.exp(TABLES[GRAPH.entries(states)].sum(axis=1))
    expected = n * weight / weight.sum()
    seen = np.array([(draws == state).all(axis=1).sum() for state in states])
    # χ² of 11 degrees of freedom exceeds 31 once in a thousand times; the chains' draws are nearly independent.
    assert ((seen - expected) ** 2 / expected).sum() < 31


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("entries", -1, "outside the tables"),
        ("entries", 100_000, "outside the tables"),
        ("entries", GRAPH.table_size - 1, "leave the tables"),
        ("start", -1, "a state that its variable does not have"),
        ("start", 2, "a state that its variable does not have"),
        ("stride", -1, "a stride must be at least 1"),
        ("stride", 100_000, "leave the tables"),
    ],
)
def test_what_would_leave_the_tables_is_refused(given, name, value, message):
    _kernels.gibbs(**given)
    wrong = given[name].copy()
    wrong[(-1,) * wrong.ndim] = value
    with pytest.raises(ValueError, match=message):
        _kernels.gibbs(**given | {name: wrong})


def test_wrong_settings_are_refused(given):
    with pytest.raises(ValueError, match="the tables"):
        _kernels.gibbs(**given | {"log_tables": TABLES[:-1]})
    for name, value in [("burn_in", -1), ("thin", 0), ("n_threads", 0)]:
        with pytest.raises(ValueError, match=name):
            _kernels.gibbs(**given | {name: value})


def test_a_fixed_variable_may_have_any_entry_that_exists(given):
    """What is fixed does not move: only the entries that free variables lead to are looked at."""
    fixed = given | {"fixed": np.ones(3, dtype=np.uint8), "entries": given["entries"] * 0}
    _kernels.gibbs(**fixed)
    assert (given["draws"] == given["start"][[0, 1, 0, 1]]).all()


PAIRS = FactorGraph((2,) * 6, [(0, 1), (1, 2), (4, 2), (3, 4), (0, 5), (2,), (0, 3), (5,)])
PAIR_TABLES = np.random.default_rng(4).normal(size=PAIRS.table_size)


MIXED = FactorGraph((2, 3, 13, 10, 5, 30), [(0, 1), (1, 2), (4, 2), (3, 4), (0, 5), (2,), (5, 3), (5,), (2, 3), (2,)])
TRIPLES = FactorGraph((2, 3, 13, 4), [(0, 1, 2), (3, 1), (3,)])


def plain_draws(graph, tables, n, seed, chains, burn_in, thin, given):
    """One variable of one chain at a time, by the formula."""
    m = graph.n_variables
    free = [v for v in range(m) if given is None or given[v] < 0]
    rounds = -(-n // chains)
    start, uniforms = np.empty((chains, m)), np.empty((chains, (burn_in + rounds * thin) * len(free)))
    _kernels.uniforms(seed, 1, np.arange(chains), start)
    _kernels.uniforms(seed, 2, np.arange(chains), uniforms)
    draws = np.empty((rounds, chains, m), dtype=np.int32)
    for chain in range(chains):
        state, numbers = (start[chain] * graph.cardinalities).astype(np.int32), iter(uniforms[chain])
        if given is not None:
            state = np.where(given >= 0, given, state).astype(np.int32)
        for sweep in range(1, burn_in + rounds * thin + 1):
            for v in free:
                tried = np.tile(state, (graph.cardinalities[v], 1))
                tried[:, v] = np.arange(len(tried))
                score = tables[graph.entries(tried)].sum(axis=1)
                below = np.exp(score - score.max()).cumsum()
                state[v] = np.searchsorted(below, next(numbers) * below[-1], side="right")
            if sweep > burn_in and (sweep - burn_in) % thin == 0:
                draws[(sweep - burn_in) // thin - 1, chain] = state
    return draws.reshape(-1, m)[:n]


@pytest.mark.parametrize("graph", [PAIRS, MIXED, TRIPLES], ids=["binary pairs", "pairs", "triples"])
@pytest.mark.parametrize("chains", [1, 5, 19])
@pytest.mark.parametrize("fixed", [False, True])
def test_draws_are_those_of_the_formula(graph, chains, fixed):
    tables = np.random.default_rng(4).normal(size=graph.table_size)
    given = np.array([-1, 1, -1, 0, -1, -1])[: graph.n_variables] if fixed else None
    drawn = gibbs_sample(graph, tables, 60, 5, given=given, chains=chains, burn_in=7, thin=3)
    np.testing.assert_array_equal(drawn, plain_draws(graph, tables, 60, 5, chains, 7, 3, given))


@pytest.mark.parametrize("graph", [PAIRS, MIXED], ids=["binary pairs", "pairs"])
def test_draws_do_not_depend_on_threads_or_on_other_chains(graph):
    tables = np.random.default_rng(6).normal(size=graph.table_size)
    with use_threads(3):
        drawn = gibbs_sample(graph, tables, 50, 5, chains=50, burn_in=7, thin=1)
    np.testing.assert_array_equal(drawn[:20], gibbs_sample(graph, tables, 20, 5, chains=20, burn_in=7, thin=1))


def test_binary_pairs_have_the_same_draws_from_tables(monkeypatch):
    draws = gibbs_sample(PAIRS, PAIR_TABLES, 200, 5, burn_in=20, thin=3, chains=4)
    monkeypatch.setattr(PairwiseOdds, "of", lambda graph: None)
    np.testing.assert_array_equal(draws, gibbs_sample(PAIRS, PAIR_TABLES, 200, 5, burn_in=20, thin=3, chains=4))


def test_a_state_without_probability_is_never_drawn_from_rows():
    tables = np.random.default_rng(6).normal(size=MIXED.table_size)
    tables[MIXED.offsets[0] + 5] = -np.inf  # x_0 = 1, x_1 = 2
    tables[MIXED.offsets[7] :][:29] = -np.inf  # x_5 < 29
    draws = gibbs_sample(MIXED, tables, 500, 5, burn_in=20, thin=3, chains=4)
    assert not ((draws[:, 0] == 1) & (draws[:, 1] == 2)).any()
    assert (draws[:, 5] == 29).all()


def test_states_without_probability_keep_the_tables():
    tables = PAIR_TABLES.copy()
    tables[3] = -np.inf  # x_0 = x_1 = 1
    draws = gibbs_sample(PAIRS, tables, 500, 5, burn_in=20, thin=3, chains=6)
    assert not (draws[:, 0] & draws[:, 1]).any()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("neighbour", 6, "a variable that does not exist"), ("start", 2, "a state that its variable does not have")],
)
def test_what_would_leave_the_neighbours_is_refused(monkeypatch, name, value, message):
    given = {}
    monkeypatch.setattr(_kernels, "gibbs_pairwise", lambda **named: given.update(named))
    gibbs_sample(PAIRS, PAIR_TABLES, 10, 0, burn_in=2, thin=1, chains=5)
    monkeypatch.undo()
    _kernels.gibbs_pairwise(**given)
    wrong = given[name].copy()
    wrong[(-1,) * wrong.ndim] = value
    with pytest.raises(ValueError, match=message):
        _kernels.gibbs_pairwise(**given | {name: wrong})
    for setting, bad in [("burn_in", -1), ("thin", 0), ("n_threads", 0)]:
        with pytest.raises(ValueError, match=setting):
            _kernels.gibbs_pairwise(**given | {setting: bad})
    with pytest.raises(ValueError, match="belong together"):
        _kernels.gibbs_pairwise(**given | {"constant": given["constant"][:-1]})
