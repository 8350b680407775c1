"""`Fit`: the estimate, how it was reached, what it cost and how accurate it is; and its file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fieldfit.api.functionals import Estimate, check_level, places_of, unit_rows, value_and_gradient
from fieldfit.asymptotics import Accuracy, DenseAccuracy, ImplicitAccuracy, ImplicitBread, Moments, robust_moments
from fieldfit.data.encoders import Encoder
from fieldfit.models.base import Model, Problem
from fieldfit.models.cost import Cost
from fieldfit.objective import Objective
from fieldfit.optim.cg import conjugate_gradients
from fieldfit.policies import Policy
from fieldfit.types import BoolArray, DataError, FieldfitError, FloatArray, IntArray, ModelError
from fieldfit.weights import WeightsResult

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from fieldfit.api.comparison import HypothesisTest
    from fieldfit.api.sensitivity import Sensitivity

#: Parameters up to which bread and meat are dense matrices.
MOST_DENSE = 3_000
_MOST_PRODUCTS = 2_000
#: Parameters up to which a notebook shows a fit with its standard errors.
_MOST_SHOWN = 300
#: Simulated copies of the data behind model-based standard errors where there are too many parameters for matrices.
_SIMULATED = 4
#: Relative error of aᵀ(H + P)⁻¹a at which a solve ends: an estimate, not a bound. u = (H + P)⁻¹a is then known to about its
#: square root, and the variance uᵀMu to that times the ratio of model-based to robust errors.
_FORM_ERROR = 1e-7
#: Relative residual at which a solve counts as solved; a direction that is not identified stays far above it.
_SOLVED = 1e-4

Kind = Literal["robust", "model"]


@dataclass(frozen=True, repr=False)
class Fit:
    """A fitted model. ``objective`` is the maximised penalised log-likelihood (a sum over samples).

    ``n`` is the number of rows, ``total`` the number of samples that they stand for, and ``unit_weight`` the weight of one
    of those (see `sample_weights`): Σw = total × unit_weight.
    """

    model: Model
    policy: Policy
    theta: FloatArray
    sigma2: FloatArray
    free: BoolArray
    n: int
    random_state: int
    converged: bool
    message: str
    objective: float
    gradient_norm: float
    iterations: int
    evaluations: int
    hessian_products: int
    seconds: float
    separated: tuple[str, ...] = ()
    dropped_rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    cost: Cost | None = None
    counts: bool = False
    weighted_total: float | None = None  # `total` where samples have weights
    unit_weight: float = 1.0
    l1: FloatArray | None = None  # the weights of Σ l1 |θ|, if the fit had such a penalty
    encoder: Encoder | None = field(default=None, repr=False, compare=False)  # how text became the fitted sequences
    dataset: Any = field(default=None, repr=False, compare=False)
    weights: WeightsResult | None = field(default=None, repr=False, compare=False)
    objective_function: Objective | None = field(default=None, repr=False, compare=False)
    saved_moments: Moments | None = field(default=None, repr=False, compare=False)

    @property
    def parameter_names(self) -> list[str]:
        """A name for each entry of θ."""
        return list(self.model.parameter_names)

    @property
    def total(self) -> float:
        """The number of samples behind the fit: n, the sum of the counts, or the effective size of importance weights."""
        return float(self.n) if self.weighted_total is None else self.weighted_total

    @property
    def sample_text(self) -> str:
        """How many samples there are, in words."""
        if self.weighted_total is None or (not self.counts and np.isclose(self.total, self.n, rtol=1e-9)):
            return f"{self.n:,} samples"
        if self.counts:
            return f"{self.total:,.0f} samples ({self.n:,} distinct rows)"
        return f"{self.n:,} weighted samples (effective size {self.total:,.1f})"

    @property
    def needed_objective(self) -> Objective:
        """The objective with its data; DataError for a fit that was loaded from a file."""
        if self.objective_function is None:
            raise DataError(
                "This fit was loaded from a file, which does not hold the samples, and they are needed here. Give them "
                "again: load(path, data)."
            )
        return self.objective_function

    @property
    def needed_dataset(self) -> Any:
        """The samples that were fitted; DataError for a fit that was loaded from a file."""
        if self.dataset is None:
            raise DataError(
                "This fit was loaded from a file, which does not hold the samples, and they are needed here. Give them "
                "again: load(path, data)."
            )
        return self.dataset

    @property
    def problem(self) -> Problem:
        """The fitted samples with the drawn Z, compiled."""
        return self.needed_objective.problem

    @property
    def penalised(self) -> bool:
        """Whether any free parameter has a penalty."""
        absolute = self.l1 is not None and bool(np.any(self.l1[self.free] > 0))
        return absolute or bool(np.any(np.isfinite(self.sigma2[self.free])))

    # --- accuracy -------------------------------------------------------------------------------------------------

    @cached_property
    def _robust(self) -> Accuracy:
        precision = 1.0 / self.sigma2
        if self.saved_moments is not None:
            return DenseAccuracy(self.saved_moments, precision, self.free)
        if self.objective_function is None:
            raise DataError(
                "This fit was loaded from a file without its covariance; standard errors need the data: load(path, data)."
            )
        objective = self.objective_function
        if self.model.n_parameters > MOST_DENSE:
            return self._implicit([objective.problem], "the data, by conjugate gradients")
        bread, meat = robust_moments(objective.problem, self.theta, objective.row_weight, counts=self.counts)
        total = float(self.n if objective.row_weight is None else objective.row_weight.sum())
        return DenseAccuracy(Moments(bread, meat, total, "the data"), precision, self.free)

    @cached_property
    def _model_based(self) -> Accuracy:
        from fieldfit.api.expectations import information_identity, model_moments, simulated_problems

        if self.model.n_parameters <= MOST_DENSE:
            return DenseAccuracy(model_moments(self), 1.0 / self.sigma2, self.free)
        identity = information_identity(self)
        if identity is not None:
            robust = self._robust
            assert isinstance(robust, ImplicitAccuracy)  # the same bread: solutions are shared
            method = "the information identity, by conjugate gradients"
            return ImplicitAccuracy(robust.bread, robust.problems, self.counts, method, identity)
        return self._implicit(
            simulated_problems(self, _SIMULATED), f"{_SIMULATED} simulated datasets, by conjugate gradients"
        )

    @property
    def _has_unknown_labels(self) -> bool:
        labels = getattr(self.dataset, "labels", None)
        return labels is not None and bool((labels < 0).any())

    def _implicit(self, problems: Sequence[Problem], method: str) -> ImplicitAccuracy:
        weight, precision = self.needed_objective.row_weight, 1.0 / self.sigma2
        held = bool(np.all(precision[self.free] > 0)) and not self._has_unknown_labels

        def solve(
            product: Callable[[FloatArray], FloatArray],
            b: FloatArray,
            preconditioner: Callable[[FloatArray], FloatArray] | FloatArray | None,
        ) -> tuple[FloatArray, bool]:
            # A penalty on every parameter makes every function identified (unless unknown labels bend H), and the
            # quadratic form says when to stop.
            # Without, only the residual tells whether b is in the range of H.
            solution, state = conjugate_gradients(
                product,
                b,
                tol=1e-7,
                energy_tol=_FORM_ERROR if held else None,
                max_iter=_MOST_PRODUCTS,
                preconditioner=preconditioner,
            )
            return solution, state.converged or state.residual <= _SOLVED

        # Two copies are enough for the bread, an average over all tokens; the meat of a rare feature needs more.
        bread = ImplicitBread(problems[:2], self.theta, precision, self.free, weight, solve)
        return ImplicitAccuracy(bread, problems, self.counts, method)

    def accuracy(self, kind: Kind = "robust") -> Accuracy:
        """Bread and meat behind all standard errors: "robust" from the data, "model" expected under θ̂."""
        if not isinstance(kind, str) or kind not in ("robust", "model"):
            raise FieldfitError(
                f"Standard errors are of the kind 'robust' or 'model'; got {kind!r}. For chosen parameters write "
                f"parameters=[…]."
            )
        return self._robust if kind == "robust" else self._model_based

    def dense_accuracy(self, kind: Kind = "robust") -> DenseAccuracy:
        """The same as matrices; ModelError where there are too many parameters for them."""
        accuracy = self.accuracy(kind)
        if not isinstance(accuracy, DenseAccuracy):
            raise ModelError(
                f"A covariance matrix of {self.model.n_parameters:,} parameters would be too large (the limit is "
                f"{MOST_DENSE:,}). Ask for chosen parameters (parameters=[…]) or for functions of them "
                f"(fit.functional)."
            )
        return accuracy

    def covariance(self, kind: Kind = "robust") -> FloatArray:
        """Covariance matrix of √n(θ̂ − θ₀), n = ``fit.total``, with the selection noise (Corollary 1).

        ``kind="robust"`` takes Hessian and score products from the data with the drawn Z, and holds outside the family
        too; ``"model"`` their expectations under θ̂ (for a conditional model, given the observed X). Fixed parameters
        have 0. Where the model has a gauge freedom the matrix is right for identified functions aᵀθ, and for those only.
        """
        return self.dense_accuracy(kind).covariance * self.total

    def standard_errors(self, kind: Kind = "robust", parameters: Any = None) -> FloatArray:
        """Standard error of each parameter, or of those named: NaN where not identified, 0 where fixed."""
        if parameters is None:
            return np.sqrt(self.dense_accuracy(kind).variances())
        places = places_of(parameters, self.model.parameter_names)
        accuracy = self.accuracy(kind)
        if isinstance(accuracy, DenseAccuracy):
            return np.sqrt(accuracy.variances()[places])
        # One function at a time: the rows of all of them together could be too many.
        variances = [
            accuracy.covariance_of(unit_rows(places[[k]], len(self.theta)))[0, 0] for k in range(len(places))
        ]
        return np.array([_root(variance) for variance in variances])

    def conf_int(self, level: float = 0.95, kind: Kind = "robust", parameters: Any = None) -> FloatArray:
        """Normal confidence intervals (r, 2), or those of the parameters named."""
        half = check_level(level) * self.standard_errors(kind, parameters)
        centre = self.theta
        if parameters is not None:
            centre = centre[places_of(parameters, self.model.parameter_names)]
        return np.stack([centre - half, centre + half], axis=1)

    def table(self, level: float = 0.95, kind: Kind = "robust", parameters: Any = None) -> pd.DataFrame:
        """One line for each parameter: estimate, standard error, z, p and confidence interval; NaN if not identified."""
        import pandas as pd
        from scipy.stats import norm

        half = check_level(level)
        names: Sequence[str] = self.model.parameter_names
        places = np.arange(len(names)) if parameters is None else places_of(parameters, names)
        errors = self.standard_errors(kind, parameters)
        estimate = self.theta[places]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(errors > 0, estimate / errors, np.nan)
        return pd.DataFrame(
            {
                "estimate": estimate,
                "std_error": errors,
                "z": z,
                "p": 2 * norm.sf(np.abs(z)),
                "lower": estimate - half * errors,
                "upper": estimate + half * errors,
            },
            index=pd.Index([names[int(place)] for place in places], name="parameter"),
        )

    def functional(
        self,
        g: Any,
        gradient: Any = None,
        *,
        kind: Kind = "robust",
        level: float = 0.95,
        name: str | None = None,
        debias: bool = False,
    ) -> Estimate:
        """A smooth function of θ with its standard error (delta method), for any number of parameters.

        ``g`` is a parameter's name or number, a mapping from parameters to coefficients
        (``{"x0:x1": 1, "x2:x3": -1}`` is a difference of two couplings), a vector of coefficients, or a function of θ;
        ``gradient`` is the function's gradient (a function of θ or a vector; by differences if left out).
        ``debias`` undoes a penalty's pull on it by one Newton step (see `debiased`); NaN where only the penalty holds it.
        """
        half = check_level(level)
        found, value, slope = value_and_gradient(g, gradient, self.theta, self.model.parameter_names)
        if debias:
            from fieldfit.api.debias import debiased_value

            step, variance = debiased_value(self, slope, kind)
            value += step
        else:
            variance = float(self.accuracy(kind).covariance_of(slope[None])[0, 0])
        error = _root(variance)
        return Estimate(name or found, value, error, value - half * error, value + half * error, level, kind)

    def plot_coefficients(
        self,
        level: float = 0.95,
        kind: Kind = "robust",
        parameters: Any = None,
        *,
        most: int = 40,
        ax: Axes | None = None,
    ) -> Axes:
        """Estimates with their confidence intervals; the same data as `table`."""
        from fieldfit.report.coefficients import plot_coefficients

        axis = f"estimate and {level:.0%} confidence interval ({kind}), {self.policy}"
        return plot_coefficients(self.table(level, kind, parameters), most=most, axis=axis, ax=ax)

    def debiased(self) -> Fit:
        """The one-step estimate θ̂ + H⁻¹ Σψ(θ̂), which undoes the penalty's pull to first order, with its own accuracy.

        H is the unpenalised Hessian; where it is singular ModelError names the parameters that only the penalty holds.
        """
        from fieldfit.api.debias import debiased

        return debiased(self)

    # --- robustness -------------------------------------------------------------------------------------------------

    def influence(self, data: Any = None, *, parameters: Any = None, rows: Any = None) -> FloatArray:
        """How much each observation moves each parameter: 𝓘 = (H + P)⁻¹ ψ (Equation 18), (n, parameters).

        For the fitted samples (``data=None``) with their drawn Z: θ̂ minus what it would be without them. For new ones
        expected over Z: what adding them would change, each with the weight ``fit.unit_weight``. A row with a count stands
        for all its copies together. ``parameters`` chooses columns and ``rows`` fitted samples; either works for any number
        of parameters.
        """
        from fieldfit.api.robustness import influence

        return influence(self, data, parameters, rows)

    def influence_blocks(self, data: Any = None) -> Iterator[tuple[int, FloatArray]]:
        """The same as a stream of (first sample, block), for more samples and parameters than fit in memory."""
        from fieldfit.api.robustness import influence_blocks

        return influence_blocks(self, data)

    def influential(self, k: int = 10, *, parameters: Any = None) -> pd.DataFrame:
        """The ``k`` fitted samples that move the fit most, and the parameter that each moves most.

        Over all parameters, or over those chosen, which works for any number of parameters.
        """
        from fieldfit.api.robustness import influential

        return influential(self, k, parameters)

    def gross_error_sensitivity(self, parameters: Any = None) -> Sensitivity:
        """The most that one observation can do to the estimate: sup over x of |n 𝓘(x)|, expected over Z."""
        from fieldfit.api.sensitivity import gross_error_sensitivity

        return gross_error_sensitivity(self, parameters)

    def plot_influence(self, k: int = 10, ax: Axes | None = None, *, parameters: Any = None) -> Axes:
        """Cook's distance of every fitted sample, the ``k`` largest named; the same data as ``influential(fit.n)``."""
        from fieldfit.api.robustness import checked_number, distances
        from fieldfit.report.influence import plot_influence

        k = checked_number(k)
        table = distances(self, parameters)
        axis = f"Cook's distance over {'all' if parameters is None else 'the chosen'} parameters"
        if table.columns[0] == "displacement":
            axis = "displacement: 2 × what the objective\nloses without the sample"
        return plot_influence(table, k, axis=axis, ax=ax)

    # --- comparison -------------------------------------------------------------------------------------------------

    @cached_property
    def composite_log_likelihood(self) -> float:
        """Σ_i w_i m_θ̂(X_i, Z_i), without the penalty; importance weights are scaled to add up to ``total``."""
        penalty = 0.5 * float(np.sum(self.theta**2 / self.sigma2))
        if self.l1 is not None:
            penalty += float(self.l1[self.free] @ np.abs(self.theta[self.free]))
        return (self.objective + penalty) / self.unit_weight

    def effective_parameters(self, kind: Kind = "robust") -> float:
        """tr(bread⁻¹ meat): the number of parameters where the estimator is maximum likelihood inside its family."""
        return self._effective(kind)[0]

    def effective_parameters_error(self, kind: Kind = "robust") -> float:
        """The Monte Carlo error of `effective_parameters` (CLAIC has twice it): 0 where nothing is simulated."""
        return self._effective(kind)[1]

    @cached_property
    def _known_effective(self) -> dict[Kind, tuple[float, float]]:
        return {}

    def _effective(self, kind: Kind) -> tuple[float, float]:
        """Value and Monte Carlo error, computed once: with many parameters it takes minutes."""
        from fieldfit.api.effective import effective_parameters

        self.accuracy(kind)  # refuses other kinds
        if kind not in self._known_effective:
            self._known_effective[kind] = effective_parameters(self, kind)
        return self._known_effective[kind]

    def claic(self, kind: Kind = "robust") -> float:
        """−2 cℓ(θ̂) + 2 tr(bread⁻¹ meat) (Varin & Vidoni 2005); smaller is better, for the same policy, data and seed."""
        return -2 * self.composite_log_likelihood + 2 * self.effective_parameters(kind)

    def clbic(self, kind: Kind = "robust") -> float:
        """−2 cℓ(θ̂) + log(n) tr(bread⁻¹ meat), n = ``fit.total`` (Gao & Song 2010)."""
        return -2 * self.composite_log_likelihood + float(np.log(self.total)) * self.effective_parameters(kind)

    def wald_test(self, hypothesis: Any, value: Any = 0.0, *, kind: Kind = "robust") -> HypothesisTest:
        """Test R θ = ``value``: ``hypothesis`` is a list of parameters, of mappings {parameter: coefficient}, or R."""
        from fieldfit.api.comparison import wald_test

        return wald_test(self, hypothesis, value, kind)

    def score_test(self, parameters: Any = None) -> HypothesisTest:
        """Test whether the parameters fixed in this fit (or some of them) have the values they were fixed at."""
        from fieldfit.api.comparison import score_test

        return score_test(self, parameters)

    def discoveries(
        self,
        level: float = 0.05,
        *,
        method: Literal["bh", "by"] = "bh",
        kind: Kind = "robust",
        parameters: Any = None,
    ) -> pd.DataFrame:
        """`table` with q-values and which parameters differ from 0 at this false discovery rate."""
        from fieldfit.api.comparison import discoveries

        return discoveries(self, level, method, kind, parameters)

    def goodness_of_fit(
        self,
        statistic: Callable[[Any], Any] | None = None,
        *,
        n_simulated: int = 199,
        random_state: int = 0,
        names: Sequence[str] | None = None,
        refit: bool = False,
    ) -> pd.DataFrame:
        """Statistics of the data beside those of datasets simulated from the fit.

        ``refit`` fits each simulated dataset again (the parametric bootstrap); without it p is conservative.
        """
        from fieldfit.api.validation import goodness_of_fit

        return goodness_of_fit(self, statistic, n_simulated, random_state, names, refit)

    # --- words ------------------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """How the fit went, as plain values."""
        return {
            "model": self.model.kind,
            "policy": str(self.policy),
            "n": self.n,
            "total": self.total,
            "parameters": self.model.n_parameters,
            "converged": self.converged,
            "message": self.message,
            "objective": self.objective,
            "gradient_norm": self.gradient_norm,
            "iterations": self.iterations,
            "evaluations": self.evaluations,
            "hessian_products": self.hessian_products,
            "seconds": self.seconds,
            "random_state": self.random_state,
            "separated": list(self.separated),
            "dropped_rows": self.dropped_rows.tolist(),
            "cost": None if self.cost is None else self.cost.to_dict(),
            "weights": None if self.weights is None else self.weights.to_dict(),
        }

    def summary(self, rows: int = 20, *, kind: Kind = "robust", level: float = 0.95) -> str:
        """The report and the parameters with the largest |z| as text."""
        from fieldfit.api.summary import summary

        return summary(self, rows, kind, level)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        ended = "converged" if self.converged else "not converged"
        size = f"{self.sample_text}, {self.model.n_parameters:,} parameters"
        return f"<Fit: {self.model.kind} by {self.policy}, {size}, {ended}>"

    def _repr_html_(self) -> str:
        import html

        # A notebook shows what a cell ends with: that must not cost seconds.
        text = self.summary() if self.model.n_parameters <= _MOST_SHOWN else repr(self)
        return f"<pre>{html.escape(text)}</pre>"

    # --- file -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file (no pickle); up to 1,000 parameters its bread and meat go along."""
        from fieldfit.api.files import save_fit

        save_fit(self, path)


def _root(variance: float) -> float:
    """√ of a variance; NaN where it is negative by more than rounding, as an indefinite bread can make it."""
    return math.sqrt(max(variance, 0.0)) if variance > -1e-12 else math.nan
