"""The questions that a problem asks its shards: the methods of `Problem`, as objects that can travel.

Each is called with a shard, what all shards share (the recipes, by key), and what is for this shard alone: the weights of
its samples, True for the weights that the samples have themselves, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldfit.models.problem import Problem
from fieldfit.shards.shard import Recipe, Report, Shard, Shared, held_weight
from fieldfit.shards.tree import Answer
from fieldfit.types import FloatArray

GivenWeight = FloatArray | bool | None


@dataclass(frozen=True)
class OfProblem:
    """A question about the problem with the recipe ``key`` and the weights ``betas`` of its families (None: its own)."""

    key: str
    betas: FloatArray | None

    def recipe(self, shared: Shared) -> Recipe:
        """How the shards are compiled."""
        recipe = shared[self.key]
        assert isinstance(recipe, Recipe)
        return recipe

    def problem(self, shard: Shard, shared: Shared) -> Problem:
        """The compiled shard."""
        return shard.problem(self.key, self.recipe(shared), self.betas)


@dataclass(frozen=True)
class Reported(OfProblem):
    """The report of the compiled shard."""

    def __call__(self, shard: Shard, shared: Shared, argument: GivenWeight) -> Report:
        """The report."""
        problem, recipe = self.problem(shard, shared), self.recipe(shared)
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
            problem.value_noise,
            problem.streams_scores,
            selection.count(),
            0 if cost is None else cost.components,
            None if cost is None else cost.flops,
        )


@dataclass(frozen=True)
class HessianEvaluations(OfProblem):
    """About how many evaluations of the shard take as long as its Hessian as a matrix."""

    def __call__(self, shard: Shard, shared: Shared, argument: None) -> float:
        """The number."""
        return self.problem(shard, shared).hessian_evaluations


@dataclass(frozen=True)
class Asked(OfProblem):
    """What the method of `Problem` with this name answers to ``arguments``."""

    method: str
    arguments: tuple[object, ...]

    def asked(self, shard: Shard, shared: Shared) -> Callable[..., object]:
        """The method of the compiled shard, which may override that of `Problem`."""
        method: Callable[..., object] = getattr(self.problem(shard, shared), self.method)
        return method


@dataclass(frozen=True)
class Each(Asked):
    """Numbers for each sample of the shard."""

    def __call__(self, shard: Shard, shared: Shared, argument: None) -> FloatArray:
        """One line for each of them."""
        return np.asarray(self.asked(shard, shared)(*self.arguments))


@dataclass(frozen=True)
class Summed(Asked):
    """A sum over the samples of the shard, with their weights as the last argument."""

    def __call__(self, shard: Shard, shared: Shared, weight: GivenWeight) -> Answer:
        """Arrays that are added up; None where the shard has no answer."""
        total = self.asked(shard, shared)(*self.arguments, held_weight(shard, weight))
        if total is None:
            return None
        parts = total if isinstance(total, tuple) else (total,)
        return tuple(np.atleast_1d(np.array(part, dtype=np.float64)) for part in parts)


@dataclass(frozen=True)
class Operator(Asked):
    """An operator of the shard that approximates H⁻¹, made with the weights of its samples as the last argument."""

    def __call__(self, shard: Shard, shared: Shared, weight: GivenWeight) -> object:
        """v ↦ M⁻¹v, or None."""
        return self.asked(shard, shared)(*self.arguments, held_weight(shard, weight))
