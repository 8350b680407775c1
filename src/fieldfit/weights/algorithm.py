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
from fieldfit.optim import Solution, Status, minimise
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.threads import one_blas_thread
from fieldfit.types import FloatArray, ModelError
from fieldfit.weights.choice import judge
from fieldfit.weights.criterion import DiagonalForm, LogDeterminant
from fieldfit.weights.groups import Groups, check_betas
from fieldfit.weights.mixture import Mixture
from fieldfit.weights.options import AutoWeights
from fieldfit.weights.result import Round, WeightsResult
from fieldfit.weights.simplex import Ridge, minimise_on_simplex
from fieldfit.weights.statistics import DataStatistics

#: Parameters times groups up to which all blocks of the meat are kept.
MOST_BLOCKS = 3_000
#: Samples for each parameter below which the covariance matrix of a group's scores is not trusted.
_SAMPLES_FOR_EACH = 2
#: Gradient, for each sample, at which θ is good enough for a first β, and the rounds for which that holds: there it is
#: far inside the standard errors of θ.
_LOOSE, _LOOSE_ROUNDS = 1e-3, 1
#: A Hessian with a smaller relative pivot is no preconditioner.
_SINGULAR = 1e-10

Form = DiagonalForm | LogDeterminant


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

    ``objective`` has the compiled policy, the start, the penalty, the fixed parameters and the sample weights;
    ``tol`` is the gradient, for each sample, at which θ has converged. The first round needs θ only roughly.
    """
    with one_blas_thread():  # many small products between evaluations
        mixture = Mixture.of(bound, options.by, selection, objective.problem, compile_problem)
        return _Alternation(mixture, objective, options, counts, tol, method).run()


class _Alternation:
    """The state of Algorithm 1 between rounds."""

    def __init__(
        self,
        mixture: Mixture,
        objective: Objective,
        options: AutoWeights,
        counts: bool,
        tol: float,
        method: Literal["auto", "lbfgs", "newton"],
    ) -> None:
        self.mixture, self.objective, self.options = mixture, objective, options
        self.groups = groups = mixture.groups
        self.beta = groups.written() if options.beta0 is None else check_betas(groups, options.beta0)
        self.judged = mixture.judged(self.beta, options.formula)
        self.statistics = DataStatistics(
            self.judged, objective.free, objective.row_weight, counts, options.probes
        )
        self.forms = _forms(groups, mixture.selection, int(objective.free.sum()), options)
        self.form, self.note = self.forms.rounds, self.forms.note
        self.ridge = Ridge(options.gamma, self.beta, groups.normaliser)
        weight = objective.row_weight
        self.scale = max(float(mixture.selection.n if weight is None else weight.sum()), 1.0)
        self.tol, self.method = tol, method
        self.theta = objective.start
        self.history: list[Round] = []

    def run(self) -> WeightsResult:
        """Alternate until both have settled; then the exact criterion, where it can be had, has the last word."""
        options = self.options
        converged, message = False, f"stopped: not settled in {options.max_rounds} rounds"
        tight = options.max_rounds == 1
        criterion: Form | None = None
        for number in range(1, options.max_rounds + 1):
            solution = self._fit(criterion, self.tol if tight else max(self.tol, _LOOSE))
            criterion = self._criterion(number == 1)
            J = criterion.value(self.beta)
            near = self.beta if number > 1 else None
            previous, self.beta = self.beta, minimise_on_simplex(criterion, self.ridge, near)
            loss = J - criterion.value(self.beta)
            self.history.append(Round(number, previous, J, loss, -solution.value, solution.converged and tight))
            if solution.status is Status.INTERRUPTED:
                message = "stopped: interrupted"
                break
            moved = float(np.abs(_shares(self.beta, criterion) - _shares(previous, criterion)).max())
            still = moved <= options.tol or loss <= 0.5 * len(self.theta) * options.tol**2
            settled = solution.converged or (number > 1 and _settled(self.history))
            if still and settled and tight:
                converged, message = True, f"converged: β and θ settled in {number} rounds"
                break
            tight = tight or number >= _LOOSE_ROUNDS
        assert criterion is not None
        return self._result(criterion, converged, message)

    def _fit(self, criterion: Form | None, gtol: float) -> Solution:
        """θ with the present β, from where the last round left it."""
        mixed = replace(self.objective, problem=self.mixture.at(self.beta), start=self.theta)
        plain = mixed.problem.optimiser == "lbfgs" and self.method != "newton"
        near: Callable[[FloatArray], FloatArray] | None = None
        if isinstance(criterion, LogDeterminant) and self.method != "newton":
            near = _inverse(criterion, self.beta, self.scale, mixed.precision[mixed.free])
        solution = minimise(
            mixed.value_grad,
            self.theta[mixed.free],
            hessian_product=mixed.hessian_product,
            hessian_diagonal=None if plain or near is not None else mixed.hessian_diagonal,
            preconditioner=mixed.preconditioner if near is None and not plain else near,
            method="lbfgs" if plain else self.method,
            history=6 if plain else 10,
            gtol=gtol * self.scale,
            max_iter=self.options.inner_iterations,
        )
        self.theta = mixed.full(solution.x).copy()
        return solution

    def _criterion(self, first: bool) -> Form:
        """J at θ, in the form that the data allow."""
        if self.form == "exact":
            dense = self.statistics.dense(self.theta)
            if not first or not dense.short:
                return dense
            names = ", ".join(self.groups.names[g] for g in dense.short)
            if self.options.form == "exact":
                raise ModelError(
                    f"The exact form of J needs more samples: the scores of {names} span fewer directions than there "
                    f"are parameters. Use form='diagonal' or larger selection probabilities."
                )
            self.form, self.note = "diagonal", f"; too few samples of {names} for the exact form"
        return self.statistics.diagonal(self.theta)

    def _result(self, criterion: Form, converged: bool, message: str) -> WeightsResult:
        options, groups, beta, theta = self.options, self.groups, self.beta, self.theta
        J = criterion.value(beta)
        exact = criterion if isinstance(criterion, LogDeterminant) else None
        if exact is None and self.forms.exact:
            exact = self.statistics.dense(theta)
        history = tuple(self.history)
        if exact is None or exact.short:
            discs = self.statistics.gershgorin(theta, beta)
            return WeightsResult(
                beta, groups.names, groups.policy(beta), history, converged, message + self.note, self.form,
                options.formula, options.gamma, J, None, None, discs, None, False, theta,
            )  # fmt: skip
        # With a ridge the exact form may stay away from a pure policy on purpose.
        best = beta if exact is criterion else None
        verdict = judge(exact, beta, groups, self.ridge, fallback=options.fallback and options.gamma == 0, best=best)
        if verdict.fell_back:
            message += "; worse than a pure policy by the exact J, which was taken"
            J = criterion.value(verdict.beta)
        return WeightsResult(
            verdict.beta, groups.names, groups.policy(verdict.beta), history, converged, message + self.note, self.form,
            options.formula, options.gamma, J, verdict.J_exact, verdict.pure, verdict.gershgorin, verdict.diagonal_loss,
            verdict.fell_back, theta,
        )  # fmt: skip


def _inverse(
    criterion: LogDeterminant, beta: FloatArray, scale: float, precision: FloatArray
) -> Callable[[FloatArray], FloatArray] | None:
    """v ↦ H⁻¹v with the bread of the last round; None where that is singular."""
    H = scale * np.einsum("g,gab->ab", beta, criterion.bread)
    places = np.arange(len(H))
    H[places, places] += precision
    try:
        pivots = np.diagonal(np.linalg.cholesky(H))
    except np.linalg.LinAlgError:
        return None
    if float(pivots.min()) ** 2 <= _SINGULAR * float(pivots.max()) ** 2:
        return None
    inverse = np.linalg.inv(H)

    def apply(v: FloatArray) -> FloatArray:
        return np.asarray(inverse @ v)

    return apply


def _shares(beta: FloatArray, criterion: Form) -> FloatArray:
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
