"""What all descents share: the loop, the stopping criteria, the counts of work and the Solution.

The current point is one object, so that an interrupt never sees half of a change.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.optim.keeping import Keeper, State, check_finite, read_history, refused_state, saved_history
from fieldfit.optim.preconditioner import Preconditioner
from fieldfit.optim.remaining import NewtonStep, Remainder, Spending
from fieldfit.optim.settling import Settling
from fieldfit.optim.solution import Callback, Progress, Solution, Status
from fieldfit.types import FieldfitError, FloatArray, IntArray

#: x ↦ (value, gradient), to be minimised. The gradient may live in a buffer that the next call overwrites.
ValueGradient = Callable[[FloatArray], tuple[float, FloatArray]]

#: Iterations that lower neither the value, by more than this share of it, nor the gradient norm are the work of rounding.
_STALLED, _ROUNDING = 20, 1e-14
#: A point that is not settled lowers the tolerance to this share of what the step along the gradient lets expect, and at
#: least to this share of it.
_CLOSER, _FURTHEST = 0.5, 0.01
#: Iterations between the Newton steps of a long descent, where the Hessian is affordable.
_PATIENCE = 64
#: What Newton steps may cost where the descent would end without them, in units of its own work.
_STUCK = 8
#: More evaluations than any descent makes.
_MOST_EVALUATIONS = 2**53


def start_point(x0: FloatArray) -> FloatArray:
    """A copy of x0 as a contiguous vector of doubles; refuses other shapes and numbers that are not finite."""
    x = np.array(x0, dtype=np.float64, order="C")
    if x.ndim != 1:
        raise FieldfitError(f"The start x0 must be a vector; it has shape {x.shape}.")
    if not np.isfinite(x).all():
        raise FieldfitError(f"The start x0 must be finite; entry {int(np.argmin(np.isfinite(x)))} is not.")
    return x


@dataclass(frozen=True)
class Point:
    """A point with what is known there.

    Under an L1 penalty ``value`` has the penalty in it, ``gradient`` is that of the smooth part and ``norm`` that of the
    pseudo-gradient.
    """

    x: FloatArray
    gradient: FloatArray
    value: float = math.nan
    norm: float = math.nan


@dataclass(frozen=True)
class _Account:
    """What a descent has done when it came to a point, before the point was judged.

    ``target`` is None as long as no point below the tolerance was unsettled.
    """

    evaluations: int
    hessian_products: int
    target: float | None
    before: tuple[float, float]
    spending: Spending


class Descent(ABC):
    """One run: the current point and the account of the work. A method says how it begins and what a step is.

    ``value_noise`` is the relative error of the values, where they are less accurate than double precision. ``settling``
    says when a point below the tolerance is an optimum; None: always.
    """

    value_noise = 0.0
    settling: Settling | None = None

    def __init__(self, fun: ValueGradient, x: FloatArray, callback: Callback | None) -> None:
        self.current = Point(x, np.full(x.size, np.nan))
        self._fun = fun
        self._callback = callback
        self._start = time.perf_counter()
        self._evaluations = 0
        self._hessian_products = 0
        self._history: list[Progress] = []
        self._target = 0.0  # the tolerance for the gradient norm
        self._unsettled = False  # whether a point below it was not an optimum
        self._remaining: FloatArray | None = None  # a Newton step that is still to be made
        self.spending = Spending()
        self._before = (
            math.inf,
            math.inf,
        )  # the value at the last point that was not an optimum, and the length of that step
        self._account = self._present()
        self._keeper: Keeper | None = None
        self._whole: Point | None = None  # the point at which all that the method remembers belongs together

    @abstractmethod
    def begin(self) -> bool:
        """Evaluate the start; false if the value or the gradient is not finite there."""

    @abstractmethod
    def step(self, gtol: float) -> Status | None:
        """Move `current` to a better point, or say why that cannot be done."""

    @abstractmethod
    def own_state(self) -> State:
        """What the method remembers between two iterations besides the point."""

    @abstractmethod
    def take_state(self, state: State) -> None:
        """Remember what `own_state` gave; `current` is set already, with all coordinates."""

    def spread(self, part: FloatArray) -> FloatArray:
        """The vector of all coordinates, for a method whose points have some of them only: 0 elsewhere."""
        return part

    @property
    def places(self) -> IntArray | None:
        """The coordinates that the points have, for a method whose points have some of them only; None: all."""
        return None

    @property
    def slope(self) -> FloatArray:
        """The gradient at the current point, with all penalties."""
        return self.current.gradient

    @property
    def metric(self) -> Preconditioner | None:
        """A preconditioner for conjugate gradients at the current point."""
        return None

    def slope_change(self, x: FloatArray) -> FloatArray:
        """The gradient at a point that is not accepted minus that at the current one, with all penalties."""
        return self._evaluate(x)[1] - self.current.gradient

    def product(self, v: FloatArray, settling: Settling) -> FloatArray:
        """Hv at the current point, from the difference of gradients over a short way."""
        length = settling.probe(self.current.x, v)
        return self.slope_change(self.current.x + length * v) / length if length > 0 else np.zeros(len(v))

    def newton_step(self, settling: Settling, *, exact: bool = False, share: int = 1) -> NewtonStep | None:
        """The Newton step at the current point; None where it is too expensive or cannot be computed.

        ``exact``: by the Hessian only. It may cost ``share`` times the descent's own work.
        """
        at, work = self.current, share * self.own_work
        remainder = Remainder(
            settling, at.x, self.slope, lambda v: self.product(v, settling), self.metric, work, self.spending
        )
        return remainder.exact_step() if exact else remainder.step()

    @property
    def own_work(self) -> int:
        """Evaluations and products without those for Newton steps."""
        return self._evaluations + self._hessian_products - self.spending.products

    def minimise(self, gtol: float, ftol: float, max_iter: int, keeper: Keeper | None = None) -> Solution:
        """Descend until a criterion holds or the user interrupts; the last accepted point either way.

        With a ``keeper`` the descent continues from its saved state, whose last iteration is reported to the callback once
        more. The keeper gets each new state and, however the descent ends, the last one.
        """
        self._keeper = keeper
        try:
            status = self._iterate(gtol, ftol, max_iter)
            if status in (Status.LINE_SEARCH, Status.ROUNDING) and self._unsettled and self.current.norm <= gtol:
                status = Status.CONVERGED  # as near to the optimum as rounding permits, and within the tolerance
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        finally:
            self._keep(last=True)
        at = self.current
        return Solution(
            x=self.spread(at.x),
            value=at.value,
            gradient=self.spread(at.gradient),
            gradient_norm=at.norm,
            iterations=max(0, len(self._history) - 1),
            evaluations=self._evaluations,
            hessian_products=self._hessian_products,
            seconds=time.perf_counter() - self._start,
            converged=status.converged,
            status=status,
            message=status.value,
            history=tuple(self._history),
        )

    def _iterate(self, gtol: float, ftol: float, max_iter: int) -> Status:
        self._target = gtol
        saved = None if self._keeper is None else self._keeper.saved
        if saved is not None:
            self._restore(saved)
            if self._told():  # the state may be from before the last iteration was reported
                return Status.CALLBACK
            if self._has_ended():
                return Status.ROUNDING
        elif not self.begin():
            return Status.NOT_FINITE
        elif self._recorded():
            return Status.CALLBACK
        for _ in range(len(self._history) - 1, max_iter):
            if self.current.norm <= self._target and self._settled():
                return Status.CONVERGED
            if len(self._history) % _PATIENCE == 0 and self._remaining is None:
                newton = (
                    None if self.settling is None else self.newton_step(self.settling.part(self.places), exact=True)
                )
                self._remaining = None if newton is None else newton.step
            previous = self.current.value
            status = self.step(self._target)
            if status is Status.LINE_SEARCH and self._turned():
                status = self.step(self._target)
            if status is not None:
                return status
            if self._recorded():
                return Status.CALLBACK
            value = self.current.value
            small = ftol > 0 and math.isfinite(value)
            small = small and previous - value <= ftol * max(abs(previous), abs(value), 1.0)
            if small and self.current.norm > self._target:
                return Status.SMALL_CHANGE
            if self._has_ended():
                return Status.ROUNDING
        return Status.CONVERGED if self.current.norm <= self._target and self._settled() else Status.ITERATION_LIMIT

    def _settled(self) -> bool:
        """Whether the current point, whose gradient is below the tolerance, is an optimum.

        If not, there is a Newton step to be made, or a smaller tolerance.
        """
        if self.settling is None:
            return True
        at, slope, settling = self.current, self.slope, self.settling.part(self.places)
        step = settling.step(at.x, slope)
        if step is None:
            return True
        newton = self.newton_step(settling) if settling.has_newton_steps else None
        if newton is not None:
            self._remaining = None
            if settling.is_long(at.x, newton.step, exact=newton.exact):
                self._remaining = None if self._in_rounding(settling.length(at.x, newton.step)) else newton.step
            self._unsettled |= self._remaining is not None
            return self._remaining is None
        gone = settling.progress(slope, step, self.slope_change(at.x + step))
        if not gone < 1:
            return True
        self._unsettled, self._target = True, _CLOSER * max(gone, _FURTHEST) * at.norm
        return False

    def _in_rounding(self, length: float) -> bool:
        """Whether a Newton step of this ``length`` is the work of rounding: the one before had no effect."""
        value, before = self._before
        self._before = self.current.value, length
        return before <= 2 * length and value - self.current.value <= _ROUNDING * abs(value)

    def _has_ended(self) -> bool:
        """Whether rounding ends the descent above the tolerance."""
        return self.current.norm > self._target and self._stalled() and not self._turned()

    def _turned(self) -> bool:
        """Whether there is a Newton step to be made where the method's own steps have no effect any more."""
        if self.settling is None:
            return False
        settling = self.settling.part(self.places)
        newton = self.newton_step(settling, exact=True, share=_STUCK)
        if newton is None or self._in_rounding(settling.length(self.current.x, newton.step)):
            return False
        self._remaining, self._unsettled = newton.step, True
        return True

    def _stalled(self) -> bool:
        """Whether the last iterations lowered neither the value, beyond rounding, nor the gradient norm."""
        recent = self._history[-2 * _STALLED - 1 :]
        if len(recent) <= 2 * _STALLED:
            return False
        before, after = recent[: _STALLED + 1], recent[_STALLED + 1 :]
        fallen = before[-1].value - after[-1].value
        return fallen <= _ROUNDING * abs(after[-1].value) and (
            min(line.gradient_norm for line in after) >= min(line.gradient_norm for line in before)
        )

    def _recorded(self) -> bool:
        """Add a line to the history and call the callback; true if it returns a request to stop."""
        at = self.current
        seconds = time.perf_counter() - self._start
        self._history.append(Progress(len(self._history), at.value, at.norm, seconds, self._target))
        self._whole, self._account = at, self._present()
        told = self._told()
        self._keep(last=False)
        return told

    def _told(self) -> bool:
        """Call the callback with the last line of the history; true if it returns a request to stop."""
        if self._callback is None or not self._history:
            return False
        view = self.spread(self.current.x).view()
        view.flags.writeable = False
        return bool(self._callback(self._history[-1], view))

    def _keep(self, *, last: bool) -> None:
        """Tell the keeper, unless an interrupt came in the middle of a step that was being accepted."""
        if self._keeper is not None and self._whole is self.current:
            self._keeper.keep(self._state, len(self._history) - 1, last=last)

    def _present(self) -> _Account:
        return _Account(
            self._evaluations,
            self._hessian_products,
            self._target if self._unsettled else None,
            self._before,
            replace(self.spending),
        )

    def _state(self) -> State:
        at, account = self.current, self._account
        return {
            "x": self.spread(at.x).copy(),
            "gradient": self.spread(at.gradient).copy(),
            "point": np.array([at.value, at.norm]),
            "work": np.array([account.evaluations, account.hessian_products], dtype=np.int64),
            "spending": np.array([account.spending.products, account.spending.hessians]),
            "history": saved_history(self._history),
            **({} if account.target is None else {"target": np.array([account.target, *account.before])}),
            **self.own_state(),
        }

    def _restore(self, state: State) -> None:
        size = self.current.x.size
        with refused_state(size):
            x, gradient = state["x"], state["gradient"]
            self._history = read_history(state, self._target)
            if x.shape != (size,) or gradient.shape != (size,):
                raise ValueError("shapes")
            value, norm = state["point"].tolist()
            self.current = Point(np.array(x, np.float64), np.array(gradient, np.float64), float(value), float(norm))
            check_finite(x, gradient, state["point"])
            self._evaluations, self._hessian_products = (int(count) for count in state["work"])
            if not all(0 <= count < _MOST_EVALUATIONS for count in (self._evaluations, self._hessian_products)):
                raise ValueError("counts of work")
            products, hessians = (float(number) for number in state["spending"])
            if not (0 <= products <= sum(state["work"]) and 0 <= hessians < _MOST_EVALUATIONS):
                raise ValueError("what Newton steps have cost")
            self.spending = Spending(int(products), hessians)
            if "target" in state:
                target, *before = (float(number) for number in state["target"])
                check_finite(state["target"][:1])
                self._before = before[0], before[1]
                self._unsettled, self._target = True, min(self._target, max(float(target), 0.0))
            self.take_state(state)
        self._start -= self._history[-1].seconds if self._history else 0.0
        self._whole, self._account = self.current, self._present()

    def _evaluate(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The value and the gradient at x, as a float and a contiguous vector of doubles."""
        self._evaluations += 1
        value, gradient = self._fun(x)
        gradient = np.ascontiguousarray(gradient, dtype=np.float64)
        if gradient.shape != (x.size,):
            raise FieldfitError(
                f"The objective returned a gradient of shape {gradient.shape}; with {x.size} parameters it must "
                f"have shape ({x.size},)."
            )
        return float(value), gradient
