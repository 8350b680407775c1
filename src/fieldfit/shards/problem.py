"""A problem whose samples are in shards: sums over samples are sums over shards, added up in a fixed order."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np

from fieldfit.models.base import Cost
from fieldfit.models.problem import Problem
from fieldfit.optim.preconditioner import InverseProduct
from fieldfit.policies.policy import BoundPolicy
from fieldfit.properties import cached_property
from fieldfit.shards import questions
from fieldfit.shards.backend import Placed
from fieldfit.shards.shard import Recipe, Report
from fieldfit.types import FloatArray, IntArray

#: Samples of a shard for each row of a matrix of parameters, from which its preconditioner is good for all shards.
_ENOUGH_SAMPLES = 20


def has_operator(samples: int, n_parameters: int) -> bool:
    """Whether a first shard with this number of samples gives the preconditioner of all shards, if its problem has one."""
    return samples >= _ENOUGH_SAMPLES * float(np.sqrt(2 * n_parameters))


class ShardedProblem(Problem):
    """Shards in their places as one problem.

    Parameters
    ----------
    placed, recipe
        The shards, and how they are compiled.
    sample_weight
        (n,) the weights that the shards' samples have themselves. Sums with these very weights (the same object) send none.
    """

    remote = True

    def __init__(self, placed: Placed, recipe: Recipe, sample_weight: FloatArray | None = None) -> None:
        key = secrets.token_hex(8)
        placed.share(key, recipe)
        weakref.finalize(self, placed.withdraw, key).atexit = False
        reports = tuple(placed.each(questions.Reported(key, None)))
        self._set(_Compiled(placed, recipe, key, reports, sample_weight), None)

    def _set(self, compiled: _Compiled, betas: FloatArray | None) -> None:
        first = compiled.reports[0]
        self._compiled, self._betas = compiled, betas
        self.n_samples = int(compiled.recipe.starts[-1])
        self.n_parameters, self.n_families = first.n_parameters, first.n_families
        self.optimiser = "lbfgs" if first.optimiser == "lbfgs" else "auto"
        self.value_noise = first.value_noise
        self.streams_scores = first.streams_scores

    def with_betas(self, betas: FloatArray) -> ShardedProblem | None:
        """The same shards with other weights of the families."""
        if not all(report.takes_betas for report in self._compiled.reports):
            return None
        other = _Reweighted.__new__(_Reweighted)
        other.origin = self  # keeps the compiled problems in their places
        other._set(self._compiled, np.array(betas, dtype=np.float64))
        return other

    def redrawn(self, bound: BoundPolicy, theta: FloatArray, seed: int) -> ShardedProblem:
        """Other samples in the place of these, drawn at θ where these are held, with a selection of their own."""
        recipe = replace(self._compiled.recipe, bound=bound, seed=seed, selections=None, drawn_at=np.array(theta))
        return ShardedProblem(self.placed, recipe, self._compiled.sample_weight)

    @property
    def betas(self) -> FloatArray:
        """The weight of each family."""
        return self._compiled.reports[0].betas if self._betas is None else self._betas

    @property
    def n_selected(self) -> int:
        """How many (sample, component) pairs are selected in all shards."""
        return sum(report.selected for report in self._compiled.reports)

    @property
    def cost(self) -> Cost | None:
        """The cost of one evaluation."""
        flops = [report.flops for report in self._compiled.reports]
        if any(number is None for number in flops):
            return None
        return Cost(sum(r.components for r in self._compiled.reports), float(sum(f for f in flops if f is not None)))

    @property
    def placed(self) -> Placed:
        """The shards."""
        return self._compiled.placed

    @property
    def starts(self) -> IntArray:
        """(shards + 1,) the number of the first sample of each shard, and of all samples."""
        return self._compiled.recipe.starts

    def _own(self, row_weight: FloatArray | None) -> list[FloatArray | bool | None] | None:
        """What each shard needs of the weights of samples."""
        if row_weight is None:
            return None
        if row_weight is self._compiled.sample_weight:
            return [True] * self._compiled.placed.n_shards
        weight = np.ascontiguousarray(row_weight, dtype=np.float64)
        return [weight[start:stop] for start, stop in self._compiled.ranges]

    def _sum(self, row_weight: FloatArray | None, method: str, *arguments: object) -> FloatArray | None:
        """The sum over shards of what a method of `Problem` answers; None where a shard has no answer."""
        question = questions.Summed(*self.about, method, arguments)
        answer = self.placed.total(question, self._own(row_weight))
        return None if answer is None else answer[-1]

    def _known_sum(self, row_weight: FloatArray | None, method: str, *arguments: object) -> FloatArray:
        """The same where every shard has an answer."""
        total = self._sum(row_weight, method, *arguments)
        assert total is not None
        return total

    @property
    def about(self) -> tuple[str, FloatArray | None]:
        """The key of the recipe under which shards find their compiled problem, and its weights β (None: its own)."""
        return self._compiled.key, self._betas

    # -- sums --------------------------------------------------------------------------------------------------------

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Sum of the shards' values and gradients."""
        answer = self.placed.total(questions.Summed(*self.about, "value_grad", (theta,)), self._own(row_weight))
        assert answer is not None
        return float(answer[0][0]), answer[1]

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Sum of the shards' Hessian products."""
        return self._known_sum(row_weight, "hessian_product", theta, v)

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Sum of the shards' matrices."""
        return self._known_sum(row_weight, "hessian_matrix", theta)

    @cached_property
    def hessian_evaluations(self) -> float:
        """The largest of all shards, so that the optimiser is that of one table."""
        return max(self.placed.each(questions.HessianEvaluations(*self.about)))

    def score_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Sum of the shards' products."""
        return self._known_sum(row_weight, "score_product", theta, v)

    def score_moment(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Sum of the shards' matrices."""
        return self._known_sum(row_weight, "score_moment", theta)

    def family_statistics(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Sum of the shards' statistics."""
        return self._known_sum(row_weight, "family_statistics", theta)

    def family_products(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Sum of the shards' products."""
        return self._known_sum(row_weight, "family_products", theta)

    @property
    def exact_diagonal(self) -> bool:
        """Whether it is in every shard."""
        return all(report.exact_diagonal for report in self._compiled.reports)

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray | None:
        """Sum of the shards' diagonals, if every shard has one."""
        return self._sum(row_weight, "hessian_diagonal", theta)

    def information_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray | None:
        """Sum of the shards' diagonals, if every shard has one."""
        return self._sum(row_weight, "information_diagonal", theta)

    # -- numbers for each sample ---------------------------------------------------------------------------------------

    def row_values(self, theta: FloatArray) -> FloatArray:
        """The shards' values, one after the other."""
        return np.concatenate(self.placed.each(questions.Each(*self.about, "row_values", (theta,))))

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """The shards' products, one after the other."""
        return np.concatenate(self.placed.each(questions.Each(*self.about, "row_products", (theta, v))))

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the samples start..stop, from the shards that have them."""
        blocks = []
        for number, (first, last) in enumerate(self._compiled.ranges):
            low, high = max(start, first), min(stop, last)
            if low < high:
                question = questions.Each(*self.about, "family_scores", (theta, low - first, high - first))
                blocks += self.placed.each(question, shards=[number])
        return np.concatenate(blocks) if blocks else np.empty((0, self.n_families, self.n_parameters))

    # -- preconditioners -----------------------------------------------------------------------------------------------

    def preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> InverseProduct | None:
        """The operator of the first shard, as if all shards were like it."""
        return self._from_first_shard(theta, precision, row_weight, "preconditioner")

    def late_preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> InverseProduct | None:
        """The better operator of the first shard."""
        return self._from_first_shard(theta, precision, row_weight, "late_preconditioner")

    def _from_first_shard(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None, method: str
    ) -> InverseProduct | None:
        start, stop = self._compiled.ranges[0]
        share = (stop - start) / self.n_samples
        if not has_operator(stop - start, self.n_parameters):
            return None
        question = questions.Operator(*self.about, method, (theta, precision * share))
        operator = cast(InverseProduct | None, self.placed.each(question, self._own(row_weight), shards=[0])[0])
        # M of all samples is M of the first shard divided by its share of them.
        return None if operator is None else lambda v: share * operator(v)


class _Reweighted(ShardedProblem):
    """Other weights of the families for the shards of ``origin``."""

    origin: ShardedProblem


@dataclass(frozen=True)
class _Compiled:
    """Compiled shards: their places, their recipe under its key, and their reports."""

    placed: Placed
    recipe: Recipe
    key: str
    reports: tuple[Report, ...]
    sample_weight: FloatArray | None

    @property
    def ranges(self) -> Sequence[tuple[int, int]]:
        """The first sample of each shard and the first after it."""
        starts = self.recipe.starts.tolist()
        return list(pairwise(starts))
