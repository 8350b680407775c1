"""Averaged stochastic gradients: close to the optimum after a few passes over the data, but never at it.

The objective is a sum over batches of samples plus ½ p ‖x‖². An epoch visits all batches in random order and takes a step
on each, at the rate η_t = η / (1 + η λ t) with λ = p / batches (Bottou, "Stochastic gradient descent tricks", 2012). The
result is the average of the points at the ends of the epochs, the e-th with a weight proportional to e (Shamir and Zhang,
"Stochastic gradient descent for non-smooth optimization", 2013). η is chosen on a tenth of the batches: of the rates 0.2 ·
2^k the one whose pass leaves the lowest value there, divided by two because the whole run is longer.
"""

from __future__ import annotations

import math
import time
from typing import Protocol

import numpy as np

from fieldfit.optim.descent import ValueGradient, start_point
from fieldfit.optim.keeping import Keeper, State, check_finite, read_history, refused_state, saved_history
from fieldfit.optim.solution import DEFAULT_MAX_ITER, Callback, Progress, Solution, Status
from fieldfit.types import FieldfitError, FloatArray, IntArray

#: An epoch that lowers the value by less than this fraction is the last.
SMALL_DECREASE = 3e-3
#: The first rate tried, the share of the batches that rates are tried on, and the batches at least.
_RATE, _SAMPLE, _LEAST_SAMPLE = 0.2, 0.1, 64
#: How often the rate is halved or doubled at most.
_HALVINGS = 40


class Batches(Protocol):
    """A sum over batches of samples, with steps on one batch at a time."""

    @property
    def n_batches(self) -> int:
        """The number of batches."""

    @property
    def precision(self) -> float:
        """p of the penalty ½ p ‖x‖²."""

    def walk(self, x: FloatArray, visits: IntArray, rates: FloatArray) -> float:
        """Take a step on each visited batch; x changes in place. The sum of their values, each before its step."""

    def value(self, x: FloatArray) -> float:
        """The objective at x, penalty included."""


def minimise_stochastic(
    fun: ValueGradient,
    batches: Batches,
    x0: FloatArray,
    *,
    seed: int = 0,
    gtol: float = 1e-5,
    max_iter: int = DEFAULT_MAX_ITER,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
) -> Solution:
    """Minimise the sum over ``batches``, of which ``fun(x)`` gives the value and the gradient, from x0 (n_parameters,).

    It stops after ``max_iter`` epochs, or when an epoch lowers the value by less than `SMALL_DECREASE` of it. That is no
    convergence, unless the gradient at the end is within ``gtol``. After each epoch the progress at the average is
    reported, without a gradient norm (NaN). A ``keeper`` gets the states at the ends of epochs, and may have one to
    continue from.
    """
    run = _Run(start_point(x0), batches, seed, callback, keeper)
    try:
        status = run.epochs(max_iter)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    finally:
        run.keep(last=True)
    average, history = run.average, run.history
    value, gradient = fun(average)
    norm = float(np.abs(gradient).max(initial=0.0))
    if norm <= gtol and status is not Status.INTERRUPTED:
        status = Status.CONVERGED
    return Solution(
        x=average,
        value=value,
        gradient=gradient.copy(),
        gradient_norm=norm,
        iterations=max(0, len(history) - 1),
        evaluations=len(history),
        hessian_products=0,
        seconds=time.perf_counter() - run.began,
        converged=status.converged,
        status=status,
        message=status.value,
        history=tuple(history),
    )


