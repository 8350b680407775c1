"""The optimiser that is expected to reach the optimum first.

On the pseudo-likelihood of dense pairwise fields (benchmarks/optimisers.py) an evaluation and a Hessian product cost
about the same, and
- with an operator for a preconditioner L-BFGS needs about five evaluations, and Newton the same in all: L-BFGS;
- without one, truncated Newton needs about half the products that L-BFGS needs evaluations: Newton.
A diagonal helps neither much there. Where a product costs several evaluations (chains), L-BFGS. With an L1 penalty
proximal quasi-Newton steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from fieldfit.optim.descent import ValueGradient, start_point
from fieldfit.optim.keeping import Keeper
from fieldfit.optim.lbfgs import PAIRS, minimise_lbfgs
from fieldfit.optim.newton import HessianProduct, minimise_newton
from fieldfit.optim.preconditioner import Preconditioner, split_preconditioner
from fieldfit.optim.proximal import minimise_proximal
from fieldfit.optim.settling import Settling
from fieldfit.optim.solution import DEFAULT_MAX_ITER, Callback, Solution
from fieldfit.optim.units import Units
from fieldfit.optim.working_set import Smaller
from fieldfit.threads import one_blas_thread
from fieldfit.types import FieldfitError, FloatArray, IntArray

#: The optimisers; stochastic gradients ("sgd") are those of `minimise_stochastic`.
Method = Literal["auto", "lbfgs", "newton", "sgd"]
#: Cost of a Hessian product, in evaluations, from which Newton's method is slower.
EXPENSIVE_PRODUCT = 2.0
#: The smallest entry of a diagonal, as a share of the largest.
LEAST_CURVATURE = 1e-6


def minimise(
    fun: ValueGradient,
    x0: FloatArray,
    *,
    method: Method = "auto",
    gtol: float = 1e-5,
    ftol: float = 0.0,
    max_iter: int = DEFAULT_MAX_ITER,
    history: int | None = None,
    preconditioner: Preconditioner | None = None,
    hessian_product: HessianProduct | None = None,
    hessian_diagonal: Callable[[FloatArray], FloatArray] | None = None,
    hessian: Callable[[FloatArray], FloatArray] | None = None,
    product_cost: float = 1.0,
    l1: FloatArray | float | None = None,
    l1_groups: IntArray | None = None,
    smaller: Smaller | None = None,
    units: FloatArray | None = None,
    fresh: bool = False,
    value_noise: float = 0.0,
    settling: Settling | None = None,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
) -> Solution:
    """Minimise fun(x) + Σ l1 |x| from x0 (n_parameters,) by the method that the given callables make fastest.

    ``l1_groups`` and ``smaller`` are those of `minimise_proximal`.

    ``fun(x)`` gives (value, gradient), ``hessian_product(x, v)`` the Hessian times v at ``product_cost`` evaluations
    each, ``hessian_diagonal(x)`` its diagonal (positive), ``hessian(x)`` the matrix; ``preconditioner`` and the rest
    as in `minimise_lbfgs`, and with ``l1`` as in `minimise_proximal`. ``history`` is the number of pairs that the
    quasi-Newton methods keep, None for their own defaults; Newton's method has none. With ``units``
    (n_parameters,) the method works on ``units * x``, and ``gtol`` is for the gradient with respect to that. ``fresh``,
    ``value_noise`` and ``settling`` (for x) are those of `minimise_lbfgs`. A ``keeper`` gets the state after each
    iteration, and may have one to continue from: the result then has the same bits.
    """
    if units is not None and l1_groups is None and np.any(units != 1.0):  # a norm has one unit for its whole group
        scaled = Units(units)
        return scaled.solution(
            minimise(
                scaled.fun(fun),
                start_point(x0) * units,
                method=method,
                gtol=gtol,
                ftol=ftol,
                max_iter=max_iter,
                history=history,
                preconditioner=scaled.preconditioner(preconditioner),
                hessian_product=scaled.hessian_product(hessian_product),
                hessian_diagonal=scaled.matrix(hessian_diagonal),
                hessian=scaled.matrix(hessian),
                product_cost=product_cost,
                l1=None if l1 is None else l1 / units,
                smaller=scaled.smaller(smaller),
                fresh=True,  # the quotient
                value_noise=value_noise,
                settling=None if settling is None else scaled.settling(settling),
                callback=scaled.callback(callback),
                keeper=keeper,
            )
        )
    if method not in ("auto", "lbfgs", "newton"):
        raise FieldfitError(f"The method must be 'auto', 'lbfgs' or 'newton'; got {method!r:.80}.")
    if method == "newton" and l1 is not None:
        raise FieldfitError("Newton's method here has no L1 penalty; use method='lbfgs' or 'auto' with l1.")
    if method == "auto":
        affordable = hessian_product is not None and product_cost < EXPENSIVE_PRODUCT and not callable(preconditioner)
        newton = l1 is None and (hessian is not None or affordable)
    else:
        newton = method == "newton"
    with one_blas_thread():
        if newton:
            return minimise_newton(
                fun,
                hessian_product,
                x0,
                gtol=gtol,
                ftol=ftol,
                max_iter=max_iter,
                preconditioner=preconditioner,
                hessian_diagonal=hessian_diagonal,
                hessian=hessian,
                value_noise=value_noise,
                settling=settling,
                callback=callback,
                keeper=keeper,
            )
        if preconditioner is None and hessian_diagonal is not None:
            diagonal = hessian_diagonal(start_point(x0))
            # A parameter of states that never occur has no curvature, and no gradient that would move it.
            largest = diagonal.max(initial=0.0)
            preconditioner = np.maximum(diagonal, LEAST_CURVATURE * largest) if largest > 0 else None
        if l1 is not None:
            metric, operator = split_preconditioner(preconditioner, len(x0))
            if operator is not None:
                raise FieldfitError("An L1 penalty needs a diagonal preconditioner; got a callable.")
            return minimise_proximal(
                fun,
                x0,
                l1,
                gtol=gtol,
                ftol=ftol,
                max_iter=max_iter,
                history=history,
                diagonal=metric,
                groups=l1_groups,
                smaller=smaller,
                fresh=fresh,
                value_noise=value_noise,
                settling=settling,
                callback=callback,
                keeper=keeper,
            )
        return minimise_lbfgs(
            fun,
            x0,
            gtol=gtol,
            ftol=ftol,
            max_iter=max_iter,
            history=PAIRS if history is None else history,
            preconditioner=preconditioner,
            fresh=fresh,
            value_noise=value_noise,
            settling=settling,
            callback=callback,
            keeper=keeper,
        )
