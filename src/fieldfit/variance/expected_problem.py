"""A policy in the mean over its selection: E_Z ψ(x, Z) = Σ_j β_j λ_j ∇S_j(x), for samples whose Z is not drawn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.models.sum_problem import PartWeight, SumProblem
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.types import FloatArray


def expected_problem(policy: BoundPolicy, n: int, compile_problem: Callable[[Selection], Problem]) -> Problem:
    """The problem of ``n`` samples whose scores are E_Z ψ.

    On fields λ is the same for all samples and goes into the weights. On sequences it may differ with the length (a
    multinomial law spreads its probability over the windows), and becomes a factor for each sample.
    """
    parts: list[Problem] = []
    weights: list[PartWeight] = []
    together: list[FamilySelection] = []
    varying = any(family.size is None for family in policy.families)
    lams = _rows_lams(policy, n) if varying else None
    for place, (family, beta) in enumerate(zip(policy.families, policy.betas, strict=True)):
        lam = policy.lams()[place] if lams is None else lams[:, place]
        if lams is not None and np.ptp(lam) > 0:
            parts.append(compile_problem(Selection(n, (FamilySelection(family, beta),))))
            weights.append(np.asarray(lam))
            continue
        weight = beta * (float(lam[0]) if lams is not None and isinstance(lam, np.ndarray) else lam)
        if np.any(weight != 0):
            together.append(FamilySelection(family, weight))
    if together:
        parts.append(compile_problem(Selection(n, tuple(together))))
        weights.append(1.0)
    return parts[0] if len(parts) == 1 and together else SumProblem(parts, weights=weights)


def _rows_lams(policy: BoundPolicy, n: int) -> FloatArray:
    """E[Z] of a component of each family in each sample (n, families); it depends on the numbers of components only."""
    sizes = np.stack([family.sizes(0, n) for family in policy.families], axis=1)
    distinct, first, which = np.unique(sizes, axis=0, return_index=True, return_inverse=True)
    values = np.zeros((len(distinct), len(policy.families)))
    for line, row in enumerate(first):
        values[line] = [float(np.mean(lam)) if np.size(lam) else 0.0 for lam in policy.lams(int(row))]
    answer: FloatArray = values[which.reshape(-1)]
    return answer
