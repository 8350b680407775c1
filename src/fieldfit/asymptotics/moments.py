"""Bread and meat of a policy when the law of X is known: the model itself, or any other distribution.

Samples x with weights w_x (all states with their probabilities, or draws with equal weights) stand for X. With
E[ZZᵀ] = Cᵀ diag(d) C (see `BoundPolicy.second_moment_factors`),

    Υ⁻¹ = Σ_j β_j λ_j J_j,    Σ = Σ_t d_t E[ (Σ_j C_tj β_j ∇S_j)(Σ_j C_tj β_j ∇S_j)ᵀ ],    J_j = −E ∇²S_j.

A row t of C with a single entry needs no scores: inside the family E ∇S_j ∇S_jᵀ = J_j (the information identity). So
the meat costs one Hessian and a few composite scores, for any number of components. Outside the family there is no
such identity, and every row of C is a composite score (not centred: E[∇S_i ∇S_jᵀ] is what Corollary 1 has).

`expected_problem` is a policy in the mean over its selection, E_Z ψ(x, Z) = Σ_j β_j λ_j ∇S_j(x).

`CommonDraws` are moments from draws of the model such that no policy is more accurate than maximum likelihood. With s the
score of the likelihood, I its information and ū = Σ_j λ_j β_j ∇S_j the mean composite score, E[ūsᵀ] is the bread Υ⁻¹
(differentiate E ū = 0). So ū = Υ⁻¹ I⁻¹ s + e with E[esᵀ] = 0, and

    Σ = Υ⁻¹ I⁻¹ Υ⁻¹ + E[eeᵀ] + Σ_ij β_i β_j Cov(Z_i, Z_j) E[∇S_i ∇S_jᵀ],

hence Υ Σ Υ is I⁻¹ and two positive terms. I is known without draws. Draws are needed only for the two terms, and e is the
residual of the regression of ū on s over the draws: for maximum likelihood it is 0, so that its variance relative to itself
is 1 without noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.arguments import one_of
from fieldfit.data.samples import Table
from fieldfit.models.field import FieldModel
from fieldfit.models.problem import Problem
from fieldfit.models.sum_problem import PartWeight, SumProblem
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.steps import stepped
from fieldfit.types import FloatArray, Int32Array, ModelError, PolicyError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Compile = Callable[[Selection], Problem]

#: Joint states up to which expectations over X are exact sums over all of them.
MOST_ENUMERATED_STATES = 1 << 16
#: Composite scores (rows of C with several entries) that may be kept apart.
MOST_COMPOSITE_SCORES = 2_000


def weighted_selection(policy: BoundPolicy, values: FloatArray, n: int) -> Selection:
    """Everything selected, component j with weight ``values[j]``; families without weight are left out."""
    parts, at = [], 0
    for family in policy.families:
        size = family.size
        if size is None:
            raise PolicyError(
                "The theory of chain models needs sequences, because the components depend on their lengths."
            )
        family_weight = values[at : at + size]
        at += size
        if np.any(family_weight != 0):
            same = bool(np.all(family_weight == family_weight[0]))
            parts.append(FamilySelection(family, float(family_weight[0]) if same else family_weight.copy()))
    return Selection(n, tuple(parts))


def expected_problem(policy: BoundPolicy, n: int, compile_problem: Compile) -> Problem:
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


def theory_moments(
    policy: BoundPolicy,
    compile_problem: Compile,
    theta: FloatArray,
    weight: FloatArray,
    formula: str = "exact",
    *,
    inside: bool = True,
    meat_weight: FloatArray | None = None,
    centred: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Bread and meat with E over X as Σ_x w_x; ``formula`` is "exact" or "published" (see the package).

    ``centred`` leaves E[Z] E[Z]ᵀ out of the meat: what is left is the selection noise.

    ``inside`` says that the weights are the model's own probabilities at θ, so that the information identity holds;
    ``meat_weight`` are other weights for the meat (importance weights enter it squared).
    """
    one_of(formula, "formula", ("exact", "published"), ModelError)
    n = len(weight)
    squared = weight if meat_weight is None else meat_weight
    lam, beta = policy.mean(), policy.beta()
    bread = -compile_problem(weighted_selection(policy, beta * lam, n)).hessian_matrix(theta, weight)
    if formula == "published" and centred:
        return bread, np.zeros_like(bread)
    if formula == "published":
        return bread, _composite_meat([(1.0, beta * lam)], policy, compile_problem, theta, squared)
    factors, signs = policy.second_moment_factors()
    factors = factors.tocsr()
    if centred:
        factors, signs = _without_mean(factors, signs, lam)
    alone = (np.diff(factors.indptr) == 1) & inside
    diagonal = np.zeros(len(lam))
    np.add.at(diagonal, factors[alone].indices, signs[alone] * factors[alone].data ** 2)
    meat = np.zeros_like(bread)
    diagonal *= beta**2
    if np.any(diagonal != 0):
        meat -= compile_problem(weighted_selection(policy, diagonal, n)).hessian_matrix(theta, squared)
    rows = np.flatnonzero(~alone)
    if len(rows) > MOST_COMPOSITE_SCORES:
        raise PolicyError(
            f"The law of '{policy.policy}' needs {len(rows)} composite scores; at most {MOST_COMPOSITE_SCORES} fit in "
            "memory."
        )
    composites = [(float(signs[t]), factors[[t]].toarray()[0] * beta) for t in rows]
    composites = [(sign, values) for sign, values in composites if np.any(values != 0)]
    return bread, meat + _composite_meat(composites, policy, compile_problem, theta, squared)


