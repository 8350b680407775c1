"""The couplings of a fit: as a table, as a graph, summed for each variable, and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fieldfit.models.couplings import Couplings
from fieldfit.types import ModelError

if TYPE_CHECKING:
    import networkx
    import pandas as pd
    from matplotlib.figure import Figure

    from fieldfit.api.state import FitState

#: Variables up to which a network is drawn.
_MOST_DRAWN = 100


def coupling_table(fit: FitState) -> pd.DataFrame:
    """The couplings (m, m) with names on both sides."""
    import pandas as pd

    found = fit.model.coupling_matrix(fit.theta)
    return pd.DataFrame(found.values, index=list(found.names), columns=list(found.names))


def graph_of(fit: FitState) -> networkx.Graph:
    """A graph with the attributes ``weight`` and ``distance`` = 1 / abs(weight) of each edge."""
    import networkx

    found = fit.model.coupling_matrix(fit.theta)
    graph: Any = networkx.DiGraph() if found.directed else networkx.Graph()
    graph.add_nodes_from(found.names)
    for j, k in np.argwhere(found.values != 0).tolist():
        if found.directed or j < k:
            weight = float(found.values[j, k])
            graph.add_edge(found.names[j], found.names[k], weight=weight, distance=1.0 / abs(weight))
    return graph


def strengths(fit: FitState) -> pd.Series[float]:
    """Σ_k abs(w_jk) of each variable, the largest first."""
    import pandas as pd

    found = _undirected(fit, "The strength of a variable")
    sums = pd.Series(np.abs(found.values).sum(axis=1), index=list(found.names), name="strength")
    return sums.sort_values(ascending=False, kind="stable")


def draw_network(fit: FitState, seed: int) -> Figure:
    """The picture of the couplings."""
    from fieldfit.report.network import draw_networks

    found = _undirected(fit, "A picture of a network")
    if len(found.names) > _MOST_DRAWN:
        raise ModelError(
            f"A picture of {len(found.names)} variables cannot be read (the limit is {_MOST_DRAWN}). fit.to_networkx() has "
            "the graph; take a part of it."
        )
    return draw_networks(found.names, [found.values], seed=seed)


def _undirected(fit: FitState, what: str) -> Couplings:
    found = fit.model.coupling_matrix(fit.theta)
    if found.directed:
        raise ModelError(f"{what} is for fields; fit.couplings() has the transitions of a {fit.model.kind} model.")
    return found
