"""Algorithm 1: alternate θ = argmax scl(X; λ, β) and β = argmin J(β; θ) until both have settled.

Both steps are warm-started, and Z stays as drawn. J compares asymptotic variances, which depend on β only through
ratios; Σβ = 1 over terms fixes the scale, which matters only against a penalty σ².

What it costs beyond a fit with given weights: with many samples the first rounds fit θ roughly to a part of them
(`take_sample`), where a round is cheap, and leave a good start for the fit to all. The statistics of J come from the same
part. θ is then fitted to the end with the β found, and J is evaluated once more there: where another β would gain
almost nothing, both stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.asymptotics.criterion import Criterion, WeightsCriterion
from fieldfit.models.problem import Problem
from fieldfit.objective import Objective
from fieldfit.optim import Callback, Solution, Status
from fieldfit.optim.choose import Method
from fieldfit.optim.keeping import Keeper
from fieldfit.optim.solution import DEFAULT_MAX_ITER, DEFAULT_TOL
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.threads import one_blas_thread
from fieldfit.types import FloatArray, IntArray, ModelError
from fieldfit.weights.choice import Exact, WeightsRidge, best_beta, better_rival, judge, rivals
from fieldfit.weights.groups import DrawnPolicy, Groups, check_betas
from fieldfit.weights.options import AutoWeights
from fieldfit.weights.result import Reached, Round, WeightsResult, Work
from fieldfit.weights.statistics import DataStatistics, Part, take_sample
from fieldfit.words import counted

#: Parameters times groups up to which all blocks of the meat are kept.
MOST_PARAMETERS_TIMES_GROUPS = 3_000
#: Samples for each parameter below which the covariance matrix of a group's scores is not trusted.
_SAMPLES_FOR_EACH_PARAMETER = 2
#: Gradient, for each sample, at which θ is good enough for a first β: there it is far inside the standard errors of θ.
_ROUGH_GRADIENT = 1e-3
#: Iterations of the optimiser in a round whose θ is only fitted roughly.
_ROUGH_ITERATIONS = 50
#: Rounds on a part of the samples, and the share of them up to which more than one is cheap.
_PILOT_ROUNDS, _SMALL_PART = 3, 0.1
#: What a change of β must gain in J for each parameter, in units of the tolerance on shares.
_LEAST_GAIN = 0.1
#: A Hessian with a smaller relative pivot is no preconditioner.
_SINGULAR = 1e-10


@dataclass(frozen=True)
class _Ground:
    """The samples that θ is fitted to: all, or the part that statistics come from."""

    drawn: DrawnPolicy
    objective: Objective
    l1: FloatArray | None = None  # (r,) weights of an L1 penalty

    @property
    def scale(self) -> float:
        """The number of samples, or the sum of their weights."""
        weight = self.objective.row_weight
        return float(self.drawn.selection.n if weight is None else weight.sum())


@dataclass(frozen=True)
class _Step:
    """What a round has found: θ's solution, J at it, the best β and what the present one loses against that.

    ``proposed`` is the diagonal form's β where the exact one has put something simpler in its place.
    """

    solution: Solution
    criterion: WeightsCriterion
    best: FloatArray
    loss: float
    moved: float
    proposed: FloatArray | None


def automatic_weights(
    bound: BoundPolicy,
    selection: Selection,
    compile_problem: Callable[[Selection], Problem],
    objective: Objective,
    options: AutoWeights,
    *,
    counts: bool = False,
    tol: float = DEFAULT_TOL,
    max_iter: int = DEFAULT_MAX_ITER,
    method: Method = "auto",
    l1: FloatArray | None = None,
    part: Callable[[IntArray], Part] | None = None,
    callback: Callback | None = None,
    keepers: Callable[[int], Keeper] | None = None,
) -> WeightsResult:
    """Choose β for the terms (or components) of a policy whose Z is drawn.

    ``objective`` has the compiled policy, the start, the penalty, the fixed parameters and the sample weights;
    ``tol`` is the gradient, for each sample, at which θ has converged, ``max_iter`` the optimiser's iterations in a round.
    ``part(rows)`` gives the policy bound to some of the samples and what compiles their selections; without it (and
    with weighted samples) the statistics come from all of them. ``callback`` is called in the fits to all samples. An
    interrupt ends the search with the current result. ``keepers(number)`` gives what keeps the states of a fit of θ; from
    their last states the search is repeated with the same bits.
    """
    with one_blas_thread():  # many small products between evaluations
        drawn = DrawnPolicy.of(bound, options.by, selection, objective.problem, compile_problem)
        alternation = _Alternation(
            _Ground(drawn, objective, l1), options, tol, max_iter, method, counts, part, callback, keepers
        )
        return alternation.run()


class _Alternation:
    """The state of Algorithm 1 between rounds.

    ``form`` is the form of J that the rounds use, and ``exact_known`` says that the data allow the exact one.
    """

    def __init__(
        self,
        ground: _Ground,
        options: AutoWeights,
        tol: float,
        max_iter: int,
        method: Method,
        counts: bool,
        part: Callable[[IntArray], Part] | None,
        callback: Callback | None,
        keepers: Callable[[int], Keeper] | None,
    ) -> None:
        self.all, self.options, self.callback, self.keepers = ground, options, callback, keepers
        self.tol, self.max_iter, self.method = tol, max_iter, method
        drawn, objective = ground.drawn, ground.objective
        self.groups = groups = drawn.groups
        r = int(objective.free.sum())
        self.form, self.exact_known, self.note = _form(groups, drawn.selection, r, options)
        some = part if objective.row_weight is None and options.max_rounds > 1 else None
        self.sample = take_sample(drawn, some, r if self.exact_known else 0)
        self.beta = groups.written() if options.beta0 is None else check_betas(groups, options.beta0)
        by_group = self.sample.by_group(self.beta, options.formula)
        self.statistics = DataStatistics(
            by_group, groups.names, objective.free, objective.row_weight, counts, options.probes
        )
        self.ridge = WeightsRidge(options.gamma, self.beta, groups.normaliser)
        self.theta = objective.start
        self.criterion: WeightsCriterion | None = None
        self.exact: Exact | None = None
        self.last: _Step | None = None
        self.reached: Reached | None = None
        self.history: list[Round] = []
        self.work = Work(samples=self.sample.selection.n, all_samples=drawn.selection.n)

    def run(self) -> WeightsResult:
        """Alternate until both have settled; then the exact criterion, where it is available, decides.

        After an interrupt β is the one that θ was fitted with last.
        """
        try:
            converged, message = self._alternate()
            assert self.last is not None
            return self._judged(self.last, converged, message)
        except KeyboardInterrupt:
            if self.reached is not None:
                self.beta = self.reached.beta
            stopped = replace(self._result(False), interrupted=True, message=Status.INTERRUPTED.value)
            return replace(stopped, reached=self.reached)

    def _alternate(self) -> tuple[bool, str]:
        options = self.options
        converged, message = False, f"stopped: not converged in {options.max_rounds} rounds"
        step = None if self.sample is self.all.drawn else self._pilot()
        tight = options.max_rounds == 1 or step is not None
        while step is None or len(self.history) < options.max_rounds:
            step = self._round(self.all, self.tol if tight else max(self.tol, _ROUGH_GRADIENT), tight)
            settled = step.solution.converged or (len(self.history) > 1 and _settled(self.history))
            if tight and settled and self._still(step):
                converged, message = True, f"converged: β and θ converged in {len(self.history)} rounds"
                if step.solution.status is Status.ITERATION_LIMIT:  # θ stands still because it may not move
                    converged = False
                    limit = counted(self.max_iter, "iterations")
                    message = f"stopped: β no longer changes, but the fits of θ end at their limit of {limit}"
                # θ belongs to the present β, which stays where it is as good as the best, and as anything simple.
                if self._beaten(step.criterion):
                    self.beta = step.best
                break
            self.beta, tight = step.best, True
        return converged, message

    def _pilot(self) -> _Step:
        """Rounds with θ fitted roughly to the part of the samples; penalties have their share of them."""
        drawn, share = self.sample, self.sample.selection.n / self.all.drawn.selection.n
        whole = self.all.objective
        objective = replace(whole, problem=drawn.problem, precision=share * whole.precision)
        ground = _Ground(drawn, objective, None if self.all.l1 is None else share * self.all.l1)
        most = min(_PILOT_ROUNDS if share <= _SMALL_PART else 1, self.options.max_rounds - 1)
        while True:
            step = self._round(ground, max(self.tol, _ROUGH_GRADIENT), False)
            self.beta = step.best
            if self._still(step) or len(self.history) >= most:
                return step

    def _round(self, ground: _Ground, gtol: float, tight: bool) -> _Step:
        """θ with the present β, J there, and the β that minimises it."""
        solution = self._fit(ground, gtol, self.max_iter if tight else min(self.max_iter, _ROUGH_ITERATIONS))
        if solution.status in (Status.INTERRUPTED, Status.CALLBACK):
            raise KeyboardInterrupt
        first = self.criterion is None
        self.criterion = criterion = self._criterion(first)
        J = criterion.value(self.beta)
        best = best_beta(criterion, self.ridge, None if first else self.beta)
        loss = self._penalised(criterion, self.beta) - self._penalised(criterion, best)
        proposed, simple = best, self._simpler(best)
        if simple is not None:
            best, loss = simple
        moved = float(np.abs(_shares(best, criterion) - _shares(self.beta, criterion)).max())
        whole = self.all.drawn.selection.n / ground.drawn.selection.n
        done = solution.converged and tight
        self.history.append(
            Round(len(self.history) + 1, self.beta, J, loss, -solution.value * whole, done, ground.drawn.selection.n)
        )
        self.last = _Step(solution, criterion, best, loss, moved, proposed if simple is not None else None)
        return self.last

    def _simpler(self, best: FloatArray) -> tuple[FloatArray, float] | None:
        """What the exact form, where it is available, puts in the place of the diagonal form's best β, and what the
        present one loses against it by the exact form; None where that stays.

        Asked in every round, so that θ is fitted with what is taken in the end.
        """
        exact = self.exact if self.form == "diagonal" else None
        if exact is None or exact.short or not self.options.fallback or self.options.gamma > 0:
            return None
        winner = better_rival(exact, best, self.groups)
        if winner is None:
            return None
        beta = rivals(self.groups)[winner]
        return beta, exact.value(self.beta) - exact.value(beta)

    def _penalised(self, criterion: WeightsCriterion, beta: FloatArray) -> float:
        J = criterion.value(beta)
        return J + self.ridge.value_grad(beta)[0] if self.ridge.gamma > 0 else J

    def _still(self, step: _Step) -> bool:
        """Whether β need not move: by its shares of the information, or because nothing is gained."""
        tol = self.options.tol
        return step.moved <= tol or step.loss <= _LEAST_GAIN * tol * step.criterion.rank

    def _beaten(self, criterion: WeightsCriterion) -> bool:
        """Whether a pure policy or equal weights are better than the present β."""
        present = self._penalised(criterion, self.beta)
        return min(self._penalised(criterion, beta) for beta in rivals(self.groups).values()) < present

    def _fit(self, ground: _Ground, gtol: float, max_iter: int) -> Solution:
        """θ with the present β, from where the last round left it."""
        mixed = replace(ground.objective, problem=ground.drawn.at(self.beta), start=self.theta)
        near: Callable[[FloatArray], FloatArray] | None = None
        if self.exact is not None and self.method != "newton":
            near = _inverse(self.exact, self.beta, ground.scale, mixed.precision[mixed.free])
        solution = mixed.minimise(
            gtol=ground.objective.gradient_tolerance(gtol),
            max_iter=max_iter,
            method=self.method,
            l1=ground.l1,
            near=near,
            callback=self.callback if ground is self.all else None,
            keeper=None if self.keepers is None else self.keepers(len(self.history)),
        )
        self.theta = mixed.full(solution.x).copy()
        if ground is self.all and solution.history:  # an interrupt may come before the first evaluation
            self.reached = Reached(self.beta, solution, mixed.problem)
        self.work = self.work.and_fit(solution, ground is self.all)
        return solution

    def _criterion(self, first: bool) -> WeightsCriterion:
        """J at θ, in the form that the data allow."""
        self.work = replace(self.work, statistics=self.work.statistics + 1)
        if self.form == "exact":
            self.exact = Exact.of(self.statistics.dense(self.theta))
            if not first or not self.exact.short:
                return self.exact
            names = ", ".join(self.groups.names[g] for g in self.exact.short)
            if self.options.form == "exact":
                raise ModelError(
                    f"The exact form of J needs more samples: the scores of {names} span fewer directions than there "
                    f"are parameters. Use form='diagonal' or larger selection probabilities."
                )
            self.form, self.note = "diagonal", f"; too few samples of {names} for the exact form"
            self.exact_known, self.exact = False, None
        if self.exact_known:
            self.exact = Exact.of(self.statistics.dense(self.theta))
            return self.exact.diagonal
        return Criterion.log_diagonal(self.statistics.diagonal(self.theta)).over_weights()

    def _result(self, converged: bool) -> WeightsResult:
        """β and θ as they are now."""
        options, groups, beta = self.options, self.groups, self.beta
        return WeightsResult(
            beta=beta, names=groups.names, policy=groups.policy(beta), history=tuple(self.history), converged=converged,
            message=self.note, form=self.form, formula=options.formula, gamma=options.gamma,
            J=math.nan if self.criterion is None else self.criterion.value(beta), work=self.work, theta=self.theta,
        )  # fmt: skip

    def _judged(self, step: _Step, converged: bool, message: str) -> WeightsResult:
        options, beta, exact = self.options, self.beta, self.exact
        result = replace(self._result(converged), message=message + self.note)
        if exact is None or exact.short:
            # The published formula has another Z than the fit.
            mixed = self.sample.at(beta) if options.formula == "exact" else None
            return replace(result, gershgorin=self.statistics.gershgorin(self.theta, beta, mixed))
        if step.proposed is not None:
            result = replace(result, beta=step.proposed)
        # With a ridge the exact form may stay away from a pure policy on purpose.
        fallback, best = options.fallback and options.gamma == 0, step.best if self.form == "exact" else None
        return judge(result, exact, step.criterion, self.groups, self.ridge, fallback=fallback, best=best)


def _inverse(
    exact: Exact, beta: FloatArray, scale: float, precision: FloatArray
) -> Callable[[FloatArray], FloatArray] | None:
    """v ↦ H⁻¹v with the bread of the last round; None where that is singular."""
    H = scale * np.einsum("g,gab->ab", beta, exact.given.J)
    places = np.arange(len(H))
    H[places, places] += precision
    try:
        pivots = np.diagonal(np.linalg.cholesky(H))
    except np.linalg.LinAlgError:
        return None
    if float(pivots.min()) ** 2 <= _SINGULAR * float(pivots.max()) ** 2:
        return None
    return np.linalg.inv(H).__matmul__


def _shares(beta: FloatArray, criterion: WeightsCriterion) -> FloatArray:
    """Each group's share of the information."""
    alpha = beta * criterion.information
    return np.asarray(alpha / alpha.sum())


