"""Gibbs sampling, for graphs that are too wide for exact draws.

Several chains start from independent uniform states; each discards ``burn_in`` sweeps and then gives
one draw every ``thin`` sweeps. Unlike exact draws these are neither independent nor exactly from the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit import _kernels
from fieldfit.data.memory import refuse_large_draws
from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.threads import get_threads
from fieldfit.types import FloatArray, Int32Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array


CHAINS = 32
BURN_IN = 1000
THIN = 10
#: As in kernels/gibbs.hpp: fewer chains are quicker one by one than as a group.
_FEWEST_TOGETHER = 5
#: The random numbers of the sweeps.
_GIBBS_STREAM = 2


def gibbs_sample(
    graph: FactorGraph,
    log_tables: FloatArray,
    n: int,
    seed: int,
    *,
    given: Int32Array | None = None,
    start: Int32Array | None = None,
    chains: int = CHAINS,
    burn_in: int = BURN_IN,
    thin: int = THIN,
) -> Int32Array:
    """``n`` draws (n, m); the variables that ``given`` sets (not −1) keep their value.

    ``start`` (chains, m) are the states that the chains start from; without it they are uniform draws.
    """
    m = graph.n_variables
    refuse_large_draws(n, m)
    cardinalities = np.array(graph.cardinalities, dtype=np.int32)
    if start is None:
        chains = max(1, min(chains, n))
        uniforms = np.empty((chains, m))
        _kernels.uniforms(seed, 1, np.arange(chains, dtype=np.int64), uniforms)
        start = (uniforms * cardinalities).astype(np.int32)
    else:
        start = np.array(start, dtype=np.int32)
    fixed = np.zeros(m, dtype=np.uint8)
    if given is not None:
        known = np.asarray(given) >= 0
        fixed[known] = 1
        start[:, known] = np.asarray(given)[known]
    draws = np.empty((n, m), dtype=np.int32)
    log_tables = np.ascontiguousarray(log_tables)
    odds = PairwiseOdds.of(graph) if len(start) >= _FEWEST_TOGETHER else None
    couplings = None if odds is None else odds.couplings(log_tables)
    if couplings is not None:
        constant, weights = couplings
        _kernels.gibbs_pairwise(
            constant=constant,
            indptr=weights.indptr.astype(np.int64),
            neighbour=weights.indices.astype(np.int32),
            weight=weights.data,
            fixed=fixed,
            start=start,
            burn_in=burn_in,
            thin=thin,
            seed=seed,
            stream=_GIBBS_STREAM,
            draws=draws,
            n_threads=get_threads(),
        )
        return draws
    _kernels.gibbs(
        log_tables=log_tables,
        cardinality=cardinalities,
        factor_ptr=graph.factors_of.indptr.astype(np.int32),
        factor=graph.factors_of.members.astype(np.int32),
        stride=graph.factor_strides_of.astype(np.int32),
        fixed=fixed,
        entries=graph.entries(start),
        start=start,
        burn_in=burn_in,
        thin=thin,
        seed=seed,
        stream=_GIBBS_STREAM,
        draws=draws,
        n_threads=get_threads(),
    )
    return draws


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
