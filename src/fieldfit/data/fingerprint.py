"""A short name for the samples behind a fit: equal where two fits saw the same samples with the same weights.

Composite likelihoods can be compared only where they are sums over the same samples. Columns are compared by their values:
their names, their order and the codes of their states do not matter. What a conditional
model is given (observed variables, the features of a chain CRF) is part of the model, not of what it explains, and is
left out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from hashlib import blake2b

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table
from fieldfit.data.sequences import Sequences
from fieldfit.types import Array, FloatArray, Int32Array


def fingerprint(dataset: Dataset, *, given: Collection[int] = (), symbols: bool = True) -> str:
    """32 hexadecimal digits for what a model explains of the dataset, and its weights.

    ``given`` are the columns of a table that the model conditions on; ``symbols`` says whether the model explains the
    features of sequences too, and not only their labels.
    """
    parts: list[bytes] = []
    if isinstance(dataset, Table):
        parts = sorted(_column(dataset.codes[:, j], dataset.states[j]) for j in range(dataset.m) if j not in given)
    elif isinstance(dataset, Sequences):
        parts = [_digest(dataset.offsets), _digest(dataset.labels)]
        parts += [_digest(dataset.indptr), _digest(dataset.indices)] if symbols else []
    if dataset.sample_weight is not None and _weighted(dataset.sample_weight, dataset.weight_kind):
        parts.append(_digest(_scaled(dataset.sample_weight, dataset.weight_kind), dataset.weight_kind))
    return blake2b(b"".join(parts), digest_size=16).hexdigest()


def exact_fingerprint(dataset: Dataset) -> str:
    """32 hexadecimal digits for all that a fit may depend on: every array, in its order, with features and covariates."""
    parts = []
    for field in fields(dataset):
        value = getattr(dataset, field.name)
        parts.append(_digest(value) if isinstance(value, np.ndarray) else repr((field.name, value)).encode())
    return blake2b(b"".join(parts), digest_size=16).hexdigest()


def _column(codes: Int32Array, states: tuple[object, ...]) -> bytes:
    """The digest of one column; states that never occur do not count, nor does the order of the others."""
    occurring = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(states)))
    names = {int(code): _name(states[int(code)]) for code in occurring}
    ranks = np.full(len(states) + 1, -1, dtype=np.int32)  # the last one is for −1, a missing value
    for rank, code in enumerate(sorted(names, key=lambda code: names[code])):
        ranks[code] = rank
    return _digest(ranks[codes], *sorted(names.values()))


def _name(state: object) -> str:
    """A state as text; 1, 1.0 and True are the same value."""
    return repr(float(state)) if isinstance(state, bool | int | float | np.number | np.bool_) else str(state)


def _weighted(weight: FloatArray, kind: str) -> bool:
    """Whether weights matter: equal importance weights do not, equal counts do unless they are 1."""
    return bool(np.any(weight != (1.0 if kind == "counts" else weight[0])))


def _scaled(weight: FloatArray, kind: str) -> Array:
    """Counts as they are; importance weights relative to their mean, to seven digits: their scale does not matter."""
    return weight if kind == "counts" else (weight / weight.mean()).astype(np.float32)


def _digest(array: Array, *texts: str) -> bytes:
    digest = blake2b(repr((array.shape, texts)).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()
