"""What sample weights stand for: copies of samples, and how many samples there are in all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fieldfit.types import FloatArray


def weighted_size(weight: FloatArray | None, counts: bool) -> tuple[float | None, float]:
    """How many samples weights stand for, and the weight of one of them: (N, Σw/N); (None, 1) without weights.

    Counts are so many samples. For importance weights N is Kish's effective size (Σw)²/Σw²: the number of equally weighted
    samples whose mean is as accurate. It does not change when all weights are multiplied by a constant, or when samples of
    weight 0 are added, and is n where they are equal.
    """
    if weight is None:
        return None, 1.0
    whole = float(weight.sum())
    if counts:
        return whole, 1.0
    # Relative to the largest, so that squares of very small or very large weights are numbers.
    relative = weight / weight.max()
    size = float(relative.sum() ** 2 / (relative @ relative))
    return size, whole / size


def as_copies(dataset: Any) -> Any:
    """A dataset with counts as one in which every copy is a sample of its own, without weights."""
    rows = np.repeat(np.arange(dataset.n), dataset.sample_weight.astype(np.int64))
    return replace(dataset.subset(rows), sample_weight=None)


def without_weights(dataset: Any) -> Any | None:
    """The same samples without weights: copies for counts, those that count where they all count alike; else None."""
    weight = dataset.sample_weight
    if weight is None:
        return dataset
    if dataset.weight_kind == "counts":
        return as_copies(dataset)
    counting = np.flatnonzero(weight > 0)
    if np.ptp(weight[counting]) > 1e-12 * float(weight.max()):
        return None
    return replace(dataset.subset(counting), sample_weight=None)
