"""Stop when the optimisation error is small against the sampling error.

With the gradient γ of the objective (a sum over samples), its Hessian H and the scores' covariance M = Σψψᵀ, the distance
to the optimum in the metric of the information is γᵀH⁻¹γ, and the sampling error of the optimum itself is tr(H⁻¹M) on
average: both in units of H. A fit has converged statistically when

    γᵀ H⁻¹ γ ≤ fraction² · tr(H⁻¹ M).

A sum over parameters says little of one of them: of 55 parameters one may be √55 times as far from its optimum. So the
Newton step δ = H⁻¹γ must be short for each parameter too,

    |δ_j| ≤ fraction · s_j,    s_j² = (H⁻¹)_jj tr(H⁻¹M)/r,

where s_j is its standard error if M is proportional to H; for a full likelihood, M is about H. Without H as a matrix
1/H_jj, which is smaller, stands for (H⁻¹)_jj where the objective has the diagonal. Where it has none, the rule uses
|δ_j|² ≤ (H⁻¹)_jj γᵀH⁻¹γ.

Directions that only a penalty determines have no part in the right side, and hardly any in the left one. So the Newton step
−H⁻¹γ must be short as well: at most 1% of max(1, |θ|) for each parameter with a penalty.

γᵀH⁻¹γ comes from conjugate gradients on Hessian products, and tr(H⁻¹M) from sᵀH⁻¹s with s = Σ ε_i ψ_i, ε random signs.
Where Newton's method has the Hessian as a matrix, the one of its last step is used first. It is from the point before, so
where the rule then holds, the distance is computed again with the Hessian of the point itself.
Both are computed only once γ is smaller than ``fraction`` of s, at iterations at which the gradient is several times
smaller than when they were last computed, and only if that costs less than the rest of the way to the usual tolerance, as
the decrease of the gradient so far predicts it.

An estimate that is only the start of another fit needs no such care: `start_tolerance` is the gradient at which it ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.objective import Objective
from fieldfit.optim import Progress, Solution
from fieldfit.optim.cg import conjugate_gradients
from fieldfit.optim.keeping import State, read_history
from fieldfit.properties import cached_property
from fieldfit.types import FieldfitError, FloatArray

if TYPE_CHECKING:
    from fieldfit.refinement.expansion import ExpandedObjective

#: The optimisation error at which a fit has converged, as a part of the sampling error.
FRACTION = 0.05
#: The longest Newton step at a penalised optimum, as a part of max(1, |θ|).
_LONGEST_STEP = 0.01
#: How many times smaller the gradient must be before both are computed again.
_GRADIENT_RATIO = 4.0
#: Squares that the mean of sᵀH⁻¹s has for tr(H⁻¹M), one for each parameter and vector of random signs, and vectors at most:
#: where each takes a solve, and where the Hessian is a matrix.
_FEWEST_SQUARES, _MOST_PROBES, _MOST_PROBES_BY_MATRIX = 40, 2, 8
#: With a matrix, where another step is cheap, the sampling error that counts is this many standard errors of that mean
#: below it, and at least this part of it.
_SURE_ERRORS, _LEAST_NOISE_PART = 2.33, 0.3
#: Relative residual of a solve, and products of a solve at most.
_SOLVE_RESIDUAL, _MOST_SOLVE_PRODUCTS = 0.2, 200
#: The gradient of a fit that is only a start, as a part of its sampling error: about as far as estimates of different
#: policies are from each other.
_START_GRADIENT = 0.25
#: Products of a solve before the first one is known, and iterations that count as recent.
_USUAL_PRODUCTS, _RECENT = 6, 4
#: How many times the cost of the check the rest of the way must cost.
_WORTHWHILE_RATIO = 1.0
#: Saved evaluations that a message gives at most: a gradient that hardly decreases predicts no number.
_MOST_SAID = 10_000
#: Evaluations and Hessian products that a saved state may have counted.
_MOST_CALLS = 10_000_000


@dataclass(frozen=True, eq=False)
class _Form:
    """``value`` bᵀH⁻¹b and ``solution`` H⁻¹b."""

    value: float
    solution: FloatArray


@dataclass(frozen=True)
class CountedObjective(Objective):
    """An objective that adds an entry to ``calls`` for each evaluation and Hessian product.

    A Hessian as a matrix counts as the evaluations that take as long; ``matrices`` has the last one.
    """

    calls: list[None] = field(default_factory=list)
    matrices: list[FloatArray] = field(default_factory=list)

    @classmethod
    def of(cls, plain: Objective) -> CountedObjective:
        """The same objective, counted."""
        return cls(**{field.name: getattr(plain, field.name) for field in fields(plain)})

    def value_grad(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The objective (to be minimised) and its gradient."""
        self.calls.append(None)
        return super().value_grad(x)

    def hessian_product(self, x: FloatArray, v: FloatArray) -> FloatArray:
        """Its Hessian times a vector."""
        if not self.by_matrix:
            self.calls.append(None)
        return super().hessian_product(x, v)

    def hessian(self, x: FloatArray) -> FloatArray:
        """Its Hessian as a matrix."""
        self.calls.extend([None] * math.ceil(self.problem.hessian_evaluations))
        matrix = super().hessian(x)
        self.matrices[:] = [matrix]
        return matrix


