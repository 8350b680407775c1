"""The projection of a distribution on the model (Section 4): the limit of an estimator under misspecification.

    θ₀ = argmin_θ Σ_j β_j λ_j D(P(X_A|X_B) ‖ p_θ(X_A|X_B)),
    √n(θ̂ − θ₀) → N(0, (E ψ̇)⁻¹ (E ψψᵀ) (E ψ̇)⁻¹)                                                 (Corollary 1)

with expectations under P and Z. Different policies have different projections, so under misspecification they do not
estimate the same θ. Compare the quantity of interest instead, such as E_P[−log p_θ̂(X)].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import numbers_of, positive_number
from fieldfit.asymptotics import theory_moments
from fieldfit.asymptotics.moments import MOST_ENUMERATED_STATES, weighted_selection
from fieldfit.asymptotics.range_inverse import range_inverse
from fieldfit.asymptotics.sandwich import between
from fieldfit.data.samples import Table
from fieldfit.models.base import Model, check_model
from fieldfit.models.field import FieldModel
from fieldfit.models.identification import check_identified
from fieldfit.objective import Objective
from fieldfit.optim import minimise
from fieldfit.policies import Policy, as_policy
from fieldfit.policies.families import Full
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.report.shown import Shown, first_rows, frame_rows
from fieldfit.report.table import PlainTable
from fieldfit.types import BoolArray, FloatArray, Int32Array, ModelError

if TYPE_CHECKING:
    import pandas as pd

#: A parameter this large with this little curvature diverges.
_FAR_PARAMETER, _FLAT_PROJECTION = 8.0, 1e-4


@dataclass(frozen=True, repr=False)
class Projection(Shown):
    """The limit θ₀ of a policy's estimator under a distribution P, and the variance of the estimator around it.

    Parameters
    ----------
    theta : ndarray of shape (r,)
        The projection θ₀.
    bread, meat : ndarray of shape (r, r)
        Expected Hessian and expected products of scores.
    covariance : ndarray of shape (r, r)
        Covariance of √n(θ̂ − θ₀).
    divergence : float
        D(P ‖ p_θ₀); 0 inside the family.
    entropy : float
        Entropy of P.
    information : ndarray of shape (r, r)
        −E_P ∇² log p_θ₀(X).
    policy : Policy
        The policy.
    parameter_names : tuple of str
        Names of the parameters.
    identified : ndarray of bool, shape (r,)
        The parameters that P and the policy determine individually.

    Examples
    --------
    >>> import fieldfit as ff
    >>> projection = ff.project(ff.BoltzmannMachine(2), [0.4, 0.1, 0.1, 0.4], "PL1")
    >>> projection.theta.round(3), round(projection.divergence, 6)
    (array([1.386]), 0.197843)
    """

    theta: FloatArray
    bread: FloatArray
    meat: FloatArray
    covariance: FloatArray
    divergence: float
    entropy: float
    information: FloatArray
    policy: Policy
    parameter_names: tuple[str, ...]
    identified: BoolArray = field(repr=False)

    def standard_errors(self, n: int) -> FloatArray:
        """Compute standard errors of θ̂ around θ₀.

        Parameters
        ----------
        n : int
            Number of samples.

        Returns
        -------
        ndarray of shape (r,)
            NaN for parameters that are not identified individually.

        Examples
        --------
        >>> import fieldfit as ff
        >>> projection = ff.project(ff.BoltzmannMachine(2), [0.4, 0.1, 0.1, 0.4], "PL1")
        >>> projection.standard_errors(100).round(3)
        array([0.274])
        """
        errors = np.sqrt(np.maximum(np.diag(self.covariance), 0.0) / n)
        return np.where(self.identified, errors, np.nan)

    def to_frame(self, n: int = 1) -> pd.DataFrame:
        """Return a row for each parameter: θ₀, and the standard error of θ̂ around it.

        Parameters
        ----------
        n : int, default: 1
            Number of samples.

        Returns
        -------
        DataFrame

        Examples
        --------
        >>> import fieldfit as ff
        >>> projection = ff.project(ff.BoltzmannMachine(2), [0.4, 0.1, 0.1, 0.4], "PL1")
        >>> projection.to_frame(100)["std_error"].round(3).to_dict()
        {'x0:x1': 0.274}
        """
        import pandas as pd

        return pd.DataFrame(
            {"projection": self.theta, "std_error": self.standard_errors(n)},
            index=pd.Index(self.parameter_names, name="parameter"),
        )

    def _lines(self) -> Sequence[str]:
        return [
            f"projection under {self.policy}, {len(self.theta)} parameters, D(P ‖ p_θ₀) = {self.divergence:.4g} nats",
            f"entropy of P {self.entropy:.4g} nats; E[−log p_θ̂(X)] with n samples is about "
            f"{self.entropy + self.divergence:.4g} + {self.expected_nll(1) - self.entropy - self.divergence:.4g}/n",
        ]

    def _table(self) -> PlainTable:
        rows = frame_rows(self.to_frame())
        columns = ("parameter", "θ₀", "std. dev. of √n(θ̂ − θ₀)")
        lost = int((~self.identified).sum())
        note = f"– : {lost} parameters that are not identified individually." if lost else ""
        return first_rows(PlainTable("", columns, rows, note, ("", ".4f", ".4g")))

    def expected_nll(self, n: int) -> float:
        """Compute E[−log p_θ̂(X)] of a new X from P, with θ̂ from n samples:

            entropy + D(P ‖ p_θ₀) + tr(information · covariance) / (2n).

        The first two terms depend on the limit θ₀, the last one on the variance. The formula omits the estimator's
        bias of order 1/n times the gradient of the divergence at θ₀. This gradient is 0 for FL, and for other
        policies with the same projection. Otherwise the omitted term can be as large as the last one, so compare
        policies by this number only if their projections agree.

        Parameters
        ----------
        n : int
            Number of samples.

        Returns
        -------
        float
            In nats.

        Examples
        --------
        >>> import fieldfit as ff
        >>> projection = ff.project(ff.BoltzmannMachine(2), [0.4, 0.1, 0.1, 0.4], "PL1")
        >>> round(projection.expected_nll(100), 3)
        1.401
        """
        return self.entropy + self.divergence + float(np.sum(self.information * self.covariance)) / (2 * n)


def project(
    model: FieldModel,
    distribution: object,
    policy: Policy | str = "FL",
    *,
    start: ArrayLike | None = None,
    tol: float = 1e-10,
) -> Projection:
    """Compute the projection θ₀ of a distribution on the model under a policy, and the variance around it.

    Parameters
    ----------
    model : FieldModel
        A model with at most 65,536 joint states.
    distribution : array_like or (model, theta)
        Probabilities of all joint states, in the model's order of variables and states with the last variable
        fastest, flat or with one axis per variable; or another model with its parameters.
    policy : str or Policy, default: "FL"
        The policy.
    start : array_like or None, default: None
        Starting value of θ. None: 0.
    tol : float, default: 1e-10
        Largest entry of the gradient at the solution.

    Returns
    -------
    Projection

    Raises
    ------
    IdentifiabilityError
        If the policy does not determine the model.

    Notes
    -----
    θ₀ = argmin_θ Σ_j β_j λ_j D(P(X_A|X_B) ‖ p_θ(X_A|X_B)) is the limit of the estimator when the data come from P.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(2)
    >>> result = ff.project(model, [[0.4, 0.1], [0.2, 0.3]], "PL1")
    >>> result.theta.round(3), round(result.divergence, 3)
    (array([0.693]), 0.122)
    """
    check_model(model, "project")
    if not model.joint:
        raise ModelError(
            f"project lists the joint states of a field that describes all its variables; this {model.kind} model does not."
        )
    shape = model.graph.cardinalities
    states = math.prod(shape)
    if states > MOST_ENUMERATED_STATES:
        raise ModelError(
            f"The model has {states:.3g} joint states; project lists them all and stops at {MOST_ENUMERATED_STATES:,}."
        )
    codes = model.graph.all_states()
    probability = _probabilities(model, distribution, codes)
    codes, probability = np.ascontiguousarray(codes[probability > 0]), probability[probability > 0]
    states = len(codes)
    table = Table(codes, model.names, model.states)
    chosen = as_policy(policy)
    bound = chosen.bind(model.structure())
    nothing = np.zeros(model.n_parameters, dtype=bool)
    check_identified(model, bound, nothing, "or use a model without those parameters")
    problem = model.compile(table, weighted_selection(bound, bound.beta() * bound.mean(), states))
    initial = np.zeros(model.n_parameters) if start is None else model.check_theta(start)
    everything = np.ones(model.n_parameters, dtype=bool)
    units = model.feature_units
    objective = Objective(problem, np.zeros(model.n_parameters), initial, everything, probability)
    solution = minimise(
        objective.value_grad,
        initial,
        hessian_product=objective.hessian_product,
        method="newton",
        gtol=positive_number(tol, "tol"),
        units=units,
    ).uninterrupted()
    theta = solution.x
    bread, meat = theory_moments(
        bound, lambda selection: model.compile(table, selection), theta, probability, inside=False
    )
    sizes = np.ones(len(theta)) if units is None else units
    flat = (np.abs(theta) * sizes > _FAR_PARAMETER) & (np.diag(bread) / sizes**2 < _FLAT_PROJECTION)
    if flat.any() or (not solution.converged and solution.gradient_norm > 1e-6):
        raise ModelError(
            f"The projection was not found ({solution.message}; gradient norm {solution.gradient_norm:.3g}, largest |θ| "
            f"{np.abs(theta).max():.3g}): where P gives no weight to some states it may lie at infinity."
        )
    on_range = range_inverse(bread, units)
    full = Selection(states, (FamilySelection(model.structure().bind_family(Full()), 1.0),))
    likelihood = model.compile(table, full)
    entropy = -float(probability @ np.log(probability))
    cross = -likelihood.value_grad(theta, probability)[0]
    return Projection(
        theta=theta,
        bread=bread,
        meat=meat,
        covariance=between(on_range.inverse, meat),
        divergence=cross - entropy,
        entropy=entropy,
        information=-likelihood.hessian_matrix(theta, probability),
        policy=chosen,
        parameter_names=tuple(model.parameter_names),
        identified=on_range.reached,
    )


def _probabilities(model: FieldModel, distribution: object, codes: Int32Array) -> FloatArray:
    if isinstance(distribution, tuple) and len(distribution) == 2 and isinstance(distribution[0], Model):
        other, theta = distribution[0].as_field("The distribution to project"), distribution[1]
        if other.graph.cardinalities != model.graph.cardinalities or other.observed:
            raise ModelError(
                f"The other model's variables have {other.graph.cardinalities} states, this model's "
                f"{model.graph.cardinalities}; they must agree, and neither may condition on any."
            )
        logs = other.log_tables(theta)[other.graph.entries(codes)].sum(axis=1)
        weights = np.exp(logs - logs.max())
        probabilities: FloatArray = weights / weights.sum()
        return probabilities
    values = numbers_of(distribution, "The distribution to project")
    if values.shape not in ((len(codes),), model.graph.cardinalities):
        raise ModelError(
            f"The distribution has shape {values.shape}; give one probability for each of {len(codes)} joint states, "
            f"flat or shaped {model.graph.cardinalities}, or a pair (model, θ)."
        )
    values = values.reshape(-1)
    if not np.isfinite(values).all() or values.min() < 0 or abs(float(values.sum()) - 1) > 1e-8:
        raise ModelError(f"Probabilities are not negative and add up to 1; these have a sum of {values.sum():.6g}.")
    normalised: FloatArray = values / values.sum()
    return normalised
