"""The result of an optimiser: the point, the counts of work, and why it stopped.

Every optimiser here minimises. It sees callables only and knows no model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from fieldfit.types import FloatArray

#: Largest entry of the gradient for each sample, in units of the features, at which a fit has converged by default.
DEFAULT_TOL = 1e-6
#: Iterations of a fit at most.
DEFAULT_MAX_ITER = 1000


class Status(Enum):
    """Why an optimiser stopped; the value is the message for the user."""

    CONVERGED = "converged: gradient norm below tolerance"
    SMALL_CHANGE = "converged: relative change of the value below tolerance"
    ITERATION_LIMIT = "stopped: iteration limit"
    SMALL_DECREASE = "stopped: stochastic gradients lower the value by less than 0.3% in an epoch"
    INTERRUPTED = "stopped: interrupted"
    CALLBACK = "stopped by the callback"
    LINE_SEARCH = "stopped: line search could not improve"
    ROUNDING = "stopped: rounding errors prevent further progress; the tolerance is too small"
    NOT_FINITE = "stopped: value is not finite"
    UNBOUNDED = "stopped: the value decreases without bound"

    @property
    def converged(self) -> bool:
        """Whether a convergence criterion held."""
        return self in (Status.CONVERGED, Status.SMALL_CHANGE)


@dataclass(frozen=True)
class Progress:
    """One line of the history: the state after `iteration` iterations (0 is the start).

    ``gradient_norm`` is max |gradient| (of the pseudo-gradient under an L1 penalty); ``seconds`` since the start;
    ``tolerance`` is the gradient norm at which the method stops, 0 where that is not known.
    """

    iteration: int
    value: float
    gradient_norm: float
    seconds: float
    tolerance: float = field(default=0.0, compare=False, repr=False)

    @property
    def saved(self) -> tuple[float, float, float, float]:
        """What files keep of it."""
        return self.iteration, self.value, self.gradient_norm, self.seconds


#: Called after each iteration with the progress and the current point, a read-only view that later iterations
#: overwrite. A true answer stops the optimiser.
Callback = Callable[[Progress, FloatArray], object]


@dataclass(frozen=True)
class Solution:
    """The best point found, with the gradient there and an account of the work.

    ``value`` includes the L1 penalty where there is one; ``gradient`` (n_parameters,) is that of the smooth part, and
    ``gradient_norm`` the max-norm that was compared with the tolerance.
    """

    x: FloatArray = field(repr=False)
    value: float
    gradient: FloatArray = field(repr=False)
    gradient_norm: float
    iterations: int
    evaluations: int
    hessian_products: int
    seconds: float
    converged: bool
    status: Status
    message: str
    history: tuple[Progress, ...] = field(repr=False)

    @classmethod
    def interrupted_at(cls, x: FloatArray) -> Solution:
        """An interrupt before anything was evaluated: the value and the gradient at x are not known (NaN)."""
        status, unknown = Status.INTERRUPTED, np.full(len(x), np.nan)
        return cls(x, np.nan, unknown, np.nan, 0, 0, 0, 0.0, False, status, status.value, ())

    def uninterrupted(self) -> Solution:
        """The solution, for callers that need the optimum: KeyboardInterrupt if Ctrl-C ended the descent."""
        if self.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return self
