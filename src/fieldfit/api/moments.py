"""Means, pairs and triplets of a fitted model beside those of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.samples import Table
from fieldfit.data.sequences import Sequences
from fieldfit.models.field import FieldModel
from fieldfit.types import Array, FloatArray, IntArray

if TYPE_CHECKING:
    from fieldfit.api.state import FitState

#: Most pairs and triplets that are compared. If there are more, this number is drawn at random.
MOST_MOMENTS = 3000
_MOST_COMPARED_ROWS, _MOST_COMPARED_COLUMNS = 20_000, 400


@dataclass(frozen=True, eq=False)
class MomentTable:
    """Moments of one kind: names, and their values in the data and in the model (2, count)."""

    kind: str
    plural: str
    names: tuple[str, ...]
    values: FloatArray


def triplets_of(m: int, random: np.random.Generator, most: int = MOST_MOMENTS) -> IntArray:
    """All triplets of m columns (t, 3), or ``most`` drawn ones."""
    if m * (m - 1) * (m - 2) // 6 <= most:
        every = np.stack([axis.ravel() for axis in np.meshgrid(*[np.arange(m)] * 3, indexing="ij")], axis=1)
        return every[(every[:, 0] < every[:, 1]) & (every[:, 1] < every[:, 2])]
    return np.sort(np.stack([random.choice(m, 3, replace=False) for _ in range(most)]), axis=1)


def central_moments(x: FloatArray, pairs: IntArray, triplets: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means, correlations of pairs (NaN where a column is constant) and central third moments of columns of x (n, m)."""
    mean = x.mean(axis=0)
    centred = x - mean
    deviation = np.sqrt(np.square(centred).mean(axis=0))
    covariance = np.array([np.mean(centred[:, j] * centred[:, k]) for j, k in pairs.tolist()])
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = covariance / (deviation[pairs[:, 0]] * deviation[pairs[:, 1]])
    third = np.array([np.mean(centred[:, a] * centred[:, b] * centred[:, c]) for a, b, c in triplets.tolist()])
    return mean, correlation, third


def fit_moments(
    fit: FitState, *, draws: int = 4000, random_state: int = 0, method: str = "auto"
) -> list[MomentTable]:
    """Means, correlations and triplets of a field; single labels, pairs and triplets of neighbours of a chain.

    ``draws`` and ``method`` are those of `FieldModel.sample`.
    """
    dataset = fit.needed.dataset
    if isinstance(dataset, Sequences):
        return _label_moments(fit, dataset, random_state)
    if not isinstance(dataset, Table):
        return []
    model, codes = fit.model.as_field("A comparison of moments"), dataset.codes
    if model.observed:
        drawn = model.simulate(dataset, fit.theta, random_state).codes
    else:
        drawn = model.sample(fit.theta, draws, random_state, method=method).codes
    names, variable, state = counted_states(model)
    random = np.random.default_rng(random_state)
    means = np.stack(
        [state_means(model, side, weight) for side, weight in ((codes, dataset.sample_weight), (drawn, None))]
    )
    tables = [MomentTable("mean", "means", names, means)]
    whole = np.flatnonzero((codes >= 0).all(axis=1))
    if len(whole) < 2:
        return tables
    rows = _some(whole, _MOST_COMPARED_ROWS, random)
    chosen = _some(np.arange(len(names)), _MOST_COMPARED_COLUMNS, random)
    variable, state, names = variable[chosen], state[chosen], tuple(names[k] for k in chosen.tolist())
    pairs, triplets = _pairs(variable, random), triplets_of(len(names), random)
    triplets = triplets[_different(variable[triplets])]
    sides = [central_moments((x[:, variable] == state) * 1.0, pairs, triplets)[1:] for x in (codes[rows], drawn)]
    for kind, places, values in zip(
        ("correlation", "triplet"), (pairs, triplets), zip(*sides, strict=True), strict=True
    ):
        if len(places):
            labels = tuple(" · ".join(names[k] for k in place) for place in places.tolist())
            tables.append(MomentTable(kind, f"{kind}s", labels, np.stack(values)))
    return tables


