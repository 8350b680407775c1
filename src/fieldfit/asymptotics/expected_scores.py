"""Scores expected over the selection: E_Z ψ(x, Z) = Σ_j β_j λ_j ∇S_j(x), for samples whose Z was never drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.types import FloatArray


class ExpectedScores:
    """E_Z ψ of ``n`` samples, one problem for each group of families that share a factor for each sample.

    On fields λ is the same for all samples and goes into the weights. On sequences it may differ with the length (a
    multinomial law spreads its probability over the windows), and becomes a factor for each sample.
    """

    def __init__(self, policy: BoundPolicy, n: int, compile_problem: Callable[[Selection], Problem]) -> None:
        self.n = n
        self.parts: list[tuple[Problem, FloatArray | None]] = []
        together: list[FamilySelection] = []
        varying = any(family.size is None for family in policy.families)
        lams = _rows_lams(policy, n) if varying else None
        for place, (family, beta) in enumerate(zip(policy.families, policy.betas, strict=True)):
            lam = policy.lams()[place] if lams is None else lams[:, place]
            if lams is not None and np.ptp(lam) > 0:
                alone = Selection(n, (FamilySelection(family, beta),))
                self.parts.append((compile_problem(alone), np.asarray(lam)))
                continue
            weight = beta * (float(lam[0]) if lams is not None and isinstance(lam, np.ndarray) else lam)
            if np.any(weight != 0):
                together.append(FamilySelection(family, weight))
        if together:
            self.parts.append((compile_problem(Selection(n, tuple(together))), None))

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """E_Z ψ_iᵀ v for each sample."""
        total = np.zeros(self.n)
        for problem, factor in self.parts:
            products = problem.row_products(theta, v)
            total += products if factor is None else products * factor
        return total

    def score_blocks(self, theta: FloatArray, rows: int) -> Iterator[tuple[int, FloatArray]]:
        """E_Z ψ_i as a stream of (first sample, block)."""
        for start in range(0, self.n, rows):
            stop = min(start + rows, self.n)
            total = np.zeros((stop - start, len(theta)))
            for problem, factor in self.parts:
                scores = problem.scores(theta, start, stop)
                total += scores if factor is None else scores * factor[start:stop, None]
            yield start, total


def _rows_lams(policy: BoundPolicy, n: int) -> FloatArray:
    """E[Z] of a component of each family in each sample (n, families); it depends on the numbers of components only."""
    sizes = np.stack([family.sizes(0, n) for family in policy.families], axis=1)
    distinct, first, which = np.unique(sizes, axis=0, return_index=True, return_inverse=True)
    values = np.zeros((len(distinct), len(policy.families)))
    for line, row in enumerate(first):
        values[line] = [float(np.mean(lam)) if np.size(lam) else 0.0 for lam in policy.lams(int(row))]
    answer: FloatArray = values[which.reshape(-1)]
    return answer
