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

import numpy as np

from fieldfit.optim.cg import Product, Recursion
from fieldfit.optim.preconditioner import Preconditioner
from fieldfit.optim.settling import HessianMatrix, Settling
from fieldfit.properties import cached_property
from fieldfit.types import FloatArray

#: Fewest steps of conjugate gradients, and parameters up to which there may be as many steps as parameters.
_STEPS, _FEW = 4, 64
#: Steps, with those before, as a share of the evaluations and products that the descent itself has made.
_SHARE_OF_WORK = 1 / 2
#: The same with ordinary data and more parameters than _NOT_MANY, where that would cost too much. Data are ordinary if the
#: bound that the penalty gives is at most _ORDINARY times too large; with very many samples it is larger.
_SMALLER_SHARE, _NOT_MANY, _ORDINARY = 1 / 16, 500, 1e4
#: What may be added to the diagonal of a Hessian that is singular, as a share of its largest entry.
RIDGE = 1e-13


@dataclass(frozen=True, eq=False)
class NewtonStep:
    """A Newton step (n,); where it is not ``exact``, it may be too short."""

    step: FloatArray
    exact: bool


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

    def step(self) -> NewtonStep | None:
        """The Newton step, about; None where it is too expensive or cannot be computed."""
        matrix = self._matrix
        near = self._conjugate() if self._steps else None
        return self._factorised(matrix) if matrix is not None and not (near and near.exact) else near

    def exact_step(self) -> NewtonStep | None:
        """The Newton step by the Hessian; None where that is not affordable or not positive definite."""
        matrix = self._matrix
        return None if matrix is None else self._factorised(matrix)

    @property
    def _matrix(self) -> HessianMatrix | None:
        return self.settling.affordable_matrix(self.work - self.spending.total)

    @cached_property
    def _steps(self) -> int:
        """How many steps of conjugate gradients there may be; 0 where too few are affordable."""
        if len(self.x) <= _FEW and self._matrix is None:
            return len(self.x)
        ordinary = len(self.x) > _NOT_MANY and self.settling.excess(self.x, self.slope) <= _ORDINARY
        share = _SMALLER_SHARE if ordinary else _SHARE_OF_WORK
        spent = self.spending.total
        steps = max(int(share * self.work - spent), 0 if spent else _STEPS)
        return steps if steps >= _STEPS else 0

    def _factorised(self, matrix: HessianMatrix) -> NewtonStep | None:
        self.spending.hessians += self.settling.evaluations
        with np.errstate(over="ignore", invalid="ignore"):  # a matrix that is not finite has no factor
            step = newton_move(matrix(self.x), self.slope)
        return None if step is None else NewtonStep(step, exact=True)

    def _conjugate(self) -> NewtonStep | None:
        """By conjugate gradients: exact if they come to their end, so that −H⁻¹g is known well enough."""
        state = Recursion(-self.slope, self.metric)
        for _ in range(self._steps):
            self.spending.products += 1
            image = self.product(state.p)
            curvature = state.dot(state.p, image)
            if not (math.isfinite(curvature) and curvature > 0):
                return None
            beta = state.advance(state.rz / curvature, image)
            if self.settling.excess(self.x, state.r) <= 1:
                return NewtonStep(state.x, exact=True)
            if not (math.isfinite(beta) and state.rz > 0):
                break
            state.turn(beta)
        return NewtonStep(state.x, exact=False)


def newton_move(hessian: FloatArray, slope: FloatArray) -> FloatArray | None:
    """−H⁻¹ slope; None where H is not positive definite."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        step: FloatArray = -cho_solve(cho_factor(0.5 * (hessian + hessian.T), lower=True), slope)
    except (LinAlgError, ValueError):
        return None
    return step
