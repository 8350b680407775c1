"""Asymptotic variance of many mixtures of a few families at one θ, from moments that are computed once.

With one λ and one β for each family f, s_f = Σ_j ∇S_j over the components of f, families independent of each other,

    bread  Υ⁻¹ = Σ_f β_f λ_f J_f,                              J_f = Σ_j J_j = −E Σ_j ∇²S_j
    meat   Σ   = Σ_fg β_f λ_f β_g λ_g K_fg + Σ_f β_f² (λ_f (1 − λ_f) N_f + O_f),      K_fg = E s_f s_gᵀ

The second sum is the selection noise; the published formula leaves it out. N_f is J_f where components are drawn one by one
(inside the family E ∇S_j ∇S_jᵀ = J_j) and K_ff where the whole family is drawn at once. O_f is the noise of a law that
has no λ of its own, such as a random partition, whose s_f is its mean over Z. So a mixture costs a few r × r sums and one
solution, whatever the number of states and components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.asymptotics.moments import Compile, theory_moments, weighted_selection
from fieldfit.asymptotics.sandwich import hessian_matrix
from fieldfit.policies import Policy
from fieldfit.policies.structure import Structure
from fieldfit.types import FloatArray, ModelError

FORMULAS = ("published", "exact")
_POINTS = 500  # mixtures at a time, to bound the memory
_ZERO = 1e-9


@dataclass(frozen=True)
class FamilyMoments:
    """J, N, O (f, r, r) and K (f, f, r, r) of the families ``names``."""

    names: tuple[str, ...]
    J: FloatArray
    K: FloatArray
    N: FloatArray
    O: FloatArray  # noqa: E741 (the formula's name)

    def moments(self, lam: FloatArray, beta: FloatArray, formula: str = "exact") -> tuple[FloatArray, FloatArray]:
        """Bread and meat, each (points, r, r), for λ and β of shape (points, f)."""
        if formula not in FORMULAS:
            raise ModelError(f"formula is {formula!r}; it must be 'exact' or 'published'.")
        points, families = np.shape(lam)
        r = self.J.shape[1]
        weight = beta * lam
        J, K = self.J.reshape(families, r * r), self.K.reshape(families * families, r * r)
        bread = (weight @ J).reshape(points, r, r)
        meat = ((weight[:, :, None] * weight[:, None, :]).reshape(points, -1) @ K).reshape(points, r, r)
        if formula == "exact":
            meat += ((beta**2 * lam * (1 - lam)) @ self.N.reshape(families, -1)).reshape(points, r, r)
            meat += ((beta**2) @ self.O.reshape(families, -1)).reshape(points, r, r)
        return bread, meat

    def sizes(self, lam: FloatArray, beta: FloatArray, formula: str = "exact") -> tuple[FloatArray, FloatArray]:
        """log det and trace of Υ Σ Υ for each point; the bread must be regular (see `reduced`)."""
        log_det, trace = np.empty((2, len(lam)))
        for start in range(0, len(lam), _POINTS):
            own = slice(start, start + _POINTS)
            bread, meat = self.moments(lam[own], beta[own], formula)
            # det(Υ Σ Υ) = det Σ / (det Υ⁻¹)², and tr(Υ Σ Υ) = ‖Υ L‖² with Σ = L Lᵀ.
            log_det[own] = np.linalg.slogdet(meat)[1] - 2 * np.linalg.slogdet(bread)[1]
            trace[own] = (np.linalg.solve(bread, np.linalg.cholesky(meat)) ** 2).sum(axis=(1, 2))
        return log_det, trace

    def projected(self, basis: FloatArray) -> FamilyMoments:
        """The moments of basisᵀ·score, basis (r, d)."""
        J, N, noise = (np.stack([basis.T @ one @ basis for one in stack]) for stack in (self.J, self.N, self.O))
        K = np.stack([[basis.T @ one @ basis for one in line] for line in self.K])
        return replace(self, J=J, K=K, N=N, O=noise)

    def subset(self, places: Sequence[int]) -> FamilyMoments:
        """Some of the families."""
        own = list(places)
        names = tuple(self.names[place] for place in own)
        return FamilyMoments(names, self.J[own], self.K[np.ix_(own, own)], self.N[own], self.O[own])

    def range_basis(self) -> FloatArray:
        """Orthonormal basis (r, d) of the directions that some family has information on: gauge freedom is left out."""
        traces = np.trace(self.J, axis1=1, axis2=2)
        total = np.einsum("f,frs->rs", 1 / np.maximum(traces, 1e-300), self.J)
        values, vectors = np.linalg.eigh((total + total.T) / 2)
        good = values > _ZERO * max(float(values[-1]), 0.0)
        return np.eye(len(values)) if good.all() else vectors[:, good]


def family_moments(
    names: Sequence[str], structure: Structure, compile_problem: Compile, theta: FloatArray, weight: FloatArray
) -> FamilyMoments:
    """Moments when E over X is Σ_x w_x with the model's own probabilities at θ (the information identity is used).

    A name is a family with λ = β = 1 (``PL2``), the same drawn whole (``PL2/row``), or ``Partition(k)``.
    """
    bound = [Policy.parse(name).bind(structure) for name in names]
    problems = [compile_problem(weighted_selection(one, one.mean() * one.beta(), len(weight))) for one in bound]
    J = np.stack([-hessian_matrix(problem, theta, weight) for problem in problems])
    count, r = len(names), len(theta)
    K = np.zeros((count, count, r, r))
    rows = max(1, int(4_000_000 // (r * count)))
    for start in range(0, len(weight), rows):
        stop = min(start + rows, len(weight))
        scores = [problem.scores(theta, start, stop) for problem in problems]
        for f in range(count):
            weighted = scores[f] * weight[start:stop, None]
            for g in range(f + 1):
                K[f, g] += weighted.T @ scores[g]
    for f in range(count):
        for g in range(f):
            # Only the symmetric part of K_fg enters a mixture.
            K[f, g] = K[g, f] = (K[f, g] + K[f, g].T) / 2
    N, O = J.copy(), np.zeros_like(J)  # noqa: E741
    for f, name in enumerate(names):
        if name.endswith(("/row", "/sentence")):
            N[f] = K[f, f]
        elif not bound[f].everything:
            O[f] = theory_moments(bound[f], compile_problem, theta, weight).meat - K[f, f]
    return FamilyMoments(tuple(names), J, K, N, O)