class _Run:
    """The points, the rate and the history of one run, and its state at the end of the last epoch."""

    def __init__(
        self, x: FloatArray, batches: Batches, seed: int, callback: Callback | None, keeper: Keeper | None
    ) -> None:
        self.began = time.perf_counter()
        self.average, self.history = x.copy(), list[Progress]()
        self._x, self._rate, self._batches = x, math.nan, batches
        self._random = np.random.default_rng([seed, 0x5D6])
        self._callback, self._keeper = callback, keeper
        self._state: State | None = None
        if keeper is not None and keeper.saved is not None:
            self._continue_from(keeper.saved)

    def epochs(self, max_iter: int) -> Status:
        """Visit all batches once for each epoch until a criterion holds."""
        batches, count = self._batches, self._batches.n_batches
        if not self.history:
            self._record(batches.value(self._x))
        while True:
            if self._told():
                return Status.CALLBACK
            self.keep(last=False)
            last = [line.value for line in self.history[-2:]]
            if len(last) == 2 and last[0] - last[1] <= SMALL_DECREASE * abs(last[1]):
                return Status.SMALL_DECREASE
            epoch = len(self.history)
            if epoch > max_iter:
                return Status.ITERATION_LIMIT
            if epoch == 1:
                self._rate = starting_rate(batches, self._x, self._random)
            decay = self._rate * batches.precision / max(count, 1)
            steps = np.arange((epoch - 1) * count, epoch * count)
            rates = (self._rate / (1.0 + decay * steps)).astype(np.float64)
            batches.walk(self._x, self._random.permutation(count), rates)
            self.average += (self._x - self.average) * (2.0 / (epoch + 1))
            value = batches.value(self.average)
            if not math.isfinite(value):
                return Status.NOT_FINITE
            self._record(value)

    def keep(self, *, last: bool) -> None:
        """Give the keeper the state at the end of the last epoch."""
        if self._keeper is not None and (state := self._state) is not None:
            self._keeper.keep(lambda: state, len(state["history"]) - 1, last=last)

    def _record(self, value: float) -> None:
        self.history.append(Progress(len(self.history), value, math.nan, time.perf_counter() - self.began))
        if self._keeper is not None:
            self._state = {
                "x": self._x.copy(),
                "average": self.average.copy(),
                "rate": np.array([self._rate]),
                "history": saved_history(self.history),
            }

    def _told(self) -> bool:
        view = self.average.view()
        view.flags.writeable = False
        return self._callback is not None and bool(self._callback(self.history[-1], view))

    def _continue_from(self, state: State) -> None:
        """Take the points, the rate and the history of a state, and draw what its epochs have drawn."""
        size = self._x.size
        with refused_state(size):
            points = [np.array(state[name], np.float64) for name in ("x", "average")]
            (rate,) = (float(number) for number in state["rate"])
            history = read_history(state)
            if any(point.shape != (size,) for point in points) or not history or (len(history) > 1) != (rate > 0):
                raise ValueError("shapes")
            check_finite(*points)
        self._x, self.average = points
        self._rate, self.history, self._state = rate, history, state
        self.began -= history[-1].seconds
        if len(history) > 1:
            for _ in history:  # the choice of the rate has drawn once, and each epoch
                self._random.permutation(self._batches.n_batches)


def starting_rate(batches: Batches, x: FloatArray, random: np.random.Generator) -> float:
    """The rate η for a run from x, chosen on some of the batches."""
    size = min(batches.n_batches, max(_LEAST_SAMPLE, int(_SAMPLE * batches.n_batches)))
    sample = random.permutation(batches.n_batches)[:size]
    still = np.zeros(size)

    def after(rate: float) -> float:
        moved = x.copy()
        batches.walk(moved, sample, np.full(size, rate))
        value = batches.walk(moved, sample, still)
        return value if math.isfinite(value) else math.inf

    begin = batches.walk(x.copy(), sample, still)
    best, lowest = _RATE, after(_RATE)
    # Rates that are far too large leave values that say nothing of each other: down first, until it is better to move
    # than to stay.
    for factor in (0.5, 2.0):
        for _ in range(_HALVINGS):
            value = after(best * factor)
            if not (value < lowest or lowest > begin):
                break
            best, lowest = best * factor, value
        if best < _RATE:
            break
    if lowest == math.inf:
        raise FieldfitError(
            f"Stochastic gradients found no rate that keeps the objective finite, down to {best:g}. Use method='lbfgs', or "
            "scale the features."
        )
    return 0.5 * best
