"""The couplings of a fit: as a table, as a graph, summed for each variable, and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.couplings import Couplings
from fieldfit.types import ModelError

if TYPE_CHECKING:
    import networkx
    import pandas as pd
    from matplotlib.figure import Figure

    from fieldfit.api.state import FitState

#: Most variables of a network that is drawn.
_MOST_DRAWN = 100


def coupling_table(fit: FitState) -> pd.DataFrame:
    """The couplings (m, m) with names on both sides."""
    import pandas as pd

    couplings = fit.model.coupling_matrix(fit.theta)
    return pd.DataFrame(couplings.values, index=list(couplings.names), columns=list(couplings.names))


def graph_of(fit: FitState) -> networkx.Graph:
    """A graph with the attributes ``weight`` and ``distance`` = 1 / abs(weight) of each edge."""
    import networkx

    couplings = fit.model.coupling_matrix(fit.theta)
    graph: networkx.Graph = networkx.DiGraph() if couplings.directed else networkx.Graph()
    graph.add_nodes_from(couplings.names)
    for j, k in np.argwhere(couplings.values != 0).tolist():
        if couplings.directed or j < k:
            weight = float(couplings.values[j, k])
            graph.add_edge(couplings.names[j], couplings.names[k], weight=weight, distance=1.0 / abs(weight))
    return graph


def strengths(fit: FitState) -> pd.Series[float]:
    """Σ_k abs(w_jk) of each variable, the largest first."""
    import pandas as pd

    couplings = _undirected(fit, "The strength of a variable")
    sums = pd.Series(np.abs(couplings.values).sum(axis=1), index=list(couplings.names), name="strength")
    return sums.sort_values(ascending=False, kind="stable")


def draw_network(fit: FitState, seed: int) -> Figure:
    """The picture of the couplings: a network, or a matrix of the labels of a chain."""
    from fieldfit.report.network import draw_networks
    from fieldfit.report.transitions import draw_transitions

    couplings = fit.model.coupling_matrix(fit.theta)
    if len(couplings.names) > _MOST_DRAWN:
        raise ModelError(
            f"A picture of {len(couplings.names)} variables cannot be read (the limit is {_MOST_DRAWN}). "
            "fit.to_networkx() has the graph; take a part of it."
        )
    if couplings.directed:
        return draw_transitions(couplings.names, couplings.values, couplings.what)
    return draw_networks(couplings.names, [couplings.values], seed=seed)


def _undirected(fit: FitState, what: str) -> Couplings:
    couplings = fit.model.coupling_matrix(fit.theta)
    if couplings.directed:
        raise ModelError(f"{what} is for fields; fit.couplings() has the transitions of a {fit.model.kind} model.")
    return couplings
