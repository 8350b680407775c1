"""A network: signed couplings between binary variables, with the thresholds of the variables."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.report.shown import first_rows
from fieldfit.report.table import PlainTable
from fieldfit.types import FloatArray
from fieldfit.words import counted

if TYPE_CHECKING:
    import networkx
    import pandas

#: Most edges that a notebook shows.
_SHOWN_EDGES = 20


@dataclass(frozen=True, eq=False)
class Network:
    """Couplings and thresholds of p(x) ∝ exp(Σ_{j<k} w_jk x_j x_k + Σ_j τ_j x_j), x_j ∈ {0, 1}.

    Parameters
    ----------
    names : tuple of str
        The variables.
    couplings : ndarray of shape (m, m)
        w, symmetric with zeros on the diagonal. An entry that is not 0 is an edge.
    thresholds : ndarray of shape (m,)
        τ.
    n : float
        The number of samples.
    method : str
        How it was estimated.
    regressions : ndarray of shape (m, m) or None
        Row j has the coefficients of the regression of variable j on the others, with 0 at j. None if the network was
        not estimated by regressions.
    lambdas : ndarray of shape (m,)
        The strength of the penalty that was chosen for each variable (one for all: m equal numbers).

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> w = np.array([[0, 1.5, 0], [1.5, 0, -0.5], [0, -0.5, 0]])
    >>> network = networks.Network(("sad", "tired", "calm"), w, np.zeros(3), 100, "by hand")
    >>> network
    <Network: 3 variables, 2 edges, 100 samples, by hand>
    >>> network.edges()
        from     to  weight
    0    sad  tired     1.5
    1  tired   calm    -0.5
    """

    names: tuple[str, ...]
    couplings: FloatArray
    thresholds: FloatArray
    n: float
    method: str
    regressions: FloatArray | None = None
    lambdas: FloatArray = field(default_factory=lambda: np.empty(0))

    def __repr__(self) -> str:
        edges = counted(len(self.pairs), "edges")
        return f"<Network: {self.m} variables, {edges}, {self.n:,.0f} samples, {self.method}>"

    def _repr_html_(self) -> str:
        """A line and the strongest edges, for notebooks."""
        edges = self.edges()
        rows = tuple(zip(edges["from"], edges["to"], edges["weight"].tolist(), strict=True))
        table = PlainTable("Strongest edges first", ("from", "to", "weight"), rows, formats=("", "", "+.3f"))
        return f"<p>{html.escape(repr(self))}</p>" + first_rows(table, _SHOWN_EDGES, "network.edges()").to_html()

    @property
    def m(self) -> int:
        """Number of variables."""
        return len(self.names)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The edges (j, k), j < k."""
        return tuple((int(j), int(k)) for j, k in np.argwhere(np.triu(self.couplings, 1) != 0))

    @property
    def density(self) -> float:
        """The share of pairs that have an edge."""
        return len(self.pairs) / (self.m * (self.m - 1) / 2)

    @property
    def global_strength(self) -> float:
        """Σ_{j<k} abs(w_jk)."""
        return float(np.abs(np.triu(self.couplings, 1)).sum())

    def edges(self) -> pandas.DataFrame:
        """Return the edges, the strongest first: columns ``from``, ``to`` and ``weight``.

        Returns
        -------
        DataFrame

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import networks
        >>> w = np.array([[0, 1.5, 0], [1.5, 0, -0.5], [0, -0.5, 0]])
        >>> network = networks.Network(("sad", "tired", "calm"), w, np.zeros(3), 100, "by hand")
        >>> network.edges()
            from     to  weight
        0    sad  tired     1.5
        1  tired   calm    -0.5
        """
        import pandas

        pairs = self.pairs
        weights = np.array([self.couplings[pair] for pair in pairs])
        order = np.argsort(-np.abs(weights), kind="stable")
        return pandas.DataFrame(
            {
                "from": [self.names[pairs[place][0]] for place in order],
                "to": [self.names[pairs[place][1]] for place in order],
                "weight": weights[order],
            }
        )

    def matrix(self) -> pandas.DataFrame:
        """Return the couplings as a table with the names of the variables on both sides.

        Returns
        -------
        DataFrame

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import networks
        >>> w = np.array([[0, 1.5, 0], [1.5, 0, -0.5], [0, -0.5, 0]])
        >>> network = networks.Network(("sad", "tired", "calm"), w, np.zeros(3), 100, "by hand")
        >>> network.matrix()
               sad  tired  calm
        sad    0.0    1.5   0.0
        tired  1.5    0.0  -0.5
        calm   0.0   -0.5   0.0
        """
        import pandas

        return pandas.DataFrame(self.couplings, index=list(self.names), columns=list(self.names))

    def to_networkx(self) -> networkx.Graph:
        """Return a graph with the attributes ``weight`` (signed) and ``distance`` = 1 / abs(weight) of each edge.

        Returns
        -------
        networkx.Graph

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import networks
        >>> w = np.array([[0, 1.5, 0], [1.5, 0, -0.5], [0, -0.5, 0]])
        >>> network = networks.Network(("sad", "tired", "calm"), w, np.zeros(3), 100, "by hand")
        >>> network.to_networkx().edges["tired", "calm"]
        {'weight': -0.5, 'distance': 2.0}
        """
        import networkx

        graph: networkx.Graph = networkx.Graph()
        graph.add_nodes_from(
            (name, {"threshold": float(t)}) for name, t in zip(self.names, self.thresholds, strict=True)
        )
        for j, k in self.pairs:
            weight = float(self.couplings[j, k])
            graph.add_edge(self.names[j], self.names[k], weight=weight, distance=1.0 / abs(weight))
        return graph
