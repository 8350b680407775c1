"""An objective near its optimum to second order, on which the steps of an optimiser are counted before a fit.

The distance between a start and the optimum is drawn from their joint distribution, and the optimiser of a fit runs on the
expansion until it would stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldfit.models.problem import Problem
from fieldfit.optim import Solution, minimise
from fieldfit.optim.solution import DEFAULT_MAX_ITER, DEFAULT_TOL
from fieldfit.properties import cached_property
from fieldfit.refinement.statistical import StatisticalStop
from fieldfit.types import BoolArray, FloatArray

#: A penalty for each sample that keeps parameters finite that the samples do not determine, relative to the information.
_RIDGE = 1e-4


def expanded_fit(
    objective: ExpandedObjective,
    problem: Problem,
    start: FloatArray,
    units: FloatArray | None,
    seed: int,
    tol: float | None = None,
) -> Solution:
    """The optimiser of a fit of ``problem`` on an expansion of its objective, with a statistical stop where tol is None."""
    stop = StatisticalStop(objective, seed, units=units)
    plain = problem.optimiser == "lbfgs"
    solution = minimise(
        objective.value_grad,
        start,
        hessian_product=objective.hessian_product,
        hessian_diagonal=None if plain else objective.hessian_diagonal,
        method="lbfgs" if plain else "auto",
        history=6 if plain else None,
        gtol=(DEFAULT_TOL if tol is None else tol) * objective.n,
        max_iter=DEFAULT_MAX_ITER,
        units=units,
        callback=stop if tol is None else None,
    ).uninterrupted()
    return stop.judged(solution, DEFAULT_TOL * objective.n) if tol is None else solution


def newton_steps(objective: ExpandedObjective, start: FloatArray) -> int:
    """About how many Newton steps a fit makes from ``start`` until the optimisation error is small.

    On the expansion itself one step reaches the optimum. One is usually enough from a start within the sampling error, and
    another one for each factor of 2 beyond that.
    """
    hessian, covariance = objective.hessian(start), objective.n * objective.K
    noise = max(float(np.trace(np.linalg.solve(hessian, covariance))), 1e-300)
    away = math.sqrt(max(float(start @ hessian @ start), 0.0) / noise)
    return 1 + math.ceil(math.log2(max(away, 1.0)))


@dataclass(frozen=True)
class ExpandedObjective:
    """An objective near its optimum at 0 to second order: bread J and meat K of ``n`` samples, and a penalty (r,)."""

    J: FloatArray
    K: FloatArray
    n: int
    precision: FloatArray | None

    @property
    def penalised(self) -> BoolArray:
        """Which parameters have a penalty."""
        return np.zeros(len(self.J), dtype=np.bool_) if self.precision is None else self.precision > 0

    @cached_property
    def _hessian(self) -> FloatArray:
        ridge = _RIDGE * self.n * np.maximum(np.diag(self.J), 1e-300)
        return np.asarray(
            self.n * self.J + np.diag(ridge if self.precision is None else np.maximum(ridge, self.precision))
        )

    @cached_property
    def _score_root(self) -> FloatArray:
        return covariance_root(self.n * self.K)

    def hessian(self, x: FloatArray) -> FloatArray:
        """H."""
        return self._hessian

    def value_grad(self, x: FloatArray) -> tuple[float, FloatArray]:
        """½ xᵀHx and Hx."""
        slope = self._hessian @ x
        return 0.5 * float(x @ slope), slope

    def hessian_product(self, x: FloatArray, v: FloatArray) -> FloatArray:
        """Hv."""
        return np.asarray(self._hessian @ v)

    def signed_score(self, x: FloatArray, random: np.random.Generator) -> FloatArray:
        """A draw with the covariance nK."""
        return np.asarray(self._score_root @ random.normal(size=len(x)))

    @property
    def hessian_diagonal(self) -> Callable[[FloatArray], FloatArray]:
        """The diagonal of H."""
        diagonal = np.diag(self._hessian).copy()
        return lambda x: diagonal


def covariance_root(matrix: FloatArray) -> FloatArray:
    """A root of a symmetric matrix without its negative part, scaled to a unit diagonal first: the same in all units."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2 * unit[:, None] * unit)
    return np.asarray(scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)))
