"""Asymptotic variance of many mixtures of a few families at one θ, from moments that are computed once.

With independent selection, one λ and one β for each family f, s_f = Σ_j ∇S_j over the components of f,

    bread  Υ⁻¹ = Σ_f β_f λ_f J_f,                              J_f = Σ_j J_j = −E Σ_j ∇²S_j
    meat   Σ   = Σ_fg β_f λ_f β_g λ_g K_fg + Σ_f β_f² λ_f (1 − λ_f) J_f,     K_fg = E s_f s_gᵀ

The second sum is the selection noise (inside the family E ∇S_j ∇S_jᵀ = J_j); the published formula leaves it out. So a
mixture costs a few r × r sums and one solution, whatever the number of states and components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.api.theory import asymptotics
from fieldfit.models.cost import family_flops
from fieldfit.models.field import FieldModel
from fieldfit.policies import Policy
from fieldfit.types import FloatArray, ModelError

FORMULAS = ("published", "exact")
_POINTS = 500  # mixtures at a time, to bound the memory


@dataclass(frozen=True)
class FamilyMoments:
    """J (f, r, r), K (f, f, r, r), the paper's FLOPs of a whole family (f,), and the MLE's covariance (r, r)."""

    names: tuple[str, ...]
    J: FloatArray
    K: FloatArray
    flops: FloatArray
    mle_covariance: FloatArray

    def moments(self, lam: FloatArray, beta: FloatArray, formula: str) -> tuple[FloatArray, FloatArray]:
        """Bread and meat, each (points, r, r), for λ and β of shape (points, f)."""
        if formula not in FORMULAS:
            raise ModelError(f"formula is {formula!r}; it must be 'exact' or 'published'.")
        weight = beta * lam
        bread = np.einsum("pf,frs->prs", weight, self.J)
        meat = np.einsum("pfg,fgrs->prs", weight[:, :, None] * weight[:, None, :], self.K, optimize=True)
        if formula == "exact":
            meat += np.einsum("pf,frs->prs", beta**2 * lam * (1 - lam), self.J)
        return bread, meat

    def efficiencies(self, lam: FloatArray, beta: FloatArray, formula: str) -> dict[str, FloatArray]:
        """Ratios to the MLE for each point: of traces, of determinants, and the latter's r-th root."""
        r = self.J.shape[1]
        log_det, trace = np.empty((2, len(lam)))
        for start in range(0, len(lam), _POINTS):
            own = slice(start, start + _POINTS)
            bread, meat = self.moments(lam[own], beta[own], formula)
            # det(Υ Σ Υ) = det Σ / (det Υ⁻¹)², and tr(Υ Σ Υ) = ‖Υ L‖² with Σ = L Lᵀ.
            log_det[own] = np.linalg.slogdet(meat)[1] - 2 * np.linalg.slogdet(bread)[1]
            trace[own] = (np.linalg.solve(bread, np.linalg.cholesky(meat)) ** 2).sum(axis=(1, 2))
        log_ratio = log_det - np.linalg.slogdet(self.mle_covariance)[1]
        relative = trace / np.trace(self.mle_covariance)
        return {"trace": relative, "det": np.exp(log_ratio), "root": np.exp(log_ratio / r)}

    def cost(self, lam: FloatArray) -> FloatArray:
        """The paper's FLOPs of one sample in the mean over Z, for λ of shape (points, f)."""
        return lam @ self.flops


def family_moments(model: FieldModel, theta: FloatArray, names: Sequence[str]) -> FamilyMoments:
    """The moments of these families when the data come from the model at θ.

    K_fg comes from pairs: the meat of f + g, everything selected, is K_ff + K_fg + K_gf + K_gg. Only the symmetric part
    of K_fg enters a mixture, so that is enough. For models without gauge freedom, whose bread is regular.
    """
    single = [asymptotics(model, theta, name) for name in names]
    reference = single[0].mle_covariance
    if reference is None:
        raise ModelError(f"There is no maximum likelihood to compare with: {single[0].why_no_mle}")
    count, r = len(names), model.n_parameters
    K = np.empty((count, count, r, r))
    for f, own in enumerate(single):
        K[f, f] = own.meat
        for g in range(f):
            both = asymptotics(model, theta, f"{names[f]} + {names[g]}").meat
            K[f, g] = K[g, f] = (both - own.meat - single[g].meat) / 2
    bound = [Policy.parse(name).bind(model.structure()).families[0] for name in names]
    flops = [float(np.broadcast_to(family_flops(model, b), (b.size or 1,)).sum()) for b in bound]
    J = np.stack([own.bread for own in single])
    return FamilyMoments(tuple(names), J, K, np.array(flops), reference)
