"""Bread and meat of a fit under its own θ̂ (model-based), over what the model describes given what it conditions on.

Where there are few states they are all listed with their probabilities and E[ZZᵀ] of the policy is exact. Elsewhere
datasets are simulated at θ̂ (same observations, lengths and missing values) with selections of their own, and their
Hessians and score products have the right expectations, selection noise included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fieldfit.asymptotics.accuracy import Moments
from fieldfit.asymptotics.meat import ScoreVariance
from fieldfit.asymptotics.moments import MOST_ENUMERATED_STATES, theory_moments
from fieldfit.asymptotics.sandwich import robust_moments
from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table
from fieldfit.models.base import Model
from fieldfit.models.problem import Problem
from fieldfit.policies.families import Full
from fieldfit.policies.laws.independent import Independent
from fieldfit.policies.policy import BoundPolicy
from fieldfit.steps import stepped
from fieldfit.types import FloatArray, PolicyError

#: Fewest simulated samples, and fewest datasets where they come in datasets like that of the fit. Samples that all have one
#: distribution need no datasets: as many as were fitted make the expectations as precise as those of robust errors.
SIMULATED = 20_000
_FEWEST_DATASETS = 4
#: Copies of a single sample that are simulated, in how many parts, and how many values they may have in all.
_FEWEST_COPIES, _MOST_COPIES, _COPY_PARTS = 40, 400, 8
_MOST_SIMULATED_VALUES = 40_000_000


@dataclass(frozen=True)
class Estimated:
    """An estimate θ̂ with its samples: what expectations under it are taken over.

    ``problem`` is the samples with the drawn Z, compiled; ``random_state`` seeds simulated datasets.
    """

    model: Model
    dataset: Dataset
    bound: BoundPolicy
    problem: Problem
    theta: FloatArray
    random_state: int


def replicate_seeds(random_state: int, count: int) -> list[int]:
    """Seeds for simulated datasets and their selections, away from the seed of the fit."""
    words = np.random.SeedSequence([random_state, 0x5E]).generate_state(count, np.uint64)
    return [int(word) >> 1 for word in words]


def model_moments(fit: Estimated) -> Moments:
    """Bread and meat expected under θ̂, as means over samples."""
    problem, dataset = fit.problem, fit.dataset
    weight, total = dataset.sample_weight, dataset.total_weight
    states = fit.model.expected_states(fit.theta, dataset, MOST_ENUMERATED_STATES)
    if states is not None:
        table, once, squared = states
        bound = fit.bound
        try:
            bread, meat = theory_moments(
                bound,
                lambda chosen: fit.model.compile(table, chosen),
                fit.theta,
                once / total,
                meat_weight=squared / total,
            )
            return Moments(bread, meat, total, f"sums over {table.n} states")
        except PolicyError:
            pass  # a law with too many composite scores: simulate
    identity = information_identity(fit)
    if identity is not None:
        bread = -problem.hessian_matrix(fit.theta, weight) / total
        meat = bread
        if weight is not None and not dataset.has_counts:
            meat = -problem.hessian_matrix(fit.theta, weight**2) / total
        return Moments(bread, identity * meat, total, "the information identity")
    variance = ScoreVariance(weight, dataset.has_counts)
    copies = simulated_copies(fit)
    if copies is not None:
        bread, meat = robust_moments(copies.whole, fit.theta, variance)
        return Moments(
            bread,
            meat,
            total,
            f"{copies.whole.n_samples} simulated samples",
            partial(copies.moments, fit.theta, variance),
        )
    seeds = replicate_seeds(fit.random_state, max(_FEWEST_DATASETS, math.ceil(SIMULATED / fit.dataset.n)))
    with stepped("standard errors", seeds) as counted:
        parts = [robust_moments(simulated_problem(fit, seed), fit.theta, variance) for seed in counted]
    method = f"{len(seeds)} simulated datasets of {dataset.n} samples"
    bread = np.mean([part[0] for part in parts], axis=0)
    meat = np.mean([part[1] for part in parts], axis=0)
    return Moments(bread, meat, total, method, lambda: parts)


@dataclass(frozen=True)
class Copies:
    """One sample drawn at θ̂ many times, compiled: as a whole, and in equal parts when they are asked for."""

    whole: Problem
    part: Callable[[int], Problem]
    count: int

    def moments(self, theta: FloatArray, variance: ScoreVariance) -> list[tuple[FloatArray, FloatArray]]:
        """Bread and meat of each part."""
        with stepped("error of the simulation", range(self.count)) as numbers:
            return [robust_moments(self.part(number), theta, variance) for number in numbers]


def simulated_copies(fit: Estimated) -> Copies | None:
    """One sample drawn at θ̂ many times; None if datasets are simulated instead.

    That is the case of a single sample (400 copies, fewer of more than 100,000 variables), and of many samples that all
    have one distribution: a table without missing values and weights, of a model that conditions on nothing.
    """
    table = fit.dataset
    if not isinstance(table, Table) or table.sample_weight is not None:
        return None
    if table.n == 1:
        size = int(np.clip(_MOST_SIMULATED_VALUES / max(table.m, 1), _FEWEST_COPIES, _MOST_COPIES)) // _COPY_PARTS
        parts = _COPY_PARTS
    elif table.n * _FEWEST_DATASETS > SIMULATED and fit.model.joint and not table.has_missing:
        size, parts = max(SIMULATED, table.n) // _FEWEST_DATASETS, _FEWEST_DATASETS
    else:
        return None
    seed = replicate_seeds(fit.random_state, 1)[0]
    drawn = fit.model.simulate(table.subset(np.zeros(size * parts, dtype=np.int64)), fit.theta, seed)

    def compiled(start: int, stop: int) -> Problem:
        return fit.model.compile(drawn.subset(np.arange(start, stop)), fit.bound.draw(seed, start, stop))

    return Copies(compiled(0, drawn.n), lambda number: compiled(number * size, (number + 1) * size), parts)


def information_identity(fit: Estimated) -> float | None:
    """β where the policy is the full likelihood of every sample and nothing is missing; else None.

    The Hessian of an exponential family's likelihood, −Cov(features), does not depend on the modelled values, so the bread
    of the data is the expected one; and E ψψᵀ is β times it. Nothing needs to be simulated.
    """
    dataset = fit.dataset
    bound = fit.bound
    law = bound.policy.laws[0]
    full = isinstance(law, Independent) and isinstance(law.term.family, Full)
    if len(bound.families) != 1 or not full or not bound.everything:
        return None
    # With unknown values the Hessian is −Cov(features) + Cov(features | known), which depends on what is known.
    if dataset.has_missing:
        return None
    beta = np.asarray(bound.betas[0], dtype=np.float64)
    return float(beta.reshape(-1)[0]) if beta.size == 1 else None


def simulated_problems(fit: Estimated, count: int) -> list[Problem]:
    """Datasets drawn at θ̂, each with a selection of its own, compiled."""
    return [simulated_problem(fit, seed) for seed in replicate_seeds(fit.random_state, count)]


def simulated_problem(fit: Estimated, seed: int) -> Problem:
    """One of them; samples in shards are drawn again where they are held."""
    elsewhere = fit.problem.redrawn(fit.bound, fit.theta, seed)
    if elsewhere is not None:
        return elsewhere
    simulated = fit.model.simulate(fit.dataset, fit.theta, seed)
    return fit.model.compile(simulated, fit.bound.draw(seed, 0, fit.dataset.n))
