"""Conjugate gradients for H x = b where H is known by its products only.

H should be symmetric and positive definite. A direction p with pᵀHp ≤ 0 shows that it is not, and is reported rather
than followed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldfit import _kernels
from fieldfit.optim.preconditioner import Preconditioner, split_preconditioner
from fieldfit.threads import get_threads
from fieldfit.types import FieldfitError, FloatArray

#: Steps whose additions to bᵀx are taken together, so that their ups and downs do not matter.
_WINDOW = 20
#: The same where the preconditioner is near H, if the additions fall at least to this share from window to window.
_SHORT_WINDOW, _STEEP = 4, 0.25

#: v ↦ Hv
Product = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Conjugate:
    """How a solve ended: ``residual`` is ‖b − Hx‖ / ‖b‖, ``positive`` false if pᵀHp ≤ 0 occurred.

    ``missing`` estimates bᵀH⁻¹b − bᵀx, which is the square of the error of x in the norm of H; infinite after few steps.
    """

    iterations: int
    products: int
    residual: float
    converged: bool
    positive: bool
    message: str
    missing: float


class Recursion:
    """The vectors of one solve from x = 0: x, the residual r = b − Hx, z = M⁻¹r and the direction p."""

    def __init__(self, b: FloatArray, preconditioner: Preconditioner | None) -> None:
        self._diagonal, self._operator = split_preconditioner(preconditioner, b.size)
        self._threads = get_threads()
        self.x = np.zeros(b.size)
        self.r = b.copy()
        self._z = self.r if preconditioner is None else np.empty(b.size)
        if self._diagonal is not None:
            np.divide(self.r, self._diagonal, out=self._z)
        elif self._operator is not None:
            self._z = self._operator(self.r)
        self.p = self._z.copy()
        self.rr = self.dot(self.r, self.r)
        self.rz = self.dot(self.r, self._z)
        self.largest = float(np.abs(b).max(initial=0.0))

    def dot(self, a: FloatArray, b: FloatArray) -> float:
        """a·b, with the same bits for any number of threads."""
        return _kernels.inner_product(a, b, n_threads=self._threads)

    def advance(self, alpha: float, product: FloatArray) -> float:
        """Step to x + αp and r − αHp; returns β = r·z after / before, of which `turn` makes the next direction."""
        before = self.rz
        image = self._z if self._diagonal is not None else None
        self.rr, self.rz, self.largest = _kernels.cg_update(
            alpha=alpha,
            p=self.p,
            product=product,
            diagonal=self._diagonal,
            x=self.x,
            r=self.r,
            z=image,
            n_threads=self._threads,
        )
        if self._operator is not None:
            self._z = self._operator(self.r)
            self.rz = self.dot(self.r, self._z)
        return self.rz / before

    def turn(self, beta: float) -> None:
        """Make z + βp the next direction."""
        _kernels.cg_direction(beta, self._z, p=self.p, n_threads=self._threads)


def checked_product(product: Product, v: FloatArray) -> FloatArray:
    """Hv as a contiguous vector of doubles of the length of v."""
    image = np.ascontiguousarray(product(v), dtype=np.float64)
    if image.shape != v.shape:
        raise FieldfitError(f"The product Hv has shape {image.shape}; v has shape {v.shape}, and both must agree.")
    return image


def _missing(added: list[float], near: bool) -> float:
    """Σ of the additions to come, from the last three windows (short ones where ``near``); infinite if they do not fall.

    The slower of the last two ratios is taken, for a solve that stalls for a while has not converged; and never less than
    the last window itself, for additions that fell fast at first often fall slower later.
    """
    for window, most in ((_SHORT_WINDOW, _STEEP), (_WINDOW, 1.0)) if near else ((_WINDOW, 1.0),):
        if len(added) < 3 * window:
            continue
        last, before, first = (sum(added[len(added) - (k + 1) * window : len(added) - k * window]) for k in range(3))
        ratio = max(last / before, before / first)
        if ratio < most:
            return last * max(1.0, ratio / (1 - ratio))
    return math.inf


def conjugate_gradients(
    product: Product,
    b: FloatArray,
    *,
    tol: float = 1e-8,
    energy_tol: float | None = None,
    energy_limit: Callable[[FloatArray], float] | None = None,
    max_iter: int | None = None,
    preconditioner: Preconditioner | None = None,
    near: bool = False,
) -> tuple[FloatArray, Conjugate]:
    """Solve H x = b to ‖b − Hx‖₂ ≤ tol · ‖b‖₂; ``max_iter`` is 10 · n_parameters + 10 unless given.

    With ``energy_tol`` the solve ends as well when bᵀH⁻¹b is known to about that relative error: each step adds α r·z to
    bᵀx, which rises to bᵀH⁻¹b, and what is still missing is extrapolated from how fast these additions fall. That takes
    60 steps, or 12 where the ``preconditioner`` is ``near`` H in all directions and the additions fall fast. Then
    ``energy_limit(x)``, if given, returns the error allowed at x, and the solve continues until the error is below it.

    ``product(v)`` gives Hv and must not keep v. If pᵀHp ≤ 0 occurs, x is the last iterate before it and
    ``positive`` is false: H is singular or indefinite.
    """
    b = np.ascontiguousarray(b, dtype=np.float64)
    if b.ndim != 1 or not np.isfinite(b).all():
        raise FieldfitError("The right-hand side b of conjugate gradients must be a finite vector.")
    if max_iter is None:
        max_iter = 10 * b.size + 10
    state = Recursion(b, preconditioner)
    scale = math.sqrt(state.rr)
    if scale == 0.0:
        return state.x, Conjugate(0, 0, 0.0, True, True, "converged: the right-hand side is 0", 0.0)
    added: list[float] = []
    limit = math.inf

    def report(iterations: int, products: int, positive: bool, message: str) -> tuple[FloatArray, Conjugate]:
        residual = math.sqrt(state.rr) / scale
        return state.x, Conjugate(
            iterations, products, residual, residual <= tol, positive, message, _missing(added, near)
        )

    for iteration in range(max_iter):
        image = checked_product(product, state.p)
        curvature = state.dot(state.p, image)
        if not math.isfinite(curvature):
            return report(iteration, iteration + 1, True, "stopped: a product is not finite")
        if curvature <= 0:
            return report(iteration, iteration + 1, False, "stopped: the matrix is not positive definite")
        added.append(state.rz**2 / curvature)
        beta = state.advance(state.rz / curvature, image)
        if math.sqrt(state.rr) <= tol * scale:
            return report(iteration + 1, iteration + 1, True, "converged: residual below tolerance")
        if energy_tol is not None and (missing := _missing(added, near)) <= min(energy_tol * sum(added), limit):
            if energy_limit is not None:
                limit = energy_limit(state.x)
            if missing <= limit:
                message = "converged: the quadratic form is within its tolerance"
                return state.x, replace(report(iteration + 1, iteration + 1, True, message)[1], converged=True)
        if not state.rz > 0:
            return report(iteration + 1, iteration + 1, False, "stopped: the preconditioner is not positive definite")
        state.turn(beta)
    return report(max_iter, max_iter, True, "stopped: iteration limit")
