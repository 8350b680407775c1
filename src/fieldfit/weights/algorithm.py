"""Algorithm 1: alternate θ = argmax scl(X; λ, β) and β = argmin J(β; θ) until both have settled.

Both steps are warm-started, and Z stays as drawn. J compares asymptotic variances, which depend on β only through
ratios; Σβ = 1 over terms fixes the scale, which matters only against a penalty σ².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.objective import Objective
from fieldfit.optim import Status, minimise
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.types import FloatArray, ModelError
from fieldfit.weights.choice import judge
from fieldfit.weights.criterion import DiagonalForm, LogDeterminant
from fieldfit.weights.groups import Groups, check_betas, groups_of
from fieldfit.weights.options import AutoWeights
from fieldfit.weights.result import Round, WeightsResult
from fieldfit.weights.reweighted import Reweighted
from fieldfit.weights.simplex import Ridge, minimise_on_simplex
from fieldfit.weights.statistics import DataStatistics

#: Parameters times groups up to which all blocks of the meat are kept.
MOST_BLOCKS = 3_000
#: Samples for each parameter below which the covariance matrix of a group's scores is not trusted.
_SAMPLES_FOR_EACH = 2


@dataclass(frozen=True)
class _Forms:
    """Which forms of J the data allow: ``rounds`` is used while alternating, ``exact`` says that the exact one exists."""

    rounds: str
    exact: bool
    note: str


def automatic_weights(
    bound: BoundPolicy,
    selection: Selection,
    compile_problem: Callable[[Selection], Problem],
    objective: Objective,
    options: AutoWeights,
    *,
    counts: bool = False,
    tol: float = 1e-6,
    method: Literal["auto", "lbfgs", "newton"] = "auto",
) -> WeightsResult:
    """Choose β for the terms (or components) of a policy whose Z is drawn.

    ``objective`` gives the start, the penalty, the fixed parameters and the sample weights; its own problem is not
    evaluated. ``tol`` is the gradient, for each sample, at which θ has converged.
    """
    groups = groups_of(bound, options.by)
    beta0 = groups.written() if options.beta0 is None else check_betas(groups, options.beta0)
    published = options.formula == "published"
    chosen = groups.expected(selection) if published else groups.drawn(selection)
    judged = Reweighted([compile_problem(own) for own in chosen], beta0)
    statistics = DataStatistics(judged, objective.free, objective.row_weight, counts, options.probes)
    forms = _forms(groups, selection, int(objective.free.sum()), options)
    ridge = Ridge(options.gamma, beta0, groups.normaliser)
    scale = float(selection.n if objective.row_weight is None else objective.row_weight.sum())

    beta, x = beta0, objective.start[objective.free]
    theta = objective.start
    history: list[Round] = []
    converged, message, form, note = False, "", forms.rounds, forms.note
    criterion: DiagonalForm | LogDeterminant
    for number in range(1, options.max_rounds + 1):
        mixed = replace(objective, problem=compile_problem(groups.weighted(selection, beta)))
        solution = minimise(
            mixed.value_grad,
            x,
            hessian_product=mixed.hessian_product,
            hessian_diagonal=mixed.hessian_diagonal,
            preconditioner=mixed.preconditioner,
            method=method,
            gtol=tol * max(scale, 1.0),
            max_iter=options.inner_iterations,
        )
        x, theta = solution.x, mixed.full(solution.x).copy()
        if form == "exact":
            criterion = dense = statistics.dense(theta)
            if dense.short:
                names = ", ".join(groups.names[g] for g in dense.short)
                if options.form == "exact":
                    raise ModelError(
                        f"The exact form of J needs more samples: the scores of {names} span fewer directions than there "
                        f"are parameters. Use form='diagonal' or larger selection probabilities."
                    )
                form, note = "diagonal", f"; too few samples of {names} for the exact form"
        if form == "diagonal":
            criterion = statistics.diagonal(theta)
        J = criterion.value(beta)
        previous, beta = beta, minimise_on_simplex(criterion, ridge)
        history.append(Round(number, previous, J, J - criterion.value(beta), -solution.value, solution.converged))
        if solution.status is Status.INTERRUPTED:
            message = "stopped: interrupted"
            break
        moved = float(np.abs(_shares(beta, criterion) - _shares(previous, criterion)).max())
        settled = solution.converged or (number > 1 and _settled(history))
        if moved <= options.tol and settled:
            converged, message = True, f"converged: β and θ settled in {number} rounds"
            break
    else:
        message = f"stopped: not settled in {options.max_rounds} rounds"
    J = criterion.value(beta)
    exact = criterion if isinstance(criterion, LogDeterminant) else None
    if exact is None and forms.exact:
        exact = statistics.dense(theta)
    if exact is None or exact.short:
        discs = statistics.gershgorin(theta, beta)
        return WeightsResult(
            beta, groups.names, groups.policy(beta), tuple(history), converged, message + note, form, options.formula,
            options.gamma, J, None, None, discs, None, False, theta,
        )  # fmt: skip
    # With a ridge the exact form may stay away from a pure policy on purpose.
    verdict = judge(exact, beta, groups, ridge, fallback=options.fallback and options.gamma == 0)
    if verdict.fell_back:
        message += "; worse than a pure policy by the exact J, which was taken"
        J = criterion.value(verdict.beta)
    return WeightsResult(
        verdict.beta, groups.names, groups.policy(verdict.beta), tuple(history), converged, message + note, form,
        options.formula, options.gamma, J, verdict.J_exact, verdict.pure, verdict.gershgorin, verdict.diagonal_loss,
        verdict.fell_back, theta,
    )  # fmt: skip


def _shares(beta: FloatArray, criterion: DiagonalForm | LogDeterminant) -> FloatArray:
    """Each group's share of the information."""
    alpha = beta * criterion.information
    return np.asarray(alpha / alpha.sum())


def _settled(history: list[Round]) -> bool:
    """Whether the objective has stopped moving although the optimiser's criterion does not hold (a flat direction)."""
    last, before = history[-1].objective, history[-2].objective
    return abs(last - before) <= 1e-9 * max(abs(last), 1.0)


def _forms(groups: Groups, selection: Selection, r: int, options: AutoWeights) -> _Forms:
    fits = r <= options.most_exact and r * groups.count <= MOST_BLOCKS
    if options.form == "exact" and not fits:
        raise ModelError(
            f"The exact form of J is for at most {options.most_exact} parameters (most_exact) and {MOST_BLOCKS:,} "
            f"parameters times weights; here are {r:,} and {groups.count}. Use form='diagonal'."
        )
    enough = True
    if options.formula == "exact":
        for chosen in groups.drawn(selection):
            rows = np.zeros(selection.n, dtype=bool)
            for part in chosen.parts:
                rows |= part.any_row(selection.n)
            enough &= not rows.any() or int(rows.sum()) >= _SAMPLES_FOR_EACH * r
    if options.form == "exact":
        return _Forms("exact", True, "")
    if options.form == "auto" and fits and enough:
        return _Forms("exact", True, "")
    note = "; too few samples for the exact form" if fits and not enough and options.form == "auto" else ""
    return _Forms("diagonal", fits and enough, note)
