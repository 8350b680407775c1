"""J from expectations under the model at a given θ, without data: what the best weights would be.

meat(β) is a quadratic form in β, so its blocks follow from bread and meat (`theory_moments`) of single groups and pairs:

    M_gg = meat(e_g),    M_gh + M_hg = meat(e_g + e_h) − meat(e_g) − meat(e_h).

J sees M_gh only in the sum M_gh + M_hg, so half of that is as good as each.
"""

from __future__ import annotations

import numpy as np

from fieldfit.policies.structure import Structure
from fieldfit.types import FloatArray
from fieldfit.variance.mixture_moments import MixtureMoments
from fieldfit.variance.moments import Compile, TheoryMoments, theory_moments
from fieldfit.weights.choice import Exact, Ridge, best_beta, judge
from fieldfit.weights.groups import Groups, check_betas
from fieldfit.weights.options import AutoWeights
from fieldfit.weights.result import WeightsResult


def expected_moments(
    groups: Groups,
    structure: Structure,
    compile_problem: Compile,
    theta: FloatArray,
    weight: FloatArray,
    formula: str,
) -> MixtureMoments:
    """Bread and meat by groups, with E over X as Σ_x w_x."""
    count = groups.count

    def moments(beta: FloatArray) -> TheoryMoments:
        bound = groups.policy(beta).bind(structure)
        return theory_moments(bound, compile_problem, theta, weight, formula)

    unit = np.eye(count)
    single = [moments(row) for row in unit]
    r = len(theta)
    meat = np.empty((count, count, r, r))
    for g in range(count):
        meat[g, g] = single[g].meat
        for h in range(g):
            meat[g, h] = meat[h, g] = (moments(unit[g] + unit[h]).meat - single[g].meat - single[h].meat) / 2
    bread = np.stack([alone.bread for alone in single])
    return MixtureMoments.with_drawn_selection(groups.names, bread, meat)


def expected_weights(
    structure: Structure,
    groups: Groups,
    compile_problem: Compile,
    theta: FloatArray,
    weight: FloatArray,
    options: AutoWeights,
) -> WeightsResult:
    """The best β at θ, with everything that the exact criterion says of it."""
    exact = Exact.of(expected_moments(groups, structure, compile_problem, theta, weight, options.formula))
    beta0 = groups.written() if options.beta0 is None else check_betas(groups, options.beta0)
    ridge = Ridge(options.gamma, beta0, groups.normaliser)
    form = "diagonal" if options.form == "diagonal" else "exact"
    criterion = exact.diagonal if form == "diagonal" else exact.criterion
    beta = best_beta(criterion, ridge)
    verdict = judge(exact, beta, groups, ridge, fallback=options.fallback and options.gamma == 0)
    return WeightsResult(
        beta=verdict.beta, names=groups.names, policy=groups.policy(verdict.beta), history=(), converged=True,
        message="expectations under the model at θ" + verdict.note, form=form, formula=options.formula,
        gamma=options.gamma, J=criterion.value(verdict.beta), J_exact=verdict.J_exact, pure=verdict.pure,
        equal=verdict.equal, gershgorin=verdict.gershgorin, diagonal_loss=verdict.diagonal_loss,
        fell_back=verdict.fell_back, theta=theta,
    )  # fmt: skip
