"""Whether a penalised fit may end at a point whose gradient is below the tolerance.

The tolerance grows with the number of samples, the penalty does not. With very many samples that agree, all probabilities
are nearly 0 or 1 and only the penalty holds the parameters where they are; its own gradient is then below the tolerance,
which says nothing about θ. So a step along the gradient is tried that changes parameters by a small share of themselves: at
an optimum that is settled, the objective has begun to rise by the end of it. With ordinary data it always has. Parameters
without a penalty are left out, because their optimum may lie at infinity.

The gradient also has parts in directions that the data determine well. These parts are as large as the others where a
configuration never occurs, and then their curvature hides the rest. So the last step must have been short too, and the
same is tried along the method's own next step, if it knows one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.types import BoolArray, FloatArray, IntArray

#: The share that belongs to a tolerance for the gradient per sample, in units of that.
SHARE_OF_TOL = 10.0
#: The length of the last step and of the next one at an optimum, in units of the share.
_LAST, _NEXT = 1000.0, 100.0
#: Below it, lengths of steps are the work of rounding.
_LEAST_SHARE = 1e-9


@dataclass(frozen=True)
class Settling:
    """How far penalised parameters may still be from the optimum.

    Parameters
    ----------
    penalised
        (n,) which coordinates have a penalty.
    precision
        (n,) the part of the curvature that a quadratic penalty adds; may be smaller.
    share
        The largest change, as a share of max(1, |x|).
    """

    penalised: BoolArray
    precision: FloatArray
    share: float

    def scaled(self, scale: FloatArray) -> Settling:
        """The same for the coordinates ``scale * x``."""
        return Settling(self.penalised, self.precision / scale / scale, self.share)

    def part(self, places: IntArray | None) -> Settling:
        """The same for some of the coordinates; None: all."""
        if places is None:
            return self
        return Settling(self.penalised[places], self.precision[places], self.share)

    def step(self, x: FloatArray, slope: FloatArray) -> FloatArray | None:
        """The step against ``slope`` (n,), the gradient with all penalties, to be tried; None where x is settled anyway."""
        along = np.where(self.penalised, slope, 0.0)
        allowed = self.share * np.maximum(1.0, np.abs(x))
        if (np.abs(along) <= self.precision * allowed).all():
            return None
        return along * (-1.0 / float((np.abs(along) / allowed).max()))

    def next_step(self, x: FloatArray, direction: FloatArray) -> FloatArray | None:
        """The part of the next step, ``direction`` (n,), to be tried; None where it is short."""
        length = self._length(x, direction)
        return direction / length if _NEXT < length < np.inf else None

    def far(self, x: FloatArray, step: FloatArray) -> bool:
        """Whether the last ``step`` (n,), to x, is too long for the end of a descent."""
        return self._length(x, step) > _LAST

    def _length(self, x: FloatArray, step: FloatArray) -> float:
        """In units of the largest change."""
        allowed = max(self.share, _LEAST_SHARE) * np.maximum(1.0, np.abs(x))
        return float((np.abs(step) / allowed)[self.penalised].max(initial=0.0))

    def progress(self, slope: FloatArray, step: FloatArray, change: FloatArray) -> float:
        """The share of the way to the minimum along ``step`` that it went, from the ``change`` (n,) of the gradient.

        1 or more: the minimum lies within the step.
        """
        return float(change @ step) / -float(slope @ step)
