"""Gibbs sampling, for graphs that are too wide for exact draws.

Several chains start from independent uniform states; each discards ``burn_in`` sweeps and then gives
one draw every ``thin`` sweeps. Unlike exact draws these are neither independent nor exactly from the model.
"""

from __future__ import annotations

import numpy as np

from fieldfit import _kernels
from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.inference.pairwise_odds import PairwiseOdds
from fieldfit.threads import get_threads
from fieldfit.types import FloatArray, Int32Array

CHAINS = 32
BURN_IN = 1000
THIN = 10
#: The random numbers of the sweeps.
_STREAM = 2


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
    odds = PairwiseOdds.of(graph)
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
            stream=_STREAM,
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
        stream=_STREAM,
        draws=draws,
        n_threads=get_threads(),
    )
    return draws
