"""Optimisers that see only callables: L-BFGS, truncated Newton, proximal steps, conjugate gradients. All minimise."""

from fieldfit.optim.cg import Conjugate, conjugate_gradients
from fieldfit.optim.choose import minimise
from fieldfit.optim.lbfgs import minimise_lbfgs
from fieldfit.optim.newton import minimise_newton
from fieldfit.optim.preconditioner import Preconditioner
from fieldfit.optim.proximal import minimise_proximal
from fieldfit.optim.solution import Callback, Progress, Solution, Status

__all__ = [
    "Callback",
    "Conjugate",
    "Preconditioner",
    "Progress",
    "Solution",
    "Status",
    "conjugate_gradients",
    "minimise",
    "minimise_lbfgs",
    "minimise_newton",
    "minimise_proximal",
]
