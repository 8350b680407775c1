"""The layout of a chain from a file: its arrays are checked against each other before anything uses them."""

from __future__ import annotations

import numpy as np

from fieldfit.models.chain_layout import ChainLayout
from fieldfit.types import Array, ModelError


def checked_layout(layout: ChainLayout) -> ChainLayout:
    """Return the layout, or raise ModelError if its arrays do not describe the weights of a chain."""
    labels, features = layout.n_labels, layout.n_features
    for number, least, what in ((labels, 1, "labels"), (features, 0, "features")):
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number < 2**31:
            raise ModelError(f"The number of {what} is {number!r:.40}.")
    if not isinstance(layout.start, bool) or not isinstance(layout.end, bool):
        raise ModelError("Whether there are start and end weights must be true or false.")
    _check_places("transition_pairs", layout.transition_pairs, np.int64, labels**2)
    if np.any(np.diff(layout.transition_pairs) <= 0):
        raise ModelError("transition_pairs must increase.")
    _check_lists("pair", layout.pair_ptr, layout.pair_labels, np.int32, features, labels)
    _check_lists("column", layout.column_ptr, layout.column_pairs, np.int64, features, labels**2)
    if layout.triples is not None:
        _check_places("triples", layout.triples, np.int64, (labels + 1) ** 2 * labels)
        left = layout.triples // labels
        if np.any(np.diff(layout.triples) <= 0) or np.any(
            (left % (labels + 1) == labels) & (left < (labels + 1) * labels)
        ):
            raise ModelError("triples must increase, and a start symbol cannot follow a label.")
    sizes = layout.sizes
    if sizes is not None and (sizes.shape != (features,) or sizes.dtype != np.float64):
        raise ModelError("sizes must be one number for each feature.")
    if sizes is not None and not (np.isfinite(sizes) & (sizes > 0)).all():
        raise ModelError("sizes must be positive.")
    return layout


def _check_lists(
    name: str, pointer: Array | None, places: Array | None, dtype: type, features: int, limit: int
) -> None:
    """Check the lists pointer[f]..pointer[f+1] of all features: each ascending and without repeats."""
    if pointer is None and places is None:
        return
    if pointer is None or places is None:
        raise ModelError(f"One of the arrays {name}_ptr and its places is missing.")
    _check_places(f"the places of {name}", places, dtype, limit)
    if pointer.shape != (features + 1,) or pointer.dtype != np.int64:
        raise ModelError(f"{name}_ptr must have one entry for each feature and one more.")
    if pointer[0] != 0 or pointer[-1] != len(places) or np.any(np.diff(pointer) < 0):
        raise ModelError(f"{name}_ptr does not divide its places.")
    falls = np.flatnonzero(np.diff(places.astype(np.int64)) <= 0) + 1
    if not np.isin(falls, pointer).all():
        raise ModelError(f"The places of {name} must increase within a feature.")


def _check_places(name: str, places: Array, dtype: type, limit: int) -> None:
    if places.ndim != 1 or places.dtype != dtype:
        raise ModelError(f"{name} must be a list of integers.")
    if places.size and not (int(places.min()) >= 0 and int(places.max()) < limit):
        raise ModelError(f"{name} must lie in 0..{limit - 1}.")
