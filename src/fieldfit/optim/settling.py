"""Whether a penalised fit may end at a point whose gradient is below the tolerance.

The tolerance grows with the number of samples, the penalty does not. With very many samples that agree, all probabilities
are nearly 0 or 1 and only the penalty holds the parameters where they are; its own gradient is then below the tolerance,
which says nothing about θ. So the point must be near the optimum as well: the Newton step from it has to be short
(remaining.py). Parameters without a penalty are left out, because their optimum may lie at infinity.

Where that is too expensive, or cannot be computed, a step along the gradient is tried that changes parameters by a small
share of themselves: at an optimum that is settled, the objective has begun to rise by the end of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.types import BoolArray, FloatArray, IntArray

#: The share that belongs to a tolerance for the gradient per sample, in units of that.
SHARE_OF_TOL = 10.0
#: The longest Newton step at an optimum, in units of the share; and where conjugate gradients only come near it.
_LONGEST, _LONGEST_NEAR = 10.0, 100.0
#: The same for any share and any x: where probabilities fall like exp(−|x|), Newton steps are about 1 at any distance.
_LONGEST_EVER = 0.25
#: Below it, lengths of steps are the work of rounding.
_LEAST_SHARE = 1e-9
#: The change of parameters, as a share of max(1, |x|), over which differences of gradients are taken.
_PROBE = 1e-4
#: Evaluations that a Hessian as a matrix may take in any case (two for each of 64 parameters), and the most parameters.
_AFFORDABLE_EVALUATIONS, _MOST_FACTORISED = 128.0, 1_500
#: Parameters from which conjugate gradients would take too much memory.
_MANY = 50_000

#: x ↦ H
HessianMatrix = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
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
    matrix
        The Hessian as a matrix at a point, or None where it is not known.
    evaluations
        About how many evaluations take as long as that.
    """

    penalised: BoolArray
    precision: FloatArray
    share: float
    matrix: HessianMatrix | None = None
    evaluations: float = 0.0

    def part(self, places: IntArray | None) -> Settling:
        """The same for some of the coordinates, where the others are 0; None: all."""
        if places is None:
            return self
        matrix, size = self.matrix, len(self.precision)

        def restricted(x: FloatArray) -> FloatArray:
            assert matrix is not None
            whole = np.zeros(size)
            whole[places] = x
            return matrix(whole)[np.ix_(places, places)]

        return replace(
            self,
            penalised=self.penalised[places],
            precision=self.precision[places],
            matrix=None if matrix is None or size > _MOST_FACTORISED else restricted,
        )

    def scaled(self, scale: FloatArray, matrix: HessianMatrix | None) -> Settling:
        """The same for the coordinates ``scale * x``, whose Hessian is ``matrix``."""
        return replace(self, precision=self.precision / scale / scale, matrix=matrix)

    @property
    def has_newton_steps(self) -> bool:
        """Whether Newton steps are affordable."""
        return len(self.precision) < _MANY

    def affordable_matrix(self, work: float) -> HessianMatrix | None:
        """The function that gives the Hessian, if it costs no more than ``work``, or little."""
        few = len(self.precision) <= _MOST_FACTORISED
        return self.matrix if few and self.evaluations <= max(work, _AFFORDABLE_EVALUATIONS) else None

    def step(self, x: FloatArray, slope: FloatArray) -> FloatArray | None:
        """The step against ``slope`` (n,), the gradient with all penalties, to be tried; None where x is settled anyway."""
        along = np.where(self.penalised, slope, 0.0)
        allowed = self.share * np.maximum(1.0, np.abs(x))
        if (np.abs(along) <= self.precision * allowed).all():
            return None
        return along * (-1.0 / float((np.abs(along) / allowed).max()))

    def progress(self, slope: FloatArray, step: FloatArray, change: FloatArray) -> float:
        """The share of the way to the minimum along ``step`` that it went, from the ``change`` (n,) of the gradient.

        1 or more: the minimum lies within the step.
        """
        return float(change @ step) / -float(slope @ step)

    def is_long(self, x: FloatArray, step: FloatArray, *, exact: bool) -> bool:
        """Whether the Newton ``step`` (n,) is too long for an optimum; where it is not ``exact``, it may be too short."""
        longest = self._longest(x, _LONGEST if exact else _LONGEST_NEAR)
        return bool((np.abs(step) > longest)[self.penalised].any())

    def length(self, x: FloatArray, step: FloatArray) -> float:
        """The largest change of a penalised parameter, as a share of max(1, |x|)."""
        return float((np.abs(step) / np.maximum(1.0, np.abs(x)))[self.penalised].max(initial=0.0))

    def excess(self, x: FloatArray, residual: FloatArray) -> float:
        """A bound on H⁻¹ ``residual`` (n,) from the penalty's curvature alone, in units of the longest step allowed."""
        longest = self.precision * self._longest(x, _LONGEST)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.abs(residual) / longest
        return float(ratio[self.penalised & (residual != 0)].max(initial=0.0))

    def probe(self, x: FloatArray, direction: FloatArray) -> float:
        """The multiple of ``direction`` (n,) over which differences of gradients are taken."""
        largest = float((np.abs(direction) / np.maximum(1.0, np.abs(x))).max(initial=0.0))
        return _PROBE / largest if 0 < largest < np.inf else 0.0

    def _longest(self, x: FloatArray, shares: float) -> FloatArray:
        return np.minimum(shares * max(self.share, _LEAST_SHARE) * np.maximum(1.0, np.abs(x)), _LONGEST_EVER)
