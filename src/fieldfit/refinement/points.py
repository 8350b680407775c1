"""Where expectations under the model come from: all joint states with their probabilities, or draws of the model.

The weights of moment conditions are expectations at the first stage's estimate. Draws need not be perfect: other weights
cost accuracy, never consistency.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.inference.gibbs import gibbs_sample
from fieldfit.models.field import FieldModel
from fieldfit.types import FloatArray, Int32Array, WidthError

if TYPE_CHECKING:
    from fieldfit.data.table import Table

#: Joint states up to which expectations are exact sums.
MOST_SUMMED_STATES = 1 << 14
#: Gibbs sweeps from a sample of the data to a draw of the model: where each draw starts from another sample, and else.
FEW_SWEEPS, SWEEPS = 5, 20
_POINTS_STREAM = 0x5EED
#: Entries of the largest table of exact draws; on wider graphs Gibbs sampling is faster.
_LARGEST_DRAWN_TABLE = 1 << 19
#: Entries of tables that all Gibbs chains together keep, at most.
_MOST_CHAIN_ENTRIES = 20_000_000


@dataclass(frozen=True)
class Points:
    """States ``codes`` (n, m) with weights that add up to 1; ``copies`` is how often each observed value is repeated.

    ``method`` says how they were made, with a place ``{draws}`` for the number of all draws that are used together.
    The first n / copies rows are the first copy, and so on; ``copies`` is 0 where the model conditions on nothing.
    """

    codes: Int32Array
    weight: FloatArray
    exact: bool
    method: str
    copies: int = 0


def is_exact(model: FieldModel, most: int = MOST_SUMMED_STATES) -> bool:
    """Whether expectations are sums over all states, of which there are at most ``most``."""
    return not model.observed and math.prod(model.graph.cardinalities) <= most


def all_points(model: FieldModel, theta: FloatArray) -> Points:
    """Every joint state with its probability."""
    codes, probability = model.joint_probabilities(theta)
    return Points(codes, probability, True, f"exact sums over {len(codes):,} states")


def drawn_points(
    model: FieldModel,
    theta: FloatArray,
    dataset: Table | None,
    size: int,
    seed: int,
    batch: int,
    *,
    only_gibbs: bool = False,
) -> Points:
    """About ``size`` draws of the model at θ; other numbers of ``batch`` give other draws.

    ``only_gibbs`` excludes exact draws, whose cost is not linear in the number of variables.
    """
    stream = (seed * 1_000_003 + _POINTS_STREAM + batch) % (1 << 62)
    if model.observed:
        if dataset is None:
            raise ValueError("A conditional model needs its observed values to draw the others.")
        copies = max(2, -(-size // dataset.n))
        drawn = [model.simulate(dataset, theta, stream + copy).codes for copy in range(copies)]
        codes = np.concatenate(drawn)
        weight = np.full(len(codes), 1.0 / len(codes))
        return Points(codes, weight, False, f"{copies} draws for each of {dataset.n:,} samples", copies)
    weight = np.full(size, 1.0 / size)
    tables = model.log_tables(theta)
    if not only_gibbs:
        with suppress(WidthError):
            model.exact.check(_LARGEST_DRAWN_TABLE)
            codes = model.exact.sample(tables, size, stream)
            return Points(codes, weight, False, "{draws:,} independent draws")
    if dataset is None or dataset.has_missing:
        codes = model.sample(theta, size, stream, method="gibbs").codes
        return Points(codes, weight, False, "{draws:,} Gibbs draws")
    random = np.random.default_rng(stream)
    chains = min(size, max(32, _MOST_CHAIN_ENTRIES // len(model.graph.scopes)))
    rows = random.permutation(dataset.n)[:chains] if chains <= dataset.n else random.integers(0, dataset.n, chains)
    start = np.ascontiguousarray(dataset.codes[rows])
    sweeps = FEW_SWEEPS if chains == size <= dataset.n else SWEEPS
    thin = 1 if chains == size else SWEEPS // 2
    codes = gibbs_sample(model.graph, tables, size, stream, start=start, burn_in=sweeps - thin, thin=thin)
    method = f"{{draws:,}} Gibbs draws, {sweeps} sweeps from samples of the data"
    return Points(codes, weight, False, method)
