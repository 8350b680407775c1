"""The memory that the kernels of Potts fields need, computed before it is allocated."""

from __future__ import annotations

import numpy as np

from fieldfit.data.memory import memory_limit
from fieldfit.models.potts_tables import PottsTables
from fieldfit.threads import get_threads
from fieldfit.types import DataError

#: As in kernels/potts_blocks_bind.cpp: numbers of fields in memory at once, and the most and fewest samples.
_CHUNK_NUMBERS, _MOST_SAMPLES, _LEAST_SAMPLES = 1 << 23, 2048, 16
#: As in kernels/potts.hpp: doubles in the longest row of joined sites.
_JOINED = 40


def bytes_of_sites(n: int, tables: PottsTables) -> int:
    """Most bytes of PL1 and one evaluation: samples, couplings, results, and the rows of each thread."""
    degree = int(np.bincount(tables.edges.ravel(), minlength=tables.m).max(initial=0))
    rows = (degree + 1) * tables.q * max(tables.q + 7, _JOINED)
    return n * tables.m + 8 * (3 * tables.n_entries + 3 * tables.n_parameters + 3 * get_threads() * rows)


def bytes_of_blocks(n: int, tables: PottsTables, listed: int) -> int:
    """Most bytes of blocks of sites and one Hessian product; ``listed`` counts the selected blocks of all samples.

    Couplings, their direction and their sums are in rows of whole vectors, once for each end of an edge; fields,
    their direction and residuals are those of a chunk of samples.
    """
    m, q, padded = tables.m, tables.q, tables.q + 7
    chunk = min(n, max(_LEAST_SAMPLES, min(_MOST_SAMPLES, _CHUNK_NUMBERS // (m * padded))))
    rows = 3 * 2 * len(tables.edges) * q * padded
    return n * m + 8 * (3 * tables.n_entries + 3 * tables.n_parameters + rows + 3 * m * chunk * padded + 2 * listed)


def refuse_too_large(n: int, tables: PottsTables, needed: int) -> None:
    """Raise DataError if there is less memory than ``needed`` bytes."""
    memory = memory_limit()
    if memory is not None and needed > memory:
        raise DataError(
            f"{n:,} samples of {tables.m:,} sites with {tables.q} states and {len(tables.edges):,} edges need {needed:,} "
            f"bytes for one evaluation, and there are {memory:,} bytes of memory. Use fewer edges, states or samples."
        )
