"""An approximation M of the Hessian whose inverse is cheap to apply.

Either its diagonal, an array (n_parameters,) of positive numbers, or a callable v ↦ M⁻¹v for a symmetric positive
definite M. A good operator is worth far more than a diagonal where the parameters are strongly correlated: for the
pseudo-likelihood of a dense pairwise field it takes the iterations from over a hundred to about five
(benchmarks/optimisers.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldfit.types import FieldfitError, FloatArray

#: v ↦ M⁻¹v
InverseProduct = Callable[[FloatArray], FloatArray]
Preconditioner = FloatArray | InverseProduct

#: Iterations after which a staged preconditioner is made anew at the point reached.
STAGES = (12, 24, 48, 96)


@dataclass(frozen=True, eq=False)
class StagedPreconditioner:
    """A cheap operator first; a fit that has not converged after some iterations gets a better one, made where it is.

    ``later(x)`` gives v ↦ M⁻¹v at x, or None where there is no better one.
    """

    first: InverseProduct
    later: Callable[[FloatArray], InverseProduct | None]

    def __call__(self, v: FloatArray) -> FloatArray:
        """M⁻¹v of the first stage."""
        return self.first(v)


def is_cheap(operator: Preconditioner | None) -> bool:
    """Whether it is an operator that says (``cheap``) that it is linear and costs little next to an evaluation.

    Its image of the gradient is then computed again where it is needed, which saves the memory of a vector.
    """
    return bool(getattr(operator, "cheap", False))


def split_preconditioner(
    preconditioner: Preconditioner | None, size: int
) -> tuple[FloatArray | None, InverseProduct | None]:
    """The diagonal or the operator, checked; (None, None) for none."""
    if preconditioner is None:
        return None, None
    if callable(preconditioner):
        return None, checked_operator(preconditioner, size)
    diagonal = np.ascontiguousarray(preconditioner, dtype=np.float64)
    if diagonal.shape != (size,):
        raise FieldfitError(
            f"The preconditioner's diagonal has shape {diagonal.shape}; with {size} parameters it must be ({size},)."
        )
    good = np.isfinite(diagonal) & (diagonal > 0)
    if not good.all():
        at = int(np.argmin(good))
        raise FieldfitError(
            f"The preconditioner's diagonal must be positive and finite; entry {at} is {diagonal[at]}. Raise small "
            "entries to a positive floor first."
        )
    return diagonal, None


def checked_operator(operator: InverseProduct, size: int) -> InverseProduct:
    """The operator with the shape of its results checked. It returns a new array each time."""

    def apply(v: FloatArray) -> FloatArray:
        image = np.ascontiguousarray(operator(v), dtype=np.float64)
        if np.may_share_memory(image, v):  # an operator such as the identity may return v itself
            image = image.copy()
        if image.shape != (size,):
            raise FieldfitError(
                f"The preconditioner returned shape {image.shape}; with {size} parameters it must be ({size},)."
            )
        return image

    return apply
