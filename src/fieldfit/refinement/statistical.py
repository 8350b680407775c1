"""Stop when the optimisation error is small against the sampling error.

With the gradient γ of the objective (a sum over samples), its Hessian H and the scores' covariance M = Σψψᵀ, the distance
to the optimum in the metric of the information is γᵀH⁻¹γ, and the sampling error of the optimum itself is tr(H⁻¹M) on
average: both in units of H. A fit has converged statistically when

    γᵀ H⁻¹ γ ≤ fraction² · tr(H⁻¹ M).

γᵀH⁻¹γ comes from conjugate gradients on Hessian products, and tr(H⁻¹M) from sᵀH⁻¹s with s = Σ ε_i ψ_i, ε random signs.
Both are computed only at iterations at which the gradient is several times smaller than when they were last computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from fieldfit.optim import Progress, Solution
from fieldfit.optim.cg import conjugate_gradients
from fieldfit.types import FloatArray

#: The optimisation error at which a fit has converged, as a part of the sampling error.
FRACTION = 0.05
#: How many times smaller the gradient must be before both are computed again.
_APART = 4.0
#: Vectors of random signs behind tr(H⁻¹M), relative residual of a solve, and products of a solve at most.
_PROBES, _RESIDUAL, _MOST_PRODUCTS = 2, 0.2, 200


class StoppedObjective(Protocol):
    """What the rule needs of an objective: `fieldfit.objective.Objective`, or an expansion of one."""

    def value_grad(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The objective (to be minimised) and its gradient."""

    def hessian_product(self, x: FloatArray, v: FloatArray) -> FloatArray:
        """Its Hessian times a vector."""

    def signed_score(self, x: FloatArray, random: np.random.Generator) -> FloatArray:
        """Σ_i ε_i ψ_i with random signs ε."""

    @property
    def hessian_diagonal(self) -> Callable[[FloatArray], FloatArray] | None:
        """A function that gives an approximate diagonal of the Hessian, or None."""


@dataclass
class StatisticalStop:
    """Tells an optimiser when to stop; afterwards ``error`` is the optimisation error as a part of the sampling error."""

    objective: StoppedObjective
    seed: int = 0
    fraction: float = FRACTION
    error: float = float("inf")
    products: int = 0
    evaluations: int = 0
    stopped: bool = False
    _last: float = field(default=float("inf"), repr=False)
    _noise: float | None = field(default=None, repr=False)

    def __call__(self, state: Progress, x: FloatArray) -> bool:
        """Whether the fit has converged statistically at this iteration."""
        if state.iteration == 0:
            self._last = state.gradient_norm
        if state.iteration == 0 or state.gradient_norm * _APART > self._last:
            return False
        self._last = state.gradient_norm
        self.error = self.error_at(np.array(x))
        self.stopped = self.error <= self.fraction
        return self.stopped

    def judged(self, solution: Solution, gtol: float) -> Solution:
        """The solution with the work of the judgements, and converged if they said so."""
        counted = replace(
            solution,
            evaluations=solution.evaluations + self.evaluations,
            hessian_products=solution.hessian_products + self.products,
        )
        if not self.stopped:
            return counted
        message = (
            f"converged: optimisation error {100 * self.error:.2g}% of the sampling error, gradient "
            f"{solution.gradient_norm / gtol:.2g} times the tolerance 1e-6"
        )
        return replace(counted, converged=True, message=message)

    def error_at(self, x: FloatArray) -> float:
        """√(γᵀH⁻¹γ / tr(H⁻¹M)) at x."""
        gradient = self.objective.value_grad(x)[1]
        self.evaluations += 1
        distance = self._form(x, np.ascontiguousarray(gradient))
        if distance is None:
            return float("inf")
        if self._noise is None:
            self._noise = self._sampling_error(x)
        return float("inf") if self._noise is None else float(np.sqrt(distance / self._noise))

    def _sampling_error(self, x: FloatArray) -> float | None:
        """tr(H⁻¹M) at x; it changes little near the optimum, and is computed once."""
        random = np.random.default_rng(self.seed)
        noise = []
        for _ in range(_PROBES):
            score = self.objective.signed_score(x, random)
            self.evaluations += 1
            form = self._form(x, np.ascontiguousarray(score))
            if form is None:
                return None
            noise.append(form)
        return float(np.mean(noise))

    def _form(self, x: FloatArray, b: FloatArray) -> float | None:
        """bᵀH⁻¹b, or None where the Hessian is not positive definite."""
        if not b.any():
            return 0.0
        diagonal = self.objective.hessian_diagonal
        solution, state = conjugate_gradients(
            lambda v: self.objective.hessian_product(x, v),
            b,
            tol=_RESIDUAL,
            max_iter=_MOST_PRODUCTS,
            preconditioner=None if diagonal is None else diagonal(x),
        )
        self.products += state.products
        return float(b @ solution) if state.positive else None
