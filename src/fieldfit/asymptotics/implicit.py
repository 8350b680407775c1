"""Accuracy by products only, for any number of parameters.

The variance of aᵀθ̂ is uᵀMu with (H + P)u = a: one solve by conjugate gradients on Hessian products, and one pass over the
samples for Σ_i (w_i ψ_iᵀu)². Where ψ is the score of a likelihood and the expectation is the model's own, M = βH exactly
(the information identity), and uᵀMu takes one more product.

An error e of u changes the variance by at most 2‖e‖‖u‖ + ‖e‖² in the norm of M. Conjugate gradients know ‖e‖ in the norm of
H + P (it is what aᵀu still lacks), so a solve continues until eᵀ(H + P)e ≤ δ² uᵀMu: a standard error is then known to about
δ where M is of the size of H + P, and in practice far better. The rule uses uᵀMu itself because a robust variance, or
that of a parameter which only the penalty holds, may be thousands of times smaller than aᵀu.

Sorted by curvature, a few features of a tagger (tags, frequent words, transitions) have nearly all of it, and they are
what is nearly collinear. As a preconditioner their block of H + P is taken from a sparse factor X (XᵀX near H) and
inverted by Cholesky's method; the many rare features have little curvature beside the penalty, and their diagonal is
enough. On CoNLL-2000 (σ² = 10) `benchmarks/standard_errors.py` counts the Hessian products of a solve; with the diagonal
alone 160 were not enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fieldfit.asymptotics.meat import ScoreVariance
from fieldfit.models.problem import Problem
from fieldfit.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Relative error of a standard error at which its solve may end (δ above).
STANDARD_ERROR_TOLERANCE = 1e-3
#: Solutions that are kept, because the robust and the model-based variance of a function share theirs: number, and
#: bytes, and always the last one.
_KEPT, _KEPT_BYTES = 32, 1 << 28

#: Parameters in the dense block. With three times as many the noise of a factor of few draws costs more than it gains.
DENSE_BLOCK_PARAMETERS = 1_000
#: Added to the block's diagonal, relative to it: the factor may have a lower rank than H.
_RIDGE = 1e-8

Operator = Callable[[FloatArray], FloatArray]
#: u ↦ how large eᵀ(H + P)e may be for a solution near u
Limit = Callable[[FloatArray], float]


@dataclass(frozen=True)
class Solved:
    """A solution u of (H + P)u = a over the free parameters, NaN if there is none; ``missing`` is about eᵀ(H + P)e."""

    u: FloatArray
    missing: float


@dataclass(frozen=True)
class Preconditioner:
    """v ↦ M⁻¹v or the diagonal of M; ``near`` says that M is near H + P in all directions."""

    inverse: Operator | FloatArray
    near: bool = False

    def in_units(self, units: FloatArray) -> Preconditioner:
        """The same for D(H + P)D with D = diag(1/units)."""
        inverse = self.inverse
        if callable(inverse):
            return Preconditioner(lambda v: inverse(v * units) * units, self.near)
        return Preconditioner(inverse / units**2, self.near)


#: (product v ↦ (H + P)v, right-hand side, what is near its inverse, limit) ↦ the solution
Solver = Callable[[Operator, FloatArray, Preconditioner | None, Limit | None], Solved]


class ImplicitBread:
    """H + P over the free parameters, known by its products, and the solutions of (H + P)u = a.

    ``problems`` are the data with the drawn Z, or several simulated copies of them, which are averaged. The last solutions
    are kept: at most 32 of them, in at most 256 MB (of r doubles each; with more than 33 million parameters, one). Solves
    are in ``units`` (r,) of the features (all 1 if None), in which a residual means the same for every parameter.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        theta: FloatArray,
        precision: FloatArray,
        free: BoolArray,
        row_weight: FloatArray | None,
        solver: Solver,
        units: FloatArray | None = None,
    ) -> None:
        self.problems = tuple(problems)
        self._units = None if units is None else units[free]
        self.theta, self.precision, self.free, self.row_weight = theta, precision, free, row_weight
        self._products = 0  # each over all problems
        self._solver = solver
        self._preconditioner: Preconditioner | None = None
        self._prepared = False
        self._kept: dict[bytes, Solved] = {}

    @property
    def products(self) -> int:
        """The number of Hessian products so far."""
        return self._products

    def product(self, v: FloatArray) -> FloatArray:
        """(H + P) v over the free parameters."""
        direction = self.full(v)
        result: FloatArray = (self.data_product(direction) + self.precision * direction)[self.free]
        return result

    def data_product(self, direction: FloatArray) -> FloatArray:
        """H v over all parameters (r,), without the penalty."""
        total = np.zeros(len(self.free))
        for problem in self.problems:
            total -= problem.hessian_product(self.theta, direction, self.row_weight)
        self._products += 1
        return total / len(self.problems)

    def full(self, v: FloatArray) -> FloatArray:
        """A vector over the free parameters as one over all, 0 at the fixed ones."""
        whole = np.zeros(len(self.free))
        whole[self.free] = v
        return whole

    def _near_inverse(self) -> Preconditioner | None:
        """What preconditions the solves: the problem's own operator, or a block and the diagonal."""
        if not self._prepared:
            self._prepared = True
            given = (
                self.problems[0].preconditioner(self.theta, self.precision, self.row_weight)
                if self.free.all()
                else None
            )
            self._preconditioner = self._from_diagonal() if given is None else Preconditioner(given, near=True)
        return self._preconditioner

    def _from_diagonal(self) -> Preconditioner | None:
        """A dense block where the curvature is largest, the diagonal elsewhere."""
        total = np.zeros(len(self.free))
        for problem in self.problems:
            diagonal = problem.hessian_diagonal(self.theta, self.row_weight)
            if diagonal is None:
                return None
            total += diagonal / len(self.problems)
        curvature, precision = np.maximum(total[self.free], 0.0), self.precision[self.free]
        # A feature that never occurs has no curvature; any positive number will do for a preconditioner.
        diagonal = np.where(curvature + precision > 0, curvature + precision, 1.0)
        factor = self.problems[0].hessian_factor(self.theta, self.row_weight)
        if factor is not None:
            block = block_preconditioner(factor[:, np.flatnonzero(self.free)], curvature, precision)
            if block is not None:
                return Preconditioner(block)
        return Preconditioner(diagonal)

    def solve(self, directions: FloatArray, limit: Limit | None = None) -> FloatArray:
        """(H + P)⁻¹ a for each row a; NaN where it is not identified.

        aᵀu is accurate to the solver's tolerance, and so is u to the square root of that in the norm of H + P, or to
        ``limit(u)`` where that is less.
        """
        result = np.zeros(directions.shape)
        for place, direction in enumerate(directions):
            right = np.ascontiguousarray(direction[self.free])
            if np.any(right):
                result[place, self.free] = self._solution(right, limit).u
        return result

    def _solution(self, right: FloatArray, limit: Limit | None) -> Solved:
        """The solution for one right-hand side, from memory if it is there and accurate enough."""
        key = _signature(right)
        known = self._kept.get(key)
        if known is not None and (limit is None or known.missing == 0 or known.missing <= limit(known.u)):
            return known
        self._kept.pop(key, None)
        most = max(1, min(_KEPT, _KEPT_BYTES // right.nbytes))
        while len(self._kept) >= most:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = solved = self._solved(right, limit)
        return solved

    def _solved(self, right: FloatArray, limit: Limit | None) -> Solved:
        """The solution by the solver, in units of the features: with D = diag(1/units), D(H + P)D v = Da and u = Dv."""
        near, units = self._near_inverse(), self._units
        if units is None:
            return self._solver(self.product, right, near, limit)
        solved = self._solver(
            lambda v: self.product(v / units) / units,
            right / units,
            None if near is None else near.in_units(units),
            None if limit is None else lambda v: limit(v / units),
        )
        return Solved(solved.u / units, solved.missing)


def _signature(vector: FloatArray) -> bytes:
    from hashlib import blake2b

    return blake2b(vector.data, digest_size=32).digest()


def block_preconditioner(
    factor: csr_array, curvature: FloatArray, precision: FloatArray
) -> Callable[[FloatArray], FloatArray] | None:
    """v ↦ M⁻¹v for H + P with H near ``factor``ᵀ ``factor``; None if the block is singular.

    ``curvature`` (r,) is the diagonal of H, ``precision`` (r,) that of P.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    r = len(curvature)
    diagonal = curvature + precision
    chosen = np.sort(np.argsort(-curvature, kind="stable")[: min(DENSE_BLOCK_PARAMETERS, r)])
    columns = factor[:, chosen]
    block = (columns.T @ columns).toarray()
    block[np.diag_indices_from(block)] += precision[chosen] + _RIDGE * diagonal[chosen]
    try:
        cholesky = cho_factor(block, lower=True)
    except LinAlgError:
        return None
    inverse = 1.0 / np.where(diagonal > 0, diagonal, 1.0)

    def apply(v: FloatArray) -> FloatArray:
        result: FloatArray = v * inverse
        result[chosen] = cho_solve(cholesky, v[chosen], check_finite=False)
        return result

    return apply


class Bread(Protocol):
    """What solves for the functions of an `ImplicitAccuracy`."""

    theta: FloatArray
    free: BoolArray
    precision: FloatArray

    @property
    def products(self) -> int:
        """The number of Hessian products so far."""

    def full(self, v: FloatArray) -> FloatArray:
        """A vector over the free parameters as one over all."""

    def solve(self, directions: FloatArray, limit: Limit | None = None) -> FloatArray:
        """u (q, r) for the rows a of ``directions``, so that uᵀMu is the variance of aᵀθ̂."""


@dataclass(frozen=True)
class ImplicitAccuracy:
    """Accuracy from products. ``problems`` are the samples of the meat; several simulated copies are averaged.

    ``identity`` is β where the meat is β times the data's part of the bread (a full likelihood, expected under the
    model), None where it comes from the scores of ``problems``. ``variance`` says how the meat is made of scores.
    """

    bread: Bread
    problems: Sequence[Problem]
    variance: ScoreVariance
    method: str
    identity: float | None = None

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the variances: many independent samples."""
        return math.inf

    @property
    def _theta(self) -> FloatArray:
        return self.bread.theta

    def solve(self, directions: FloatArray) -> FloatArray:
        """(H + P)⁻¹ a for each row, by conjugate gradients; NaN where a is not identified, 0 at fixed parameters."""
        return self.bread.solve(directions)

    def covariance_of(self, directions: FloatArray) -> FloatArray:
        """Uᵀ M U with (H + P) U = Aᵀ: one pass over the samples for each function."""
        return self.covariance_of_solved(self.bread.solve(directions, self._limit))

    def _limit(self, u: FloatArray) -> float:
        """How large eᵀ(H + P)e may be where the variance is to be uᵀMu."""
        variance = float(self.covariance_of_solved(self.bread.full(u)[None])[0, 0])
        return STANDARD_ERROR_TOLERANCE**2 * max(variance, 0.0)

    def covariance_of_solved(self, solved: FloatArray) -> FloatArray:
        """The same from the solutions U (q, r)."""
        mean: FloatArray = self.replicates_of_solved(solved).mean(axis=0)
        return mean

    def replicates_of_solved(self, solved: FloatArray) -> FloatArray:
        """UᵀMU with the meat of each problem alone (problems, q, q)."""
        lost: BoolArray = np.asarray(np.isnan(solved).any(axis=1))
        usable = np.where(lost[:, None], 0.0, solved)
        result = np.zeros((len(self.problems), len(solved), len(solved)))
        for place, problem in enumerate(self.problems):
            if self.identity is None:
                result[place] = self.variance.form(problem, self._theta, usable)
            else:
                images = [self._identity_product(problem, u) for u in usable]
                result[place] = usable @ np.stack(images).T
        result = (result + result.transpose(0, 2, 1)) / 2
        result[:, lost] = np.nan
        result[:, :, lost] = np.nan
        return result

    def simulation_error_of(self, direction: FloatArray) -> float | None:
        """Relative Monte Carlo error of the standard error of aᵀθ̂ by the spread of simulated meats; None for one meat."""
        count = len(self.problems)
        if count < 2:
            return None
        variances = self.replicates_of_solved(self.bread.solve(direction[None], self._limit))[:, 0, 0]
        mean = float(variances.mean())
        return 0.5 * float(variances.std(ddof=1)) / (mean * np.sqrt(count)) if mean > 0 else None

    def _identity_product(self, problem: Problem, v: FloatArray) -> FloatArray:
        """M v by the information identity."""
        assert self.identity is not None
        return -self.identity * problem.hessian_product(self._theta, v, self.variance.squared)

    def effective_parameters(self, probes: int = 10, seed: int = 0) -> tuple[float, float]:
        """tr((H + P)⁻¹ M) and its Monte Carlo error, by probes whose quadratic form the solves control.

        - From scores: with random signs ε_i, s = Σ_i ε_i w_i ψ_i has E ssᵀ = M, so sᵀ(H + P)⁻¹s has the trace as its mean.
        - M = βH and a penalty on every parameter: the trace is β(r − tr(P(H + P)⁻¹)), and s = √P z with signs z has
          E ssᵀ = P.
        - M = βH otherwise (no penalty somewhere, or importance weights, which M has squared): zᵀ(H + P)⁻¹Mz, which is a
          product of two vectors and no quadratic form; these solves end by their residual.
        """
        random = np.random.default_rng(seed)
        values = []
        for _ in range(probes):
            parts = [self._trace_probe(problem, random) for problem in self.problems]
            values.append(float(np.mean(parts)))
        return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(probes))

    def _trace_probe(self, problem: Problem, random: np.random.Generator) -> float:
        free, precision = self.bread.free, self.bread.precision
        if self.identity is None:
            return self._form(self.variance.random_sum(problem, self._theta, random))
        signs = np.where(free, random.choice([-1.0, 1.0], len(free)), 0.0)
        same_weights = self.variance.row_weight is None or self.variance.counts
        if same_weights and np.all(precision[free] > 0):
            return self.identity * (int(free.sum()) - self._form(np.sqrt(precision) * signs))
        image = self._identity_product(problem, signs)
        solved = self.bread.solve(image[None], lambda u: 0.0)[0]
        return float(signs[free] @ solved[free])

    def _form(self, s: FloatArray) -> float:
        """sᵀ(H + P)⁻¹s over the free parameters."""
        free = self.bread.free
        return float(s[free] @ self.solve(s[None])[0][free])
