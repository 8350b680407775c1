"""Check after a fit that the model does not run away from the data.

A field fitted by conditional likelihoods may have a second mode far from the data. Gibbs chains that start from the
data then move to that mode, and samples from such a field are useless. A field of a wrong form may also have other means
than the data without a second mode. Two rules see it:

- the means of the field, by exact sums or over all chains, are far from those of the data (`allowed_difference`, which
  `networks.compare_moments` uses too);
- several chains go beyond all rows of the data in one direction, as in a second mode that has a small share of the
  samples. If the field had the distribution of the data, K chains and n rows would be n + K samples of it, and the
  chance that the k furthest of them are all chains is C(K, k) / C(n + K, k). The direction is that of one more chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.advice import current_advice
from fieldfit.api.moments import counted_states, state_means
from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table
from fieldfit.inference.gibbs import gibbs_sample
from fieldfit.models.base import Model
from fieldfit.models.field import FieldModel
from fieldfit.refinement.model_moments import MOST_SUMMED_STATES
from fieldfit.threads import one_blas_thread
from fieldfit.types import Array, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from fieldfit.api.state import FitState

#: A model has drifted from the data if means differ by more than this, and by more than three standard errors.
DRIFT = 0.1
#: Most joint states over which means are summed exactly: about 0.1 s.
_MOST_EXACT_STATES = 1 << 18
#: The chance of the second rule for a field with the distribution of the data: that of three standard errors.
_CHANCE = 0.0027
#: Chains, sweeps (with the fewest, a chain can leave the data) and draws of each chain (fewest, most), and the largest
#: number of terms that the check may add up: less than half a second.
_CHAINS, _SWEEPS, _DRAWS, _MOST_TERMS = (16, 128), (30, 400), (5, 20), 270_000_000
#: Fewest variables: for smaller models the check would take as long as the fit.
_FEWEST_VARIABLES = 10
#: Most entries of the indicators of rows that the second rule compares with the chains.
_MOST_ENTRIES = 500_000
_HEAD, _CONSEQUENCE = "The fitted model runs away from the data:", "Do not simulate from it."


def runaway(fit: FitState) -> str:
    """Sentences if the means of the model, or of a Gibbs run started from the data, drift away; else an empty string.

    At the optimum of the full likelihood the model's means equal those of the data. Other policies do not guarantee
    this. The check covers fields with parameters for the states of each variable, which may be shared
    (`mean_groups`); other fields need not have the means of the data. It skips fields of few variables, and those for
    which it would take long.
    """
    if fit.prepared is None:
        return ""
    clause = drift_of(fit.model, fit.prepared.dataset, fit.theta, fit.total, fit.random_state)
    return clause and f"{_HEAD} {clause}. {_CONSEQUENCE} {current_advice().runaway}"


def drift_of(model: Model, dataset: Dataset, theta: FloatArray, total: float, seed: int) -> str:
    """How the means of the model at θ drift away from those of samples with this total weight, as a clause."""
    groups = model.mean_groups if model.joint else None
    if groups is None or len(groups) < _FEWEST_VARIABLES or not isinstance(dataset, Table):
        return ""
    field = model.as_field("A comparison of means")
    states = _GroupStates.of(field, groups)
    means = states.averages(state_means(field, dataset.codes, dataset.sample_weight))
    if summed := field.n_states <= min(_MOST_EXACT_STATES, field.largest_table):
        exact = states.averages(np.concatenate([marginal[1:] for marginal in field.marginals(theta)]))
        clause = _drift(states, means, exact, total, np.zeros_like(exact))
        if clause or field.n_states <= MOST_SUMMED_STATES:
            return clause and f"by exact sums, {clause}"
    run = _gibbs_run(field, dataset, theta, seed)
    if run is None:
        return ""
    drawn, sweeps = run  # (draws, chains, variables)
    of_chains = (
        states.sums(drawn.reshape(-1, drawn.shape[2])).reshape(*drawn.shape[:2], -1).mean(axis=0) / states.members
    )
    # The draws of one chain may be strongly correlated. Chains are independent, so their spread has the error.
    noise = of_chains.std(axis=0, ddof=1) / np.sqrt(len(of_chains))
    clause = "" if summed else _drift(states, means, of_chains.mean(axis=0), total, noise)
    clause = clause or _escape(states, means, of_chains, dataset.codes, seed)
    return clause and f"in a Gibbs run of {sweeps} sweeps that starts from rows of the data, {clause}"


@dataclass(frozen=True, eq=False)
class _GroupStates:
    """Each state but the first of each group of variables: a name, and the number of variables."""

    names: tuple[str, ...]
    members: FloatArray
    variable: IntArray
    state: IntArray
    place: IntArray

    @classmethod
    def of(cls, model: FieldModel, groups: IntArray) -> _GroupStates:
        names, variable, state = counted_states(model)
        key = groups[variable] * max(len(states) for states in model.states) + state
        _, first, place, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        told = tuple(
            names[k]
            if size == 1
            else f"state {model.states[int(variable[k])][int(state[k])]} over {size:,} variables"
            for k, size in zip(first.tolist(), count.tolist(), strict=True)
        )
        return cls(told, count.astype(np.float64), variable, state, place)

    def averages(self, means: FloatArray) -> FloatArray:
        """Means of the states of each variable → means of the states of each group."""
        return np.bincount(self.place, means) / self.members

    def sums(self, codes: Array) -> FloatArray:
        """How many variables of each group have each state, in each row (n, states of groups)."""
        indicators: FloatArray = (codes[:, self.variable] == self.state).astype(np.float64)
        if len(self.members) == len(self.place):
            return np.take(indicators, np.argsort(self.place), axis=1)
        return np.stack([np.bincount(self.place, row) for row in indicators])


def allowed_difference(means: FloatArray, size: FloatArray | float, noise: FloatArray) -> FloatArray:
    """How far means of a model may be from ``means`` (k,) of ``size`` samples before the model counts as far from the data.

    It is `DRIFT` or three standard errors of the data's means, whichever is larger, and three standard errors ``noise``
    (k,) of the model's means, 0 for exact ones.
    """
    # One sample of each value is added, because a value that all of few samples have is not certain.
    share = (size * means + 1.0) / (size + 2.0)
    return np.asarray(np.maximum(DRIFT, 3.0 * np.sqrt(share * (1.0 - share) / size)) + 3.0 * noise)


def _drift(states: _GroupStates, means: FloatArray, drawn: FloatArray, total: float, noise: FloatArray) -> str:
    """Which mean of the model is further from that of the data than allowed; ``noise`` has the errors of the model's."""
    # Sites of a group depend on each other, so k sites count as √k.
    apart = np.abs(drawn - means) - allowed_difference(means, total * np.sqrt(states.members), noise)
    far = int((apart > 0).sum())
    if not far:
        return ""
    worst = int(apart.argmax())
    return f"the mean of {states.names[worst]!r} goes from {means[worst]:.3f} to {drawn[worst]:.3f}" + (
        f", and {far - 1} other means drift away too" if far > 1 else ""
    )


