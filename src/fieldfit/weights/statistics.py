"""The statistics that J needs, from the data with the drawn Z, at a plug-in θ (Corollary 1, family by family).

    B_g = −(1/n) Σ_i ∇²m^(g)(X_i, Z_i),     M_gh = (1/n) Σ_i ψ_i^(g) ψ_i^(h)ᵀ

The drawn Z is in both, so they estimate Σ_{j∈g} λ_j J_j and Σ_{i∈g, j∈h} E[Z_i Z_j] E[∇S_i ∇S_jᵀ]: the exact form,
selection noise included. With Z replaced by its mean λ (everything selected, component j with weight λ_j) the same
sums give Σ_{i∈g, j∈h} λ_i λ_j E[∇S_i ∇S_jᵀ], the published form; dividing Z_i Z_j by E[Z_i Z_j] instead would fail for
laws in which some pairs never come together. A penalty does not enter: J compares the estimators' variances, and a β
that makes the penalty relatively stronger would win by bias.

The statistics come from all samples, or from a random part that tells β as well as needed (`take_sample`). J is a sum
over r parameters, and so is its slope along β, whose variance is about c₁ r/k from k samples while its curvature is
about c₂ r. The loss (slope)²/(2 curvature) that the noise of k samples brings is then of the order 1/k for each free
weight, in all of J and for any r: from 2,000 samples about 10⁻³/r of a variance. Where log-determinants are taken the
covariance matrix of the scores must be well determined too, which takes samples in proportion to r.

Geršgorin discs of bread and meat tell how far the diagonal form can be off. A disc has its centre at a diagonal entry A_ll
and the radius R_l = Σ_{m≠l} |A_lm|. By Hadamard's inequality log det A ≤ Σ_l log A_ll. Where all discs stay to the right of
0, Ostrowski's inequality det A ≥ Π_l (A_ll − R_l) bounds the other side, so that with ρ_l = R_l/A_ll

    Σ_l log(1 − ρ_l) ≤ log det A − Σ_l log A_ll ≤ 0,

and J − J_diagonal lies between the meat's lower bound and minus twice the bread's. Where a disc reaches 0 the matrix may
as well be singular for all that the discs tell: there is no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.models.problem import Problem
from fieldfit.models.sum_problem import SumProblem
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.types import BoolArray, FloatArray, IntArray, Plain
from fieldfit.weights.groups import DrawnPolicy, Groups


@dataclass(frozen=True)
class Gershgorin:
    """Radii relative to the centres, and what they say of J − J_diagonal.

    ``sampled`` tells that only some rows were computed: then a disc that reaches 0 still shows that there is no bound,
    and finite bounds are estimates, scaled up from the rows seen.
    """

    bread_radius: FloatArray
    meat_radius: FloatArray
    lower: float
    upper: float
    sampled: bool

    @property
    def bounded(self) -> bool:
        """Whether the discs bound the error on both sides."""
        return bool(np.isfinite(self.lower) and np.isfinite(self.upper))

    def __str__(self) -> str:
        if self.bounded:
            kind = "estimated from some discs" if self.sampled else "by Geršgorin discs"
            return f"J − J_diagonal between {self.lower:.3g} and {self.upper:.3g} ({kind})"
        return (
            "Geršgorin discs give no bound on the diagonal form: relative radii up to "
            f"{self.bread_radius.max(initial=0.0):.2f} (bread) and {self.meat_radius.max(initial=0.0):.2f} (meat)"
        )

    def to_dict(self) -> Plain:
        """Plain values; None for no bound."""
        return {
            "bounded": self.bounded,
            "lower": self.lower if np.isfinite(self.lower) else None,
            "upper": self.upper if np.isfinite(self.upper) else None,
            "largest_bread_radius": float(self.bread_radius.max(initial=0.0)),
            "largest_meat_radius": float(self.meat_radius.max(initial=0.0)),
            "sampled": self.sampled,
        }


def discs(bread: FloatArray, meat: FloatArray, rows: IntArray | None = None) -> Gershgorin:
    """From rows (k, r) of bread and meat; ``rows`` says which ones, None for all."""
    r = bread.shape[1]
    places = np.arange(r) if rows is None else rows
    bread_radius, meat_radius = _relative_radius(bread, places), _relative_radius(meat, places)
    factor = r / max(len(places), 1)
    return Gershgorin(
        bread_radius,
        meat_radius,
        factor * _log_bound(meat_radius),
        -2 * factor * _log_bound(bread_radius),
        len(places) < r,
    )


def _relative_radius(matrix: FloatArray, places: IntArray) -> FloatArray:
    """R_l/A_ll; infinite for an entry of 0 with others beside it, and left out (0) for a row of zeros."""
    centre = matrix[np.arange(len(places)), places]
    radius = np.abs(matrix).sum(axis=1) - np.abs(centre)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(centre > 0, radius / centre, np.where(radius > 0, np.inf, 0.0))
    return np.asarray(ratio)


def _log_bound(radius: FloatArray) -> float:
    return float(np.sum(np.log1p(-radius))) if np.all(radius < 1) else -np.inf


#: Parameters up to which scores are streamed for the diagonals.
MOST_STREAMED_PARAMETERS = 2_000
#: Samples up to which scores are streamed even where they come one by one.
FEW_SAMPLES = 500
#: Parameters from which a problem's own diagonal of the Hessian is taken, if it has one (it may be approximate).
OWN_DIAGONAL_FROM = 64
#: Rows of bread and meat whose discs are computed where there are too many.
SAMPLED_DISCS = 4
#: Samples of each group: at least, for each weight, and for each parameter where log-determinants are taken.
ENOUGH_SAMPLES, SAMPLES_FOR_EACH_WEIGHT, SAMPLES_FOR_EACH_PARAMETER = 2_000, 200, 10

#: The policy bound to some of the samples, and the function that compiles a selection of them.
Part: TypeAlias = tuple[BoundPolicy, Callable[[Selection], Problem]]


@dataclass(frozen=True)
class DataStatistics:
    """Bread and meat by groups from a problem whose families are the groups.

    ``free`` (r,) are the parameters that are estimated, ``row_weight`` and ``counts`` as in `robust_moments`.
    """

    problem: SumProblem
    names: tuple[str, ...]
    free: BoolArray
    row_weight: FloatArray | None = None
    counts: bool = False
    probes: int = 8

    @property
    def _total(self) -> float:
        return float(self.problem.n_samples if self.row_weight is None else self.row_weight.sum())

    @property
    def _product_weight(self) -> FloatArray | None:
        """Weights of ψψᵀ: w² for importance weights, w for counts."""
        if self.row_weight is None or self.counts:
            return self.row_weight
        return np.square(self.row_weight)

    def dense(self, theta: FloatArray) -> MixtureMoments:
        """The exact form: G Hessian matrices and one pass over the scores."""
        keep = np.flatnonzero(self.free)
        bread = np.stack([-part.hessian_matrix(theta, self.row_weight) for part in self.problem.parts])
        meat = self.problem.family_products(theta, self._product_weight)
        if len(keep) < len(theta):
            bread, meat = bread[:, keep][:, :, keep], meat[:, :, keep][:, :, :, keep]
        return MixtureMoments.with_drawn_selection(self.names, bread / self._total, meat / self._total)

    def diagonal(self, theta: FloatArray) -> MixtureMoments:
        """The diagonal form: r × G and r × G² numbers."""
        few = self.problem.n_samples <= FEW_SAMPLES or all(part.streams_scores for part in self.problem.parts)
        if self.problem.n_parameters <= MOST_STREAMED_PARAMETERS and few:
            meat = self.problem.family_statistics(theta, self._product_weight)
        else:
            meat = self._sketched_meat(theta)
        bread = np.stack([self._bread_diagonal(place, theta) for place in range(self.problem.n_families)])
        return MixtureMoments.with_drawn_selection(
            self.names, bread[:, self.free] / self._total, meat[:, :, self.free] / self._total
        )

    def _sketched_meat(self, theta: FloatArray) -> FloatArray:
        """E_s[(Σ_i s_i ψ_i^(g)) ∘ (Σ_i s_i ψ_i^(h))] over random signs s: a gradient for each group and probe.

        The relative error of an entry is that of a χ² with ``probes`` degrees of freedom for every β, so it shifts J by a
        constant; what is left averages out over the parameters.
        """
        random = np.random.default_rng(0)
        problem, groups = self.problem, self.problem.n_families
        weight = self._product_weight
        size = 1.0 if weight is None else np.sqrt(weight)
        total = np.zeros((groups, groups, problem.n_parameters))
        for _ in range(self.probes):
            signs = random.choice((-1.0, 1.0), problem.n_samples) * size
            sums = [part.value_grad(theta, signs)[1] for part in problem.parts]
            for g in range(groups):
                for h in range(g, groups):
                    total[g, h] += sums[g] * sums[h]
        for g in range(groups):
            for h in range(g):
                total[g, h] = total[h, g]
        return total / self.probes

    def _bread_diagonal(self, place: int, theta: FloatArray) -> FloatArray:
        """Few parameters: a Hessian product for each. More: the problem's own diagonal, else products or probes."""
        part = self.problem.parts[place]
        r = part.n_parameters
        diagonal = part.information_diagonal(theta, self.row_weight)
        if diagonal is None and r >= OWN_DIAGONAL_FROM:
            diagonal = part.hessian_diagonal(theta, self.row_weight)
        if diagonal is not None:
            return diagonal
        if r <= MOST_STREAMED_PARAMETERS:
            return np.diagonal(-part.hessian_matrix(theta, self.row_weight))
        result = np.zeros(r)
        # These errors do not cancel in J, so there are more probes.
        random, probes = np.random.default_rng(1), 4 * self.probes
        for _ in range(probes):
            signs = random.choice((-1.0, 1.0), r)
            result -= signs * part.hessian_product(theta, signs, self.row_weight)
        return np.maximum(result / probes, 0.0)

    def gershgorin(self, theta: FloatArray, beta: FloatArray, mixed: Problem | None = None) -> Gershgorin:
        """Discs of bread(β) and meat(β) for some of the parameters, one product with each matrix for a row.

        The first disc that reaches 0 ends it: there is no bound then. ``mixed`` is the problem
        with the weights β, where there is one that is faster than the groups one by one.
        """
        keep = np.flatnonzero(self.free)
        random = np.random.default_rng(2)
        rows = random.choice(len(keep), min(SAMPLED_DISCS, len(keep)), replace=False)
        problem = self.problem.with_betas(beta) if mixed is None else mixed
        assert problem is not None
        breads: list[FloatArray] = []
        meats: list[FloatArray] = []
        unit = np.zeros(problem.n_parameters)
        for row in keep[rows]:
            if breads and not discs(np.array(breads), np.array(meats), rows[: len(breads)]).bounded:
                break
            unit[row] = 1.0
            breads.append(-problem.hessian_product(theta, unit, self.row_weight)[keep])
            meats.append(problem.score_product(theta, unit, self._product_weight)[keep])
            unit[row] = 0.0
        return discs(np.array(breads), np.array(meats), rows[: len(breads)])


