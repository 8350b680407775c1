"""The Newton step that remains at a point, where it is long enough to matter.

With very many samples the gradient is below any tolerance in directions that only a penalty determines, while its parts in
the other directions, though below the tolerance too, are far larger. Only a Newton step −H⁻¹g tells both apart. Conjugate
gradients find it: with ordinary data a few steps show that it is short, because a quadratic penalty is a bound from below
on the curvature, and so the residual bounds what is still missing. Where they do not come to an end, the Hessian itself is
factorised, if it is affordable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fieldfit.optim.cg import Product, Recursion
from fieldfit.optim.preconditioner import Preconditioner
from fieldfit.optim.settling import Settling
from fieldfit.types import FloatArray

#: Fewest steps of conjugate gradients, and parameters up to which there may be as many steps as parameters.
_STEPS, _FEW = 4, 64
#: Steps as a share of the evaluations and products before them.
_SHARE_OF_WORK = 1 / 2
#: The same with ordinary data and more parameters than _NOT_MANY, where that would cost too much. Data are ordinary if the
#: bound that the penalty gives is at most _ORDINARY times too large; with very many samples it is larger.
_SMALLER_SHARE, _NOT_MANY, _ORDINARY = 1 / 16, 500, 1e4


@dataclass(frozen=True, eq=False)
class Remainder:
    """What is known about the objective at a point below the tolerance.

    Parameters
    ----------
    settling
        Which steps are long.
    x, slope
        (n,) the point and the gradient there.
    product
        v ↦ Hv at x.
    metric
        A preconditioner near H, or None.
    work
        Evaluations and Hessian products until now.
    """

    settling: Settling
    x: FloatArray
    slope: FloatArray
    product: Product
    metric: Preconditioner | None
    work: int

    def step(self) -> FloatArray | None:
        """The Newton step (n,), about; None where it is short or cannot be obtained."""
        newton, exact = self._conjugate()
        if not exact and self.settling.affordable_matrix(self.work) is not None:
            newton, exact = self.exact_step(), True
        return newton if newton is not None and self.settling.is_long(self.x, newton, exact=exact) else None

    def exact_step(self) -> FloatArray | None:
        """The Newton step (n,) by the Hessian; None where that is not affordable or not positive definite."""
        matrix = self.settling.affordable_matrix(self.work)
        if matrix is None:
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # a matrix that is not finite has no factor
            return _solved(matrix(self.x), self.slope)

    def _conjugate(self) -> tuple[FloatArray | None, bool]:
        """By conjugate gradients, and whether they came to their end: −H⁻¹g is then known well enough."""
        state = Recursion(-self.slope, self.metric)
        few = len(self.x) if len(self.x) <= _FEW and self.settling.affordable_matrix(self.work) is None else 0
        ordinary = len(self.x) > _NOT_MANY and self.settling.excess(self.x, state.r) <= _ORDINARY
        share = _SMALLER_SHARE if ordinary else _SHARE_OF_WORK
        for _ in range(max(_STEPS, few, int(share * self.work))):
            image = self.product(state.p)
            curvature = state.dot(state.p, image)
            if not (math.isfinite(curvature) and curvature > 0):
                return None, False
            beta = state.advance(state.rz / curvature, image)
            if self.settling.excess(self.x, state.r) <= 1:
                return state.x, True
            if not (math.isfinite(beta) and state.rz > 0):
                return state.x, False
            state.turn(beta)
        return state.x, False


def _solved(hessian: FloatArray, slope: FloatArray) -> FloatArray | None:
    """−H⁻¹ slope; None where H is not positive definite."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        step: FloatArray = -cho_solve(cho_factor(0.5 * (hessian + hessian.T), lower=True), slope)
    except (LinAlgError, ValueError):
        return None
    return step
