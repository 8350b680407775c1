"""Edges of the usual graphs: complete, grid, networkx, and the checks that every list of edges goes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fieldfit.types import ModelError

Edges = tuple[tuple[int, int], ...]


def complete_edges(m: int) -> Edges:
    """All pairs (j, k), j < k, in row-major order: 12, 13, …, 23, …"""
    return tuple((j, k) for j in range(m) for k in range(j + 1, m))


def grid_edges(rows: int, columns: int, neighbours: int = 4) -> tuple[Edges, tuple[str, ...]]:
    """Edges of a rows × columns grid with 4 or 8 neighbours and each edge's direction.

    Site (i, j) is variable i · columns + j. Directions: "horizontal", "vertical", "diagonal", "antidiagonal".
    """
    if rows < 1 or columns < 1:
        raise ModelError(f"A grid needs at least one row and one column; got {rows} × {columns}.")
    if neighbours not in (4, 8):
        raise ModelError(f"A grid has 4 or 8 neighbours a site; got {neighbours}.")
    steps = [(0, 1, "horizontal"), (1, 0, "vertical")]
    if neighbours == 8:
        steps += [(1, 1, "diagonal"), (1, -1, "antidiagonal")]
    found = []
    for i in range(rows):
        for j in range(columns):
            for down, right, direction in steps:
                if i + down < rows and 0 <= j + right < columns:
                    found.append(((i * columns + j, (i + down) * columns + j + right), direction))
    found.sort()
    return tuple(edge for edge, _ in found), tuple(direction for _, direction in found)


def networkx_edges(graph: Any) -> tuple[Edges, tuple[str, ...]]:
    """Edges and node names of an undirected networkx graph, nodes in the graph's own order."""
    if graph.is_directed():
        raise ModelError("The networkx graph is directed; a field needs an undirected one (graph.to_undirected()).")
    nodes = list(graph.nodes)
    place = {node: index for index, node in enumerate(nodes)}
    for node in nodes:
        if graph.has_edge(node, node):
            raise ModelError(f"The networkx graph has a loop at node {node!r}; remove it.")
    edges = sorted((min(place[a], place[b]), max(place[a], place[b])) for a, b in graph.edges())
    return tuple(dict.fromkeys(edges)), tuple(map(str, nodes))


def check_edges(m: int, edges: Sequence[Any] | None) -> Edges:
    """The edges as pairs (j, k) with j < k in the order given, or all pairs for None."""
    if edges is None:
        return complete_edges(m)
    checked: dict[tuple[int, int], int] = {}
    for position, edge in enumerate(edges):
        if len(edge) != 2:
            raise ModelError(f"Edge {position} is {edge!r}; an edge is a pair of variables.")
        j, k = int(edge[0]), int(edge[1])
        if not (0 <= j < m and 0 <= k < m):
            raise ModelError(f"Edge {position} is ({j}, {k}), but the variables are 0 to {m - 1}.")
        if j == k:
            raise ModelError(f"Edge {position} joins variable {j} to itself.")
        pair = (min(j, k), max(j, k))
        if pair in checked:
            raise ModelError(f"Edge {position} repeats edge {checked[pair]}, {pair}; list every edge once.")
        checked[pair] = position
    return tuple(checked)
