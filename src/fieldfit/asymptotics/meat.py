"""The meat: the variance of the summed scores, from the data.

Independent samples: M = Σ_i w_i² (ψ_i − ψ̄)(ψ_i − ψ̄)ᵀ, or with counts Σ_i w_i (ψ_i − ψ̄)(ψ_i − ψ̄)ᵀ. Where samples come in
*groups* (patients, documents, households) that are independent of each other but not inside,

    M = Σ_g s_g s_gᵀ,    s_g = Σ_{i∈g} w_i (ψ_i − ψ̄),

the cluster-robust meat (Liang and Zeger, "Longitudinal data analysis using generalized linear models", 1986). An estimate
without penalty has Σ_i w_i ψ_i = 0, so there ψ̄ = 0. Under a penalty Σ_i w_i ψ_i = Pθ̂ ≠ 0, and the scores vary around their
mean ψ̄ = Σ_i w_i ψ_i / Σ_i w_i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fieldfit.models.problem import Problem, sums_by_group
from fieldfit.types import FloatArray, IntArray

#: Samples for each parameter below which the robust meat is too small, because the fit follows its samples.
ENOUGH_FOR_PARAMETER = 5
#: Summed scores (groups × parameters) that are held at a time, about 200 MB.
_MOST_HELD_NUMBERS = 25_000_000


class RowProducts(Protocol):
    """Scores ψ of samples, of which products are known."""

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sample."""


class ScoreStream(RowProducts, Protocol):
    """What streams the scores ψ of samples: a Problem, or the estimating functions of a refined estimate."""

    @property
    def n_samples(self) -> int:
        """The number of samples."""

    @property
    def n_parameters(self) -> int:
        """The length r of θ."""

    def score_blocks(self, theta: FloatArray, rows: int | None = None) -> Iterator[tuple[int, FloatArray]]:
        """Stream ψ as (first sample, block)."""


@dataclass(frozen=True)
class ScoreVariance:
    """What a meat is made of besides the scores.

    Parameters
    ----------
    row_weight, counts
        (n,) weights of the samples, or None, and whether they are counts of copies.
    groups
        (n,) the number of each sample's group, or None for independent samples.
    mean
        (r,) the mean score ψ̄, which is subtracted from each score; None is 0. See `mean_score`.
    """

    row_weight: FloatArray | None = None
    counts: bool = False
    groups: IntArray | None = None
    mean: FloatArray | None = None

    @property
    def n_groups(self) -> int:
        """The number of groups; 0 without groups."""
        return 0 if self.groups is None else int(self.groups.max(initial=-1)) + 1

    @property
    def factor(self) -> FloatArray | None:
        """What multiplies a sample's score in the sum of squares: w, or √w for counts of independent copies."""
        if self.row_weight is None or self.groups is not None or not self.counts:
            return self.row_weight
        return np.sqrt(self.row_weight)

    @property
    def squared(self) -> FloatArray | None:
        """The square of `factor`."""
        factor = self.factor
        return None if factor is None else factor**2

    def matrix(self, problem: Problem, theta: FloatArray) -> FloatArray:
        """M (r, r)."""
        if self.groups is None:
            meat = problem.score_moment(theta, self.squared)
            if self.mean is None:
                return meat
            # Σ f²(ψ − ψ̄)(ψ − ψ̄)ᵀ from the sums of f²ψψᵀ, f²ψ and f².
            if self.squared is None:
                meat -= problem.n_samples * np.outer(self.mean, self.mean)
                return meat
            cross = np.outer(problem.value_grad(theta, self.squared)[1], self.mean)
            return meat - cross - cross.T + float(self.squared.sum()) * np.outer(self.mean, self.mean)
        r = problem.n_parameters
        weights = np.ones(problem.n_samples) if self.row_weight is None else self.row_weight
        meat = np.zeros((r, r))
        for first, size in self._group_ranges(r):
            group = self.groups - first
            sums = problem.group_scores(theta, group, size, self.row_weight)
            if self.mean is not None:
                here = (group >= 0) & (group < size)
                sums -= np.outer(np.bincount(group[here], weights[here], size), self.mean)
            meat += sums.T @ sums
        return meat

    def _group_ranges(self, r: int) -> Iterator[tuple[int, int]]:
        """Ranges of groups whose summed scores fit in memory, as (first, number)."""
        most = max(1, _MOST_HELD_NUMBERS // max(r, 1))
        for first in range(0, self.n_groups, most):
            yield first, min(most, self.n_groups - first)

    def streamed(self, problem: ScoreStream, theta: FloatArray) -> FloatArray:
        """M (r, r) from a stream of scores."""
        r = problem.n_parameters
        meat = np.zeros((r, r))
        if self.groups is None:
            for _, block in self._weighted_blocks(problem, theta):
                meat += block.T @ block
            return meat
        for first, size in self._group_ranges(r):
            sums = np.zeros((size, r))
            for start, block in self._weighted_blocks(problem, theta):
                sums_by_group(block, self.groups[start : start + len(block)] - first, sums)
            meat += sums.T @ sums
        return meat

    def _weighted_blocks(self, problem: ScoreStream, theta: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """The scores as a stream of (first sample, block), centred and multiplied by `factor`."""
        factor = self.factor
        for start, block in problem.score_blocks(theta):
            if self.mean is not None:
                block = block - self.mean
            if factor is not None:
                block = block * factor[start : start + len(block), None]
            yield start, block

    def form(self, problem: RowProducts, theta: FloatArray, directions: FloatArray) -> FloatArray:
        """U M Uᵀ (q, q) for the rows of ``directions`` (q, r): one pass over the samples for each."""
        factor = self.factor
        rows = np.stack([problem.row_products(theta, direction) for direction in directions])
        if self.mean is not None:
            rows -= (directions @ self.mean)[:, None]
        if factor is not None:
            rows *= factor
        if self.groups is not None:
            rows = np.stack([np.bincount(self.groups, row, self.n_groups) for row in rows])
        product: FloatArray = rows @ rows.T
        return product

    def random_sum(self, problem: Problem, theta: FloatArray, random: np.random.Generator) -> FloatArray:
        """Σ_g ε_g s_g (r,) with random signs ε, one for each sample or group: E ssᵀ = M."""
        if self.groups is None:
            signs = random.choice([-1.0, 1.0], problem.n_samples)
        else:
            signs = random.choice([-1.0, 1.0], self.n_groups)[self.groups]
        if self.factor is not None:
            signs = signs * self.factor
        total = problem.value_grad(theta, signs)[1]
        return total if self.mean is None else total - signs.sum() * self.mean


def mean_score(problem: Problem, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
    """ψ̄ = Σ_i w_i ψ_i / Σ_i w_i (r,)."""
    total = float(problem.n_samples if row_weight is None else row_weight.sum())
    return problem.value_grad(theta, row_weight)[1] / total


#: Independent samples without weights.
INDEPENDENT = ScoreVariance()
