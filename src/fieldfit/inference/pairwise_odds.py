"""Log odds of the variables of a binary pairwise field given all others: constant_j + Σ_k w_jk code_k."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class PairwiseOdds:
    """Where the tables of a binary pairwise field say how the log odds of a variable depend on its neighbours."""

    def __init__(self, graph: FactorGraph) -> None:
        self.m = graph.n_variables
        pairs = [(int(graph.offsets[f]), *scope) for f, scope in enumerate(graph.scopes) if len(scope) == 2]
        single = [(int(graph.offsets[f]), scope[0]) for f, scope in enumerate(graph.scopes) if len(scope) == 1]
        self._pairs = np.array(pairs, dtype=np.int64).reshape(-1, 3)
        self._single = np.array(single, dtype=np.int64).reshape(-1, 2)

    @classmethod
    def of(cls, graph: FactorGraph) -> PairwiseOdds | None:
        """None where a variable has more than two states, or a factor more than two variables."""
        pairwise = max(map(len, graph.scopes), default=0) <= 2 and set(graph.cardinalities) <= {2}
        return cls(graph) if pairwise else None

    def couplings(self, log_tables: FloatArray) -> tuple[FloatArray, csr_array] | None:
        """The constants (m,) and the symmetric weights w (m, m); None where a joint state has the probability 0."""
        if not np.isfinite(log_tables).all():
            return None
        from scipy.sparse import coo_array

        constant = np.zeros(self.m)
        start, variable = self._single.T
        np.add.at(constant, variable, log_tables[start + 1] - log_tables[start])
        starts, a, b = self._pairs.T
        t = log_tables[starts[:, None] + np.arange(4)]  # entries 00, 01, 10, 11
        np.add.at(constant, a, t[:, 2] - t[:, 0])
        np.add.at(constant, b, t[:, 1] - t[:, 0])
        weight = t[:, 3] - t[:, 2] - t[:, 1] + t[:, 0]
        shape = (self.m, self.m)
        return constant, coo_array((np.tile(weight, 2), (np.r_[a, b], np.r_[b, a])), shape=shape).tocsr()
