"""Exact inference against enumeration and the transfer matrix."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import joint_states, log_sum, log_weights
from properties import examples

import fieldfit as ff
from fieldfit.inference import ExactInference, FactorGraph, ProgramCompiler, ProgramSet, check_tables
from fieldfit.inference.elimination import elimination_order
from fieldfit.types import ModelError, WidthError


@st.composite
def fields(draw):
    m = draw(st.integers(1, 6))
    cardinalities = tuple(draw(st.lists(st.integers(1, 3), min_size=m, max_size=m)))
    scope = st.lists(st.integers(0, m - 1), min_size=1, max_size=min(m, 3), unique=True).map(tuple)
    graph = FactorGraph(cardinalities, tuple(draw(st.lists(scope, max_size=7))))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    tables = random.normal(size=graph.table_size) * draw(st.sampled_from([0.3, 3.0, 300.0]))
    known = random.random(m) < draw(st.sampled_from([0.0, 0.4]))
    evidence = np.where(known, [random.integers(c) for c in cardinalities], -1)
    return graph, tables, evidence


def enumerated(graph, tables, evidence):
    states = joint_states(graph.cardinalities)
    states = states[np.all((evidence < 0) | (states == evidence), axis=1)]
    logs = log_weights(graph, tables, states)
    log_z = log_sum(logs)
    marginals = np.zeros(graph.table_size)
    for state, log in zip(states, logs, strict=True):
        np.add.at(marginals, graph.entries(state[None, :])[0], np.exp(log - log_z))
    return log_z, marginals, logs.max()


@settings(max_examples=examples(150), deadline=None)
@given(fields())
def test_log_partition_marginals_and_best_state_agree_with_enumeration(field):
    graph, tables, evidence = field
    exact = ExactInference(graph)
    log_z, marginals, best = enumerated(graph, tables, evidence)
    assert exact.log_partition(tables, evidence) == pytest.approx(log_z, rel=1e-12, abs=1e-10)
    np.testing.assert_allclose(exact.marginals(tables, evidence), marginals, atol=1e-10)
    state, value = exact.best_state(tables, evidence)
    assert value == pytest.approx(best, rel=1e-12, abs=1e-10)
    assert log_weights(graph, tables, state[None, :])[0] == pytest.approx(best, rel=1e-12, abs=1e-10)
    if (evidence >= 0).any() and (evidence < 0).any():
        lines = np.stack([evidence, evidence, evidence, evidence])
        many, each = exact.batch(tables, lines)
        np.testing.assert_allclose(many, log_z, rtol=1e-12, atol=1e-10)
        np.testing.assert_allclose(each, np.tile(marginals, (4, 1)), atol=1e-10)


@settings(max_examples=examples(60), deadline=None)
@given(fields())
def test_slopes_agree_with_differences(field):
    graph, tables, _ = field
    tables = tables / max(1.0, np.abs(tables).max(initial=1.0) / 3)
    random = np.random.default_rng(1)
    direction = random.normal(size=graph.table_size)
    programs = ProgramSet(graph, [ProgramCompiler(graph).compile(frozenset(range(graph.n_variables)))])
    one = programs.configure([np.zeros((1, graph.n_variables), dtype=np.int32)])
    slope, change = np.empty(1), np.zeros(graph.table_size)
    prepared = check_tables(graph, tables)
    programs.run(prepared, one, direction=direction, slope=slope, marginal_slope=change)
    exact, h = ExactInference(graph), 1e-5
    up, down = tables + h * direction, tables - h * direction
    assert slope[0] == pytest.approx((exact.log_partition(up) - exact.log_partition(down)) / (2 * h), abs=1e-7)
    np.testing.assert_allclose(change, (exact.marginals(up) - exact.marginals(down)) / (2 * h), atol=1e-7)


def ising_grid(rows, columns):
    model = ff.BoltzmannMachine.grid(rows, columns, biases=True, states=(-1, 1))
    theta = np.random.default_rng(rows * columns).normal(scale=0.4, size=model.n_parameters)
    return model, theta


def transfer_matrix(model, theta, rows, columns):
    """log Z and the marginal P(x = +1) of each site, one column of sites at a time in log space."""
    spins = 2 * joint_states((2,) * rows) - 1
    coupling = dict(zip(model.edges, theta, strict=False))
    bias = theta[len(model.edges) :]

    def inside(c):
        total = spins @ bias[[r * columns + c for r in range(rows)]]
        for r in range(rows - 1):
            total = total + coupling[r * columns + c, (r + 1) * columns + c] * spins[:, r] * spins[:, r + 1]
        return total

    def between(c):
        weights = np.array([coupling[r * columns + c, r * columns + c + 1] for r in range(rows)])
        return (spins * weights) @ spins.T

    forward = [inside(0)]
    for c in range(1, columns):
        step = forward[-1][:, None] + between(c - 1)
        forward.append(np.logaddexp.reduce(step, axis=0) + inside(c))
    backward = [np.zeros(len(spins))]
    for c in range(columns - 2, -1, -1):
        step = between(c) + (inside(c + 1) + backward[-1])[None, :]
        backward.append(np.logaddexp.reduce(step, axis=1))
    backward.reverse()
    log_z = np.logaddexp.reduce(forward[-1])
    marginals = np.empty(rows * columns)
    for c in range(columns):
        p = np.exp(forward[c] + backward[c] - log_z)
        for r in range(rows):
            marginals[r * columns + c] = p[spins[:, r] == 1].sum()
    return log_z, marginals


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns"), [(10, 10), (4, 200)])
def test_large_grids_agree_with_the_transfer_matrix(rows, columns):
    model, theta = ising_grid(rows, columns)
    log_z, marginals = transfer_matrix(model, theta, rows, columns)
    assert model.log_partition(theta) == pytest.approx(log_z, rel=1e-9)
    found = np.array([vector[1] for vector in model.marginals(theta)])
    np.testing.assert_allclose(found, marginals, atol=1e-9)


def test_too_wide_is_refused_by_name_before_any_work():
    model = ff.BoltzmannMachine(60)
    with pytest.raises(WidthError, match=r"The full field sums over 60 variables with a width of at least"):
        model.log_partition(np.zeros(model.n_parameters))


def test_min_fill_keeps_trees_at_width_one_and_cycles_at_two():
    tree = nx.random_labeled_tree(40, seed=1)
    graph = FactorGraph((2,) * 40, tuple(tree.edges))
    assert elimination_order(graph, frozenset(range(40)), name="tree").width == 1
    cycle = FactorGraph((3,) * 12, tuple((i, (i + 1) % 12) for i in range(12)))
    assert elimination_order(cycle, frozenset(range(12)), name="cycle").width == 2


def test_threads_do_not_change_a_bit():
    random = np.random.default_rng(0)
    graph = FactorGraph((2,) * 14, tuple(nx.gnm_random_graph(14, 30, seed=2).edges))
    exact = ExactInference(graph)
    tables = random.normal(size=graph.table_size)
    lines = np.full((500, 14), -1)
    lines[:, :3] = random.integers(0, 2, (500, 3))
    programs = exact.programs(frozenset(range(3, 14)))
    configurations = programs.configure([lines])
    results = []
    for threads in (1, 2):
        ff.set_threads(threads)
        total = np.zeros(graph.table_size)
        programs.run(
            check_tables(graph, tables), configurations, weight=random.random(500) * 0 + 0.1, marginals=total
        )
        results.append(total)
    ff.set_threads(None)
    assert np.array_equal(results[0], results[1])


def test_extreme_tables_are_done_again_in_log_space():
    chain = FactorGraph((2,) * 4, ((0, 1), (1, 2), (2, 3)))
    # The message of the first factor favours state 0 by e^1000; the last factor takes that back and more.
    tables = np.array([1000.0, 0, 0, 0, 0, -900.0, -900.0, 500.0, 0, -800.0, 700.0, 900.0])
    states = joint_states(chain.cardinalities)
    assert ExactInference(chain).log_partition(tables) == pytest.approx(log_sum(log_weights(chain, tables, states)))
    _, marginals, _ = enumerated(chain, tables, np.full(4, -1))
    np.testing.assert_allclose(ExactInference(chain).marginals(tables), marginals, atol=1e-12)


def test_forbidden_states_have_probability_zero():
    graph = FactorGraph((2, 2), ((0, 1),))
    tables = np.array([0.0, -np.inf, -np.inf, 1.0])
    exact = ExactInference(graph)
    assert exact.log_partition(tables) == pytest.approx(np.log(1 + np.e))
    np.testing.assert_allclose(exact.marginals(tables), [1 / (1 + np.e), 0, 0, np.e / (1 + np.e)], atol=1e-15)
    draws = exact.sample(tables, 500, 3)
    assert np.all(draws[:, 0] == draws[:, 1])


def test_a_table_without_a_finite_entry_is_refused():
    graph = FactorGraph((2,), ((0,),))
    with pytest.raises(ModelError, match="no finite entry"):
        ExactInference(graph).log_partition(np.array([np.nan, 0.0]))


def test_exact_draws_follow_the_law():
    """χ² on all joint states with 20,000 draws; the fixed seed fails with probability below 1e-4 for right code."""
    from scipy.stats import chi2

    random = np.random.default_rng(5)
    graph = FactorGraph((2, 3, 2, 2), ((0, 1), (1, 2), (2, 3), (0, 3)))
    tables = random.normal(size=graph.table_size)
    states = joint_states(graph.cardinalities)
    logs = log_weights(graph, tables, states)
    expected = np.exp(logs - log_sum(logs)) * 20_000
    draws = ExactInference(graph).sample(tables, 20_000, 7)
    counts = np.array([np.all(draws == state, axis=1).sum() for state in states])
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(1 - 1e-4, len(states) - 1)


def test_draws_do_not_depend_on_how_they_are_cut():
    graph = FactorGraph((2,) * 5, ((0, 1), (1, 2), (2, 3), (3, 4)))
    tables = np.random.default_rng(0).normal(size=graph.table_size)
    exact = ExactInference(graph)
    whole = exact.sample(tables, 100, 9)
    parts = np.concatenate([exact.sample(tables, 60, 9), exact.sample(tables, 40, 9, first_row=60)])
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize("scopes", [((0, 0),), ((0, 5),), ((),)])
def test_wrong_scopes_are_refused(scopes):
    with pytest.raises(ModelError):
        FactorGraph((2, 2), scopes)