def _without_mean(factors: csr_matrix, signs: FloatArray, lam: FloatArray) -> tuple[csr_matrix, FloatArray]:
    """(C, d) of E[ZZᵀ] − λλᵀ: the row of C that is λ is left out; where there is none, λλᵀ is subtracted."""
    from scipy.sparse import csr_matrix, vstack

    mean = csr_matrix(lam[None, :])
    for row in np.flatnonzero(signs == 1.0):
        if abs(factors[[row]] - mean).max() == 0:
            kept = np.arange(len(signs)) != row
            return factors[kept], signs[kept]
    return vstack([factors, mean], format="csr"), np.append(signs, -1.0)


def _composite_meat(
    composites: list[tuple[float, FloatArray]],
    policy: BoundPolicy,
    compile_problem: Compile,
    theta: FloatArray,
    weight: FloatArray,
) -> FloatArray:
    """Σ_t d_t Σ_x w_x s_t(x) s_t(x)ᵀ with s_t = Σ_j c_tj ∇S_j."""
    meat = np.zeros((len(theta), len(theta)))
    for sign, values in composites:
        meat += sign * compile_problem(weighted_selection(policy, values, len(weight))).score_moment(theta, weight)
    return meat


#: The inverse of an information matrix, and the number of directions that it does not show.
Inverse = Callable[[FloatArray], tuple[FloatArray, int]]


@dataclass(frozen=True)
class CommonDraws:
    """Moments of batches of equally many draws, one entry of each array (b, …) a batch.

    ``bread`` is Υ⁻¹, ``noise`` the term of Cov(Z), and ``both`` (b, 2r, 2r) the second moments of (ū, s).
    """

    size: int
    bread: FloatArray
    noise: FloatArray
    both: FloatArray

    @classmethod
    def of(
        cls,
        model: FieldModel,
        policy: BoundPolicy,
        theta: FloatArray,
        batches: Sequence[Int32Array],
        full: Callable[[Int32Array], Problem],
        formula: str,
    ) -> CommonDraws:
        """The moments of draws of the model at θ; ``full`` is the likelihood of draws."""
        n = len(batches[0])
        bread, noise, both = [], [], []
        with stepped("theory", batches) as counted:
            for codes in counted:
                table = Table(codes, model.names, model.states)

                def compiled(chosen: Selection, table: Table = table) -> Problem:
                    return model.compile(table, chosen)

                parts = theory_moments(policy, compiled, theta, np.full(n, 1.0 / n), formula, centred=True)
                mean = compiled(weighted_selection(policy, policy.beta() * policy.mean(), n))
                scores = np.hstack([_scores(mean, theta), _scores(full(codes), theta)])
                bread.append(parts[0])
                noise.append(parts[1])
                both.append(scores.T @ scores / n)
        return cls(n, np.array(bread), np.array(noise), np.array(both))

    def without(self, batch: int) -> CommonDraws:
        """All batches but one."""
        kept = np.arange(len(self.bread)) != batch
        return replace(self, bread=self.bread[kept], noise=self.noise[kept], both=self.both[kept])

    def moments(self, inverse: Inverse, reference: FloatArray, directions: int) -> tuple[FloatArray, FloatArray, int]:
        """Bread, meat, and how many directions of θ the draws do not show; ``reference`` is I⁻¹.

        ``directions`` is the number of those that the model determines: the regression estimates as many slopes.
        """
        bread, both = self.bread.mean(axis=0), self.both.mean(axis=0)
        r = len(bread)
        shown, unseen = inverse(both[r:, r:])
        slope = both[:r, r:] @ shown
        residual = np.hstack([np.eye(r), -slope])
        draws = self.size * len(self.bread)
        rest = residual @ both @ residual.T * (draws / max(draws - directions, 1))
        meat: FloatArray = bread @ reference @ bread + rest + self.noise.mean(axis=0)
        return bread, (meat + meat.T) / 2, unseen


def _scores(problem: Problem, theta: FloatArray) -> FloatArray:
    """The score of each sample (n, r)."""
    return np.concatenate([block for _, block in problem.score_blocks(theta)])
