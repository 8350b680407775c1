"""``A >> B`` in plans: the variance of B, and the steps of B's objective from A's estimate.

The steps are counted on B's second-order expansion: the distance between the two estimates is drawn from their joint
distribution, and the same optimiser runs until the optimisation error is small against the sampling error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.models.work import clock
from fieldfit.optim import Solution, minimise
from fieldfit.policies import Policy, Staged
from fieldfit.refinement.planned import FirstStage, PlanSetting, StageSkippedError, StageWork
from fieldfit.refinement.statistical import FRACTION, StatisticalStop
from fieldfit.types import FloatArray
from fieldfit.variance.mixture_moments import MixtureMoments

#: Most iterations of a fit.
_MOST_ITERATIONS = 1000
#: A penalty for each sample that keeps parameters finite that the samples do not determine, relative to the information.
_RIDGE = 1e-4
#: Gradient for each sample at which an optimiser stops in any case.
_TOL = 1e-6
#: Seconds of a second stage besides its steps.
_FIXED = 0.004


@dataclass(frozen=True)
class PlannedSteps:
    """``A >> B`` with all of B selected; ``limit`` is B's place among the plan's terms."""

    staged: Staged
    limit: int
    setting: PlanSetting
    flops: float = 0.0

    @property
    def sentence(self) -> str:
        """What it does."""
        return (
            f"The second stage maximises the objective of '{self.staged.second}' from the first estimate, until the "
            f"optimisation error is {100 * FRACTION:g}% of the sampling error."
        )

    def work(self, first: FirstStage, moments: MixtureMoments, n: int) -> StageWork:
        """The optimiser's steps from A's estimate to where the optimisation error is small."""
        setting, place = self.setting, self.limit
        objective = ExpandedObjective(moments.J[place], moments.K[place, place], n, setting.precision)
        start = self._distance(first, moments, n)
        began = clock()
        solution = expanded_fit(
            objective, setting.terms[place].problem, start, setting.model.feature_units, setting.random_state
        )
        seconds = _FIXED + clock() - began
        return StageWork(seconds, 0.0, solution.evaluations, solution.hessian_products, place)

    def _distance(self, first: FirstStage, moments: MixtureMoments, n: int) -> FloatArray:
        """A draw of θ̂_A − θ̂_B, from the variance of J_A⁻¹ψ_A − J_B⁻¹ψ_B over n."""
        used, place = list(range(len(first.lam))), self.limit
        bread, meat = (m[0] for m in moments.subset(used).moments(first.lam[None], first.beta[None]))
        cross = np.einsum("f,fde->de", first.lam * first.beta, moments.K[used, place])
        first_inverse = np.linalg.pinv(bread, rcond=1e-10, hermitian=True)
        second_inverse = np.linalg.pinv(moments.J[place], rcond=1e-10, hermitian=True)
        between = first_inverse @ cross @ second_inverse
        spread = first_inverse @ meat @ first_inverse - between - between.T
        spread += second_inverse @ moments.K[place, place] @ second_inverse
        random = np.random.default_rng([self.setting.random_state, 0x95])
        return np.asarray(_root(spread) @ random.normal(size=len(spread)) / math.sqrt(n))


def plan_steps(staged: Staged, setting: PlanSetting) -> PlannedSteps:
    """The stage, if all of B is selected and one law."""
    second = staged.second
    assert isinstance(second, Policy)
    laws = [term.law for term in setting.terms]
    if len(second.laws) == 1 and second.bind(setting.model.structure(setting.rows)).everything:
        law, lam, _ = second.laws[0].unit()
        if lam == 1.0 and law in laws:
            return PlannedSteps(staged, laws.index(law), setting)
    raise StageSkippedError(
        f"'{staged}' cannot be planned: of the second stages that maximise an objective, a plan compares one family with "
        "everything selected, such as FL."
    )


def expanded_fit(
    objective: ExpandedObjective,
    problem: Problem,
    start: FloatArray,
    units: FloatArray | None,
    seed: int,
    tol: float | None = None,
) -> Solution:
    """The optimiser of a fit of ``problem`` on an expansion of its objective, with a statistical stop where tol is None."""
    stop = StatisticalStop(objective, seed)
    plain = problem.optimiser == "lbfgs"
    solution = minimise(
        objective.value_grad,
        start,
        hessian_product=objective.hessian_product,
        hessian_diagonal=None if plain else objective.hessian_diagonal,
        method="lbfgs" if plain else "auto",
        history=6 if plain else None,
        gtol=(_TOL if tol is None else tol) * objective.n,
        max_iter=_MOST_ITERATIONS,
        units=units,
        callback=stop if tol is None else None,
    )
    return stop.judged(solution, _TOL * objective.n) if tol is None else solution


@dataclass(frozen=True)
class ExpandedObjective:
    """An objective near its optimum at 0 to second order: bread J and meat K of ``n`` samples, and a penalty (r,)."""

    J: FloatArray
    K: FloatArray
    n: int
    precision: FloatArray | None

    @cached_property
    def _hessian(self) -> FloatArray:
        ridge = _RIDGE * self.n * np.maximum(np.diag(self.J), 1e-300)
        return np.asarray(
            self.n * self.J + np.diag(ridge if self.precision is None else np.maximum(ridge, self.precision))
        )

    @cached_property
    def _score_root(self) -> FloatArray:
        return _root(self.n * self.K)

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


def _root(matrix: FloatArray) -> FloatArray:
    """A root of a symmetric matrix without its negative part."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
