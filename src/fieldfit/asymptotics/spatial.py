"""The meat of one sample whose variables lie on a graph: an image, a field of plants, a network.

One sample has one score, which is 0 at the estimate, and says nothing about its variance. Its pieces do: the score is a sum
of terms ψ_s, each located at a site s of the graph (a component's score at its first variable, a clique's residual in an
exact sum). With d(s, t) the distance in the graph,

    M = Σ_{s,t} K(d(s, t)) ψ_s ψ_tᵀ,    K(d) = 1 up to half the bandwidth, then linear down to 0 beyond it,

a spatial HAC estimator (Conley, "GMM estimation with cross sectional dependence", 1999) with the flat-top kernel of
Politis and Romano (1995). Under the model the terms of two components are uncorrelated unless one meets the other or
its neighbours, so that a flat top loses nothing of a pseudo-likelihood; what decays farther out is for models that are
not quite right and for exact sums over long blocks. M has mean (1 − κ/N) of the variance, κ the mean sum of K over a
site, because the terms add up to 0; this is corrected.

A variance from M varies itself. For Gaussian terms without dependence its relative variance is 2 κ₂/N, κ₂ the mean sum
of K² over a site, which is that of a χ² with N/κ₂ degrees of freedom (Satterthwaite). Intervals use Student's t with these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.inference.ragged import Ragged
from fieldfit.models.located import LocatedScores
from fieldfit.types import DataError, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Largest bandwidth that is chosen by default.
LARGEST_BANDWIDTH = 8
#: Sites of which the kernel is held at a time.
_SITES_AT_A_TIME = 20_000
#: A variance below this share of that of independent terms is noise of the estimator, and is raised to it.
_LEAST_RATIO = 0.05


@dataclass(frozen=True)
class SpatialMeat:
    """``matrix`` (r, r) is M of all samples, a sum; ``bandwidth`` the one used; ``raised`` whether M had to be raised.

    ``degrees`` are its degrees of freedom.
    """

    matrix: FloatArray
    bandwidth: int
    raised: bool
    degrees: float


def spatial_meat(located: LocatedScores, neighbours: Ragged, bandwidth: int | None = None) -> SpatialMeat:
    """M, of independent samples on one graph.

    Without a ``bandwidth`` one is chosen by the number of sites; with too few sites for any, M is NaN.
    """
    m, r = len(neighbours), located.terms.shape[1]
    adjacency = _adjacency(neighbours)
    chosen = _default_bandwidth(adjacency) if bandwidth is None else bandwidth
    occupied = np.zeros(m, dtype=bool)
    occupied[located.sites] = True
    n_samples = len(np.unique(located.samples))
    count = n_samples * int(occupied.sum())
    # A penalty makes the sum of the terms nonzero; they vary around their mean.
    mean = located.terms.sum(axis=0) / max(count, 1)
    centred = [np.where(occupied[:, None], field - mean, 0.0) for field in located.fields(m)]
    total, alone, weight, squares = np.zeros((r, r)), np.zeros((r, r)), 0.0, 0.0
    for start in range(0, m, _SITES_AT_A_TIME):
        rows = np.arange(start, min(start + _SITES_AT_A_TIME, m))
        kernel = _kernel(adjacency, rows, chosen)
        sites = occupied.astype(np.float64)
        weight += float((kernel @ sites)[occupied[rows]].sum())
        squares += float((kernel.power(2) @ sites)[occupied[rows]].sum())
        for field in centred:
            total += field[rows].T @ (kernel @ field)
            alone += field[rows].T @ field[rows]
    kappa = weight / max(int(occupied.sum()), 1)
    if kappa >= count / 2:
        if bandwidth is None:  # too few sites for every bandwidth
            return SpatialMeat(np.full((r, r), np.nan), chosen, False, np.inf)
        raise DataError(
            f"Spatial standard errors with a bandwidth of {chosen} join each site to {kappa:.0f} of {count}: too many to "
            f"learn a variance from. Use a smaller bandwidth, or kind='model'."
        )
    matrix, raised = _raised((total + total.T) / 2 / (1 - kappa / count), alone)
    return SpatialMeat(matrix, chosen, raised, n_samples * int(occupied.sum()) ** 2 / squares)


def _adjacency(neighbours: Ragged) -> csr_array:
    from scipy.sparse import csr_array

    shape = (len(neighbours), len(neighbours))
    return csr_array((np.ones(len(neighbours.members)), neighbours.members, neighbours.indptr), shape=shape)


def _default_bandwidth(adjacency: csr_array) -> int:
    """⁴√N at most, and so small that a site is joined to at most 2√N others."""
    sites = adjacency.shape[0]
    largest = max(1, min(LARGEST_BANDWIDTH, int(sites**0.25)))
    some = np.unique(np.linspace(0, sites - 1, 200).astype(np.int64))
    for bandwidth in range(largest, 0, -1):
        if _kernel(adjacency, some, bandwidth).sum() / len(some) <= 2 * np.sqrt(sites):
            return bandwidth
    return 0


def _kernel(adjacency: csr_array, rows: IntArray, bandwidth: int) -> csr_array:
    """K(d(s, t)) for the sites ``rows`` and all others (rows, sites)."""
    from scipy.sparse import csr_array

    shape = (len(rows), adjacency.shape[0])
    frontier = csr_array((np.ones(len(rows)), rows, np.arange(len(rows) + 1)), shape=shape)
    seen, kernel = frontier, frontier
    for distance in range(1, bandwidth + 1):
        reached = (frontier @ adjacency).tocsr()
        reached.data[:] = 1.0
        frontier = (reached - reached.multiply(seen)).tocsr()
        frontier.eliminate_zeros()
        if not frontier.nnz:
            break
        seen = seen + frontier
        kernel = kernel + frontier * min(1.0, 2.0 * (1.0 - distance / (bandwidth + 1)))
    return kernel


def _raised(meat: FloatArray, alone: FloatArray) -> tuple[FloatArray, bool]:
    """The meat without directions of a variance far below that of independent terms, which flat tops may give."""
    values, vectors = np.linalg.eigh(alone)
    good = values > 1e-12 * max(values.max(initial=0.0), 1e-300)
    root = vectors[:, good] * np.sqrt(values[good])
    back = vectors[:, good] / np.sqrt(values[good])
    ratios, directions = np.linalg.eigh(back.T @ meat @ back)
    if ratios.min(initial=1.0) >= _LEAST_RATIO:
        return meat, False
    kept = root @ directions
    return (kept * np.maximum(ratios, _LEAST_RATIO)) @ kept.T, True
