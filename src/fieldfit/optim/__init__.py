"""Optimisers that see only callables: L-BFGS, truncated Newton and conjugate gradients, all of them minimising."""

from fieldfit.optim.cg import Conjugate, conjugate_gradients
from fieldfit.optim.choose import minimise
from fieldfit.optim.lbfgs import minimise_lbfgs
from fieldfit.optim.newton import minimise_newton
from fieldfit.optim.preconditioner import Preconditioner
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
]
