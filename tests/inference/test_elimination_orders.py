"""Elimination orders: what they promise about themselves, and how good they are where the answer is known."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from fieldfit.inference import FactorGraph
from fieldfit.inference import elimination as module
from fieldfit.inference.elimination import elimination_order
from fieldfit.types import WidthError


def order_of(graph, cardinality=2, **options):
    labelled = nx.convert_node_labels_to_integers(graph, ordering="sorted")
    factors = FactorGraph((cardinality,) * len(labelled), tuple(labelled.edges))
    return elimination_order(factors, frozenset(range(len(labelled))), name="The sum", **options)


def tables_of(graph, cardinalities, variables):
    """Separators by elimination on a graph of Python sets."""
    around = {v: set(graph[v]) for v in graph}
    separators = []
    for v in variables:
        mine = around.pop(v)
        separators.append(mine)
        for u in mine:
            around[u] |= mine - {u}
            around[u].discard(v)
    sizes = [
        cardinalities[v] * math.prod(cardinalities[u] for u in s) for v, s in zip(variables, separators, strict=True)
    ]
    return separators, sizes


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 9), st.floats(0, 1), st.integers(0, 2**32), st.booleans())
def test_an_order_describes_itself_and_no_order_beats_the_bound(m, density, seed, search):
    random = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(m, density, seed=int(seed))
    cardinalities = tuple(int(c) for c in random.integers(1, 4, m))
    factors = FactorGraph(cardinalities, tuple(graph.edges))
    with pytest.MonkeyPatch.context() as patch:
        if search:
            patch.setattr(module, "ENOUGH", 0)
        order = elimination_order(factors, frozenset(range(m)), name="The sum")
    assert sorted(order.variables) == list(range(m))
    separators, sizes = tables_of(graph, cardinalities, order.variables)
    place = {v: index for index, v in enumerate(order.variables)}
    assert [list(s) for s in order.separators] == [sorted(s, key=place.get) for s in separators]
    assert order.cost == sum(sizes)
    assert order.width == max(map(len, separators))
    if m <= 6:
        orders = itertools.permutations(range(m))
        largest = min(max(tables_of(graph, cardinalities, variables)[1]) for variables in orders)
        with pytest.raises(WidthError):
            elimination_order(factors, frozenset(range(m)), name="The sum", largest_table=largest - 1)


@pytest.mark.parametrize("size", [9, 12, pytest.param(20, marks=pytest.mark.slow)])
def test_grids_cost_less_than_row_by_row(size):
    order = order_of(nx.grid_2d_graph(size, size))
    assert order.cost < size * size * 2 ** (size + 1) / 2


@pytest.mark.parametrize("sides", [(60, 7), (7, 60)])
def test_a_long_grid_fits_a_limit_that_its_short_side_allows(sides):
    assert order_of(nx.grid_2d_graph(*sides), largest_table=1 << 8).width == 7


def test_the_same_order_every_time():
    graph = nx.random_regular_graph(3, 90, seed=2)
    assert order_of(graph) == order_of(graph)


def test_disconnected_graphs_are_searched_too():
    order = order_of(nx.disjoint_union(nx.grid_2d_graph(11, 11), nx.grid_2d_graph(11, 11)))
    assert order.cost <= 2 * 11 * 11 * 2**12


def test_only_a_bound_says_at_least():
    with pytest.raises(WidthError, match=r"over 40 variables with a width of at least 39"):
        order_of(nx.complete_graph(40))
    with pytest.raises(
        WidthError, match=r"best of the \d+ elimination orders that were tried has a width of \d+"
    ) as error:
        order_of(nx.grid_2d_graph(12, 12), largest_table=1 << 8)
    assert "at least" not in str(error.value)
