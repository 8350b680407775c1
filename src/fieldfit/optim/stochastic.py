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
from fieldfit.optim.solution import Callback, Progress, Solution, Status
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
    max_iter: int = 1000,
    callback: Callback | None = None,
) -> Solution:
    """Minimise the sum over ``batches``, of which ``fun(x)`` gives the value and the gradient, from x0 (n_parameters,).

    It stops after ``max_iter`` epochs, or when an epoch lowers the value by less than `SMALL_DECREASE` of it. That is no
    convergence, unless the gradient at the end is within ``gtol``. After each epoch the progress at the average is
    reported, without a gradient norm (NaN).
    """
    began = time.perf_counter()
    x = start_point(x0)
    random = np.random.default_rng([seed, 0x5D6])
    average, history = x.copy(), list[Progress]()
    status = Status.ITERATION_LIMIT

    def told(value: float) -> bool:
        history.append(Progress(len(history), value, math.nan, time.perf_counter() - began))
        view = average.view()
        view.flags.writeable = False
        return callback is not None and bool(callback(history[-1], view))

    try:
        if told(batches.value(x)):
            status, max_iter = Status.CALLBACK, 0
        rate = starting_rate(batches, x, random) if max_iter else 0.0
        count = batches.n_batches
        decay = rate * batches.precision / max(count, 1)
        for epoch in range(1, max_iter + 1):
            steps = np.arange((epoch - 1) * count, epoch * count)
            batches.walk(x, random.permutation(count), (rate / (1.0 + decay * steps)).astype(np.float64))
            average += (x - average) * (2.0 / (epoch + 1))
            previous, value = history[-1].value, batches.value(average)
            if not math.isfinite(value):
                status = Status.NOT_FINITE
                break
            if told(value):
                status = Status.CALLBACK
                break
            if previous - value <= SMALL_DECREASE * abs(value):
                status = Status.SMALL_DECREASE
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
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
        seconds=time.perf_counter() - began,
        converged=status.converged,
        status=status,
        message=status.value,
        history=tuple(history),
    )


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
