"""Accuracy by products only, for any number of parameters.

The variance of aᵀθ̂ is uᵀMu with (H + P)u = a: one solve by conjugate gradients on Hessian products, and one pass over the
samples for Σ_i (w_i ψ_iᵀu)². Where ψ is the score of a likelihood and the expectation is the model's own, M = βH exactly
(the information identity), and uᵀMu takes one more product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.asymptotics.block_preconditioner import block_preconditioner
from fieldfit.models.base import Problem
from fieldfit.types import BoolArray, FloatArray

#: Solutions that are kept: the robust and the model-based variance of a function share theirs.
_KEPT = 32

Operator = Callable[[FloatArray], FloatArray]
#: (product v ↦ (H + P)v, right-hand side, operator or diagonal near its inverse) ↦ (solution, whether there is one)
Solver = Callable[[Operator, FloatArray, Operator | FloatArray | None], tuple[FloatArray, bool]]


class ImplicitBread:
    """H + P over the free parameters, known by its products, and the solutions of (H + P)u = a.

    ``problems`` are the data with the drawn Z, or several simulated copies of them, which are averaged.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        theta: FloatArray,
        precision: FloatArray,
        free: BoolArray,
        row_weight: FloatArray | None,
        solver: Solver,
    ) -> None:
        self.problems = tuple(problems)
        self.theta, self.precision, self.free, self.row_weight = theta, precision, free, row_weight
        self.products = 0  # Hessian products so far, each over all problems
        self._solver = solver
        self._preconditioner: Operator | FloatArray | None = None
        self._prepared = False
        self._kept: dict[bytes, FloatArray] = {}

    def product(self, v: FloatArray) -> FloatArray:
        """(H + P) v over the free parameters."""
        direction = np.zeros(len(self.free))
        direction[self.free] = v
        total = np.zeros(len(self.free))
        for problem in self.problems:
            total -= problem.hessian_product(self.theta, direction, self.row_weight)
        self.products += 1
        result: FloatArray = (total / len(self.problems) + self.precision * direction)[self.free]
        return result

    def _near_inverse(self) -> Operator | FloatArray | None:
        """What preconditions the solves: a dense block where the curvature is largest, the diagonal elsewhere."""
        if self._prepared:
            return self._preconditioner
        self._prepared = True
        total = np.zeros(len(self.free))
        for problem in self.problems:
            diagonal = problem.hessian_diagonal(self.theta, self.row_weight)
            if diagonal is None:
                return None
            total += diagonal / len(self.problems)
        curvature, precision = np.maximum(total[self.free], 0.0), self.precision[self.free]
        # A feature that never occurs has no curvature; any positive number will do for a preconditioner.
        self._preconditioner = np.where(curvature + precision > 0, curvature + precision, 1.0)
        factor = self.problems[0].hessian_factor(self.theta, self.row_weight)
        if factor is not None:
            block = block_preconditioner(factor[:, np.flatnonzero(self.free)], curvature, precision)
            if block is not None:
                self._preconditioner = block
        return self._preconditioner

    def solve(self, directions: FloatArray) -> FloatArray:
        """(H + P)⁻¹ a for each row a; NaN where it is not identified."""
        result = np.zeros(directions.shape)
        for place, direction in enumerate(directions):
            right = np.ascontiguousarray(direction[self.free])
            if not np.any(right):
                continue
            key = right.tobytes() if len(right) < 10_000 else _signature(right)
            if key not in self._kept:
                solution, solved = self._solver(self.product, right, self._near_inverse())
                while len(self._kept) >= _KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = solution if solved else np.full(len(right), np.nan)
            result[place, self.free] = self._kept[key]
        return result


def _signature(vector: FloatArray) -> bytes:
    from hashlib import blake2b

    return blake2b(vector.tobytes(), digest_size=32).digest()


@dataclass(frozen=True)
class ImplicitAccuracy:
    """Accuracy from products. ``problems`` are the samples of the meat; several simulated copies are averaged.

    ``identity`` is β where the meat is β times the data's part of the bread (a full likelihood, expected under the
    model), None where it comes from the scores of ``problems``.
    """

    bread: ImplicitBread
    problems: Sequence[Problem]
    counts: bool
    method: str
    identity: float | None = None

    @property
    def _theta(self) -> FloatArray:
        return self.bread.theta

    def _meat_weight(self) -> FloatArray | None:
        weight = self.bread.row_weight
        return weight if weight is None or self.counts else weight**2

    def solve(self, directions: FloatArray) -> FloatArray:
        """(H + P)⁻¹ a for each row, by conjugate gradients; NaN where a is not identified, 0 at fixed parameters."""
        return self.bread.solve(directions)

    def covariance_of(self, directions: FloatArray) -> FloatArray:
        """Uᵀ M U with (H + P) U = Aᵀ: one pass over the samples for each function."""
        return self.covariance_of_solved(self.solve(directions))

    def covariance_of_solved(self, solved: FloatArray) -> FloatArray:
        """The same from the solutions U (q, r)."""
        lost: BoolArray = np.asarray(np.isnan(solved).any(axis=1))
        usable = np.where(lost[:, None], 0.0, solved)
        weight = self._meat_weight()
        result = np.zeros((len(solved), len(solved)))
        for problem in self.problems:
            if self.identity is None:
                rows = np.stack([problem.row_products(self._theta, u) for u in usable])
                if weight is not None:
                    rows = rows * np.sqrt(weight)
                result += rows @ rows.T / len(self.problems)
            else:
                images = [self._identity_product(problem, u) for u in usable]
                result += usable @ np.stack(images).T / len(self.problems)
        result = (result + result.T) / 2
        result[lost] = np.nan
        result[:, lost] = np.nan
        return result

    def _identity_product(self, problem: Problem, v: FloatArray) -> FloatArray:
        """M v by the information identity."""
        assert self.identity is not None
        return -self.identity * problem.hessian_product(self._theta, v, self._meat_weight())

    def effective_parameters(self, probes: int = 10, seed: int = 0) -> tuple[float, float]:
        """tr((H + P)⁻¹ M) and its Monte Carlo error.

        With random signs ε_i, s = Σ_i ε_i w_i ψ_i has E ssᵀ = M, so sᵀ(H + P)⁻¹s has the trace as its mean: one gradient
        and one solve for each probe. By the information identity: signs z for each parameter, zᵀ(H + P)⁻¹Mz.
        """
        random = np.random.default_rng(seed)
        free, weight = self.bread.free, self._meat_weight()
        values = []
        for _ in range(probes):
            total = 0.0
            for problem in self.problems:
                if self.identity is None:
                    signs = random.choice([-1.0, 1.0], problem.n_samples)
                    if weight is not None:
                        signs *= np.sqrt(weight)
                    left = right = problem.value_grad(self._theta, signs)[1]
                else:
                    left = np.where(free, random.choice([-1.0, 1.0], len(free)), 0.0)
                    right = self._identity_product(problem, left)
                solved = self.solve(right[None])[0]
                total += float(left[free] @ solved[free]) / len(self.problems)
            values.append(total)
        return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(probes))
