"""Edges of the usual graphs (complete, grid, networkx), and the checks of all lists of edges.

Edges are an array (edges, 2) of variables j < k, made without a loop over edges: a graph may have millions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.arguments import array_of, count_of, has_entries, is_list
from fieldfit.data.memory import memory_limit
from fieldfit.types import IntArray, ModelError

if TYPE_CHECKING:
    import networkx


#: Most variables of a field.
MOST_VARIABLES = 1 << 24
#: Most edges of a complete graph: entries of factors have 32-bit numbers.
_MOST_GRAPH_EDGES = 1 << 27
#: Bytes that a model takes for each edge, its factor included: 71 to 75 in models of 1,500 and 3,000 variables.
BYTES_OF_EDGE = 72


def complete_edges(m: int) -> IntArray:
    """All pairs (j, k), j < k, in row-major order: 12, 13, …, 23, …"""
    pairs, memory = m * (m - 1) // 2, memory_limit()
    needed = BYTES_OF_EDGE * pairs
    if pairs > _MOST_GRAPH_EDGES or (memory is not None and needed > memory):
        available = "" if memory is None else f", and there are {memory:,} bytes of memory"
        raise ModelError(
            f"{m:,} variables have {pairs:,} pairs, whose model takes about {needed:,} bytes before any fit{available}; "
            f"the limit is {_MOST_GRAPH_EDGES:,} pairs. Give the edges of a sparse graph."
        )
    return np.stack(np.triu_indices(m, 1), axis=1).astype(np.int64, copy=False)


def grid_size(rows: object, columns: object) -> tuple[int, int]:
    """The numbers of rows and columns of a grid."""
    height, width = (
        count_of(rows, "The number of rows of a grid"),
        count_of(columns, "The number of columns of a grid"),
    )
    if height * width > MOST_VARIABLES:
        raise ModelError(f"A grid has at most {MOST_VARIABLES:,} sites; got {height:,} × {width:,}.")
    return height, width


def grid_edges(rows: int, columns: int, neighbours: int = 4) -> tuple[IntArray, tuple[str, ...]]:
    """Edges of a rows × columns grid with 4 or 8 neighbours and each edge's direction.

    Site (i, j) is variable i · columns + j. Directions: "horizontal", "vertical", "diagonal", "antidiagonal".
    """
    rows, columns = grid_size(rows, columns)
    if not isinstance(neighbours, int | float | np.number) or neighbours not in (4, 8):
        raise ModelError(f"A grid has 4 or 8 neighbours per site; got {neighbours!r:.80}.")
    steps = [(0, 1, "horizontal"), (1, 0, "vertical")]
    if neighbours == 8:
        steps += [(1, 1, "diagonal"), (1, -1, "antidiagonal")]
    sites = np.arange(rows * columns, dtype=np.int64).reshape(rows, columns)
    blocks, direction = [], []
    for number, (down, right, _) in enumerate(steps):
        first = sites[: rows - down, max(0, -right) : columns - max(0, right)].ravel()
        blocks.append(np.stack([first, first + down * columns + right], axis=1))
        direction.append(np.full(len(first), number))
    edges = np.concatenate(blocks)
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    names = np.array([name for _, _, name in steps])
    return edges[order], tuple(names[np.concatenate(direction)[order]].tolist())


def networkx_edges(graph: networkx.Graph) -> tuple[IntArray, tuple[str, ...]]:
    """Edges and node names of an undirected networkx graph, nodes in the graph's own order."""
    if not all(hasattr(type(graph), name) for name in ("is_directed", "nodes", "edges", "has_edge")):
        raise ModelError(f"from_networkx needs a networkx graph; got {graph!r:.80}.")
    if graph.is_directed():
        raise ModelError("The networkx graph is directed; a field needs an undirected one (graph.to_undirected()).")
    nodes = list(graph.nodes)
    place = {node: index for index, node in enumerate(nodes)}
    for node in nodes:
        if graph.has_edge(node, node):
            raise ModelError(f"The networkx graph has a loop at node {node!r:.80}; remove it.")
    ends = np.array([(place[a], place[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    return np.unique(np.sort(ends, axis=1), axis=0), tuple(map(str, nodes))


def check_edges(m: int, edges: object) -> IntArray:
    """The edges as pairs (j, k) with j < k in the order given (edges, 2), or all pairs for None."""
    if edges is None:
        return complete_edges(m)
    if not isinstance(edges, np.ndarray):
        if isinstance(edges, str) or not has_entries(edges):
            raise ModelError(
                f"edges is {edges!r:.80}; it must be a list of pairs of variables, or None for all pairs."
            )
        for position, edge in enumerate(edges):
            if not is_list(edge) or len(edge) != 2:
                raise ModelError(f"Edge {position} is {edge!r:.80}; an edge is a pair of variables.")
    given = array_of(edges, name="edges")
    if (
        given.size
        and given.dtype.kind not in "iu"
        and not (given.dtype.kind == "f" and (given == np.rint(given)).all())
    ):
        raise ModelError(f"The edges have the type {given.dtype}; an edge is a pair of variables, by number.")
    if given.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if given.ndim != 2 or given.shape[1] != 2:
        raise ModelError(f"The edges have the shape {given.shape}; an edge is a pair of variables.")
    pairs = given.astype(np.int64)
    outside = np.flatnonzero(((pairs < 0) | (pairs >= m)).any(axis=1))
    if len(outside):
        j, k = pairs[outside[0]].tolist()
        raise ModelError(f"Edge {outside[0]} is ({j}, {k}), but the variables are 0 to {m - 1}.")
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        raise ModelError(f"Edge {loops[0]} joins variable {pairs[loops[0], 0]} to itself.")
    pairs = np.sort(pairs, axis=1)
    keys = pairs[:, 0] * m + pairs[:, 1]
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(again):
        # The first repetition in the order given, and the edge that it repeats.
        position = int(order[again + 1].min())
        earlier = int(np.flatnonzero(keys == keys[position])[0])
        pair = tuple(pairs[position].tolist())
        raise ModelError(f"Edge {position} repeats edge {earlier}, {pair}; list every edge once.")
    return pairs


def pairwise_scopes(edges: IntArray, singles: int) -> tuple[IntArray, IntArray]:
    """The scopes of a pairwise field as flat arrays: the edges, then the first ``singles`` variables one by one."""
    lengths = np.concatenate([np.full(len(edges), 2), np.ones(singles, dtype=np.int64)])
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return indptr, np.concatenate([edges.ravel(), np.arange(singles)])
