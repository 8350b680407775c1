"""How many evaluations a fit takes, from a fit to the pilot's samples.

The shape of an objective changes little with the number of samples, but much with the family: PL1 of a dense field has a
preconditioner and takes a dozen evaluations, its full likelihood sixty Hessian products. Each family is fitted once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.models.work import clock
from fieldfit.objective import Objective
from fieldfit.optim import Solution, minimise
from fieldfit.types import FloatArray

#: A penalty for each sample so weak that it only keeps parameters finite that the pilot's samples do not determine.
RIDGE = 1e-4
_GTOL = 1e-6  # that of `fit`


@dataclass(frozen=True)
class Steps:
    """Evaluations of a fit. ``equivalents`` counts all its work in evaluations of value and gradient, timed here."""

    count: int  # evaluations and Hessian products
    equivalents: float
    overhead: float  # seconds of the optimiser itself in the whole fit
    converged: bool


def penalised(problem: Problem, n: int, precision: FloatArray | None) -> Objective:
    """The objective of a pilot: the penalty of the fit to come, and a trace of a ridge."""
    r = problem.n_parameters
    weight = np.full(r, RIDGE * n)
    if precision is not None:
        weight = np.maximum(weight, precision)
    return Objective(problem, weight, np.zeros(r), np.ones(r, dtype=bool))


def optimise(objective: Objective, n: int) -> Solution:
    """Maximise from 0 as `fit` does, to its accuracy."""
    plain = objective.problem.optimiser == "lbfgs"
    return minimise(
        objective.value_grad,
        np.zeros(objective.problem.n_parameters),
        hessian_product=objective.hessian_product,
        hessian_diagonal=None if plain else objective.hessian_diagonal,
        preconditioner=objective.preconditioner,
        method="lbfgs" if plain else "auto",
        history=6 if plain else 10,
        gtol=_GTOL * n,
        max_iter=300,
    )


def steps_of(problem: Problem, n: int, precision: FloatArray | None) -> Steps:
    """Fit the problem and account for it: Hessian products and preconditioners as so many evaluations."""
    objective = penalised(problem, n, precision)
    began = clock()
    solution = optimise(objective, n)
    seconds = clock() - began
    x = np.asarray(solution.x)
    direction = np.ones_like(x)
    one = _least(lambda: objective.value_grad(x))
    equivalents = float(solution.evaluations)
    if solution.hessian_products:
        equivalents += solution.hessian_products * _least(lambda: objective.hessian_product(x, direction)) / one
    if objective.problem.optimiser != "lbfgs":
        # Both are asked for before the first step.
        equivalents += _least(lambda: (objective.preconditioner, objective.hessian_diagonal)) / one
    count = solution.evaluations + solution.hessian_products
    return Steps(count, equivalents, max(seconds - equivalents * one, 0.0), solution.converged)


def _least(run: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        began = clock()
        run()
        times.append(clock() - began)
    return max(min(times), 1e-7)
