"""Compare means, pairs and triplets of a fitted model and the data, and check that the model does not drift away.

A field fitted by conditional likelihoods may have a second mode far from the data. Gibbs chains that start from the
data then move to that mode, and the means drift away. Samples from such a field are useless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.samples import Table
from fieldfit.data.sequences import Sequences
from fieldfit.inference.gibbs import gibbs_sample
from fieldfit.models.field import FieldModel
from fieldfit.refinement.points import MOST_SUMMED_STATES
from fieldfit.types import Array, FloatArray, IntArray

if TYPE_CHECKING:
    from fieldfit.api.state import FitState

#: A model has drifted from the data if means differ by more than this plus three standard errors.
DRIFT = 0.1
#: Most pairs and triplets that are compared. If there are more, this number is drawn at random.
MOST_MOMENTS = 3000
_MOST_ROWS, _MOST_COMPARED_COLUMNS = 20_000, 400
#: Chains and sweeps of the check of a new fit, and the largest number of terms that it may add up: about half a second,
#: or a quarter of it for more sweeps than the fewest that are of use.
_CHAINS, _SWEEPS, _DRAWS_OF_CHAIN, _MOST_TERMS, _USUAL_TERMS = 16, 400, 5, 100_000_000, 25_000_000
#: Fewest sweeps, with which a chain can leave the data; and fewest variables: for smaller models the check would take
#: as long as the fit.
_FEWEST_SWEEPS, _FEWEST_VARIABLES = 30, 10


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
    names, variable, state = _states(model)
    random = np.random.default_rng(random_state)
    means = np.stack(
        [_means(model, side, weight) for side, weight in ((codes, dataset.sample_weight), (drawn, None))]
    )
    tables = [MomentTable("mean", "means", names, means)]
    whole = np.flatnonzero((codes >= 0).all(axis=1))
    if len(whole) < 2:
        return tables
    rows = _some(whole, _MOST_ROWS, random)
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


def _states(model: FieldModel) -> tuple[tuple[str, ...], IntArray, IntArray]:
    """A name, the variable and the code of each state but the first of each variable."""
    counted = [(j, code) for j, states in enumerate(model.states) for code in range(1, len(states))]
    names = tuple(
        model.names[j] if len(model.states[j]) == 2 else f"{model.names[j]}={model.states[j][code]}"
        for j, code in counted
    )
    return names, np.array([j for j, _ in counted]), np.array([code for _, code in counted])


def _means(model: FieldModel, codes: Array, weight: FloatArray | None) -> FloatArray:
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


def runaway(fit: FitState) -> str:
    """A sentence if the means of the model, or of a Gibbs run started from the data, drift away; else an empty string.

    At the optimum of the full likelihood the model's means equal those of the data. Other policies do not guarantee
    this. The check covers fields with parameters for the states of each variable, which may be shared
    (`mean_groups`); other fields need not have the means of the data. It skips fields of few variables, and those for
    which it would take long.
    """
    if fit.prepared is None or not fit.model.joint:
        return ""
    groups = fit.model.mean_groups
    if groups is None or len(groups) < _FEWEST_VARIABLES:
        return ""
    model, dataset = fit.model.as_field("A comparison of means"), fit.prepared.dataset
    if not isinstance(dataset, Table):
        return ""
    model_means = _model_means(fit, model, dataset)
    if model_means is None:
        return ""
    drawn, chains, how = model_means
    names, means, drawn, members = _by_group(
        model, groups, _means(model, dataset.codes, dataset.sample_weight), drawn
    )
    # The draws of one chain may be strongly correlated, so the error is based on the number of chains. Sites of a
    # group depend on each other, so k sites count as √k. One sample of each value is added, because a value that all
    # of few samples have is not certain.
    size = fit.total * np.sqrt(members)
    share = (size * means + 1.0) / (size + 2.0)
    noise = 1.0 / size + (1.0 / (chains * np.sqrt(members)) if chains else 0.0)
    apart = np.abs(drawn - means) - DRIFT - 3.0 * np.sqrt(share * (1.0 - share) * noise)
    if not (apart > 0).any():
        return ""
    worst, far = int(apart.argmax()), int((apart > 0).sum())
    return (
        f"The fitted model runs away from the data: {how}, the mean of {names[worst]!r} goes from {means[worst]:.3f} to "
        f"{drawn[worst]:.3f}"
        + (f", and {far - 1} other means drift away too" if far > 1 else "")
        + ". Do not simulate from it. A stronger penalty (a much smaller sigma2, or l1) keeps it near the data, and so "
        "does FL where it is possible. A second stage ('PL1 >> optimal') does not help by itself: it starts from the first "
        "estimate, so it needs the stronger penalty too."
    )


def _model_means(fit: FitState, model: FieldModel, dataset: Table) -> tuple[FloatArray, int, str] | None:
    """The means of the model, the number of chains (0: exact), and the method; None if it would take long."""
    if model.n_states <= min(MOST_SUMMED_STATES, model.largest_table):
        exact = np.concatenate([marginal[1:] for marginal in model.marginals(fit.theta)])
        return exact, 0, "by exact sums"
    codes, weight = dataset.codes, dataset.sample_weight
    rows = np.flatnonzero((codes >= 0).all(axis=1))
    if not len(rows):
        return None
    each = sum(graph_terms(model)) * _CHAINS
    most = max(_USUAL_TERMS, min(_MOST_TERMS, (_FEWEST_SWEEPS + 2 * _DRAWS_OF_CHAIN) * each))
    sweeps = min(_SWEEPS, most // each - 2 * _DRAWS_OF_CHAIN)
    if sweeps < _FEWEST_SWEEPS:
        return None
    random = np.random.default_rng(fit.random_state)
    chance = None if weight is None else weight[rows] / weight[rows].sum()
    start = np.ascontiguousarray(codes[random.choice(rows, size=_CHAINS, p=chance)])
    drawn = gibbs_sample(
        model.graph, model.log_tables(fit.theta), _CHAINS * _DRAWS_OF_CHAIN, fit.random_state, start=start,
        burn_in=sweeps, thin=2,
    )  # fmt: skip
    how = f"in a Gibbs run of {sweeps} sweeps that starts from rows of the data"
    return _means(model, drawn, None), _CHAINS, how


def _by_group(
    model: FieldModel, groups: IntArray, *sides: FloatArray
) -> tuple[tuple[str, ...], FloatArray, FloatArray, FloatArray]:
    """Names, the two means and the number of variables of each state but the first of each group of variables."""
    names, variable, state = _states(model)
    key = groups[variable] * max(len(states) for states in model.states) + state
    _, first, place, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    data, drawn = (np.bincount(place, side) / count for side in sides)
    told = tuple(
        names[k] if size == 1 else f"state {model.states[int(variable[k])][int(state[k])]} over {size:,} variables"
        for k, size in zip(first.tolist(), count.tolist(), strict=True)
    )
    return told, data, drawn, count.astype(np.float64)


def graph_terms(model: FieldModel) -> list[int]:
    """Number of terms that a Gibbs sampler adds for each variable in one sweep."""
    members = model.graph.factors_of
    return [
        states * int(count) for states, count in zip(model.graph.cardinalities, np.diff(members.indptr), strict=True)
    ]
