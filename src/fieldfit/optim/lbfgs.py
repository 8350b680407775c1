"""Limited-memory BFGS for any number of parameters, with a preconditioner.

In the common case an iteration is one evaluation of the objective and two passes over the history (`memory`), all in
compiled code. Pairs without positive curvature are left out, so a function that is not convex is safe. Besides the history
it holds five vectors at a time, or six with an operator for a preconditioner that is not cheap (`is_cheap`).
"""

from __future__ import annotations

import math

import numpy as np

from fieldfit import _kernels
from fieldfit.optim.descent import Descent, Point, ValueGradient, start_point
from fieldfit.optim.keeping import Keeper, State, check_finite
from fieldfit.optim.line_search import SearchOutcome, wolfe_search
from fieldfit.optim.memory import Memory
from fieldfit.optim.preconditioner import (
    STAGES,
    InverseProduct,
    Preconditioner,
    StagedPreconditioner,
    checked_operator,
    is_cheap,
    split_preconditioner,
)
from fieldfit.optim.settling import Settling
from fieldfit.optim.solution import DEFAULT_MAX_ITER, Callback, Solution, Status
from fieldfit.threads import get_threads
from fieldfit.types import FieldfitError, FloatArray

#: Default number of pairs.
PAIRS = 10
_NONE: FloatArray = np.empty(0)


def minimise_lbfgs(
    fun: ValueGradient,
    x0: FloatArray,
    *,
    gtol: float = 1e-5,
    ftol: float = 0.0,
    max_iter: int = DEFAULT_MAX_ITER,
    history: int = PAIRS,
    preconditioner: Preconditioner | None = None,
    fresh: bool = False,
    value_noise: float = 0.0,
    settling: Settling | None = None,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
) -> Solution:
    """Minimise fun(x) from x0 (n_parameters,), where ``fun(x)`` gives (value, gradient).

    It has converged when max |gradient| ≤ ``gtol``, or, with ``ftol`` > 0, when an iteration lowers the value by at
    most ftol · max(|value|, 1). ``history`` is the number of pairs kept; ``preconditioner`` the diagonal of an
    approximate Hessian or a callable v ↦ M⁻¹v. ``fun`` must not keep the array it is given: later calls overwrite it.
    ``fresh`` says that it returns a new array for the gradient each time, which is then kept without a copy.
    ``value_noise`` is the relative error of the values: differences below it are left to the slopes. ``settling`` says
    which points below ``gtol`` are optima; None: all. A KeyboardInterrupt inside ``fun`` ends the run at the last
    accepted point.
    """
    if history < 1:
        raise FieldfitError(f"L-BFGS needs a history of at least 1 pair; got {history}.")
    x = start_point(x0)
    staged = preconditioner if isinstance(preconditioner, StagedPreconditioner) else None
    first = preconditioner if staged is None else staged.first
    diagonal, operator = split_preconditioner(first, x.size)
    descent = _Descent(fun, x, callback, Memory(x.size, history, diagonal), diagonal is not None, operator, staged)
    descent.fresh, descent.cheap, descent.value_noise = fresh, is_cheap(first), value_noise
    descent.settling = settling
    return descent.minimise(gtol, ftol, max_iter, keeper)