def _settled(history: list[Round]) -> bool:
    """Whether the objective has stopped moving although the optimiser's criterion does not hold (a flat direction)."""
    last, before = history[-1].objective, history[-2].objective
    return abs(last - before) <= 1e-9 * max(abs(last), 1.0)


def _form(groups: Groups, selection: Selection, r: int, options: AutoWeights) -> tuple[str, bool, str]:
    """The form of J while alternating, whether the data allow the exact one, and a note where they do not."""
    fits = r <= options.most_exact and r * groups.count <= MOST_PARAMETERS_TIMES_GROUPS
    if options.form == "exact":
        if fits:
            return "exact", True, ""
        raise ModelError(
            f"The exact form of J is for at most {options.most_exact} parameters (most_exact) and "
            f"{MOST_PARAMETERS_TIMES_GROUPS:,} parameters times weights; here are {r:,} and {groups.count}. "
            "Use form='diagonal'."
        )
    enough = True
    if options.formula == "exact":
        counts = groups.samples(selection)
        enough = bool(np.all((counts == 0) | (counts >= _SAMPLES_FOR_EACH_PARAMETER * r)))
    auto, allowed = options.form == "auto", fits and enough
    note = "; too few samples for the exact form" if auto and fits and not enough else ""
    return "exact" if auto and allowed else "diagonal", allowed, note
