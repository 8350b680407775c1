"""The accuracy of a fit: covariance, standard errors, intervals, tables and functions of θ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from fieldfit.api.accuracies import Kind, checked_kind, model_accuracy, robust_accuracy, spatial_accuracy
from fieldfit.api.cautions import (
    far_step_of,
    few_samples,
    fewer_than_parameters,
    near_optimum,
    no_spread,
    pull_of,
    simulated,
    under_model,
    without_spread,
)
from fieldfit.api.estimate_table import EstimateTable, checked_level, half_width, parameter_estimates
from fieldfit.api.functionals import Estimate, unit_rows, value_and_gradient
from fieldfit.api.state import FitState
from fieldfit.arguments import count_of, text_of, truth_value, whole_number
from fieldfit.asymptotics import Accuracy, DenseAccuracy
from fieldfit.asymptotics.accuracy import MOST_COVARIANCE_PARAMETERS
from fieldfit.callers import warn_caller
from fieldfit.docstrings import SHARED, filled
from fieldfit.named import places_of
from fieldfit.properties import cached_property
from fieldfit.steps import stepped
from fieldfit.types import BoolArray, ConvergenceWarning, FewSamplesWarning, FloatArray, ModelError
from fieldfit.words import sentence

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


#: Largest share of a function's gradient in parameters without an error, for which the function still has an error.
_SMALL_GRADIENT_PART = 0.05


@filled(SHARED)
@dataclass(frozen=True, repr=False)
class StandardErrors(FitState):
    """The methods of `Fit` for accuracy."""

    @cached_property
    def _accuracies(self) -> dict[Kind, Accuracy]:
        return {}

    @property
    def has_errors(self) -> bool:
        """Whether robust standard errors have been computed already, or are in the file of the fit."""
        return "robust" in self._accuracies or self.saved.moments is not None

    def spatial_accuracy(self, bandwidth: int | None = None) -> DenseAccuracy:
        """Return bread and meat from the dependence between the sites of each sample, for one image or few.

        Parameters
        ----------
        bandwidth : int or None, default: None
            Largest distance in the graph of two terms of the score that may be correlated. None: ⁴√m, at most 8.

        Returns
        -------
        DenseAccuracy

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.TiedField.grid(30, 30)
        >>> fit = ff.fit(model, model.sample([-0.5, 0.3, 0.3], 1, random_state=0), "PL1")
        >>> fit.spatial_accuracy(bandwidth=3).covariance.shape
        (3, 3)
        """
        return spatial_accuracy(self, None if bandwidth is None else count_of(bandwidth, "The bandwidth", 0))

    def accuracy(self, kind: Kind = "robust") -> Accuracy:
        """Return bread and meat, from which all standard errors are computed.

        Parameters
        ----------
        %(kind)s

        Returns
        -------
        Accuracy

        Examples
        --------
        %(fit)s
        >>> fit.accuracy("model").covariance.shape
        (3, 3)
        """
        if checked_kind(kind) not in self._accuracies:
            if kind == "model":
                self._accuracies[kind] = model_accuracy(self, self.accuracy)
            else:
                self._accuracies[kind] = robust_accuracy(self) if kind == "robust" else spatial_accuracy(self)
        return self._accuracies[kind]

    def dense_accuracy(self, kind: Kind = "robust") -> DenseAccuracy:
        """Return bread and meat as matrices.

        Parameters
        ----------
        %(kind)s

        Returns
        -------
        DenseAccuracy

        Raises
        ------
        ModelError
            With more than 3,000 parameters.

        Examples
        --------
        %(fit)s
        >>> fit.dense_accuracy().covariance.shape
        (3, 3)
        """
        accuracy = self.accuracy(kind)
        if not isinstance(accuracy, DenseAccuracy):
            raise ModelError(
                f"A covariance matrix of {self.model.n_parameters:,} parameters would be too large (the limit is "
                f"{MOST_COVARIANCE_PARAMETERS:,}). Select parameters (parameters=[…]) or functions of them "
                "(fit.functional)."
            )
        return accuracy

    def covariance(self, kind: Kind = "robust") -> FloatArray:
        """Compute the covariance matrix of √n(θ̂ − θ₀), including the selection noise (Corollary 1).

        n is ``fit.total``.

        Parameters
        ----------
        %(kind)s

        Returns
        -------
        ndarray of shape (r, r)
            0 for fixed parameters. If the model has a gauge freedom, valid only for identified functions aᵀθ.

        Examples
        --------
        %(fit)s
        >>> fit.covariance().round(1)
        array([[ 6.3, -3.3,  0.6],
               [-3.3, 10.3, -4. ],
               [ 0.6, -4. ,  6.9]])
        """
        return self.dense_accuracy(kind).covariance * self.total

    def standard_errors(self, kind: Kind = "robust", parameters: object = None) -> FloatArray:
        """Compute the standard error of each parameter.

        Parameters
        ----------
        %(kind)s
        %(parameters)s

        Returns
        -------
        ndarray
            0 for fixed parameters. NaN for parameters that are not identified, that have their optimum at infinity,
            or that the L1 penalty has set to 0. Robust and spatial errors are NaN also for parameters that only a
            penalty keeps finite (two variables that are never 1 together).

        Examples
        --------
        %(fit)s
        >>> fit.standard_errors().round(3)
        array([0.112, 0.143, 0.117])
        """
        if parameters is None:
            variances = self.dense_accuracy(kind).variances()
            return np.where(self._without_errors(kind), np.nan, np.sqrt(variances))
        places = places_of(parameters, self.model.parameter_names)
        accuracy, none = self.accuracy(kind), self._without_errors(kind)
        if isinstance(accuracy, DenseAccuracy):
            return np.where(none, np.nan, np.sqrt(accuracy.variances()))[places]
        # One function at a time: the rows of all functions together may not fit in memory.
        r = len(self.theta)
        with stepped("standard errors", range(len(places))) as counted:
            each = [
                np.nan if none[places[k]] else accuracy.covariance_of(unit_rows(places[[k]], r))[0, 0]
                for k in counted
            ]
        return np.array([_root(variance) for variance in each])

    def _without_errors(self, kind: Kind) -> BoolArray:
        return self.zeroed | self.at_infinity | without_spread(self, kind)

    def conf_int(self, level: float = 0.95, kind: Kind = "robust", parameters: object = None) -> FloatArray:
        """Compute confidence intervals: normal ones, and by Student's t for spatial errors of one sample.

        Parameters
        ----------
        %(level)s
        %(kind)s
        %(parameters)s

        Returns
        -------
        ndarray of shape (parameters, 2)

        Examples
        --------
        %(fit)s
        >>> fit.conf_int(0.9, parameters=["x0:x1"]).round(2)
        array([[0.61, 0.98]])
        """
        checked_level(level)
        # An iterator can be read only once.
        places = None if parameters is None else places_of(parameters, self.model.parameter_names)
        errors = self.standard_errors(kind, places)
        half = half_width(level, self.accuracy(kind).degrees) * errors
        centre = self.theta if places is None else self.theta[places]
        return np.stack([centre - half, centre + half], axis=1)

    def table(self, level: float = 0.95, kind: Kind = "robust", parameters: object = None) -> pd.DataFrame:
        """Return estimates, standard errors, z, p-values and confidence intervals as a table.

        Parameters
        ----------
        %(level)s
        %(kind)s
        %(parameters)s

        Returns
        -------
        DataFrame
            One row for each parameter. NaN for parameters that are not identified.

        Warns
        -----
        FewSamplesWarning
            If there are fewer samples than parameters: robust errors and p-values are then far too small.
        ConvergenceWarning
            If the fit is by ``method="sgd"``, which stops near the optimum.

        Examples
        --------
        %(fit)s
        >>> fit.table()["std_error"].round(3).to_dict()
        {'x0:x1': 0.112, 'x0:x2': 0.143, 'x1:x2': 0.117}
        """
        estimates = parameter_estimates(self, level, kind, parameters)
        few = fewer_than_parameters(self, kind)
        if few and np.isfinite(estimates.p).any():
            warn_caller(f"{sentence(few)}. p-values are then too small as well.", FewSamplesWarning)
        near = near_optimum(self)
        if near:
            warn_caller(f"{sentence(near)}.", ConvergenceWarning)
        return estimates.frame()

    def effects(self, coding: str = "corner", level: float = 0.95, kind: Kind = "robust") -> pd.DataFrame:
        """Return the effects of single variables, pairs and larger cliques: identified also for free tables.

        Parameters
        ----------
        coding : {"corner", "sum"}, default: "corner"
            Each state compared with the first one, or with the mean over all states (sum-to-zero).
        %(level)s
        %(kind)s

        Returns
        -------
        DataFrame
            The columns of `table`, one row for each effect. A pair's corner effects are log odds ratios. Parameters that
            an L1 penalty has set to 0 count as fixed; effects of such parameters alone have no standard error.

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.Potts(2, 3)
        >>> x = model.sample([0.5, 0, 0, 0, 0.5, 0, 0, 0, 0.5] + [0] * 6, 500, random_state=0).values
        >>> list(ff.fit(model, x, "PL1").effects().index)[:5]
        ['x0=1', 'x0=2', 'x1=1', 'x1=2', 'x0=1:x1=1']
        """
        from fieldfit.models.effects import effects

        made = effects(self.model.as_field("The effects of states"), coding)
        checked_level(level)
        accuracy = self.accuracy(kind)
        half = half_width(level, accuracy.degrees)
        with stepped("standard errors", range(len(made.matrix))) as rows:
            errors = np.array([_root(float(accuracy.covariance_of(made.matrix[[k]])[0, 0])) for k in rows])
        concerned = made.matrix != 0
        zeros_only = concerned[:, self.zeroed].any(axis=1) & ~concerned[:, self.active].any(axis=1)
        unknown = concerned[:, self.at_infinity | without_spread(self, kind)].any(axis=1)
        errors[zeros_only | unknown] = np.nan
        return EstimateTable.tested("effect", made.names, made.at(self.theta), errors, half, accuracy.degrees).frame()

    def functional(
        self,
        g: object,
        gradient: object = None,
        *,
        kind: Kind = "robust",
        level: float = 0.95,
        name: str | None = None,
        debias: bool = False,
    ) -> Estimate:
        """Estimate a smooth function g(θ) with its standard error by the delta method.

        Parameters
        ----------
        g : str, int, dict, array_like or callable
            A parameter's name or number; a contrast such as ``"x0:x1 - x2:x3"`` or ``"2*x0:x1 + x2:x3"``; a mapping from
            parameters to coefficients; a vector of coefficients; or a function of θ.
        gradient : callable, array_like or None, default: None
            Gradient of the function. None: by finite differences.
        %(kind)s
        %(level)s
        name : str or None, default: None
            Name for printing.
        debias : bool, default: False
            Whether to remove the shrinkage of a penalty with one Newton step, see `debiased`. NaN if only the
            penalty determines the function.

        Returns
        -------
        Estimate

        Notes
        -----
        The variance is ∇gᵀ Cov(θ̂) ∇g. It is computed without a covariance matrix if there are more than 3,000
        parameters.

        Examples
        --------
        %(fit)s
        >>> print(fit.functional({"x0:x1": 1, "x1:x2": -1}, name="difference"))
        difference: 0.248638, standard error 0.155 (robust), 95% interval [-0.0543264, 0.551601]
        """
        checked_level(level)
        debias = truth_value(debias, "debias")
        name = None if name is None else text_of(name, "name")
        fit = self._without_pull if debias else self
        default_name, value, slope = value_and_gradient(g, gradient, fit.theta, fit.model.parameter_names)
        if debias and fit.theta is self.theta:
            from fieldfit.api.debias import debiased_value

            value += debiased_value(fit, slope)
        accuracy = fit.accuracy(kind)
        error = _root(float(accuracy.covariance_of(slope[None])[0, 0]))
        half = half_width(level, accuracy.degrees)
        note = few_samples(fit, kind) or no_spread(fit, kind) or simulated(accuracy, slope)
        if kind == "model" and not math.isnan(error):
            note = under_model(fit, kind, float(pull_of(fit, accuracy, slope[None])[0])) or note
        note = far_step_of(fit, slope, error) or near_optimum(fit) or note
        concerned = slope != 0
        without = without_spread(self, kind)
        # A smooth function of all parameters may hardly depend on those at infinity.
        least = _SMALL_GRADIENT_PART * float(np.linalg.norm(slope)) if callable(g) else 0.0
        held = float(np.linalg.norm(slope[without])) > least
        if debias and (math.isnan(error) or held):
            value = error = math.nan  # only the penalty determines it
        if not debias and bool(np.any(concerned & fit.zeroed)) and not np.any(concerned & ~fit.zeroed):
            error, note = math.nan, "set to 0 by the L1 penalty, which gives no interval"
        elif np.any(concerned & fit.at_infinity):
            error, note = math.nan, "its optimum lies at infinity"
        elif held:
            error, note = (
                math.nan,
                "only the penalty keeps the estimate finite: use kind='model'",
            )
        elif math.isnan(error):
            note = ""
        return Estimate(
            name or default_name, value, error, value - half * error, value + half * error, level, kind, note,
            accuracy.degrees,
        )  # fmt: skip

    def plot_coefficients(
        self,
        level: float = 0.95,
        kind: Kind = "robust",
        parameters: object = None,
        *,
        most: int = 40,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the estimates with their confidence intervals. `table` has the same numbers.

        Free tables, whose single parameters are not identified, have their `effects` drawn instead.

        Parameters
        ----------
        %(level)s
        %(kind)s
        %(parameters)s
        most : int, default: 40
            Largest number of parameters. If there are more, those with the largest abs(z) are drawn.
        %(ax)s

        Returns
        -------
        matplotlib.axes.Axes

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        %(fit)s
        >>> fit.plot_coefficients().figure.savefig("coefficients.png")
        """
        from fieldfit.api.estimate_table import identified_estimates
        from fieldfit.report.coefficients import plot_coefficients

        checked_level(level)
        most = whole_number(most, "most", 1)
        axis = f"estimate and {level:.0%} confidence interval ({kind}), {self.estimator}"
        chosen = parameters is not None
        estimates = (
            parameter_estimates(self, level, kind, parameters) if chosen else identified_estimates(self, level, kind)
        )
        return plot_coefficients(estimates.frame(), most=most, axis=axis, ax=ax)

    @cached_property
    def _without_pull(self) -> Self:
        from fieldfit.api.debias import one_step

        return one_step(self)

    def debiased(self) -> Self:
        """Remove the shrinkage of a penalty with one Newton step: θ̂ + H⁻¹ Σψ(θ̂).

        H is the unpenalised Hessian.

        Returns
        -------
        Fit
            With its own standard errors.

        Raises
        ------
        ModelError
            If H is singular. The message names the parameters that only the penalty determines.

        Warns
        -----
        StrongPenaltyWarning
            If a second step would move an estimate by more than half a standard error: the penalty is too strong for one
            step, and intervals may miss θ₀. With more than 3,000 parameters only `functional` says so, in its note.

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> ridge = ff.fit(model, x, "PL1", sigma2=0.05)
        >>> ridge.theta.round(2), ridge.debiased().theta.round(2)
        (array([ 0.64, -0.71,  0.42]), array([ 0.79, -0.92,  0.54]))
        """
        from fieldfit.api.debias import debiased

        return debiased(self)

    def effective_parameters(self, kind: Kind = "robust") -> float:
        """Compute the effective number of parameters tr(bread⁻¹ meat).

        Parameters
        ----------
        %(kind)s

        Returns
        -------
        float
            The number of parameters for maximum likelihood in a correct model.

        Examples
        --------
        %(fit)s
        >>> round(fit.effective_parameters("model"), 2)
        4.52
        """
        return self._effective(kind)[0]

    def effective_parameters_error(self, kind: Kind = "robust") -> float:
        """Return the Monte Carlo error of `effective_parameters`. That of CLAIC is twice as large.

        Parameters
        ----------
        %(kind)s

        Returns
        -------
        float
            0 if nothing was simulated.

        Examples
        --------
        %(fit)s
        >>> fit.effective_parameters_error()
        0.0
        """
        return self._effective(kind)[1]

    @cached_property
    def _known_effective(self) -> dict[Kind, tuple[float, float]]:
        return {}

    def _effective(self, kind: Kind) -> tuple[float, float]:
        """Value and Monte Carlo error, computed once: with many parameters it takes minutes."""
        accuracy = self.accuracy(kind)  # refuses other kinds
        if kind not in self._known_effective:
            count, error = accuracy.effective_parameters()
            # Importance weights count as ``total`` samples of equal weight, so that their scale does not matter.
            self._known_effective[kind] = count / self.unit_weight, error / self.unit_weight
        return self._known_effective[kind]


def _root(variance: float) -> float:
    """√ of a variance; NaN if it is negative beyond rounding, which an indefinite bread can cause."""
    return math.sqrt(max(variance, 0.0)) if variance > -1e-12 else math.nan
