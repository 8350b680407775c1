"""A step length that satisfies the strong Wolfe conditions, usually the first one tried.

Along φ(t) = f(x + t d) with φ'(0) < 0 it looks for φ(t) ≤ φ(0) + c₁ t φ'(0) and |φ'(t)| ≤ c₂ |φ'(0)|. The bracket
[lower, upper] keeps a lower end that satisfies the first condition and still falls steeply, and an upper end that
violates it, rises, or is not finite; such a bracket always holds an acceptable step. Near an optimum the
difference of two values drowns in rounding, so the slope decides there ("approximate Wolfe conditions", Hager and
Zhang, "A new conjugate gradient method with guaranteed descent and an efficient line search", 2005).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

#: Least decrease of the value, as a share of what the slope predicts, and largest remaining share of the slope.
SUFFICIENT_DECREASE, _CURVATURE = 1e-4, 0.9
#: Relative differences of values below this are rounding.
VALUE_NOISE = 1e-10


class SearchOutcome(Enum):
    """How a line search ended."""

    FOUND = "found"
    FAILED = "failed"
    UNBOUNDED = "unbounded"


@dataclass(frozen=True)
class Trial:
    """A step with the value and the slope there."""

    step: float
    value: float
    slope: float

    @property
    def finite(self) -> bool:
        """Whether both the value and the slope are numbers."""
        return math.isfinite(self.value) and math.isfinite(self.slope)


def wolfe_search(
    evaluate: Callable[[float], tuple[float, float]],
    value: float,
    slope: float,
    step: float,
    *,
    limit: int = 40,
    value_noise: float = 0.0,
) -> tuple[Trial, SearchOutcome]:
    """Search from ``step``, where ``evaluate(t)`` gives φ(t) and φ'(t); at most ``limit`` evaluations.

    ``value_noise`` is the relative error of the values, where they are less accurate than double precision.
    The last call of ``evaluate`` is at the step that is returned, unless the search failed.
    """
    start = Trial(0.0, value, slope)
    lower, upper = start, None
    noise = max(VALUE_NOISE, value_noise) * abs(value)
    width = math.inf
    for _ in range(limit):
        trial = Trial(step, *evaluate(step))
        if trial.value == -math.inf:
            return trial, SearchOutcome.UNBOUNDED
        if not trial.finite or not _decreases(trial, start, noise):
            upper = trial
        elif abs(trial.slope) <= _CURVATURE * abs(slope):
            return trial, SearchOutcome.FOUND
        elif trial.slope > 0:
            upper = trial
        else:
            previous, lower = lower, trial
        if upper is None:
            step = _extrapolate(previous, lower)
            if not math.isfinite(step):
                return lower, SearchOutcome.UNBOUNDED
            continue
        if upper.step - lower.step <= 1e-15 * upper.step:
            break
        step = _interpolate(lower, upper)
        if upper.step - lower.step > 0.66 * width:  # the interpolation does not shrink the bracket enough: halve
            step = lower.step + 0.5 * (upper.step - lower.step)
        width = upper.step - lower.step
    if upper is None:
        return lower, SearchOutcome.UNBOUNDED
    if not lower.value < value:
        return start, SearchOutcome.FAILED
    # It falls enough, though it is still steep; evaluate again so that the caller's buffers belong to it.
    return Trial(lower.step, *evaluate(lower.step)), SearchOutcome.FOUND


def _decreases(trial: Trial, start: Trial, noise: float) -> bool:
    if trial.value <= start.value + SUFFICIENT_DECREASE * trial.step * start.slope:
        return True
    return trial.value <= start.value + noise and trial.slope <= (2 * SUFFICIENT_DECREASE - 1) * start.slope


def _extrapolate(previous: Trial, last: Trial) -> float:
    """Where the secant of the slopes meets 0, at 2 to 10 times the last step."""
    bend = last.slope - previous.slope
    step = last.step - last.slope * (last.step - previous.step) / bend if bend > 0 else math.inf
    return min(max(step, 2.0 * last.step), 10.0 * last.step)


def _interpolate(lower: Trial, upper: Trial) -> float:
    """The minimum of the cubic through both ends, kept a tenth of the bracket away from them."""
    width = upper.step - lower.step
    if not upper.finite:
        return lower.step + 0.2 * width
    chord = (upper.value - lower.value) / width
    bend = lower.slope + upper.slope - 3.0 * chord
    inside = bend * bend - lower.slope * upper.slope
    fraction = 0.5
    if inside >= 0:
        root = math.sqrt(inside)
        below = upper.slope - lower.slope + 2.0 * root
        if below != 0.0:
            fraction = 1.0 - (upper.slope + root - bend) / below
    return lower.step + width * min(max(fraction, 0.1), 0.9)
