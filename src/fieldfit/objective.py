"""The objective, and the conventions that hold everywhere.

    maximise  Σ_i w_i Σ_j β_j Z_ij log p_θ(x_A | x_B) − Σ_l θ_l² / (2σ_l²)

Sums over samples (never means), natural logarithms. σ² may differ between parameters; None (or infinity) is no
penalty. Optimisers minimise, so this class gives the negative, over the parameters that are not fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.types import BoolArray, FloatArray, ModelError

#: Precision of the penalty, for each sample, up to which a preconditioner that knows no penalty is still a good one.
_WEAK_PENALTY = 0.01


@dataclass(frozen=True)
class Objective:
    """Negative penalised stochastic composite log-likelihood as a function of the free parameters.

    ``start`` (r,) holds the values of the fixed parameters, ``free`` (r,) says which are not fixed, ``precision`` (r,)
    is 1/σ², ``row_weight`` (n,) multiplies samples.
    """

    problem: Problem
    precision: FloatArray
    start: FloatArray
    free: BoolArray
    row_weight: FloatArray | None = None

    @cached_property
    def _everything_free(self) -> bool:
        return bool(self.free.all())

    def full(self, x: FloatArray) -> FloatArray:
        """θ from the free parameters."""
        if self._everything_free:
            return x
        theta = self.start.copy()
        theta[self.free] = x
        return theta

    def _reduced(self, vector: FloatArray) -> FloatArray:
        return vector if self._everything_free else vector[self.free]

    def value_grad(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The objective (to be minimised) and its gradient."""
        theta = self.full(x)
        value, gradient = self.problem.value_grad(theta, self.row_weight)
        penalty = self.precision * theta
        total = 0.5 * float(penalty @ theta) - value
        # In place: with millions of parameters a fresh array costs as much as the subtraction.
        return total, self._reduced(np.subtract(penalty, gradient, out=penalty))

    def hessian_product(self, x: FloatArray, v: FloatArray) -> FloatArray:
        """The objective's Hessian times a vector."""
        direction = v
        if not self._everything_free:
            direction = np.zeros_like(self.start)
            direction[self.free] = v
        product = self.problem.hessian_product(self.full(x), direction, self.row_weight)
        return self._reduced(self.precision * direction - product)

    @property
    def preconditioner(self) -> Callable[[FloatArray], FloatArray] | None:
        """The problem's own operator near H⁻¹ at the start, where it fits: nothing fixed or weighted, a weak penalty."""
        weak = float(self.precision.max(initial=0.0)) <= _WEAK_PENALTY * self.problem.n_samples
        if not (self._everything_free and self.row_weight is None and weak):
            return None
        return self.problem.preconditioner(self.start)

    @property
    def hessian_diagonal(self) -> Callable[[FloatArray], FloatArray] | None:
        """A function that gives an approximate diagonal of the Hessian, or None where the problem has none."""
        at_start = self.problem.hessian_diagonal(self.start, self.row_weight)
        if at_start is None:
            return None

        def diagonal(x: FloatArray) -> FloatArray:
            theta = self.full(x)
            again = np.array_equal(theta, self.start)
            found = at_start if again else self.problem.hessian_diagonal(theta, self.row_weight)
            assert found is not None
            return self._reduced(found + self.precision)

        return diagonal


def precision_of(sigma2: Any, names: Sequence[str]) -> FloatArray:
    """1/σ² for each parameter.

    ``sigma2``: None, a number, a sequence with one number for each parameter, or a mapping from parameter names (or
    shell patterns such as ``"x3*"``) to numbers, with None for all others under the key ``None``.
    """
    r = len(names)
    if sigma2 is None:
        return np.zeros(r)
    if isinstance(sigma2, Mapping):
        from fnmatch import fnmatchcase

        values = np.full(r, _positive(sigma2.get(None, np.inf), "the default"))
        for pattern, value in sigma2.items():
            if pattern is None:
                continue
            places = [place for place, name in enumerate(names) if fnmatchcase(name, pattern)]
            if not places:
                raise ModelError(f"sigma2 names the parameters {pattern!r}, but the model has none of that name.")
            values[places] = _positive(value, repr(pattern))
    else:
        array = np.asarray(sigma2, dtype=object)
        if array.ndim == 0:
            values = np.full(r, _positive(sigma2, "all parameters"))
        elif array.shape == (r,):
            values = np.array([_positive(value, names[place]) for place, value in enumerate(array)])
        else:
            raise ModelError(f"sigma2 has shape {array.shape}; give one number, or one for each of {r} parameters.")
    return 1.0 / values


def l1_weights(l1: Any, names: Sequence[str]) -> FloatArray | None:
    """The weight of |θ| for each parameter, or None for none; ``l1`` is given as ``sigma2`` is in `precision_of`."""
    if l1 is None:
        return None
    r = len(names)
    if isinstance(l1, Mapping):
        from fnmatch import fnmatchcase

        values = np.full(r, _not_negative(l1.get(None, 0.0), "the default"))
        for pattern, value in l1.items():
            if pattern is None:
                continue
            places = [place for place, name in enumerate(names) if fnmatchcase(name, pattern)]
            if not places:
                raise ModelError(f"l1 names the parameters {pattern!r}, but the model has none of that name.")
            values[places] = _not_negative(value, repr(pattern))
    elif np.ndim(l1) == 0:
        values = np.full(r, _not_negative(l1, "all parameters"))
    else:
        if np.shape(l1) != (r,):
            raise ModelError(f"l1 has shape {np.shape(l1)}; give one number, or one for each of {r} parameters.")
        values = np.array([_not_negative(value, names[place]) for place, value in enumerate(l1)])
    return values if values.any() else None


def _not_negative(value: Any, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0 <= number < np.inf:
        raise ModelError(f"The L1 weight of {what} is {value!r}; it must be a number of at least 0.")
    return number


def _positive(value: Any, what: str) -> float:
    if value is None:
        return np.inf
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not number > 0:
        raise ModelError(f"σ² of {what} is {value!r}; it must be a positive number, or None for no penalty.")
    return number
