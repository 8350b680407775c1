"""L1 penalties: minimise f(x) + Σ_i l1_i |x_i|, or f(x) + Σ_g a_g ‖x_g‖ over groups, by proximal quasi-Newton steps.

Each step minimises a quasi-Newton model of f plus the penalty itself (Scheinberg and Tang, "Practical inexact proximal
quasi-Newton method with global complexity analysis", 2016), over the coordinates that are not 0 or whose gradient moves
them away from 0. Orthant-wise methods minimise the model without the penalty's corners and cut off what leaves the
orthant; near the optimum the cut directions are poor, and most steps have to be shortened. On 500 sentences of
CoNLL-2000 (l1 = 1) the tolerance of 1e-4 takes 238 evaluations here and took 1,265 there. Far from the optimum they go
as far for a fraction of the work, so the first steps are orthant-wise (orthant.py) until they bring little. The elastic
net is this with the L2 term inside f. Norms of groups (group_penalty.py) have no orthants: all their steps are proximal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.optim.descent import Descent, Point, ValueGradient, start_point
from fieldfit.optim.group_penalty import GroupPenalty
from fieldfit.optim.keeping import Keeper, State
from fieldfit.optim.l1_penalty import L1Penalty
from fieldfit.optim.line_search import SUFFICIENT_DECREASE, VALUE_NOISE, SearchOutcome
from fieldfit.optim.memory import moved_vector
from fieldfit.optim.orthant import OrthantSteps, step_in_orthant
from fieldfit.optim.quadratic_model import QuadraticModel
from fieldfit.optim.remaining import NewtonStep
from fieldfit.optim.settling import Settling
from fieldfit.optim.solution import DEFAULT_MAX_ITER, Callback, Solution, Status
from fieldfit.optim.working_set import Smaller, WorkingSet
from fieldfit.types import FieldfitError, FloatArray, IntArray

#: Default number of pairs.
_PAIRS = 20
#: Number of pairs with at least this many parameters, for which the model takes most of the memory of a fit.
_FEWER_PAIRS, _MORE_PARAMETERS = 8, 50_000
FEW_PAIRS, MANY_PARAMETERS = 6, 1_000_000
#: The model is minimised to this fraction of the pseudo-gradient, with at most this many passes.
_FORCING, _PASSES = 0.1, 50
#: How often an orthant-wise step is halved before proximal steps take over.
_SHORTER = 8
#: Newton steps with the penalty: their largest number of coordinates, and what is left of the gradient.
_MOST_BY_HESSIAN, _EXACT = 500, 1e-9


def minimise_proximal(
    fun: ValueGradient,
    x0: FloatArray,
    l1: FloatArray | float,
    *,
    gtol: float = 1e-5,
    ftol: float = 0.0,
    max_iter: int = DEFAULT_MAX_ITER,
    history: int | None = None,
    diagonal: FloatArray | None = None,
    groups: IntArray | None = None,
    smaller: Smaller | None = None,
    fresh: bool = False,
    value_noise: float = 0.0,
    settling: Settling | None = None,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
) -> Solution:
    """Minimise fun(x) + Σ l1 |x| from x0 (n_parameters,), where ``fun(x)`` gives (value, gradient).

    With ``groups`` (n_parameters,) the penalty is Σ l1 ‖x_g‖ over coordinates with the same number, which have the same l1.

    It has converged when max |pseudo-gradient| ≤ ``gtol`` (the optimality conditions hold to that), or, with ``ftol`` >
    0, as `minimise_lbfgs` has. ``history`` is the number of pairs kept (20; 8 from 50,000 and 6 from a million
    parameters on); ``diagonal`` that of an approximate Hessian; ``fresh``, ``value_noise`` and ``settling`` as in
    `minimise_lbfgs`. ``smaller`` makes ``fun`` without coordinates that are 0 (working_set.py). ``fun`` must not keep the
    array it is given. A KeyboardInterrupt inside ``fun`` ends the run at the last accepted point; the gradient of
    coordinates at 0 may be missing then, and is 0.
    """
    x = start_point(x0)
    if history is None:
        history = _PAIRS if x.size < _MORE_PARAMETERS else _FEWER_PAIRS if x.size < MANY_PARAMETERS else FEW_PAIRS
    if history < 1:
        raise FieldfitError(f"A quasi-Newton method needs a history of at least 1 pair; got {history}.")
    penalty = nonsmooth_penalty(l1, x.size, groups)
    model = QuadraticModel(x.size, history, diagonal)
    descent = _Descent(fun, x, callback, penalty, model, diagonal is not None, smaller, fresh=fresh)
    descent.value_noise, descent.settling = value_noise, settling
    return descent.minimise(gtol, ftol, max_iter, keeper)


def nonsmooth_penalty(l1: FloatArray | float, size: int, groups: IntArray | None) -> L1Penalty | GroupPenalty:
    """Σ l1 |x| of ``size`` coordinates, or Σ l1 ‖x_g‖ with ``groups`` (size,)."""
    if groups is None:
        return L1Penalty(l1, size)
    return GroupPenalty(np.broadcast_to(np.asarray(l1, dtype=np.float64), (size,)), groups)


class _Descent(Descent):
    """Holds the penalty, the model of the smooth part and the set of coordinates that its points have."""

    def __init__(
        self,
        fun: ValueGradient,
        x: FloatArray,
        callback: Callback | None,
        penalty: L1Penalty | GroupPenalty,
        model: QuadraticModel,
        scaled: bool,
        smaller: Smaller | None,
        *,
        fresh: bool,
    ) -> None:
        self._fresh = fresh
        # Norms of groups and preconditioners work on all coordinates.
        self._set = None
        if isinstance(penalty, L1Penalty) and not scaled:
            self._set = WorkingSet(fun, smaller, penalty, fresh=fresh)
        super().__init__(fun if self._set is None else self._set.evaluate, x, callback)
        self._penalty = penalty
        self._model = model
        self._scaled = scaled
        # A preconditioner makes the proximal steps good from the start; norms of groups have no orthants.
        self._orthant = OrthantSteps(x.size) if penalty.has_orthants and not scaled else None

    def begin(self) -> bool:
        """Evaluate the start."""
        self._accept(self.current.x, *self._evaluate(self.current.x))
        at = self.current
        return math.isfinite(at.value) and math.isfinite(at.norm) and bool(np.isfinite(at.gradient).all())

    def own_state(self) -> State:
        """The pairs."""
        orthant = {} if self._orthant is None else self._orthant.state()
        places = {} if self._set is None else self._set.state()
        return {"proximal": np.empty(0), **self._model.state(), **orthant, **places}

    def take_state(self, state: State) -> None:
        """The same pairs, and the pseudo-gradient of the point."""
        state["proximal"]  # another method has none
        if self._set is not None:
            self._set.restore(state)
            if self._set.places is not None:
                self._move_to(self._set, self._set.places, self.current.gradient)
        self._model.restore(state)
        if "orthant_counts" not in state:
            self._orthant = None
        elif self._orthant is not None:
            self._orthant.restore(state)
        self._penalty.look(self.current.x, self.current.gradient)

    def spread(self, part: FloatArray) -> FloatArray:
        """The vector of all coordinates: 0 outside the working set."""
        return part if self._set is None else self._set.spread(part)

    @property
    def places(self) -> IntArray | None:
        """The coordinates of the working set."""
        return None if self._set is None else self._set.places

    @property
    def slope(self) -> FloatArray:
        """The pseudo-gradient at the current point."""
        return self._penalty.pseudo

    def newton_step(self, settling: Settling, *, exact: bool = False, share: int = 1) -> NewtonStep | None:
        """The Newton step by the Hessian with the penalty, which may end at corners."""
        at, free = self.current, self._penalty.free(self.current.x)
        matrix = settling.affordable_matrix(share * self.own_work - self.spending.total)
        if matrix is None or len(free) > _MOST_BY_HESSIAN:
            return None
        self.spending.hessians += settling.evaluations
        hessian = matrix(at.x)[np.ix_(free, free)]
        if not np.isfinite(hessian).all():
            return None
        step = self._penalty.newton(hessian, free, at.gradient[free], at.x[free], _EXACT * at.norm)
        if step is None:
            return None
        whole = np.zeros(len(at.x))
        whole[free] = step
        return NewtonStep(whole, exact=True)

    def slope_change(self, x: FloatArray) -> FloatArray:
        """That of the smooth part and of the norms of groups."""
        at = self.current
        if self._set is None:
            near = self._evaluate(x)[1]
        else:
            self._evaluations += 1
            near = self._set.gradient_near(x)
        return near - at.gradient + self._penalty.slope_change(at.x, x)

    def minimise(self, gtol: float, ftol: float, max_iter: int, keeper: Keeper | None = None) -> Solution:
        """The same. The gradient of the solution is that of all coordinates, unless the user has interrupted."""
        solution = super().minimise(gtol, ftol, max_iter, keeper)
        if self._set is None or self._set.places is None or solution.status is Status.INTERRUPTED:
            return solution
        gradient = self._all_derivatives(self._set)
        norm = self._set.all_penalties.look(solution.x, gradient)[1]
        return replace(solution, gradient=gradient.copy(), gradient_norm=norm, evaluations=self._evaluations)

    def step(self, gtol: float) -> Status | None:
        """A step to a better point, and the coordinates of the next one."""
        status, among = self._step(), self._set
        if among is None:
            return status
        if (
            status is Status.LINE_SEARCH and among.places is not None
        ):  # once more with all coordinates before giving up
            gradient = self._all_derivatives(among)
            self._move_to(among, among.keep_all(), gradient)
            return None
        if status is None:
            if self.current.norm <= gtol:
                self._all_derivatives(among)
            change = among.choose(self.current.x)
            if change is not None:
                self._move_to(among, *change)
        return status

    def _all_derivatives(self, among: WorkingSet) -> FloatArray:
        """The gradient of all coordinates at the current point, which is computed unless the last evaluation did so."""
        gradient = among.gradient_at(self.current.x)
        if gradient is None:
            self._evaluations += 1
            among.evaluate_all(self.current.x)
            gradient = among.gradient_at(self.current.x)
            assert gradient is not None
        return gradient

    def _move_to(self, among: WorkingSet, places: IntArray, gradient: FloatArray) -> None:
        """Continue on the coordinates of the set: ``places`` (−1: none) in the present ones, and all derivatives."""
        at = self.current
        x, part = moved_vector(at.x, places), among.part(gradient)
        self._penalty, self._model = among.penalty(), self._model.moved(places)
        norm = self._penalty.look(x, part)[1]
        if self._orthant is not None:
            self._orthant.move(places, self._penalty.pseudo)
        self.current = Point(x, part, at.value, norm)

    def _step(self) -> Status | None:
        """A step along the minimum of the model; once more without a model before giving up."""
        previous = self.current
        given, self._remaining = self._remaining, None
        if given is not None and self._move(given) is SearchOutcome.FOUND:
            self._learn(previous)
            return None
        if self._orthant is not None:
            outcome, tried = self._move_in_orthant(self._orthant)
            if outcome is SearchOutcome.UNBOUNDED:
                return Status.UNBOUNDED
            if outcome is SearchOutcome.FOUND:
                self._learn(previous, shortened=tried > 1)
                return None
            self._leave_orthants(self._orthant)
        while True:
            outcome = self._move()
            if outcome is SearchOutcome.UNBOUNDED:
                return Status.UNBOUNDED
            if outcome is not SearchOutcome.FAILED:
                self._learn(previous)
                return None
            if not len(self._model):
                return Status.LINE_SEARCH
            self._model.clear()

    def _learn(self, previous: Point, *, shortened: bool = False) -> None:
        """Take in the step from the ``previous`` point."""
        now = self.current
        if self._orthant is None:
            self._model.append(now.x - previous.x, now.gradient - previous.gradient)
            return
        self._orthant.append(
            (now.x, previous.x),
            (now.gradient, previous.gradient),
            self._penalty.pseudo,
            now.value,
            shortened=shortened,
        )
        if self._orthant.slow:
            self._leave_orthants(self._orthant)

    def _evaluate(self, x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = super()._evaluate(x)
        # A set copies gradients that are not fresh.
        return value, gradient if self._fresh or self._set is not None else gradient.copy()

    def _accept(self, x: FloatArray, value: float, gradient: FloatArray) -> None:
        absolute, norm = self._penalty.look(x, gradient)
        self.current = Point(x, gradient, value + absolute, norm)

    def _leave_orthants(self, orthant: OrthantSteps) -> None:
        """Continue with proximal steps and what the others have learned about the curvature."""
        for step, change in orthant.pairs:
            self._model.append(step, change)
        self._orthant = None

    def _move_in_orthant(self, orthant: OrthantSteps) -> tuple[SearchOutcome, int]:
        """Step to a better point in the orthant of the pseudo-gradient; also the number of lengths tried."""
        at, pseudo = self.current, self._penalty.pseudo
        x = at.x
        direction = orthant.direction(x, pseudo)
        t = 1.0
        for tried in range(1, _SHORTER + 1):
            moved = step_in_orthant(x, pseudo, direction, t)
            value, gradient = self._evaluate(moved)
            if value == -math.inf:
                return SearchOutcome.UNBOUNDED, tried
            total = value + self._penalty.value(moved)
            promise = float(pseudo @ (moved - x))
            if promise < 0 and total <= at.value + SUFFICIENT_DECREASE * promise and np.isfinite(gradient).all():
                self._accept(moved, value, gradient)
                return SearchOutcome.FOUND, tried
            t *= 0.5
        return SearchOutcome.FAILED, _SHORTER

    def _move(self, given: FloatArray | None = None) -> SearchOutcome:
        """Step to a better point along the minimum of the model, or along a ``given`` step (n,)."""
        at, pseudo = self.current, self._penalty.pseudo
        free = self._penalty.free(at.x)
        x, gradient = at.x[free], at.gradient[free]
        # The scale is unknown before the first pair, so the step has about length 1.
        first_scale = 1.0 if self._scaled else max(1.0, float(np.sqrt(pseudo @ pseudo)))
        if given is None:
            step = self._penalty.lowest(self._model, free, gradient, x, first_scale, _FORCING * at.norm, _PASSES)
        else:
            step = given[free]
        if step is None:
            return SearchOutcome.FAILED
        trial: tuple[FloatArray, float, FloatArray] | None = None

        def evaluate(t: float) -> ProximalTrial:
            nonlocal trial
            moved = x + t * step
            whole = at.x.copy()
            whole[free] = moved
            value, moved_gradient = self._evaluate(whole)
            if value != -math.inf and not np.isfinite(moved_gradient).all():
                return ProximalTrial(math.nan, math.nan, math.nan)
            trial = whole, value, moved_gradient
            promise, arrival = self._penalty.slopes(free, x, moved, gradient, moved_gradient[free])
            return ProximalTrial(value + self._penalty.value(whole), promise, arrival)

        outcome = backtrack(evaluate, at.value, value_noise=self.value_noise)
        if outcome is SearchOutcome.FOUND and trial is not None:
            self._accept(*trial)
        return outcome


@dataclass(frozen=True)
class ProximalTrial:
    """A step tried: the value there, the decrease ``promise`` < 0 that the model's slope makes of it, and ``arrival``, the
    slope there times the length of the step.
    """

    value: float
    promise: float
    arrival: float


def backtrack(
    evaluate: Callable[[float], ProximalTrial], value: float, *, limit: int = 40, value_noise: float = 0.0
) -> SearchOutcome:
    """Shorten the step from 1 until the value falls by 1e-4 of the promise; ``evaluate(t)`` is the step t.

    Near an optimum the difference of two values drowns in rounding, and the slopes decide, as in `wolfe_search`. The last
    call of ``evaluate`` is at the step that was accepted.
    """
    step, noise = 1.0, max(VALUE_NOISE, value_noise) * abs(value)
    for _ in range(limit):
        trial = evaluate(step)
        if trial.value == -math.inf:
            return SearchOutcome.UNBOUNDED
        if not math.isfinite(trial.value):
            step *= 0.2
            continue
        falls = trial.value <= value + SUFFICIENT_DECREASE * trial.promise
        slopes_fall = trial.value <= value + noise and trial.arrival <= (2 * SUFFICIENT_DECREASE - 1) * trial.promise
        if trial.promise < 0 and (falls or slopes_fall):
            return SearchOutcome.FOUND
        # The minimum of the parabola through both values with the promised slope.
        excess = trial.value - value - trial.promise
        fraction = -trial.promise / (2.0 * excess) if excess > 0 else 0.5
        step *= min(max(fraction, 0.1), 0.5)
    return SearchOutcome.FAILED
