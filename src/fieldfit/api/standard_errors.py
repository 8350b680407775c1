"""What a fit says of its own accuracy: covariance, standard errors, intervals, tables and functions of θ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fieldfit.api.accuracies import MOST_DENSE, Kind, model_accuracy, robust_accuracy
from fieldfit.api.cautions import few_samples, pull_of, simulated, under_model
from fieldfit.api.functionals import Estimate, check_level, places_of, unit_rows, value_and_gradient
from fieldfit.api.state import FitState
from fieldfit.asymptotics import Accuracy, DenseAccuracy
from fieldfit.types import FieldfitError, FloatArray, ModelError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class StandardErrors(FitState):
    """The part of `Fit` that is about its accuracy."""

    @cached_property
    def _robust(self) -> Accuracy:
        return robust_accuracy(self)

    @cached_property
    def _model_based(self) -> Accuracy:
        return model_accuracy(self, lambda: self._robust)

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
                f"A covariance matrix of {self.model.n_parameters:,} parameters would be too large (the limit "
                f"is {MOST_DENSE:,}). Ask for chosen parameters (parameters=[…]) or for functions of them (fit.functional)."
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
        """Standard error of each parameter, or of those named: 0 where fixed.

        NaN where a parameter is not identified, where its optimum is at infinity, and where the L1 penalty set it to 0.
        """
        none = self.zeroed | self.at_infinity
        if parameters is None:
            return np.where(none, np.nan, np.sqrt(self.dense_accuracy(kind).variances()))
        places = places_of(parameters, self.model.parameter_names)
        accuracy = self.accuracy(kind)
        if isinstance(accuracy, DenseAccuracy):
            return np.where(none, np.nan, np.sqrt(accuracy.variances()))[places]
        # One function at a time: the rows of all of them together could be too many.
        r = len(self.theta)
        variances = [accuracy.covariance_of(unit_rows(places[[k]], r))[0, 0] for k in range(len(places))]
        return np.where(none[places], np.nan, np.array([_root(variance) for variance in variances]))

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
        ``debias`` undoes a penalty's pull by one Newton step: the function, its gradient and its standard error are then
        those at the one-step estimate (see `debiased`); NaN where only the penalty holds it.
        """
        half = check_level(level)
        fit = self._without_pull if debias else self
        found, value, slope = value_and_gradient(g, gradient, fit.theta, fit.model.parameter_names)
        if debias and fit.theta is self.theta:
            from fieldfit.api.debias import debiased_value

            value += debiased_value(fit, slope)
        accuracy = fit.accuracy(kind)
        error = _root(float(accuracy.covariance_of(slope[None])[0, 0]))
        note = few_samples(fit, kind) or simulated(accuracy, slope)
        if kind == "model" and not math.isnan(error):
            note = under_model(fit, kind, float(pull_of(fit, accuracy, slope[None])[0])) or note
        concerned = slope != 0
        if debias and math.isnan(error):
            value = math.nan  # only the penalty holds it
        if not debias and bool(np.any(concerned & fit.zeroed)) and not np.any(concerned & ~fit.zeroed):
            error, note = math.nan, "set to 0 by the L1 penalty, which leaves no interval"
        elif np.any(concerned & fit.at_infinity):
            error, note = math.nan, "its optimum lies at infinity"
        elif math.isnan(error):
            note = ""
        return Estimate(name or found, value, error, value - half * error, value + half * error, level, kind, note)

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

    @cached_property
    def _without_pull(self) -> Self:
        from fieldfit.api.debias import one_step

        return one_step(self)

    def debiased(self) -> Self:
        """The one-step estimate θ̂ + H⁻¹ Σψ(θ̂), which undoes the penalty's pull to first order, with its own accuracy.

        H is the unpenalised Hessian; where it is singular ModelError names the parameters that only the penalty holds.
        """
        from fieldfit.api.debias import debiased

        return debiased(self)

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


def _root(variance: float) -> float:
    """√ of a variance; NaN where it is negative by more than rounding, as an indefinite bread can make it."""
    return math.sqrt(max(variance, 0.0)) if variance > -1e-12 else math.nan
