"""The questions that a problem asks its shards: the methods of `Problem`, as functions that can travel.

Each is a frozen dataclass that is called with a shard, what all shards share (the recipes, by key), and what is for this
shard alone: the weights of its samples, True for the weights that the samples have themselves, or None.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.models.problem import Problem
from fieldfit.optim.preconditioner import InverseProduct
from fieldfit.shards.shard import Report, Shard, Shared, held_weight
from fieldfit.shards.tree import Answer
from fieldfit.types import FloatArray

Own = FloatArray | bool | None


@dataclass(frozen=True)
class OfProblem:
    """A question about the problem with the recipe ``key`` and the weights ``betas`` of its families (None: its own)."""

    key: str
    betas: FloatArray | None

    def problem(self, shard: Shard, shared: Shared) -> Problem:
        """The compiled shard."""
        return shard.problem(self.key, shared[self.key], self.betas)


@dataclass(frozen=True)
class Reported(OfProblem):
    """What the compiled shard says of itself."""

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> Report:
        """The report."""
        problem, recipe = self.problem(shard, shared), shared[self.key]
        selection = recipe.selection(shard.number)
        cost = recipe.model.selection_cost(selection)
        return Report(
            problem.n_samples,
            problem.n_parameters,
            problem.n_families,
            problem.betas,
            problem.with_betas(problem.betas) is not None,
            problem.exact_diagonal,
            problem.optimiser,
            problem.streams_scores,
            selection.count(),
            0 if cost is None else cost.components,
            None if cost is None else cost.flops,
        )


@dataclass(frozen=True)
class ValueGradient(OfProblem):
    """Σ_i w_i m_θ and its gradient."""

    theta: FloatArray

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> Answer:
        """(value (1,), gradient (r,))."""
        value, gradient = self.problem(shard, shared).value_grad(self.theta, held_weight(shard, own))
        return np.array([value]), np.array(gradient)


@dataclass(frozen=True)
class HessianProduct(OfProblem):
    """Σ_i w_i ∇²m_θ v."""

    theta: FloatArray
    v: FloatArray

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> Answer:
        """The product (r,)."""
        weight = held_weight(shard, own)
        return (np.array(self.problem(shard, shared).hessian_product(self.theta, self.v, weight)),)


@dataclass(frozen=True)
class ScoreProduct(OfProblem):
    """Σ_i w_i ψ_i ψ_iᵀ v."""

    theta: FloatArray
    v: FloatArray

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> Answer:
        """The product (r,)."""
        weight = held_weight(shard, own)
        return (np.array(self.problem(shard, shared).score_product(self.theta, self.v, weight)),)


@dataclass(frozen=True)
class HessianMatrix(OfProblem):
    """Σ_i w_i ∇²m_θ."""

    theta: FloatArray

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> Answer:
        """The matrix (r, r)."""
        return (np.array(self.problem(shard, shared).hessian_matrix(self.theta, held_weight(shard, own))),)


@dataclass(frozen=True)
class ScoreMoment(OfProblem):
    """Σ_i w_i ψ_i ψ_iᵀ."""

    theta: FloatArray

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> Answer:
        """The matrix (r, r)."""
        return (np.array(self.problem(shard, shared).score_moment(self.theta, held_weight(shard, own))),)


@dataclass(frozen=True)
class FamilyStatistics(OfProblem):
    """Σ_i w_i ψ_i^(f) ∘ ψ_i^(g)."""

    theta: FloatArray

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> Answer:
        """(families, families, r)."""
        return (np.array(self.problem(shard, shared).family_statistics(self.theta, held_weight(shard, own))),)


@dataclass(frozen=True)
class FamilyProducts(OfProblem):
    """Σ_i w_i ψ_i^(f) ψ_i^(g)ᵀ."""

    theta: FloatArray

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> Answer:
        """(families, families, r, r)."""
        return (np.array(self.problem(shard, shared).family_products(self.theta, held_weight(shard, own))),)


@dataclass(frozen=True)
class HessianDiagonal(OfProblem):
    """The approximate diagonal of −Σ_i w_i ∇²m_θ."""

    theta: FloatArray

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> Answer:
        """The diagonal (r,), or None."""
        diagonal = self.problem(shard, shared).hessian_diagonal(self.theta, held_weight(shard, own))
        return None if diagonal is None else (np.array(diagonal),)


@dataclass(frozen=True)
class InformationDiagonal(OfProblem):
    """The diagonal itself."""

    theta: FloatArray

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> Answer:
        """The diagonal (r,), or None."""
        diagonal = self.problem(shard, shared).information_diagonal(self.theta, held_weight(shard, own))
        return None if diagonal is None else (np.array(diagonal),)


@dataclass(frozen=True)
class RowValues(OfProblem):
    """m_θ(X_i, Z_i) for each sample."""

    theta: FloatArray

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> FloatArray:
        """One number for each sample of the shard."""
        return self.problem(shard, shared).row_values(self.theta)


@dataclass(frozen=True)
class RowProducts(OfProblem):
    """ψ_iᵀ v for each sample."""

    theta: FloatArray
    v: FloatArray

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> FloatArray:
        """One number for each sample of the shard."""
        return self.problem(shard, shared).row_products(self.theta, self.v)


@dataclass(frozen=True)
class FamilyScores(OfProblem):
    """Scores by family of the samples start..stop of the shard."""

    theta: FloatArray
    start: int
    stop: int

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> FloatArray:
        """(stop − start, families, r)."""
        return self.problem(shard, shared).family_scores(self.theta, self.start, self.stop)


@dataclass(frozen=True)
class ShardPreconditioner(OfProblem):
    """The shard's operator near H⁻¹, or its better and slower one (``late``)."""

    theta: FloatArray
    precision: FloatArray
    late: bool

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> InverseProduct | None:
        """v ↦ M⁻¹v, or None."""
        problem, weight = self.problem(shard, shared), held_weight(shard, own)
        make = problem.late_preconditioner if self.late else problem.preconditioner
        return make(self.theta, self.precision, weight)


@dataclass(frozen=True)
class Forget:
    """Drop a compiled problem."""

    key: str

    def __call__(self, shard: Shard, shared: Shared, own: Own) -> None:
        """Nothing is answered."""
        shard.forget(self.key)
