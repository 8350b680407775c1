"""The objective, and the conventions that hold everywhere.

    maximise  Σ_i w_i Σ_j β_j Z_ij log p_θ(x_A | x_B) − Σ_l θ_l² / (2σ_l²)

Sums over samples (never means), natural logarithms. σ² may differ between parameters; None (or infinity) is no
penalty. Optimisers minimise, so this class gives the negative, over the parameters that are not fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.asymptotics.separation import Landscape
from fieldfit.data.dataset import effective_size
from fieldfit.models.potts_coordinates import CentredCoordinates
from fieldfit.models.problem import Problem
from fieldfit.optim import Callback, Solution, minimise
from fieldfit.optim.choose import EXPENSIVE_PRODUCT, LEAST_CURVATURE, Method
from fieldfit.optim.coordinates import Transformed
from fieldfit.optim.descent import ValueGradient
from fieldfit.optim.keeping import Keeper
from fieldfit.optim.newton import DENSE_BELOW
from fieldfit.optim.preconditioner import InverseProduct, StagedPreconditioner
from fieldfit.optim.proximal import FEW_PAIRS, MANY_PARAMETERS, minimise_proximal
from fieldfit.optim.settling import Settling
from fieldfit.optim.stochastic import Batches, minimise_stochastic
from fieldfit.properties import cached_property
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FieldfitError, FloatArray, IntArray

#: Samples beyond which the tolerance for the gradient does not grow.
_MOST_JUDGED = 10_000
#: The rounding of a sum over samples, as a share of their weight.
_GRADIENT_ROUNDING = 1e-15
#: Parameters whose penalty is computed at a time.
_PARAMETERS_AT_A_TIME = 1 << 16
#: Pairs of quasi-Newton models with norms of groups, whose products take most of the time.
_GROUP_PAIRS = 8
#: Evaluations that a Hessian as a matrix may take, and parameters that it may have, for Newton steps near the optimum.
_AFFORDABLE_EVALUATIONS, _MOST_FACTORISED = 32.0, 500


def has_cheap_hessian(problem: Problem) -> bool:
    """Whether the Hessian as a matrix costs about as much as one Hessian product."""
    return problem.hessian_evaluations < min(EXPENSIVE_PRODUCT, problem.n_parameters)


def has_affordable_hessian(problem: Problem) -> bool:
    """Whether Newton steps with the Hessian as a matrix cost less than an optimiser that asks for products or gradients."""
    few = problem.n_parameters <= DENSE_BELOW and problem.optimiser != "lbfgs"
    return few or (
        problem.hessian_evaluations <= _AFFORDABLE_EVALUATIONS and problem.n_parameters <= _MOST_FACTORISED
    )


@dataclass(frozen=True)
class Objective:
    """Negative penalised stochastic composite log-likelihood as a function of the free parameters.

    ``start`` (r,) holds the values of the fixed parameters, ``free`` (r,) says which are not fixed, ``precision`` (r,)
    is 1/σ², ``row_weight`` (n,) multiplies samples. ``units`` (r,) are the sizes of the model's features, for optimisers
    (None: all 1). ``counts``: the weights are numbers of copies. ``preconditioned``: whether the problem's own operator
    is used, which problems in small shards do not have.
    """

    problem: Problem
    precision: FloatArray
    start: FloatArray
    free: BoolArray
    row_weight: FloatArray | None = None
    units: FloatArray | None = None
    counts: bool = False
    preconditioned: bool = True

    @property
    def free_units(self) -> FloatArray | None:
        """The units of the free parameters."""
        return None if self.units is None else self.units[self.free]

    @property
    def penalised(self) -> BoolArray:
        """Which free parameters have a quadratic penalty."""
        return self._reduced(self.precision) > 0

    @cached_property
    def _everything_free(self) -> bool:
        return bool(self.free.all())

    def gradient_tolerance(self, tol: float) -> float:
        """The largest entry of the gradient at an optimum: ``tol`` times Σw, but at most the weight of 10,000 samples.

        What few samples say about a parameter, such as those with a rare state, does not grow with the number of the
        others: the gradient must be small against the scores of single samples. It is never below its own rounding.
        """
        weight, n = self.row_weight, self.problem.n_samples
        total = n if weight is None else float(weight.sum())
        judged = total * min(1.0, _MOST_JUDGED / max(effective_size(n, weight, counts=self.counts), 1.0))
        return max(tol * judged, min(tol, _GRADIENT_ROUNDING) * total)

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
        total = -value
        # In pieces: with millions of parameters a fresh array costs as much as the subtraction.
        for first in range(0, len(theta), _PARAMETERS_AT_A_TIME):
            piece = slice(first, first + _PARAMETERS_AT_A_TIME)
            penalty = self.precision[piece] * theta[piece]
            total += 0.5 * float(penalty @ theta[piece])
            np.subtract(penalty, gradient[piece], out=gradient[piece])
        return total, self._reduced(gradient)

    def hessian_product(self, x: FloatArray, v: FloatArray) -> FloatArray:
        """The objective's Hessian times a vector."""
        if self.by_matrix:
            if not self._last_matrix or not np.array_equal(self._last_matrix[0], x):
                self._last_matrix[:] = np.array(x), self.hessian(x)
            return np.asarray(self._last_matrix[1] @ v)
        direction = v
        if not self._everything_free:
            direction = np.zeros_like(self.start)
            direction[self.free] = v
        product = self.problem.hessian_product(self.full(x), direction, self.row_weight)
        return self._reduced(self.precision * direction - product)

    @cached_property
    def by_matrix(self) -> bool:
        """Whether products are made with the Hessian itself, which is computed once for each point."""
        return has_cheap_hessian(self.problem)

    @cached_property
    def _last_matrix(self) -> list[FloatArray]:
        """A point and its Hessian, kept until another point is requested."""
        return []

    def landscape(self, total: float, least: float, work: int) -> Landscape:
        """The same for the search for separation, see there."""
        return Landscape(self.value_grad, self.hessian_product, self.by_matrix, total, least, work)

    def signed_score(self, x: FloatArray, random: np.random.Generator) -> FloatArray:
        """Σ_i ε_i w_i ψ_i with random signs ε: a draw with the covariance of the gradient, without the penalty.

        c copies of a sample have signs of their own, whose sum has the variance c.
        """
        weight = random.choice([-1.0, 1.0], self.problem.n_samples)
        if self.row_weight is not None:
            weight *= np.sqrt(self.row_weight) if self.counts else self.row_weight
        return self._reduced(self.problem.value_grad(self.full(x), weight)[1])

    def hessian(self, x: FloatArray) -> FloatArray:
        """The objective's Hessian as a matrix over the free parameters."""
        matrix = np.diag(self.precision) - self.problem.hessian_matrix(self.full(x), self.row_weight)
        return matrix if self._everything_free else matrix[np.ix_(self.free, self.free)]

    def minimise(
        self,
        *,
        gtol: float,
        max_iter: int,
        method: Method = "auto",
        l1: FloatArray | None = None,
        l1_groups: IntArray | None = None,
        near: InverseProduct | None = None,
        at_optimum: bool = False,
        near_optimum: bool = False,
        share: float | None = None,
        callback: Callback | None = None,
        keeper: Keeper | None = None,
        seed: int = 0,
    ) -> Solution:
        """The optimum from ``start``, with the optimiser that suits the problem.

        ``l1`` (r,) are the weights of an L1 penalty, on norms of groups if there are ``l1_groups`` (r,). ``near`` is an
        operator near H⁻¹, where there is a better one than the problem's own. ``at_optimum`` says that the start is
        expected to be the optimum: then nothing is spent on a preconditioner. ``near_optimum`` says that one or two Newton
        steps are expected to reach it: the Hessian is then a matrix, unless that is expensive. ``share`` is that of
        `Settling`; None where the gradient alone decides. A ``keeper`` gets the states, and may have one to continue from.
        ``seed`` is that of stochastic gradients.
        """
        if method == "sgd":
            with one_blas_thread():
                return minimise_stochastic(
                    self.value_grad,
                    self._batches(l1),
                    self.start,
                    seed=seed,
                    gtol=gtol,
                    max_iter=max_iter,
                    callback=callback,
                    keeper=keeper,
                )
        if l1 is not None and l1_groups is not None and self._everything_free:
            coordinates = self.problem.centred_coordinates(self.precision, self.row_weight)
            if coordinates is not None:
                return self._minimise_in(coordinates, l1, l1_groups, gtol, max_iter, share, callback, keeper)
        compact = self if l1 is None else replace(self, problem=self.problem.compact())
        plain = self.problem.optimiser == "lbfgs" and method != "newton"
        steps = near_optimum and l1 is None and method == "auto" and has_affordable_hessian(self.problem)
        if l1 is not None or at_optimum or steps:
            near = None
        elif near is None:
            near = self.preconditioner
        few = int(self.free.sum()) <= DENSE_BELOW
        at_once = steps or (self.problem.remote and not plain and near is None and few)
        return minimise(
            compact.value_grad,
            self._reduced(self.start),
            hessian_product=self.hessian_product,
            hessian=self.hessian if at_once else None,
            hessian_diagonal=None if plain or at_optimum or at_once or near is not None else self.hessian_diagonal,
            preconditioner=near,
            l1=None if l1 is None else self._reduced(l1),
            l1_groups=None if l1_groups is None else l1_groups[self.free],
            smaller=compact._without if self._everything_free else None,
            method="newton" if steps else "lbfgs" if plain else method,
            history=self._pairs(plain) if l1 is None else None,
            gtol=gtol,
            max_iter=max_iter,
            units=self.free_units,
            fresh=True,
            value_noise=self.problem.value_noise,
            settling=self._settling(l1, share),
            callback=callback,
            keeper=keeper,
        )

    def _settling(self, l1: FloatArray | None, share: float | None) -> Settling | None:
        """How far the free parameters with a penalty may be from the optimum."""
        if share is None:
            return None
        penalised = self.precision > 0 if l1 is None else (self.precision > 0) | (l1 > 0)
        return Settling(
            penalised[self.free],
            self._reduced(self.precision),
            share,
            self.hessian,
            self.problem.hessian_evaluations,
        )

    def _without(self, zeros: BoolArray) -> tuple[ValueGradient, IntArray] | None:
        """The objective without some of the parameters ``zeros`` (r,), which are 0, and the places of the others."""
        part = self.problem.without(zeros)
        if part is None:
            return None
        problem, places = part
        everything = np.ones(len(places), dtype=np.bool_)
        return Objective(
            problem, self.precision[places], self.start[places], everything, self.row_weight
        ).value_grad, places

    def _pairs(self, plain: bool) -> int | None:
        """Pairs of L-BFGS: with millions of parameters they are the memory of the fit, and six are as fast as ten."""
        if self.problem.pairs is not None:
            return self.problem.pairs
        return FEW_PAIRS if plain or len(self.start) >= MANY_PARAMETERS else None

    def _minimise_in(
        self,
        coordinates: CentredCoordinates,
        l1: FloatArray,
        l1_groups: IntArray,
        gtol: float,
        max_iter: int,
        share: float | None,
        callback: Callback | None,
        keeper: Keeper | None,
    ) -> Solution:
        """The optimum with norms of groups, found in coordinates that leave the groups as they are."""
        transformed = Transformed(coordinates)
        diagonal = coordinates.diagonal()
        with one_blas_thread():
            solution = minimise_proximal(
                transformed.fun(self.value_grad),
                coordinates.from_theta(self.start),
                l1,
                groups=l1_groups,
                gtol=gtol,
                max_iter=max_iter,
                history=_GROUP_PAIRS,
                diagonal=np.maximum(diagonal, LEAST_CURVATURE * diagonal.max(initial=1e-300)),
                value_noise=self.problem.value_noise,
                settling=None if share is None else self._settling_in(transformed, l1, share),
                callback=transformed.callback(callback),
                keeper=keeper,
            )
        return transformed.solution(solution)

    def _settling_in(self, transformed: Transformed, l1: FloatArray, share: float) -> Settling:
        """The same in other coordinates, in which a quadratic penalty is no diagonal."""
        return Settling(
            (l1 > 0) | (self.precision > 0),
            np.zeros(len(l1)),
            share,
            transformed.hessian(self.hessian),
            self.problem.hessian_evaluations,
        )

    def _batches(self, l1: FloatArray | None) -> Batches:
        """The sum over batches for stochastic gradients; refuses what they cannot do."""
        even = len(self.precision) == 0 or bool((self.precision == self.precision[0]).all())
        if l1 is not None or not (even and self._everything_free):
            raise FieldfitError(
                "method='sgd' takes the same sigma2 for all parameters, no L1 penalty and no fixed parameters; use "
                "method='lbfgs'."
            )
        precision = float(self.precision[0]) if len(self.precision) else 0.0
        batches = self.problem.batches(precision, self.row_weight)
        if batches is None:
            raise FieldfitError(
                "method='sgd' is available for chains of first order without features of label pairs, in one process; use "
                "method='auto'."
            )
        return batches

    @property
    def preconditioner(self) -> InverseProduct | None:
        """The problem's own operator near H⁻¹ at the start, with a better one for fits that take long.

        None if some parameters are fixed or the problem has none.
        """
        if not (self._everything_free and self.preconditioned):
            return None
        first = self.problem.preconditioner(self.start, self.precision, self.row_weight)
        if first is None:
            return None
        return StagedPreconditioner(
            first, lambda x: self.problem.late_preconditioner(x, self.precision, self.row_weight)
        )

    @property
    def hessian_diagonal(self) -> Callable[[FloatArray], FloatArray] | None:
        """A function that gives an approximate diagonal of the Hessian, or None where the problem has none."""
        at_start = self.problem.hessian_diagonal(self.start, self.row_weight)
        if at_start is None:
            return None

        def diagonal(x: FloatArray) -> FloatArray:
            theta = self.full(x)
            again = np.array_equal(theta, self.start)
            unpenalised = at_start if again else self.problem.hessian_diagonal(theta, self.row_weight)
            assert unpenalised is not None
            return self._reduced(unpenalised + self.precision)

        return diagonal
