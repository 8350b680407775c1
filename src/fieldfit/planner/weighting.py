"""Sample weights in a plan: whose pilot is drawn, what a sample counts for, and how many a fit really sees.

*Counts* stand for so many copies, each with a Z of its own. The pilot is drawn from the copies, so that counts and repeated
rows give the same pilot, and all moments are plain means over it. A fit that selects everything keeps the rows with
their counts; one with a random Z makes the copies (as `fieldfit.fit` does), which is dearer.

*Importance* weights w multiply the scores: with w scaled to mean 1 over the samples, the bread is a mean of w·J and the
meat one of w²·ψψᵀ, as in the robust covariance of a fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fieldfit.types import DataError, FloatArray, IntArray

#: Copies beyond which a fit with a random Z is out of reach.
MOST_COPIES = 200_000_000


def n_samples(dataset: Any) -> int:
    """How many rows a dataset has."""
    return int(dataset.n if hasattr(dataset, "n") else len(dataset))


def has_counts(dataset: Any) -> bool:
    """Whether the weights of a dataset are counts of copies."""
    return dataset.sample_weight is not None and dataset.weight_kind == "counts"


def n_copies(dataset: Any) -> int:
    """How many samples a dataset stands for: the sum of counts, else the rows."""
    return int(dataset.sample_weight.sum()) if has_counts(dataset) else n_samples(dataset)


def total_weight(dataset: Any) -> float:
    """Σw, or the number of rows."""
    return float(n_samples(dataset) if dataset.sample_weight is None else dataset.sample_weight.sum())


def importance(rows: Any) -> FloatArray | None:
    """Importance weights scaled to mean 1; None where there are none."""
    weight = rows.sample_weight
    if weight is None or rows.weight_kind == "counts":
        return None
    return np.asarray(weight * (len(weight) / weight.sum()), dtype=np.float64)


def drawn(dataset: Any, most: int, random: np.random.Generator) -> Any:
    """At most ``most`` samples, each as probable as the others, in order: of counts the copies, without counts.

    Rows of weight 0 are not among them: they say nothing.
    """
    if has_counts(dataset):
        ends = np.cumsum(dataset.sample_weight.astype(np.int64))
        copies = _some(int(ends[-1]), most, random)
        return without_weights(dataset.subset(np.searchsorted(ends, copies, side="right")))
    rows = n_samples(dataset)
    if dataset.sample_weight is not None and not dataset.sample_weight.all():
        used = np.flatnonzero(dataset.sample_weight)
        return dataset.subset(used[_some(len(used), most, random)])
    return dataset if rows <= most else dataset.subset(_some(rows, most, random))


def _some(total: int, most: int, random: np.random.Generator) -> IntArray:
    if total <= most:
        return np.arange(total)
    return np.sort(random.choice(total, most, replace=False))


def without_weights(rows: Any) -> Any:
    """The same rows, each counting once."""
    return replace(rows, sample_weight=None)


def copies(dataset: Any) -> Any:
    """Every copy as a row; a dataset without counts as it is."""
    if not has_counts(dataset):
        return dataset
    if n_copies(dataset) > MOST_COPIES:
        raise DataError(
            f"The counts stand for {n_copies(dataset):,} samples; a random selection draws for each of them, and at most "
            f"{MOST_COPIES:,} can be held."
        )
    return without_weights(
        dataset.subset(np.repeat(np.arange(n_samples(dataset)), dataset.sample_weight.astype(np.int64)))
    )
