"""Newton's method for objectives whose Hessian products are affordable.

Many parameters: truncated Newton in a trust region. The step minimises the quadratic model by conjugate gradients
that stop at the boundary or follow a direction of negative curvature to it (Steihaug, "The conjugate gradient method
and trust regions in large scale optimization", 1983), because components with summed-out variables are not concave.
Few parameters, or a Hessian that is given: a factorised step with a line search.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldfit.optim.cg import Recursion, checked_product
from fieldfit.optim.descent import Descent, Point, ValueGradient, start_point
from fieldfit.optim.keeping import Keeper, State
from fieldfit.optim.line_search import SearchOutcome, wolfe_search
from fieldfit.optim.preconditioner import Preconditioner, split_preconditioner
from fieldfit.optim.settling import Settling
from fieldfit.optim.solution import Callback, Solution, Status
from fieldfit.types import FieldfitError, FloatArray

#: (x, v) ↦ Hessian at x times v
HessianProduct = Callable[[FloatArray, FloatArray], FloatArray]

#: Parameters up to which the Hessian is built from products and factorised.
DENSE_BELOW = 32
_NOISE = 1e-12


def minimise_newton(
    fun: ValueGradient,
    hessian_product: HessianProduct | None,
    x0: FloatArray,
    *,
    gtol: float = 1e-5,
    ftol: float = 0.0,
    max_iter: int = 200,
    preconditioner: Preconditioner | None = None,
    hessian_diagonal: Callable[[FloatArray], FloatArray] | None = None,
    dense_below: int = DENSE_BELOW,
    hessian: Callable[[FloatArray], FloatArray] | None = None,
    value_noise: float = 0.0,
    settling: Settling | None = None,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
) -> Solution:
    """Minimise ``fun`` from x0 (n_parameters,) with Hessian products, or with ``hessian(x)`` as a matrix.

    Up to ``dense_below`` parameters the Hessian is built from products and factorised. ``preconditioner`` (a diagonal
    or v ↦ M⁻¹v) holds for the whole run; without it ``hessian_diagonal(x)`` is asked at each new point, and its
    entries must be positive. Convergence, interrupts, ``value_noise``, ``settling`` and ``callback`` as in
    `minimise_lbfgs`.
    """
    if hessian_product is None and hessian is None:
        raise FieldfitError("Newton's method needs hessian_product or hessian; neither was given.")
    x = start_point(x0)
    split_preconditioner(preconditioner, x.size)
    dense = hessian is not None or x.size <= dense_below
    newton = _Newton(fun, x, callback, hessian_product, hessian, preconditioner, hessian_diagonal, dense)
    newton.value_noise, newton.settling = value_noise, settling
    return newton.minimise(gtol, ftol, max_iter, keeper)


@dataclass(frozen=True)
class _Step:
    """A step of the quadratic model: the decrease it predicts and its length in the metric of the preconditioner."""

    x: FloatArray
    predicted: float
    length: float
    at_boundary: bool


class _Newton(Descent):
    def __init__(
        self,
        fun: ValueGradient,
        x: FloatArray,
        callback: Callback | None,
        hessian_product: HessianProduct | None,
        hessian: Callable[[FloatArray], FloatArray] | None,
        preconditioner: Preconditioner | None,
        hessian_diagonal: Callable[[FloatArray], FloatArray] | None,
        dense: bool,
    ) -> None:
        super().__init__(fun, x, callback)
        self._dense = dense
        self._hessian_product = hessian_product
        self._hessian = hessian
        self._preconditioner = preconditioner
        self._hessian_diagonal = hessian_diagonal
        self._metric_at: FloatArray | None = None
        self._radius = math.inf
        self._first_norm = math.nan

    def begin(self) -> bool:
        """Evaluate the start."""
        self.current = self._look(self.current.x)
        self._first_norm = self.current.norm
        return _finite(self.current)

    def own_state(self) -> State:
        """The radius of the trust region, and the norm of the first gradient."""
        return {"newton": np.array([self._radius, self._first_norm])}

    def take_state(self, state: State) -> None:
        """The same numbers."""
        self._radius, self._first_norm = (float(number) for number in state["newton"])

    def step(self, gtol: float) -> Status | None:
        """A factorised step with few parameters, one of the trust region with many."""
        given, self._remaining = self._remaining, None
        if given is not None and self._line_step(given) is None:
            return None
        return self._dense_step() if self._dense else self._truncated_step(gtol)

    def _truncated_step(self, gtol: float) -> Status | None:
        """One accepted step of the trust region; shrinks it as often as needed."""
        noise = max(_NOISE, self.value_noise) * abs(self.current.value)
        while True:
            step = self._steihaug(gtol)
            if step is None:
                return Status.NOT_FINITE
            trial = self._look(self.current.x + step.x)
            if trial.value == -math.inf or 1e100 < self._radius < math.inf:
                return Status.UNBOUNDED
            actual = self.current.value - trial.value
            # Below the rounding of the values only the gradient can tell whether the step helps.
            drowned = step.predicted <= noise and abs(actual) <= 10 * noise
            ratio = (1.0 if trial.norm < self.current.norm else 0.0) if drowned else actual / step.predicted
            if not _finite(trial) or not ratio >= 0.25:
                self._radius = (0.25 if _finite(trial) else 0.1) * step.length
            elif ratio > 0.75 and step.at_boundary:
                self._radius = max(self._radius, 3.0 * step.length)
            if _finite(trial) and ratio > 1e-4:
                self.current = trial
                return None
            if not self._radius > 0 or np.array_equal(self.current.x, self.current.x + step.x):
                return Status.LINE_SEARCH

    def _dense_step(self) -> Status | None:
        """A step along −H⁻¹g, with the eigenvalues of H made positive where they are not."""
        hessian = self._matrix()
        if not np.isfinite(hessian).all():
            return Status.NOT_FINITE
        return self._line_step(_descent_direction(hessian, self.current.gradient))

    def _line_step(self, direction: FloatArray) -> Status | None:
        """A step along ``direction`` (n,), as far as the line search says."""
        start = trial = self.current

        def evaluate(step: float) -> tuple[float, float]:
            nonlocal trial
            trial = self._look(start.x + step * direction)
            return trial.value, float(trial.gradient @ direction)

        slope = float(start.gradient @ direction)
        if not slope < 0:
            return Status.LINE_SEARCH
        _, outcome = wolfe_search(evaluate, start.value, slope, 1.0, value_noise=self.value_noise)
        if outcome is not SearchOutcome.FOUND:
            return Status.UNBOUNDED if outcome is SearchOutcome.UNBOUNDED else Status.LINE_SEARCH
        self.current = trial
        return None

    def _look(self, x: FloatArray) -> Point:
        value, gradient = self._evaluate(x)
        return Point(x, gradient.copy(), value, float(np.abs(gradient).max(initial=0.0)))

    def product(self, v: FloatArray, settling: Settling) -> FloatArray:
        """The Hessian's own product, if there is one."""
        return super().product(v, settling) if self._hessian_product is None else self._product(v)

    def _product(self, v: FloatArray) -> FloatArray:
        assert self._hessian_product is not None
        product, x = self._hessian_product, self.current.x
        self._hessian_products += 1
        return checked_product(lambda vector: product(x, vector), v)

    def _matrix(self) -> FloatArray:
        """The Hessian at the current point, symmetrised."""
        size = self.current.x.size
        if self._hessian is not None:
            matrix = np.asarray(self._hessian(self.current.x), dtype=np.float64)
            if matrix.shape != (size, size):
                raise FieldfitError(
                    f"The Hessian has shape {matrix.shape}; with {size} parameters it must be ({size}, {size})."
                )
        else:
            matrix = np.array([self._product(row) for row in np.eye(size)])
        symmetric: FloatArray = 0.5 * (matrix + matrix.T)
        return symmetric

    @property
    def metric(self) -> Preconditioner | None:
        """The preconditioner of the run, or the diagonal at the current point."""
        if self._preconditioner is not None or self._hessian_diagonal is None:
            return self._preconditioner
        if self._metric_at is not self.current.x:  # once for each point, not for each shrinking of the region
            self._metric_at = self.current.x
            self._diagonal = self._hessian_diagonal(self.current.x)
        return self._diagonal

    def _steihaug(self, gtol: float) -> _Step | None:
        """Minimise gᵀp + ½pᵀHp in the trust region, roughly; None if a product is not finite.

        Roughly: until the residual is below a fraction of the gradient that shrinks with it, which keeps the
        convergence superlinear, or until the gradient that the model predicts is well below ``gtol``.
        """
        state = Recursion(-self.current.gradient, self.metric)
        forcing = min(0.2, math.sqrt(self.current.norm / self._first_norm))
        target = forcing * forcing * state.rz
        xx, xp, pp = 0.0, 0.0, state.rz  # x·Mx, x·Mp, p·Mp by recurrence
        predicted = 0.0
        for _ in range(10 * state.x.size + 10):
            image = self._product(state.p)
            curvature = state.dot(state.p, image)
            if not math.isfinite(curvature):
                return None
            bent = curvature <= 0
            if bent and math.isinf(self._radius):
                self._radius = max(math.sqrt(xx), math.sqrt(pp))
            alpha = math.inf if bent else state.rz / curvature
            if bent or xx + 2 * alpha * xp + alpha * alpha * pp >= self._radius**2:
                root = math.sqrt(max(0.0, xp * xp + pp * (self._radius**2 - xx)))
                tau = (self._radius**2 - xx) / (xp + root) if xp + root > 0 else 0.0
                predicted += tau * state.rz - 0.5 * tau * tau * curvature
                return _Step(state.x + tau * state.p, predicted, self._radius, True)
            predicted += 0.5 * alpha * state.rz
            xx, xp = xx + 2 * alpha * xp + alpha * alpha * pp, xp + alpha * pp
            beta = state.advance(alpha, image)
            if state.rz <= target or state.largest <= 0.1 * gtol:
                break
            xp, pp = beta * xp, state.rz + beta * beta * pp
            state.turn(beta)
        return _Step(state.x, predicted, math.sqrt(xx), False)


def _finite(point: Point) -> bool:
    return math.isfinite(point.value) and math.isfinite(point.norm)


def _descent_direction(hessian: FloatArray, gradient: FloatArray) -> FloatArray:
    """−H⁻¹g by Cholesky; where H is not positive definite, with |eigenvalue|, at least 1e-10 of the largest."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

    try:
        factor = cho_factor(hessian, lower=True)
    except LinAlgError:
        eigenvalues, vectors = eigh(hessian)
        size = np.abs(eigenvalues)
        # A Hessian of zeros has no scale: use the gradient itself.
        floor = 1e-10 * float(size.max()) or 1.0
        safe: FloatArray = -(vectors @ ((vectors.T @ gradient) / np.maximum(size, floor)))
        return safe
    direction: FloatArray = -cho_solve(factor, gradient)
    return direction
