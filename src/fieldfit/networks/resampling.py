"""Resamples of a table as weights of its distinct rows: bootstrap, subsets, halves, and groups with permuted labels.

Equal rows are interchangeable, so a resample is a draw of the counts of the distinct rows: multinomial with
replacement, multivariate hypergeometric without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fieldfit.arguments import datasets_drawn
from fieldfit.networks.logistic_paths import LENGTH
from fieldfit.types import FloatArray, IntArray, ModelError

#: Most networks that are estimated together, and most bytes of their paths.
_MOST_RESAMPLES_AT_ONCE, _MOST_PATH_BYTES = 16, 1 << 27

Draw = Callable[[int], FloatArray]
Progress = Callable[[int, int], object]


def bootstrap_weights(counts: IntArray, random: np.random.Generator) -> Draw:
    """Draws (b, rows) of n samples with replacement."""
    n = int(counts.sum())
    return lambda b: random.multinomial(n, counts / n, size=b).astype(np.float64)


def subsets(counts: IntArray, size: int, random: np.random.Generator) -> Draw:
    """Draws (b, rows) of ``size`` samples without replacement."""
    return lambda b: random.multivariate_hypergeometric(counts, size, size=b).astype(np.float64)


def halves(counts: IntArray, random: np.random.Generator) -> Draw:
    """Draws (b, rows), b even, of complementary pairs: half of the samples without replacement, and the other half."""
    n = int(counts.sum())

    def draw(b: int) -> FloatArray:
        first = random.multivariate_hypergeometric(counts, n // 2, size=(b + 1) // 2)
        both = np.stack([first, counts - first], axis=1).reshape(-1, len(counts))
        return both[:b].astype(np.float64)

    return draw


def permuted_groups(counts: IntArray, size: int, random: np.random.Generator) -> Draw:
    """Draws (b, rows), b even: a group of ``size`` samples, the rest, another group of ``size``, its rest, …"""

    def draw(b: int) -> FloatArray:
        first = random.multivariate_hypergeometric(counts, size, size=b // 2)
        return np.stack([first, counts - first], axis=1).reshape(-1, len(counts)).astype(np.float64)

    return draw


def batches(draw: Draw, count: int, m: int, progress: Progress | None, of_two: bool = False) -> Iterator[FloatArray]:
    """Weights (b, rows) of ``count`` draws in batches that fit into memory; ``of_two``: a draw is two weightings."""
    count = datasets_drawn(count, "The number of resamples", error=ModelError)
    each = 2 if of_two else 1
    at_once = max(1, min(_MOST_RESAMPLES_AT_ONCE, _MOST_PATH_BYTES // (8 * m * LENGTH * (m + 2))) // each)
    for start in range(0, count, at_once):
        b = min(at_once, count - start)
        yield draw(each * b)
        if progress:
            progress(start + b, count)
