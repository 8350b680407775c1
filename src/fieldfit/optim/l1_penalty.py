"""The penalty Σ_i l1_i |x_i|: its weights, and how far a point is from the optimality conditions.

At an optimum of f(x) + Σ l1 |x| the gradient of f is −l1 sign(x) where x ≠ 0 and lies in [−l1, l1] where x = 0. The
pseudo-gradient is the steepest one-sided derivative; it is 0 exactly there, and its largest entry is what is compared
with the tolerance.
"""

from __future__ import annotations

import numpy as np

from fieldfit import _kernels
from fieldfit.optim.quadratic_model import HessianModel, QuadraticModel
from fieldfit.optim.remaining import RIDGE, newton_move
from fieldfit.threads import get_threads
from fieldfit.types import FieldfitError, FloatArray, IntArray

#: Passes of coordinate descent for a Newton step, and coordinates that may come to 0 after that.
_MOST_PASSES, _MOST_CORNERS = 500, 100


class L1Penalty:
    """The weights l1 (n_parameters,) ≥ 0 and the pseudo-gradient at the current point."""

    has_orthants = True

    def __init__(self, l1: FloatArray | float, size: int) -> None:
        weights = np.asarray(l1, dtype=np.float64)
        if weights.ndim != 0 and weights.shape != (size,):
            raise FieldfitError(
                f"The L1 weights have shape {weights.shape}; with {size} parameters give one number or ({size},)."
            )
        self.weights = np.ascontiguousarray(np.broadcast_to(weights, (size,)))
        good = np.isfinite(self.weights) & (self.weights >= 0)
        if not good.all():
            at = int(np.argmin(good))
            raise FieldfitError(f"L1 weights must be finite and at least 0; entry {at} is {self.weights[at]}.")
        self.pseudo = np.zeros(size)

    def restricted(self, places: IntArray) -> L1Penalty:
        """The penalty of some of the coordinates."""
        return L1Penalty(self.weights[places], len(places))

    def look(self, x: FloatArray, gradient: FloatArray) -> tuple[float, float]:
        """Set `pseudo` for the point x; returns Σ l1 |x| and max |pseudo|."""
        return _kernels.pseudo_gradient(x, gradient, self.weights, pseudo=self.pseudo, n_threads=get_threads())

    def value(self, x: FloatArray) -> float:
        """Σ l1 |x|."""
        return float(self.weights @ np.abs(x))

    def free(self, x: FloatArray) -> IntArray:
        """The coordinates that are not 0 or that the pseudo-gradient moves."""
        return np.flatnonzero((x != 0) | (self.pseudo != 0))

    def slope_change(self, x: FloatArray, near: FloatArray) -> FloatArray | float:
        """How the penalty's gradient differs between two points with the same signs."""
        return 0.0

    def lowest(
        self,
        model: QuadraticModel | HessianModel,
        free: IntArray,
        gradient: FloatArray,
        x: FloatArray,
        first_scale: float,
        tol: float,
        passes: int,
    ) -> FloatArray | None:
        """The step d on ``free`` that makes gᵀd + ½dᵀBd + Σ l1 |x + d| lowest, roughly; None if B is inaccurate.

        Roughly: by at most ``passes`` of coordinate descent, which end when none moves a coordinate by more than ``tol``
        in units of the gradient.
        """
        scale, left, right = model.matrix(free, first_scale)
        curvature = scale - np.einsum("ij,ij->i", left, right)
        if not (np.isfinite(curvature).all() and (curvature > 0).all()):
            return None
        step, products = np.zeros(len(free)), np.zeros(left.shape[1])
        _kernels.lasso_descent(
            gradient=gradient,
            scale=scale,
            left=left,
            right=right,
            curvature=curvature,
            point=x,
            l1=self.weights[free],
            limit=passes,
            tol=tol,
            step=step,
            products=products,
        )
        return step if np.isfinite(step).all() else None

    def newton(
        self, hessian: FloatArray, free: IntArray, gradient: FloatArray, x: FloatArray, tol: float
    ) -> FloatArray | None:
        """The step (k,) on ``free`` to the minimum of gᵀd + ½dᵀHd + Σ l1 |x + d|.

        Coordinate descent is slow where H is nearly singular, so its result is moved to the minimum in its orthant.
        Coordinates that come to 0 on the way stay there.
        """
        step = self.lowest(HessianModel(hessian), free, gradient, x, 1.0, tol, _MOST_PASSES)
        if step is None:
            return None
        l1 = self.weights[free]
        # Where the Hessian is singular, as without a quadratic penalty, the way leads far, to the next corner.
        hessian = hessian + RIDGE * np.diag(hessian).max(initial=0.0) * np.eye(len(free))
        for _ in range(_MOST_CORNERS):
            point = x + step
            away = np.flatnonzero(point)
            slope = gradient + hessian @ step + l1 * np.sign(point)
            move = newton_move(hessian[np.ix_(away, away)], slope[away])
            if move is None:
                return step
            with np.errstate(divide="ignore", invalid="ignore"):
                until = np.where(point[away] * (point[away] + move) < 0, -point[away] / move, np.inf)
            first = int(np.argmin(until)) if len(away) else 0
            if not len(away) or until[first] > 1:
                step[away] += move
                return step
            step[away] += until[first] * move
            step[away[first]] = -x[away[first]]
        return step

    def slopes(
        self, free: IntArray, x: FloatArray, moved: FloatArray, gradient: FloatArray, new_gradient: FloatArray
    ) -> tuple[float, float]:
        """gᵀd + Σ l1 (|x + d| − |x|), and the slope of the penalised function at x + d along d; all on ``free``.

        Near an optimum g and the penalty's slope cancel, so they are added coordinate by coordinate before the sum.
        """
        step, l1 = moved - x, self.weights[free]
        before = np.where(x != 0, np.sign(x), np.sign(moved))
        # At a corner the slope from the side that the step came from.
        after = np.where(moved != 0, np.sign(moved), -np.sign(step))
        crossed = np.where(x * moved < 0, 2.0 * l1 * np.abs(moved), 0.0)
        promise = float((gradient + l1 * before) @ step) + float(crossed.sum())
        return promise, float((new_gradient + l1 * after) @ step)
