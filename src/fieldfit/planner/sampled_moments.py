"""Moments of families as means over samples, in all coordinates or on a basis of few directions.

With importance weights w of mean 1 the bread has w, the meat and the selection noise have w².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fieldfit.asymptotics.family_moments import FamilyMoments
from fieldfit.models.base import Model, Problem
from fieldfit.planner.ingredients import Ingredient
from fieldfit.planner.weighting import importance, n_samples
from fieldfit.policies import Policy
from fieldfit.types import FloatArray

_DRAWS = 2  # drawn selections for the noise of a partition


@dataclass(frozen=True)
class Sampled:
    """Moments, the scores times weights (families, samples, d) they come from, and the information with squared weights.

    ``information`` (families, d, d) is E w² ∇S ∇Sᵀ summed over components inside the family: J where nothing is weighted.
    """

    moments: FamilyMoments
    scores: FloatArray
    information: FloatArray

    def projected(self, basis: FloatArray) -> Sampled:
        """The same of basisᵀ·score, basis (r, d)."""
        turned = np.stack([basis.T @ one @ basis for one in self.information])
        return Sampled(self.moments.projected(basis), self.scores @ basis, turned)

    def with_full_scores(self, full: int) -> Sampled:
        """K with the scores s of FL as control variates, for samples drawn from the model itself.

        There E s sᵀ = I and E s s_fᵀ = I_f (with squared weights), so that E ψψᵀ = A I Aᵀ + Var(ψ − As) with A = I_ψ I⁻¹:
        only the second term is taken from the samples. As a form in βλ that is
        K̃_fg = K_fg − K_fF I⁻¹ I_g − I_f I⁻¹ K_Fg + I_f I⁻¹ (K_FF + I) I⁻¹ I_g.
        """
        own = self.moments
        information = self.information[full]
        turned = np.stack([np.linalg.lstsq(information, one, rcond=None)[0] for one in self.information])  # I⁻¹ I_f
        K = own.K.copy()
        for f in range(len(K)):
            for g in range(len(K)):
                K[f, g] += turned[f].T @ (own.K[full, full] + information) @ turned[g]
                K[f, g] -= own.K[f, full] @ turned[g] + turned[f].T @ own.K[full, g]
        K = (K + K.transpose(0, 1, 3, 2)) / 2
        N = np.stack([K[f, f] if "/" in name else own.N[f] for f, name in enumerate(own.names)])
        return replace(self, moments=replace(own, K=K, N=N))


def sampled_moments(
    ingredients: Sequence[Ingredient],
    model: Model,
    rows: Any,
    theta: FloatArray,
    basis: FloatArray | None,
    random_state: int,
) -> Sampled:
    """Moments as means over samples, in all coordinates or on a basis (r, d)."""
    n, weight = n_samples(rows), importance(rows)
    square = None if weight is None else weight**2
    known: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}
    for one in ingredients:
        if id(one.problem) not in known:
            J = _bread(one.problem, theta, basis, weight) / n
            other = J if square is None else _bread(one.problem, theta, basis, square) / n
            known[id(one.problem)] = J, other, _scores(one.problem, theta, basis, weight)
    J, information, S = (np.stack([known[id(one.problem)][k] for one in ingredients]) for k in range(3))
    K = np.einsum("fid,gie->fgde", S, S, optimize=True) / n
    K = (K + K.transpose(0, 1, 3, 2)) / 2
    N, O = information.copy(), np.zeros_like(J)  # noqa: E741
    for f, one in enumerate(ingredients):
        if one.law == "whole":
            N[f] = K[f, f]
        elif one.law == "partition":
            for draw in range(_DRAWS):
                seed = int(np.random.SeedSequence([random_state, 0x9A, f, draw]).generate_state(1)[0])
                drawn = model.compile(rows, Policy.parse(one.name).bind(model.structure(rows)).draw(seed, 0, n))
                away = _scores(drawn, theta, basis, weight) - S[f]
                O[f] += away.T @ away / n / _DRAWS
    return Sampled(FamilyMoments(tuple(one.name for one in ingredients), J, K, N, O), S, information)


def _bread(problem: Problem, theta: FloatArray, basis: FloatArray | None, weight: FloatArray | None) -> FloatArray:
    if basis is None:
        return -problem.hessian_matrix(theta, weight)
    products = np.stack(
        [problem.hessian_product(theta, np.ascontiguousarray(column), weight) for column in basis.T], axis=1
    )
    matrix = -basis.T @ products
    return np.asarray((matrix + matrix.T) / 2)


def _scores(problem: Problem, theta: FloatArray, basis: FloatArray | None, weight: FloatArray | None) -> FloatArray:
    if basis is None:
        found = np.concatenate([block for _, block in problem.score_blocks(theta)])
    else:
        found = np.stack([problem.row_products(theta, np.ascontiguousarray(column)) for column in basis.T], axis=1)
    return found if weight is None else found * weight[:, None]
