"""The Newton step that remains at a point, where it is long enough to matter.

With very many samples the gradient is below any tolerance in directions that only a penalty determines, while its parts in
the other directions, though below the tolerance too, are far larger. Only a Newton step −H⁻¹g tells both apart. Conjugate
gradients find it: with ordinary data a few steps show that it is short, because a quadratic penalty is a bound from below
on the curvature, and so the residual bounds what is still missing. Where they do not come to an end, the Hessian itself is
factorised, if it is affordable. All Newton steps of a descent together take a share of its own work, so that they cannot
take longer than the descent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fieldfit.optim.cg import Product, Recursion
from fieldfit.optim.preconditioner import Preconditioner
from fieldfit.optim.settling import HessianMatrix, Settling
from fieldfit.types import FloatArray

#: Fewest steps of conjugate gradients the first time, and parameters up to which there may be as many steps as parameters.
_STEPS, _FEW = 4, 64
#: Steps, with those before, as a share of the evaluations and products that the descent itself has made.
_SHARE_OF_WORK = 1 / 2
#: The same with ordinary data and more parameters than _NOT_MANY, where that would cost too much, or an L1 penalty, which
#: leaves directions flat. Data are ordinary if the bound that penalties give is at most _ORDINARY times too large; with
#: very many samples it is larger.
_SMALLER_SHARE, _NOT_MANY, _ORDINARY = 1 / 16, 500, 1e4


@dataclass
class Spending:
    """What the Newton steps of a descent have cost until now: products Hv, and Hessians in units of evaluations."""

    products: int = 0
    hessians: float = 0.0

    @property
    def total(self) -> float:
        """Both."""
        return self.products + self.hessians


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
        Evaluations and Hessian products of the descent itself.
    spending
        What its Newton steps have cost; steps that are asked for here are added.
    """

    settling: Settling
    x: FloatArray
    slope: FloatArray
    product: Product
    metric: Preconditioner | None
    work: int
    spending: Spending

    @property
    def affordable(self) -> bool:
        """Whether there is work left for a Newton step."""
        return self._steps > 0 or self._matrix is not None

    def step(self) -> FloatArray | None:
        """The Newton step (n,), about; None where it is short or cannot be obtained."""
        matrix = self._matrix
        newton, exact = self._conjugate() if self._steps else (None, False)
        if not exact and matrix is not None:
            newton, exact = self._factorised(matrix), True
        return newton if newton is not None and self.settling.is_long(self.x, newton, exact=exact) else None

    def exact_step(self) -> FloatArray | None:
        """The Newton step (n,) by the Hessian; None where that is not affordable or not positive definite."""
        matrix = self._matrix
        return None if matrix is None else self._factorised(matrix)

    @property
    def _matrix(self) -> HessianMatrix | None:
        return self.settling.affordable_matrix(self.work - self.spending.total)

    @cached_property
    def _steps(self) -> int:
        """How many steps of conjugate gradients there may be."""
        few = len(self.x) if len(self.x) <= _FEW and self._matrix is None else 0
        costly = len(self.x) > _NOT_MANY or bool(self.settling.strength.any())
        ordinary = costly and self.settling.excess(self.x, self.slope) <= _ORDINARY
        share = _SMALLER_SHARE if ordinary else _SHARE_OF_WORK
        spent = self.spending.total
        return max(few, int(share * self.work - spent), 0 if spent else _STEPS)

    def _factorised(self, matrix: HessianMatrix) -> FloatArray | None:
        self.spending.hessians += self.settling.evaluations
        with np.errstate(over="ignore", invalid="ignore"):  # a matrix that is not finite has no factor
            return _solved(matrix(self.x), self.slope)

    def _conjugate(self) -> tuple[FloatArray | None, bool]:
        """By conjugate gradients, and whether they came to their end: −H⁻¹g is then known well enough."""
        state = Recursion(-self.slope, self.metric)
        for _ in range(self._steps):
            self.spending.products += 1
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
