"""Centrality of the variables of a network, and how well the others predict each variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.arguments import instance_of
from fieldfit.networks.network import Network
from fieldfit.networks.responses import answers_to
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    import pandas

#: The measures of `centrality`, in its order.
MEASURES = ("strength", "expected_influence", "betweenness", "closeness")


def centrality(network: Network) -> pandas.DataFrame:
    """Return the centrality of each variable.

    Parameters
    ----------
    network : Network
        The network.

    Returns
    -------
    DataFrame
        A row for each variable. ``strength``: Σ_k abs(w_jk). ``expected_influence``: Σ_k w_jk. ``betweenness``: the number
        of shortest paths between other variables through this one, where an edge is 1 / abs(w) long. ``closeness``:
        (variables reached)² / ((m − 1) Σ distances), which is (m − 1) / Σ distances in a connected network.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> w = np.array([[0, 2.0, 0], [2.0, 0, -1.0], [0, -1.0, 0]])
    >>> network = networks.Network(("sad", "tired", "calm"), w, np.zeros(3), 100, "by hand")
    >>> networks.centrality(network)
           strength  expected_influence  betweenness  closeness
    sad         2.0                 2.0          0.0   1.000000
    tired       3.0                 1.0          1.0   1.333333
    calm        1.0                -1.0          0.0   0.800000
    """
    import pandas

    instance_of(network, Network, "centrality needs a Network")
    return pandas.DataFrame(centralities(network.couplings).T, index=list(network.names), columns=list(MEASURES))


def centralities(couplings: FloatArray) -> FloatArray:
    """The measures (4, m) of couplings (m, m)."""
    import networkx

    m = len(couplings)
    graph: networkx.Graph = networkx.Graph()
    graph.add_nodes_from(range(m))
    for j, k in np.argwhere(np.triu(couplings, 1) != 0).tolist():
        graph.add_edge(j, k, distance=1.0 / abs(float(couplings[j, k])))
    between = networkx.betweenness_centrality(graph, weight="distance", normalized=False)
    close = networkx.closeness_centrality(graph, distance="distance")
    return np.array(
        [
            np.abs(couplings).sum(axis=1),
            couplings.sum(axis=1),
            [between[j] for j in range(m)],
            [close[j] for j in range(m)],
        ]
    )


def predictability(data: object, network: Network) -> pandas.DataFrame:
    """Return how well the other variables predict each variable.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        The answers; rows with missing values do not count.
    network : Network
        From `nodewise_network`: each variable is predicted by its own regression. Networks of other methods predict by
        their couplings.

    Returns
    -------
    DataFrame
        A row for each variable. ``accuracy``: the share of correct predictions. ``majority``: the share of the more
        frequent value, which is the accuracy without the others. ``normalised``: (accuracy − majority) / (1 −
        majority), which is 0 if the others do not help and 1 if they determine the variable (Haslbeck and
        Waldorp, "How well do network models predict observations?", 2018).

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    >>> networks.predictability(x, networks.nodewise_network(x)).round(2)
        accuracy  majority  normalised
    x0       0.8       0.5         0.6
    x1       0.8       0.5         0.6
    """
    import pandas

    instance_of(network, Network, "predictability needs a Network")
    answers = answers_to(data, network.names)
    rows, share = answers.distinct[0].astype(np.float64), answers.counts / answers.counts.sum()
    weights = network.couplings if network.regressions is None else network.regressions
    predicted = rows @ weights.T + network.thresholds > 0
    accuracy = share @ (predicted == (rows == 1))
    mean = share @ rows
    majority = np.maximum(mean, 1.0 - mean)
    return pandas.DataFrame(
        {
            "accuracy": accuracy,
            "majority": majority,
            "normalised": (accuracy - majority) / (1.0 - majority),
        },
        index=list(network.names),
    )
