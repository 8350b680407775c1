"""Edges and factor graphs made from arrays, against the same made by loops; and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.inference import FactorGraph
from fieldfit.inference.ragged import Ragged
from fieldfit.models.graphs import check_edges, complete_edges, grid_edges
from fieldfit.types import DataError, ModelError


def test_complete_edges() -> None:
    assert list(map(tuple, complete_edges(6).tolist())) == list(itertools.combinations(range(6), 2))
    assert complete_edges(1).shape == (0, 2)


def test_complete_graphs_that_do_not_fit_are_refused_with_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ModelError, match=r"20,000 variables have 199,990,000 pairs, whose model takes about 14,399,280,000 bytes"
    ):
        ff.BoltzmannMachine(20_000)
    monkeypatch.setattr("fieldfit.models.graphs.memory_limit", lambda: 1_000_000)
    with pytest.raises(
        ModelError, match=r"about 1,432,800 bytes before any fit, and there are 1,000,000 bytes of memory"
    ):
        ff.Potts(200, 2)
    assert len(complete_edges(100)) == 4950


def test_fits_that_do_not_fit_into_memory_are_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = ff.BoltzmannMachine(100), np.zeros((10, 100), dtype=int)
    monkeypatch.setattr("fieldfit.models.boltzmann.memory_limit", lambda: 1_000_000)
    monkeypatch.setattr("fieldfit.api.estimation.Penalties.of", lambda *given: pytest.fail("an array as long as θ"))
    with pytest.raises(
        DataError, match=r"4,950 edges needs at least 2,336,400 bytes beside its samples.* 1,000,000 bytes"
    ):
        ff.fit(model, x, "PL1", sigma2=1.0)
    ff.BoltzmannMachine(100, edge_groups=["a"] * 4950).refuse_size(10)


@pytest.mark.parametrize(("rows", "columns", "neighbours"), [(3, 4, 4), (3, 4, 8), (1, 5, 8), (5, 1, 8), (2, 2, 8)])
def test_grid_edges(rows: int, columns: int, neighbours: int) -> None:
    steps = {(0, 1): "horizontal", (1, 0): "vertical"}
    if neighbours == 8:
        steps |= {(1, 1): "diagonal", (1, -1): "antidiagonal"}
    expected = sorted(
        ((i * columns + j, (i + down) * columns + j + right), name)
        for i in range(rows)
        for j in range(columns)
        for (down, right), name in steps.items()
        if i + down < rows and 0 <= j + right < columns
    )
    edges, directions = grid_edges(rows, columns, neighbours)
    assert list(map(tuple, edges.tolist())) == [edge for edge, _ in expected]
    assert list(directions) == [name for _, name in expected]


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 1), (0, 1, 2)], "Edge 1 is"),
        ([(0, 1), (1, 4)], r"Edge 1 is \(1, 4\), but the variables are 0 to 3"),
        ([(0, 1), (2, 2)], "Edge 1 joins variable 2 to itself"),
        ([(2, 3), (0, 1), (1, 0), (3, 2)], r"Edge 2 repeats edge 1, \(0, 1\)"),
        (np.zeros((2, 3)), r"shape \(2, 3\)"),
    ],
)
def test_bad_edges(edges: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_edges(4, edges)


def test_edges_keep_their_order() -> None:
    assert check_edges(4, [(3, 1), (0, 2)]).tolist() == [[1, 3], [0, 2]]
    assert check_edges(4, []).shape == (0, 2)


def test_factor_graph_against_loops() -> None:
    rng = np.random.default_rng(3)
    cards = (2, 3, 4, 2, 5, 1)
    scopes = tuple(tuple(rng.permutation(6)[: rng.integers(1, 5)].tolist()) for _ in range(20))
    graph = FactorGraph(cards, scopes)
    assert tuple(graph.scopes) == scopes
    assert graph.scopes[-1] == scopes[-1]
    assert graph.scopes[2:4] == list(scopes[2:4])
    assert graph.table_sizes.tolist() == [int(np.prod([cards[v] for v in scope])) for scope in scopes]
    for factor, scope in enumerate(scopes):
        strides = np.array([int(np.prod([cards[v] for v in scope[a + 1 :]])) for a in range(len(scope))])
        assert graph.scope_matrix[factor, : len(scope)].tolist() == list(scope)
        assert graph.stride_matrix[factor, : len(scope)].tolist() == strides.tolist()
        assert (graph.scope_matrix[factor, len(scope) :] == -1).all()
    for variable in range(6):
        factors = [f for f, scope in enumerate(scopes) if variable in scope]
        around = sorted({u for f in factors for u in scopes[f]} - {variable})
        assert graph.factors_of[variable] == tuple(factors)
        assert graph.neighbours[variable] == tuple(around)
        begin, end = graph.factors_of.indptr[variable : variable + 2]
        steps = [graph.stride_matrix[f, scopes[f].index(variable)] for f in factors]
        assert graph.factor_strides_of[begin:end].tolist() == steps
    assert graph == FactorGraph(cards, scopes)
    assert hash(graph) == hash(FactorGraph(cards, scopes))
    assert graph != FactorGraph(cards, scopes[:-1])


def test_ragged_is_a_sequence() -> None:
    lists = Ragged.of([(1, 2), (), (5,)])
    assert list(lists) == [(1, 2), (), (5,)]
    assert len(lists) == 3
    assert lists[-1] == (5,)
    assert lists.padded(-1).tolist() == [[1, 2], [-1, -1], [5, -1]]
    with pytest.raises(IndexError, match="3 lists"):
        lists[3]


def test_names_of_a_potts_model_are_made_when_asked_for() -> None:
    model = ff.Potts(3, 2, states=("a", "b"))
    names = list(model.parameter_names)
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert names == [f"x{j}={s}:x{k}={t}" for j, k in pairs for s in "ab" for t in "ab"] + [
        f"x{j}={s}" for j in range(3) for s in "ab"
    ]
    tied = ff.Potts.grid(2, 2, 2, tied=True, couplings="agree")
    assert list(tied.parameter_names) == ["horizontal.agree", "vertical.agree", "site=0", "site=1"]
    assert model.n_parameters == len(names) == model.features.shape[1]