def _escape(states: _GroupStates, means: FloatArray, chains: FloatArray, codes: Array, seed: int) -> str:
    """How many chains go beyond all rows of the data, by more than `DRIFT` for each variable, in one direction."""
    rows = np.flatnonzero((codes >= 0).all(axis=1))
    most = max(1, _MOST_ENTRIES // len(states.variable))
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    away = chains - means
    centred = states.sums(codes[rows]) - means * states.members
    with one_blas_thread():
        furthest = (centred @ away.T).max(axis=0)
    limit = furthest + DRIFT * (np.abs(away) @ states.members)
    lengths = np.square(away) @ states.members
    first = int((lengths - limit).argmax())
    beyond: BoolArray = away @ (states.members * away[first]) > limit[first]
    k, n, rest = int(beyond.sum()) - 1, len(rows), len(chains) - 1
    i = np.arange(k)
    if k < 1 or np.prod((rest - i) / (n + rest - i)) > _CHANCE:
        return ""
    there = chains[beyond].mean(axis=0)
    worst = int(np.abs(there - means).argmax())
    return (
        f"{k + 1} of {len(chains)} chains go further from the data's means than any row of the data: there, the mean "
        f"of {states.names[worst]!r} is {there[worst]:.3f} ({means[worst]:.3f} in the data)"
    )


def _gibbs_run(model: FieldModel, dataset: Table, theta: FloatArray, seed: int) -> tuple[Array, int] | None:
    """Draws (draws, chains, variables) of chains that start from rows, and the sweeps; None if it would take long."""
    codes, weight = dataset.codes, dataset.sample_weight
    rows = np.flatnonzero((codes >= 0).all(axis=1))
    if not len(rows):
        return None
    most = _MOST_TERMS // _terms(model)  # sweeps of all chains
    # More chains than rows would start from the same states.
    chains = min(max(most // (_SWEEPS[1] + 2 * _DRAWS[1]), _CHAINS[0]), _CHAINS[1], max(len(rows), _CHAINS[0]))
    draws = min(max(most // chains // 10, _DRAWS[0]), _DRAWS[1])
    sweeps = min(most // chains - 2 * draws, _SWEEPS[1])
    if sweeps < _SWEEPS[0]:
        return None
    random = np.random.default_rng(seed)
    chance = None if weight is None else weight[rows] / weight[rows].sum()
    start = np.ascontiguousarray(codes[random.choice(rows, size=chains, p=chance)])
    drawn = gibbs_sample(
        model.graph,
        model.log_tables(theta),
        chains * draws,
        seed,
        start=start,
        burn_in=sweeps,
        thin=2,
    )
    return drawn.reshape(draws, chains, -1), sweeps


def _terms(model: FieldModel) -> int:
    """Number of terms that a Gibbs sampler adds in one sweep."""
    counts = np.diff(model.graph.factors_of.indptr)
    return int(np.dot(model.graph.cardinalities, counts))