class _Descent(Descent):
    """Holds the trial point and the memory as well.

    ``fresh``: gradients are new arrays and need no copy. ``cheap``: the operator is applied twice in an iteration, and its
    image of the gradient is not kept.
    """

    fresh = cheap = False

    def __init__(
        self,
        fun: ValueGradient,
        x: FloatArray,
        callback: Callback | None,
        memory: Memory,
        scaled: bool,
        operator: InverseProduct | None,
        staged: StagedPreconditioner | None,
    ) -> None:
        super().__init__(fun, x, callback)
        self._staged = staged
        self._steps = 0
        self._memory = memory
        self._scaled = scaled or operator is not None
        self._operator = operator
        self._trial = Point(np.empty(x.size), _NONE)
        self._trial_norm = math.nan
        self._direction = _NONE
        self._image: FloatArray | None = None  # M⁻¹ times the gradient, with an operator that is not cheap
        self._stage: FloatArray | None = None  # where the better preconditioner was made

    def step(self, gtol: float) -> Status | None:
        """A line search along the memory's direction; once more along the gradient before giving up."""
        self._refresh()
        while True:
            given, self._remaining = self._remaining, None
            outcome, value = self._search(given)
            if outcome is SearchOutcome.UNBOUNDED:
                return Status.UNBOUNDED
            if outcome is not SearchOutcome.FAILED:
                self._accept(value)
                return None
            if given is not None:
                continue
            if not len(self._memory):
                return Status.LINE_SEARCH
            self._memory.clear()

    @property
    def metric(self) -> Preconditioner | None:
        """The preconditioner of the descent."""
        return self._memory.diagonal if self._operator is None else self._operator

    def begin(self) -> bool:
        """Evaluate the start; false if the value or the gradient is not finite."""
        x = self.current.x
        value, gradient = self._own(*self._evaluate(x))
        _, norm, finite = _kernels.keep_gradient(gradient, None, kept=gradient, n_threads=get_threads())
        self.current = Point(x, gradient, value, norm)
        self._apply()
        return finite and math.isfinite(value)

    def own_state(self) -> State:
        """The pairs, and where the preconditioner was made."""
        stage = {} if self._stage is None else {"stage": self._stage}
        return {"lbfgs": np.empty(0), **self._memory.state(), **stage}

    def take_state(self, state: State) -> None:
        """The same pairs; the preconditioner is made again where it was made."""
        state["lbfgs"]  # another method has none
        self._memory.restore(state)
        self._steps = len(self._history) - 1
        if "stage" in state and self._staged is not None:
            self._stage = np.array(state["stage"], dtype=np.float64)
            check_finite(self._stage)
            later = self._staged.later(self._stage)
            if later is not None:
                self._use(later)
        self._apply()

    def _use(self, operator: InverseProduct) -> None:
        """Precondition by another operator from now on."""
        self._operator, self.cheap = checked_operator(operator, self.current.x.size), is_cheap(operator)

    def _apply(self) -> None:
        """M⁻¹ times the gradient of the current point, where M is an operator."""
        self._image = None  # a new one takes its place, not the place of both
        if self._operator is not None and not self.cheap:
            self._image = self._operator(self.current.gradient)

    def _own(self, value: float, gradient: FloatArray) -> tuple[float, FloatArray]:
        """The gradient as an array that nothing else writes to."""
        return value, gradient if self.fresh else gradient.copy()

    def _refresh(self) -> None:
        """Ask for a better preconditioner where it is time for one; pairs scaled by the old one are forgotten."""
        self._steps += 1
        if self._staged is None or self._steps - 1 not in STAGES:
            return
        later = self._staged.later(self.current.x)
        if later is not None:
            self._stage = self.current.x.copy()
            self._use(later)
            self._memory.clear()
            self._apply()

    def _search(self, given: FloatArray | None) -> tuple[SearchOutcome, float]:
        """Find a better point and leave it in the trial buffers; also gives its value.

        The direction is that of the memory unless one is ``given``.
        """
        slope = self._turn() if given is None else self._turn_to(given)
        if not slope < 0 or not math.isfinite(slope):
            return SearchOutcome.FAILED, math.nan
        # The scale is unknown before the first pair, so the step has length 1.
        known = given is not None or self._scaled or len(self._memory)
        first = 1.0 if known else min(1.0, 1.0 / math.sqrt(-slope))
        value = math.nan

        def evaluate(step: float) -> tuple[float, float]:
            nonlocal value
            if step != 1.0 or moved:
                _kernels.step_along(
                    self.current.x, self._direction, step, trial=self._trial.x, n_threads=get_threads()
                )
            moved.append(step)
            self._trial = Point(self._trial.x, _NONE)
            value, gradient = self._own(*self._evaluate(self._trial.x))
            slope, self._trial_norm, finite = _kernels.keep_gradient(
                gradient, self._direction, kept=gradient, n_threads=get_threads()
            )
            self._trial = Point(self._trial.x, gradient)
            if not finite and value != -math.inf:
                return math.nan, math.nan
            return value, slope

        moved: list[float] = []
        _, outcome = wolfe_search(evaluate, self.current.value, slope, first, value_noise=self.value_noise)
        return outcome, value

    def _accept(self, value: float) -> None:
        """Move to the trial point and take the pair into the memory."""
        old = self.current
        self.current = Point(self._trial.x, self._trial.gradient, value, self._trial_norm)
        self._trial = Point(old.x, _NONE)
        change = np.subtract(self.current.gradient, old.gradient, out=old.gradient)
        image = self._image
        if self._operator is not None:
            self._direction = _NONE
            if self.cheap:
                image = self._operator(change)
            elif image is not None:
                self._image = self._operator(self.current.gradient)
                np.subtract(self._image, image, out=image)
        self._memory.append((self.current.x, old.x), change, self.current.gradient, image)

    def _turn(self) -> float:
        """Take the direction of the memory; returns the slope along it. The trial point is at its end."""
        image = self._image
        if self.cheap and self._operator is not None:
            self._direction = _NONE
            image = self._direction = self._operator(self.current.gradient)
        elif not self._direction.size:
            self._direction = np.empty(self.current.x.size)
        return self._memory.direction(
            self.current.x,
            self.current.gradient,
            image,
            self._direction,
            self._trial.x,
        )

    def _turn_to(self, direction: FloatArray) -> float:
        """Take a direction that is given."""
        self._direction = direction
        np.add(self.current.x, direction, out=self._trial.x)
        return _kernels.inner_product(self.current.gradient, direction, n_threads=get_threads())