def take_sample(drawn: DrawnPolicy, part: Callable[[IntArray], Part] | None, r: int) -> DrawnPolicy:
    """The policy with its Z of a part of the samples where that is enough and at most half of them, else of all.

    ``part`` gives a part of the samples (None: not available), ``r`` is the number of parameters of
    log-determinants, 0 where none are taken. Equal samples cost nothing, so that all are taken where few are distinct.
    """
    n = drawn.selection.n
    size = samples_needed(drawn.groups, drawn.selection, r)
    equal = drawn.problem.equal_samples
    if part is None or 2 * size > n or (equal is not None and len(equal[0]) <= size):
        return drawn
    # The same rows for any number of threads, seed of Z and policy.
    rows = np.sort(np.random.default_rng(3).choice(n, size, replace=False))
    bound, compile_problem = part(rows)
    selection = drawn.selection.subset(rows, bound.families)
    return DrawnPolicy.of(bound, drawn.groups.by, selection, compile_problem(selection), compile_problem)


def samples_needed(groups: Groups, selection: Selection, r: int) -> int:
    """Enough samples that of each group enough are selected."""
    enough = max(ENOUGH_SAMPLES, SAMPLES_FOR_EACH_WEIGHT * groups.count, SAMPLES_FOR_EACH_PARAMETER * r)
    shares = groups.samples(selection) / selection.n
    return int(np.ceil(enough / shares[shares > 0].min(initial=1.0)))
