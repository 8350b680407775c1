"""The couplings of a fit: as a table, as a graph, summed for each variable, and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.arguments import count_of
from fieldfit.types import ModelError

if TYPE_CHECKING:
    import networkx
    import pandas as pd
    from matplotlib.figure import Figure

    from fieldfit.api.state import FitState

#: Most variables of a network that is drawn.
_MOST_DRAWN_VARIABLES = 100


def coupling_table(fit: FitState) -> pd.DataFrame:
    """Return the coupling of each pair of variables, or of each label (row) with the next one (column).

    Returns
    -------
    DataFrame
        Binary fields: log odds ratios (θ of a Boltzmann machine). More states: the Frobenius norm of the centred table.
        Infinite for pairs with forbidden states.
        Chains: transition weights.

    Examples
    --------
    %(fit)s
    >>> fit.couplings().round(2)
          x0    x1    x2
    x0  0.00  0.80 -0.93
    x1  0.80  0.00  0.55
    x2 -0.93  0.55  0.00
    """
    import pandas as pd

    couplings = fit.model.coupling_matrix(fit.theta)
    return pd.DataFrame(couplings.values, index=list(couplings.names), columns=list(couplings.names))


def graph_of(fit: FitState) -> networkx.Graph:
    """Return the couplings as a graph with the edge attributes ``weight`` and ``distance`` = 1 / abs(weight).

    Returns
    -------
    networkx.Graph
        A directed graph of labels for chains. ``networkx.write_graphml`` writes it to a file.

    Examples
    --------
    %(fit)s
    >>> round(fit.to_networkx()["x0"]["x1"]["weight"], 2)
    0.8
    """
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
    """Return Σ_k abs(coupling) of each variable, the largest first.

    Returns
    -------
    Series

    Examples
    --------
    %(fit)s
    >>> fit.strength().round(2).to_dict()
    {'x0': 1.73, 'x2': 1.48, 'x1': 1.35}
    """
    import pandas as pd

    couplings = fit.model.coupling_matrix(fit.theta)
    if couplings.directed:
        raise ModelError(
            f"The strength of a variable is for fields; fit.couplings() has the transitions of a {fit.model.kind} model."
        )
    sums = pd.Series(np.abs(couplings.values).sum(axis=1), index=list(couplings.names), name="strength")
    return sums.sort_values(ascending=False, kind="stable")


def draw_network(fit: FitState, *, edges: int | None = None, seed: int = 0) -> Figure:
    """Draw the couplings as a network, or the transitions of a chain as a matrix. `couplings` has the same numbers.

    Parameters
    ----------
    edges : int or None, default: None
        How many couplings of a network are drawn, the strongest first. None: two for each variable, as on the report
        page. If some are left out, the caption says so.
    seed : int, default: 0
        Seed of the layout.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    %(fit)s
    >>> fit.plot_network().savefig("network.png")
    """
    from fieldfit.report.network import DRAWN_FOR_EACH, draw_networks, strongest_of
    from fieldfit.report.transitions import draw_transitions

    couplings = fit.model.coupling_matrix(fit.theta)
    if len(couplings.names) > _MOST_DRAWN_VARIABLES:
        raise ModelError(
            f"A picture of {len(couplings.names)} variables cannot be read (the limit is {_MOST_DRAWN_VARIABLES}). "
            "fit.to_networkx() has the graph; take a part of it."
        )
    if couplings.directed:
        return draw_transitions(couplings.names, couplings.values, couplings.what)
    count = DRAWN_FOR_EACH * len(couplings.names) if edges is None else count_of(edges, "edges")
    total = int(np.count_nonzero(np.triu(couplings.values, 1)))
    caption = f"The {count:,} strongest of {total:,} couplings." if count < total else ""
    shown = strongest_of(couplings.values, count)
    return draw_networks(couplings.names, [shown], seed=seed, signed=couplings.signed, caption=caption)
