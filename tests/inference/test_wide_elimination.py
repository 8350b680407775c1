"""Wide eliminations, whose tables are not stored, against enumeration, differences and an exact formula."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import joint_states, log_sum, log_weights
from properties import examples

import fieldfit as ff
from fieldfit.inference import (
    ExactInference,
    FactorGraph,
    ProgramCompiler,
    ProgramSet,
    check_tables,
    programs,
    templates,
)


@pytest.fixture
def always_wide(monkeypatch):
    monkeypatch.setattr(templates, "MOST_MESSAGE_CELLS", 0)


@pytest.fixture(params=[1 << 25, 1], ids=["one segment", "many segments"])
def memory(request, monkeypatch):
    monkeypatch.setattr(programs, "MESSAGE_MEMORY", request.param)


@st.composite
def fields(draw):
    m = draw(st.integers(1, 7))
    cardinalities = tuple(draw(st.lists(st.integers(1, 3), min_size=m, max_size=m)))
    scope = st.lists(st.integers(0, m - 1), min_size=1, max_size=min(m, 3), unique=True).map(tuple)
    graph = FactorGraph(cardinalities, tuple(draw(st.lists(scope, max_size=9))))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    tables = random.normal(size=graph.table_size) * draw(st.sampled_from([0.3, 3.0, 300.0]))
    if draw(st.booleans()):
        tables[random.random(graph.table_size) < 0.05] = -np.inf
    known = random.random(m) < draw(st.sampled_from([0.0, 0.4]))
    evidence = np.where(known, [random.integers(c) for c in cardinalities], -1)
    return graph, tables, evidence


@pytest.mark.slow
@pytest.mark.usefixtures("always_wide", "memory")
def test_log_partition_marginals_and_best_state_agree_with_enumeration():
    @settings(max_examples=examples(100), deadline=None)
    @given(fields())
    def check(field):
        graph, tables, evidence = field
        states = joint_states(graph.cardinalities)
        states = states[np.all((evidence < 0) | (states == evidence), axis=1)]
        logs = log_weights(graph, tables, states)
        log_z = log_sum(logs)
        if not np.isfinite(log_z) or any(
            not np.isfinite(tables[a:b]).any() for a, b in zip(graph.offsets[:-1], graph.offsets[1:], strict=True)
        ):
            return
        marginals = np.zeros(graph.table_size)
        for state, log in zip(states, logs, strict=True):
            np.add.at(marginals, graph.entries(state[None, :])[0], np.exp(log - log_z))
        exact = ExactInference(graph)
        assert exact.log_partition(tables, evidence) == pytest.approx(log_z, rel=1e-12, abs=1e-10)
        np.testing.assert_allclose(exact.marginals(tables, evidence), marginals, atol=1e-10)
        state, value = exact.best_state(tables, evidence)
        assert value == pytest.approx(logs.max(), rel=1e-12, abs=1e-10)
        assert log_weights(graph, tables, state[None, :])[0] == pytest.approx(logs.max(), rel=1e-12, abs=1e-10)

    check()


@pytest.mark.parametrize("scale", [0.5, 300.0], ids=["probability space", "log space"])
@pytest.mark.usefixtures("always_wide", "memory")
def test_slopes_agree_with_the_stored_tables(scale, monkeypatch):
    random = np.random.default_rng(4)
    graph = FactorGraph((2, 3, 2, 2, 3, 2, 2, 2), tuple(nx.gnm_random_graph(8, 14, seed=1).edges))
    tables, direction = random.normal(size=(2, graph.table_size)) * [[scale], [1.0]]
    tables = check_tables(graph, tables)

    def slopes():
        both = ProgramSet(graph, [ProgramCompiler(graph).compile(frozenset(range(2, 8)))])
        lines = both.configure([random_lines])
        slope, change, log_z = np.empty(5), np.zeros(graph.table_size), np.empty(5)
        weight = np.arange(1.0, 6.0)
        again = both.run(
            tables, lines, weight=weight, direction=direction, slope=slope, marginal_slope=change, log_z=log_z
        )
        assert (again > 0) == (scale > 1)
        return slope, change, log_z

    random_lines = np.full((5, 8), -1, dtype=np.int32)
    random_lines[:, :2] = random.integers(0, (2, 3), (5, 2))
    found = slopes()
    monkeypatch.setattr(templates, "MOST_MESSAGE_CELLS", 1 << 16)
    for wide, stored in zip(found, slopes(), strict=True):
        np.testing.assert_allclose(wide, stored, rtol=1e-11, atol=1e-11)


@pytest.mark.usefixtures("always_wide")
def test_segments_and_threads_do_not_change_a_bit(monkeypatch):
    model = ff.BoltzmannMachine.grid(5, 6, biases=True)
    theta = np.random.default_rng(0).normal(size=model.n_parameters)
    results = []
    for memory, threads in ((1 << 25, 1), (64, 1), (1, 2)):
        monkeypatch.setattr(programs, "MESSAGE_MEMORY", memory)
        exact = ExactInference(model.graph)
        ff.set_threads(threads)
        tables = model.log_tables(theta)
        results.append(
            (
                exact.log_partition(tables),
                exact.marginals(tables),
                exact.sample(tables, 50, 3),
                exact.best_state(tables),
            )
        )
        ff.set_threads(None)
    for log_z, marginals, draws, best in results[1:]:
        assert log_z == results[0][0]
        assert np.array_equal(marginals, results[0][1])
        assert np.array_equal(draws, results[0][2])
        assert np.array_equal(best[0], results[0][3][0])
        assert best[1] == results[0][3][1]


@pytest.mark.usefixtures("always_wide", "memory")
def test_exact_draws_follow_the_law():
    """χ² on all joint states with 20,000 draws; the fixed seed fails with probability below 1e-4 for right code."""
    from scipy.stats import chi2

    graph = FactorGraph((2, 3, 2, 2), ((0, 1), (1, 2), (2, 3), (0, 3)))
    tables = np.random.default_rng(5).normal(size=graph.table_size)
    states = joint_states(graph.cardinalities)
    logs = log_weights(graph, tables, states)
    expected = np.exp(logs - log_sum(logs)) * 20_000
    draws = ExactInference(graph).sample(tables, 20_000, 7)
    counts = np.array([np.all(draws == state, axis=1).sum() for state in states])
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, len(states) - 1)


def planar_log_partition(rows, columns, coupling):
    """log Z of an Ising field without biases on a grid by the formula of Kac and Ward for planar graphs.

    Z = 2^n Π cosh J · det(I − T)^½, where T goes from a directed edge to those that leave its end, other than back, and
    has tanh J times e^{iα/2} with the angle α of the turn.
    """
    directed, position = [], {r * columns + c: complex(c, r) for r in range(rows) for c in range(columns)}
    for (a, b), strength in coupling.items():
        directed += [(a, b, strength), (b, a, strength)]
    matrix = np.eye(len(directed), dtype=complex)
    leaving: dict[int, list[int]] = {}
    for index, (a, _, _) in enumerate(directed):
        leaving.setdefault(a, []).append(index)
    for index, (a, b, strength) in enumerate(directed):
        for other in leaving[b]:
            c = directed[other][1]
            if c != a:
                turn = np.angle((position[c] - position[b]) / (position[b] - position[a]))
                matrix[index, other] -= np.tanh(strength) * np.exp(0.5j * turn)
    sign, log_determinant = np.linalg.slogdet(matrix)
    assert abs(sign - 1) < 1e-8
    return rows * columns * np.log(2) + sum(np.log(np.cosh(s)) for s in coupling.values()) + log_determinant / 2


@pytest.mark.parametrize(("rows", "columns"), [(9, 13), pytest.param(20, 20, marks=pytest.mark.slow)])
def test_large_grids_agree_with_the_formula_for_planar_graphs(rows, columns):
    model = ff.BoltzmannMachine.grid(rows, columns, biases=False, states=(-1, 1))
    theta = np.random.default_rng(1).normal(scale=0.4, size=model.n_parameters)
    coupling = dict(zip(model.edges, theta, strict=True))
    assert model.log_partition(theta) == pytest.approx(planar_log_partition(rows, columns, coupling), rel=1e-12)


@pytest.mark.parametrize("size", [11, pytest.param(16, marks=pytest.mark.slow)])
def test_marginals_of_large_grids_are_derivatives(size):
    model = ff.BoltzmannMachine.grid(size, size, biases=True, states=(-1, 1))
    random = np.random.default_rng(size)
    tables = model.log_tables(random.normal(scale=0.3, size=model.n_parameters))
    exact = ExactInference(model.graph)
    assert exact.programs(frozenset(range(size * size))).programs[0].template.wide
    direction, h = random.normal(size=len(tables)), 1e-5
    up, down = exact.log_partition(tables + h * direction), exact.log_partition(tables - h * direction)
    assert exact.marginals(tables) @ direction == pytest.approx((up - down) / (2 * h), abs=1e-6)
