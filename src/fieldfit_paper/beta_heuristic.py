"""The β heuristic on chains: Algorithm 1 with the diagonal form of J over all parameters of the model (Section 6).

    J(β) = Σ_l log M_ll(β) − 2 Σ_l log B_ll(β),     l over all r parameters

It alternates θ = argmax scl(β) and β = argmin J(β; θ). A weight that stands for m symbols that training does not have
counts m times: each of the m has the score s/m and the bread e/m, where s is the score of the shared weight and e its
expected count (1 − p(v|y), which is 1 up to 1/m, is left out). "exact" has the drawn Z in J, and with it the noise of
selection; "published" has λ in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.models.chain_problem import selected_windows
from fieldfit.models.sum_problem import SumProblem
from fieldfit.sweep import experiment
from fieldfit.types import FloatArray, PolicyError
from fieldfit.variance.criterion import Criterion, WeightsCriterion
from fieldfit.variance.mixture_moments import MixtureMoments
from fieldfit.weights.choice import Ridge, best_beta
from fieldfit.weights.groups import groups_of
from fieldfit.weights.statistics import DataStatistics
from fieldfit_paper.chain_folds import ChainFold
from fieldfit_paper.chunking import (
    draw_policy,
    fit_and_measure,
    fit_chain,
    fold_of,
    objective_of,
    one_thread,
    sigma2_of,
    weighted,
)

FORMULAS = ("published", "exact")
ROUNDS = 12
INNER_ITERATIONS = 8  # of Newton's method
#: β has settled when it moves by less: far finer than the grid that it is compared with.
SETTLED = 2e-3
PROBES = 16


def criterion_of(problem: SumProblem, theta: FloatArray, copies: FloatArray) -> WeightsCriterion:
    """J at θ from the problem's families; parameter l counts ``copies[l]`` times."""
    r, n = problem.n_parameters, problem.n_samples
    names = tuple(map(str, range(problem.n_families)))
    statistics = DataStatistics(problem, names, np.ones(r, dtype=bool), probes=PROBES).diagonal(theta)
    bread, meat = statistics.J.copy(), statistics.K.copy()
    shared = copies > 1
    if shared.any():
        for place, part in enumerate(problem.parts):
            expected = -part.value_grad(theta)[1][shared] / n
            bread[place, shared] = expected / copies[shared]
        meat[:, :, shared] /= copies[shared] ** 2
    moments = MixtureMoments.with_drawn_selection(names, bread, meat)
    return Criterion.log_diagonal(moments, copies).over_weights()


def heuristic_beta(
    fold: ChainFold, higher: str, lam: float, sigma2: float, formula: str, seed: int
) -> tuple[float, FloatArray, int, bool]:
    """β of the higher-order family, θ to start the final fit from, rounds, and whether β settled."""
    if formula not in FORMULAS:
        raise PolicyError(f"formula is {formula!r}; it must be one of {', '.join(FORMULAS)}.")
    bound, selection = draw_policy(fold, higher, lam, seed)
    groups = groups_of(bound, "term")

    def compiled(chosen: Any) -> Problem:
        return fold.problem(tuple(map(selected_windows, chosen.parts)))

    drawn = [compiled(chosen) for chosen in groups.drawn(selection)]
    judged = drawn if formula == "exact" else [compiled(chosen) for chosen in groups.expected(selection)]
    weights = np.array([0.5, 0.5])
    ridge = Ridge(0.0, weights, groups.normaliser)
    theta = np.zeros(drawn[0].n_parameters)
    settled, number = False, 0
    for _ in range(ROUNDS):
        number += 1
        objective = objective_of(SumProblem(drawn, weights=weights), fold, sigma2)
        theta = fit_chain(objective, theta, INNER_ITERATIONS).x
        previous = weights
        weights = best_beta(criterion_of(SumProblem(judged, weights=weights), theta, fold.copies), ridge)
        if abs(float(weights[1] - previous[1])) < SETTLED:
            settled = True
            break
    return float(weights[1]), theta, number, settled


@experiment("chain-heuristic", version=1)
def heuristic_cell(coordinates: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Choose β by Algorithm 1 for λ, σ² and a ``formula`` of J, then fit with it as `chain_cell` does."""
    with one_thread():
        fold, fold_seed = fold_of(coordinates)
        higher, lam, sigma2 = str(coordinates["higher"]), float(coordinates["lam"]), sigma2_of(coordinates, fold)
        beta, theta, rounds, settled = heuristic_beta(
            fold, higher, lam, sigma2, str(coordinates["formula"]), fold_seed
        )
        families = weighted(draw_policy(fold, higher, lam, fold_seed)[1], beta)
        objective = objective_of(fold.problem(families), fold, sigma2)
        measured = fit_and_measure(fold, families, objective, theta)
        return measured | {"beta": beta, "rounds": rounds, "settled": settled}