def _some(items: IntArray, most: int, random: np.random.Generator) -> IntArray:
    return items if len(items) <= most else np.sort(random.choice(items, most, replace=False))


def counted_states(model: FieldModel) -> tuple[tuple[str, ...], IntArray, IntArray]:
    """A name, the variable and the code of each state but the first of each variable."""
    counted = [(j, code) for j, states in enumerate(model.states) for code in range(1, len(states))]
    names = tuple(
        model.names[j] if len(model.states[j]) == 2 else f"{model.names[j]}={model.states[j][code]}"
        for j, code in counted
    )
    return names, np.array([j for j, _ in counted]), np.array([code for _, code in counted])


def state_means(model: FieldModel, codes: Array, weight: FloatArray | None) -> FloatArray:
    """The frequency of each of these states among the known values."""
    shares = []
    for j, states in enumerate(model.states):
        known = codes[:, j] >= 0
        count = np.bincount(codes[known, j], None if weight is None else weight[known], len(states))
        shares.append(count[1:] / max(float(count.sum()), 1e-300))
    return np.concatenate(shares)


def _pairs(variable: IntArray, random: np.random.Generator) -> IntArray:
    count = len(variable)
    if count * (count - 1) // 2 <= 4 * MOST_MOMENTS:
        pairs = np.stack(np.triu_indices(count, 1), axis=1)
    else:
        pairs = np.sort(random.integers(count, size=(2 * MOST_MOMENTS, 2)), axis=1)
    pairs = pairs[_different(variable[pairs])]
    if len(pairs) > MOST_MOMENTS:
        pairs = pairs[np.sort(random.choice(len(pairs), MOST_MOMENTS, replace=False))]
    return pairs


def _different(places: IntArray) -> Array:
    """Which lines (count, 2 or 3), each in increasing order, name every variable once."""
    return np.asarray((np.diff(places, axis=1) > 0).all(axis=1))


def _label_moments(fit: FitState, data: Sequences, random_state: int) -> list[MomentTable]:
    """Frequencies of labels, and of pairs and triplets of neighbouring labels, in the data and in simulated data."""
    names = fit.model.coupling_matrix(fit.theta).names
    simulated = fit.model.simulate(data, fit.theta, random_state)
    assert isinstance(simulated, Sequences)
    known = data.labels >= 0
    tables = []
    for width, kind in ((1, "label"), (2, "pair"), (3, "triplet")):
        counts = []
        for labels in (data.labels, simulated.labels):
            starts = np.arange(max(0, len(labels) - width + 1))
            sentence = np.searchsorted(data.offsets, np.arange(len(labels)), side="right")
            inside = (sentence[starts] == sentence[starts + width - 1]) if len(starts) else np.empty(0, dtype=bool)
            for shift in range(width):
                inside &= known[starts + shift]
            key = np.zeros(int(inside.sum()), dtype=np.int64)
            for shift in range(width):
                key = key * len(names) + labels[starts[inside] + shift]
            counts.append(dict(zip(*(part.tolist() for part in np.unique(key, return_counts=True)), strict=True)))
        total = max(1, sum(counts[0].values()))
        keys = sorted(set(counts[0]) | set(counts[1]), key=lambda key: -counts[0].get(key, 0))[:MOST_MOMENTS]
        values = np.array([[side.get(key, 0) / total for key in keys] for side in counts])
        tables.append(
            MomentTable(
                f"share of {kind}s",
                f"{kind}s of neighbouring labels" if width > 1 else "labels",
                tuple(_spelt(key, width, names) for key in keys),
                values,
            )
        )
    return tables


def _spelt(key: int, width: int, names: tuple[str, ...]) -> str:
    parts = []
    for _ in range(width):
        key, label = divmod(key, len(names))
        parts.append(names[label])
    return " ".join(reversed(parts))
