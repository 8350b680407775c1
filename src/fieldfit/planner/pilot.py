"""The pilot: a cheap PL1 fit on at most a few thousand samples, for θ̂ and for the number of evaluations of a fit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldfit.models.base import Model
from fieldfit.planner.convergence import optimise, penalised
from fieldfit.planner.ingredients import n_samples
from fieldfit.policies import Policy
from fieldfit.types import FloatArray, ModelError


@dataclass(frozen=True)
class Pilot:
    """θ̂, the samples it comes from, and what it took."""

    theta: FloatArray
    rows: Any
    n: int
    evaluations: int  # evaluations and Hessian products
    converged: bool
    seconds: float


def most_rows(r: int) -> int:
    """Samples of the pilot: enough for r parameters where there are few, few where an evaluation is dear."""
    if r > 20_000:
        return 400
    return 1000 if r > 1_500 else 2000


def evidence_rows(model: Model, pilot: Pilot, random_state: int) -> tuple[Any, bool]:
    """The samples that moments are taken over, and whether they are simulated.

    Some of the pilot's where that is enough for a percent or two. Where the pilot had fewer than five samples for each
    parameter its own samples look better than they are (θ̂ has adapted to them): then their values are drawn anew
    from the model at θ̂, given what it conditions on.
    """
    r = model.n_parameters
    most = 1000 if r <= 1_500 else 500
    if pilot.n >= 5 * r:
        return _some(pilot, most, random_state), False
    seed = int(np.random.SeedSequence([random_state, 0x93]).generate_state(1)[0])
    try:
        # As many as needed: simulated samples are not limited by the data.
        return model.simulate(pilot.rows.subset(np.resize(np.arange(pilot.n), most)), pilot.theta, seed), True
    except ModelError:
        return _some(pilot, most, random_state), False


def _some(pilot: Pilot, most: int, random_state: int) -> Any:
    if pilot.n <= most:
        return pilot.rows
    return pilot.rows.subset(
        np.sort(np.random.default_rng([random_state, 0x92]).choice(pilot.n, most, replace=False))
    )


def run_pilot(model: Model, dataset: Any, random_state: int, precision: FloatArray | None = None) -> Pilot:
    """Fit PL1 to a random part of the samples, to the accuracy that `fit` has by default."""
    began = time.perf_counter()
    total = n_samples(dataset)
    n = min(total, most_rows(model.n_parameters))
    rows = dataset
    if n < total:
        chosen = np.sort(np.random.default_rng([random_state, 0x91]).choice(total, n, replace=False))
        rows = dataset.subset(chosen)
    bound = Policy.parse("PL1").bind(model.structure(rows))
    problem = model.compile(rows, bound.draw(random_state, 0, n))
    solution = optimise(penalised(problem, n, precision), n)
    return Pilot(
        np.asarray(solution.x, dtype=np.float64).copy(),
        rows,
        n,
        solution.evaluations + solution.hessian_products,
        solution.converged,
        time.perf_counter() - began,
    )
