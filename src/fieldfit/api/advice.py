"""What warnings of a fit advise, with the names of the caller's options.

`fit` has `max_iter` and `sigma2`. Functions that call it may have other options for the same things. They state their own
advice for the fits in a block:

    with advised(Advice(iterations="max_iterations", penalty="a penalty (c2)")):
        …
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_RUNAWAY = (
    "FL, where it is possible ('PL1 >> FL' is quicker), has the means of the data. A stronger penalty (a smaller sigma2, "
    "or l1) may keep the model near them: compare several values. A second stage ('PL1 >> optimal') may not help by "
    "itself: it starts from the first estimate, so it may need the stronger penalty too."
)


@dataclass(frozen=True)
class Advice:
    """Advice for users of one function.

    ``iterations`` is the name of an option, ``penalty`` says which penalty to give. ``rounding`` and ``runaway`` say what
    to do about a fit that rounding errors stopped and about a model that runs away from the data. If ``limit_is_chosen``,
    the user gave the largest number of iterations, and a fit that reaches it does not warn.
    """

    iterations: str = "max_iter"
    penalty: str = "a penalty (sigma2)"
    rounding: str = "Give a larger tolerance (tol)."
    runaway: str = _RUNAWAY
    limit_is_chosen: bool = False

    def to_converge(self, *, rounding: bool) -> str:
        """What helps a fit to converge; ``rounding``: it stopped because rounding errors hide any further decrease."""
        if rounding:
            return self.rounding
        return f"Give more iterations ({self.iterations}), {self.penalty}, or check the data."


#: The advice of `fit`.
_OF_FIT = Advice()
_current: ContextVar[Advice | None] = ContextVar("advice", default=None)


def current_advice() -> Advice:
    """The advice of the innermost `advised` block, or that of `fit`."""
    return _current.get() or _OF_FIT


@contextmanager
def advised(advice: Advice) -> Iterator[None]:
    """Fits in this block give this advice."""
    token = _current.set(advice)
    try:
        yield
    finally:
        _current.reset(token)