def start_tolerance(objective: Objective, seed: int) -> float:
    """A gradient (in units of the features) that is small against its sampling error, for an estimate that is a start."""
    x = objective.start[objective.free]
    score = objective.signed_score(x, np.random.default_rng(seed))
    return _START_GRADIENT * _largest(score, objective.free_units)


def _largest(gradient: FloatArray, units: FloatArray | None) -> float:
    """The largest entry of a gradient with respect to ``units * x``."""
    return float(np.abs(gradient if units is None else gradient / units).max(initial=0.0))


@dataclass
class StatisticalStop:
    """Tells an optimiser when to stop; afterwards ``error`` is the optimisation error as a part of the sampling error.

    ``gtol`` is the gradient norm at which the optimiser would stop by itself, 0 where it would not, ``calls`` counts
    its evaluations and Hessian products so far, and ``matrices`` has the Hessian of its last step if it is a matrix.
    The optimiser measures gradients in ``units`` of the features (None: 1).
    """

    objective: Objective | ExpandedObjective
    seed: int = 0
    gtol: float = 0.0
    calls: list[None] = field(default_factory=list)
    matrices: list[FloatArray] = field(default_factory=list)
    units: FloatArray | None = None
    fraction: float = FRACTION
    error: float = float("inf")
    products: int = 0
    evaluations: int = 0
    stopped: bool = False
    saved: float = 0.0
    _scores: list[FloatArray] = field(default_factory=list, repr=False)
    _solves: int = field(default=0, repr=False)
    _history: list[tuple[int, float]] = field(default_factory=list, repr=False)
    _last: float = field(default=float("inf"), repr=False)
    _noise: float | None = field(default=None, repr=False)

    def __call__(self, state: Progress, x: FloatArray) -> bool:
        """Whether the fit has converged statistically at this iteration; an iteration is judged once."""
        if len(self._history) > state.iteration:
            return self.stopped
        before = {**vars(self), "_history": list(self._history), "_scores": list(self._scores)}
        try:
            return self._judge(state, x)
        except BaseException:  # an interrupt: what is kept of a fit must be from before or after a judgement
            vars(self).update(before)
            raise

    def _judge(self, state: Progress, x: FloatArray) -> bool:
        self._history.append((len(self.calls), state.gradient_norm))
        if state.iteration == 0:
            self._last = state.gradient_norm
        if state.iteration == 0 or state.gradient_norm * _GRADIENT_RATIO > self._last:
            return False
        # With a matrix the check costs no more than the gradient and a score, and always less than another step.
        if not self.matrices and self.remaining() <= _WORTHWHILE_RATIO * self._cost():
            return False
        if not self._plausible(state.gradient_norm, x):
            return False
        self._last = state.gradient_norm
        self.error = self.error_at(np.array(x))
        self.stopped = self.error <= self.fraction
        self.saved = self.remaining() - self.evaluations - self.products
        return self.stopped

    def state(self, iteration: int) -> State:
        """What it remembers where the optimiser is at this iteration.

        An interrupt may have come before the iteration was judged: then the Hessian of the last step is kept too.
        """
        judged = len(self._history) > iteration
        numbers = [
            self._history[-1][0] if judged else len(self.calls), self.error, self.products, self.evaluations, self.stopped,
            self.saved, self._solves, self._last, np.nan if self._noise is None else self._noise,
        ]  # fmt: skip
        kept: State = {
            "judgement": np.array(numbers, dtype=np.float64),
            "judged": np.array(self._history, dtype=np.float64).reshape(-1, 2),
            "probes": np.array(self._scores, dtype=np.float64),
        }
        if self.matrices and not judged:
            kept["step_hessian"] = self.matrices[0]
        return kept

    def take_state(self, state: State) -> None:
        """Remember what `state` gave. A fit whose tolerance was a number has judged nothing: its last iteration is next."""
        try:
            if "judgement" not in state:
                norms = [line.gradient_norm for line in read_history(state)]
                self.calls[:] = [None] * len(norms)
                self._history = [(k + 1, norm) for k, norm in enumerate(norms[:-1])]
                self._last = norms[0]
                return
            calls, error, products, evaluations, stopped, saved, solves, last, noise = state["judgement"].tolist()
            judged = [(int(count), float(norm)) for count, norm in state["judged"].tolist()]
            scores = [np.array(score, dtype=np.float64) for score in state["probes"]]
            size, matrix = len(state["x"]), state.get("step_hessian")
            if any(score.shape != (size,) for score in scores):
                raise ValueError("probes")
            if matrix is not None and (matrix.shape != (size, size) or matrix.dtype != np.float64):
                raise ValueError("Hessian")
            if not 0 <= calls <= _MOST_CALLS:
                raise ValueError("calls")
            self.products, self.evaluations, self._solves = int(products), int(evaluations), int(solves)
        except (KeyError, ValueError, TypeError, IndexError, OverflowError) as damage:
            raise FieldfitError(
                f"The saved state is not one of a fit that stops by its sampling error ({damage}). Start again without it."
            ) from damage
        self.calls[:] = [None] * int(calls)
        self.matrices[:] = [] if matrix is None else [matrix]
        self.error, self.stopped, self.saved, self._last = float(error), bool(stopped), float(saved), float(last)
        self._noise = None if np.isnan(noise) else float(noise)
        self._scores, self._history = scores, judged

    def _plausible(self, gradient_norm: float, x: FloatArray) -> bool:
        """Whether the gradient is small against a sum of scores with random signs, which costs one evaluation once."""
        if not self._scores:
            self._probe(np.array(x))
        fraction = self.fraction
        if not self.matrices:
            # The largest of r normal numbers is about √(2 log r) times as large as one of them, and at most √r times as
            # large as their mean square.
            r = max(2, len(x))
            fraction /= math.sqrt(2 * math.log(r) if self._has_diagonal else r)
        return gradient_norm <= fraction * _largest(self._scores[0], self.units)

    @cached_property
    def _has_diagonal(self) -> bool:
        """Whether the objective has an approximate diagonal of its Hessian."""
        return self.objective.hessian_diagonal is not None

    def _probe(self, x: FloatArray) -> None:
        """Add a sum of scores with random signs; these change little near the optimum."""
        random = np.random.default_rng([self.seed, len(self._scores)])
        self._scores.append(np.ascontiguousarray(self.objective.signed_score(x, random)))
        self.evaluations += 1

    def remaining(self) -> float:
        """Predicted evaluations and Hessian products until the optimiser would stop by itself.

        The gradient is taken to decrease as fast as it did in the last iteration, in the recent ones or in all, whichever
        is fastest: Newton's method and L-BFGS speed up near the optimum, and a gradient may grow for a while.
        """
        if self.gtol <= 0:
            return float("inf")
        now, present = self._history[-1]
        if present <= self.gtol:
            return 0.0
        rates = []
        for place in {0, max(0, len(self._history) - 1 - _RECENT), max(0, len(self._history) - 2)}:
            before, norm = self._history[place]
            if norm > present:
                rates.append(np.log(norm / present) / max(1, now - before))
        return float(np.log(present / self.gtol) / max(rates)) if rates else float("inf")

    def _cost(self) -> float:
        """Predicted evaluations and Hessian products of computing the error."""
        # An iteration of Newton's method has a solve of its own, which is as hard.
        last = self._history[-1][0] - self._history[-2][0]
        products = self.products / self._solves if self._solves else max(_USUAL_PRODUCTS, last / 2)
        solves = 1 if self._noise is not None else 1 + (self._probes(len(self._scores[0])) if self._scores else 2)
        return solves * (1 + products)

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
            f"{solution.gradient_norm / gtol:,.3g} times the tolerance"
        )
        if self.saved >= 1:
            message += f"; an estimated {min(self.saved, _MOST_SAID):,.0f} evaluations saved"
        return replace(counted, converged=True, message=message)

    def error_at(self, x: FloatArray) -> float:
        """√(γᵀH⁻¹γ / tr(H⁻¹M)) at x, or the largest abs(δ_j)/s_j where that is larger."""
        gradient = self.objective.value_grad(x)[1]
        self.evaluations += 1
        form = self._form(x, np.ascontiguousarray(gradient))
        if form is None:
            return float("inf")
        matrix = self.matrices[0] if self.matrices else None
        if self._noise is None:
            self._noise = self._sampling_error(x)
        if self._noise is None:
            return float("inf")
        if matrix is not None and form.value <= self.fraction**2 * self._noise:
            # The matrix is from the point before the last step, where the curvature may have been larger.
            matrix = self.objective.hessian(x)
            fresh = _inverse_form(matrix, gradient)
            self.evaluations += 1
            if fresh is None:
                return float("inf")
            form = fresh
        far = np.abs(form.solution) > _LONGEST_STEP * np.maximum(1.0, np.abs(x))
        if far[self.objective.penalised].any():
            return float("inf")
        together = float(np.sqrt(form.value / self._noise))
        return together if together > self.fraction else max(together, self._largest_part(x, form, matrix))

    def _largest_part(self, x: FloatArray, form: _Form, matrix: FloatArray | None) -> float:
        """The largest |δ_j|/s_j, or a bound on it where there is no diagonal of the Hessian; needs the sampling error."""
        assert self._noise is not None
        if matrix is not None:
            variance = np.diagonal(np.linalg.inv(matrix))
        else:
            diagonal = self.objective.hessian_diagonal
            if diagonal is None:  # |δ_j|² ≤ (H⁻¹)_jj γᵀH⁻¹γ
                return float(np.sqrt(form.value * len(x) / self._noise))
            variance = 1.0 / diagonal(x)
        error = np.sqrt(variance * (self._noise / max(1, len(x))))
        return float(np.max(np.abs(form.solution) / error, initial=0.0))

    def _sampling_error(self, x: FloatArray) -> float | None:
        """tr(H⁻¹M) at x, less its own error with a matrix; it changes little near the optimum, and is computed once."""
        while len(self._scores) < self._probes(len(x)):
            self._probe(x)
        forms = [form for form in (self._form(x, score) for score in self._scores) if form is not None]
        if len(forms) < len(self._scores):
            return None
        mean = float(np.mean([form.value for form in forms]))
        if not self.matrices:
            return mean
        # A sum of squares, one for each parameter and vector of signs: its relative standard error is about √(2/squares).
        error = math.sqrt(2 / max(1, len(forms) * len(x)))
        return mean * max(1 - _SURE_ERRORS * error, _LEAST_NOISE_PART)

    def _probes(self, n_parameters: int) -> int:
        """How many vectors of random signs the sampling error takes."""
        most = _MOST_PROBES_BY_MATRIX if self.matrices else _MOST_PROBES
        return min(most, max(1, math.ceil(_FEWEST_SQUARES / max(1, n_parameters))))

    def _form(self, x: FloatArray, b: FloatArray) -> _Form | None:
        """bᵀH⁻¹b, or None where the Hessian is not positive definite."""
        if not b.any():
            return _Form(0.0, np.zeros(len(b)))
        if self.matrices:
            return _inverse_form(self.matrices[0], b)
        diagonal = self.objective.hessian_diagonal
        solution, state = conjugate_gradients(
            lambda v: self.objective.hessian_product(x, v),
            b,
            tol=_SOLVE_RESIDUAL,
            max_iter=_MOST_SOLVE_PRODUCTS,
            preconditioner=None if diagonal is None else diagonal(x),
        )
        self.products += state.products
        self._solves += 1
        return _Form(float(b @ solution), solution) if state.positive else None


def _inverse_form(matrix: FloatArray, b: FloatArray) -> _Form | None:
    """bᵀH⁻¹b by Cholesky, or None where H is not positive definite."""
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    root = np.linalg.solve(factor, b)
    return _Form(float(root @ root), np.linalg.solve(factor.T, root))
