"""`theory`: the accuracy of a policy at a given θ, without data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import count_of, one_of
from fieldfit.asymptotics import Asymptotics, theory_moments
from fieldfit.asymptotics.expectations import SIMULATED
from fieldfit.asymptotics.moments import MOST_ENUMERATED_STATES, CommonDraws
from fieldfit.asymptotics.sandwich import KINDS, between, efficiency, inverse_on
from fieldfit.callers import warn_caller
from fieldfit.data.samples import Table
from fieldfit.models.base import check_model
from fieldfit.models.field import FieldModel
from fieldfit.models.identification import beyond, interactions, listed, null_space, open_directions
from fieldfit.models.problem import Problem
from fieldfit.policies import Policy
from fieldfit.policies.families import Full
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.refinement.second_stage import TheorySetting
from fieldfit.refinement.staged import Staged, as_estimator
from fieldfit.steps import stepped
from fieldfit.types import BoolArray, FieldfitWarning, FloatArray, Int32Array, ModelError, PolicyError, WidthError
from fieldfit.words import counted

_DRAW_BATCHES = 10
#: States from which sums over them are divided, and the number of parts.
_DIVIDED_FROM_STATES, _STATE_PARTS = 4096, 8
#: Second moments below this, relative to the largest possible, are rounding errors.
_MOMENT_ROUNDING = 1e-12
#: A direction involves a parameter if its entry is larger than this.
_INVOLVED_ENTRY = 1e-6


def theory(
    model: FieldModel,
    theta: ArrayLike,
    policy: Policy | Staged | str,
    *,
    formula: str = "exact",
    method: str = "auto",
    n_simulated: int = SIMULATED,
    random_state: int = 0,
) -> Asymptotics:
    """Compute the asymptotic variance of a policy at a given θ. Needs no data.

    Parameters
    ----------
    model : FieldModel
        A model of all its variables (not conditional).
    theta : array_like of shape (r,)
        The true parameters.
    policy : str, Policy or Staged
        The policy. It may have a second stage, such as ``"PL1 >> optimal(2)"``; bread and meat are then both the
        information of the refined estimate.
    formula : {"exact", "published"}, default: "exact"
        ``"exact"`` uses the second moments E[ZZᵀ] of the selection (Corollary 1). ``"published"`` is Proposition 2
        as printed, which omits the selection noise.
    method : {"auto", "enumeration", "simulation"}, default: "auto"
        Expectations over X: sums over all states, or means over simulated samples. ``"auto"`` enumerates up to
        65,536 states.
    n_simulated : int, default: 20000
        Number of simulated samples.
    random_state : int, default: 0
        Seed of the simulation.

    Returns
    -------
    Asymptotics
        Parameters that the policy does not determine have an infinite variance, and ``undetermined`` names them. Where
        θ is so extreme that rounding hides a parameter, or the simulated samples do not show it, its variance is NaN, as
        the standard error of a parameter that a fit does not identify is: it is not identified in numbers of this
        precision. ``hidden`` names these parameters, and a `FieldfitWarning` says so. All variances of a second stage
        depend on all directions of θ, so that it raises a `ModelError` there.

    Examples
    --------
    >>> import fieldfit as ff
    >>> theory = ff.theory(ff.BoltzmannMachine(5), [-1] * 5 + [1] * 5, "0.7*PL1 + 0.3*PL2")
    >>> round(theory.efficiency(), 3)
    1.247
    """
    check_model(model, "theory")
    if not model.joint:
        raise ModelError(
            "theory needs a field of all its variables, such as BoltzmannMachine. Chains and conditional models need data: "
            "ff.plan(model, data) compares policies on them."
        )
    vector = model.check_theta(theta)
    estimator = as_estimator(policy)
    one_of(formula, "formula", ("exact", "published"), ModelError)
    bound = (estimator.first if isinstance(estimator, Staged) else estimator).bind(model.structure())
    bound.check_range()
    if isinstance(estimator, Staged):
        if formula != "exact":
            raise PolicyError(
                f"The formula {formula!r:.80} of the paper is not defined for a second stage; use formula='exact'."
            )
        _check_resolved(model, vector, estimator, random_state)
        of_policy = partial(theory, model, vector, method=method, n_simulated=n_simulated, random_state=random_state)
        setting = TheorySetting(model, vector, method, n_simulated, random_state, of_policy)
        return estimator.second.theory(estimator.first, setting)
    states = math.prod(model.graph.cardinalities)
    one_of(method, "method", ("auto", "enumeration", "simulation"), ModelError)
    if method == "enumeration" and states > MOST_ENUMERATED_STATES:
        raise ModelError(f"The model has {states:.3g} joint states; enumeration stops at {MOST_ENUMERATED_STATES:,}.")

    question = _Question(model, bound, vector, formula)
    if method == "enumeration" or (method == "auto" and states <= MOST_ENUMERATED_STATES):
        result = question.enumerated()
    else:
        result = question.simulated(n_simulated, random_state)
    if result.hidden:
        warn_caller(FieldfitWarning(result.hidden_note))
    return result


@dataclass(frozen=True)
class _Question:
    """The asymptotic variance of a policy at θ by one of the formulas."""

    model: FieldModel
    bound: BoundPolicy
    theta: FloatArray
    formula: str

    @property
    def is_maximum_likelihood(self) -> bool:
        """Whether the policy always selects the full likelihood and nothing else: its covariance is the reference."""
        full = self.model.structure().bind_family(Full())
        return self.bound.everything and all(
            family.size == 1 and family.component(0) == full.component(0) for family in self.bound.families
        )

    def enumerated(self) -> Asymptotics:
        """By sums over all states."""
        codes, probability = self.model.joint_probabilities(self.theta)
        likely = codes[[int(probability.argmax())]]
        full, why = _full_likelihood(self.model, likely)
        span = _Span.of(self.model, self.bound, None if full is None else full(likely))
        bread, meat = self._sums(codes, probability)
        covariance, lost = span.covariance(bread, meat)
        reference = None
        if full is not None:
            reference, unseen = span.inverse_information(-full(likely).hessian_matrix(self.theta))
            if max(lost, unseen):
                reference = None
                why = (
                    f"θ is so extreme that {max(lost, unseen)} directions of it change probabilities by less than "
                    f"rounding, and variances along them cannot be computed. Use a θ closer to 0."
                )
            elif self.is_maximum_likelihood:
                covariance = reference
        return Asymptotics(
            bread, meat, covariance, reference, self.formula, f"enumeration of {len(codes)} states", None, why,
            span.undetermined, span.functions, span.named(np.isnan(np.diag(covariance))),
        )  # fmt: skip

    def simulated(self, n_simulated: int, random_state: int) -> Asymptotics:
        """By means over draws of the model, the same for the policy and for maximum likelihood."""
        size = count_of(n_simulated, "n_simulated", _DRAW_BATCHES) // _DRAW_BATCHES
        draws = self.model.sample(self.theta, n_simulated, random_state)
        batches = [np.ascontiguousarray(draws.codes[b * size : (b + 1) * size]) for b in range(_DRAW_BATCHES)]
        full, why = _full_likelihood(self.model, batches[0][:1])
        span = _Span.of(self.model, self.bound, None if full is None else full(batches[0][:1]))
        error = reference = None
        if full is None:
            with stepped("theory", batches) as counted:
                parts = [self._moments(codes, np.full(size, 1.0 / size)) for codes in counted]
            bread, meat = (np.mean(part, axis=0) for part in zip(*parts, strict=True))
            covariance, _ = span.covariance(bread, meat)
        else:
            common = CommonDraws.of(self.model, self.bound, self.theta, batches, full, self.formula)
            # The information of maximum likelihood is the Hessian of log Z, for which any samples will do.
            reference, lost = span.inverse_information(-full(batches[0][:1]).hessian_matrix(self.theta))
            bread, meat, unseen = common.moments(span.inverse_information, reference, span.basis.shape[1])
            covariance, hidden = span.covariance(bread, meat)
            if max(hidden, unseen, lost):
                reference = None
                why = (
                    f"the {size * _DRAW_BATCHES} draws do not show {max(hidden, unseen, lost)} directions of θ at all "
                    f"(states that are too rare). Simulate more (n_simulated), or leave those parameters out of the model."
                )
            elif self.is_maximum_likelihood:
                covariance, error = reference, dict.fromkeys(KINDS, 0.0)
            elif not span.undetermined:
                error = {kind: _jackknife_error(span, common, reference, kind) for kind in KINDS}
        source = f"{size * _DRAW_BATCHES} draws ({draws.method} sampling)"
        return Asymptotics(
            bread, meat, covariance, reference, self.formula, source, error, why, span.undetermined, span.functions,
            span.named(np.isnan(np.diag(covariance))),
        )  # fmt: skip

    def _sums(self, codes: Int32Array, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bread and meat as sums over states; many states in parts, so that the time left is known."""
        parts = np.array_split(np.arange(len(codes)), _STATE_PARTS if len(codes) > _DIVIDED_FROM_STATES else 1)
        with stepped("theory", parts) as counted:
            moments = [self._moments(np.ascontiguousarray(codes[part]), probability[part]) for part in counted]
        bread, meat = (np.sum(part, axis=0) for part in zip(*moments, strict=True))
        return bread, meat

    def _moments(self, codes: Int32Array, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        table = Table(codes, self.model.names, self.model.states)
        return theory_moments(
            self.bound, lambda chosen: self.model.compile(table, chosen), self.theta, weight, self.formula
        )


@dataclass(frozen=True)
class _Span:
    """What a model determines, what a policy determines, and when a matrix over either is singular up to rounding.

    ``basis`` (r, d) spans everything but the model's gauge freedom, ``determined`` (r, e) what the policy determines of
    it, both of θ in ``units`` (r,) of the features; ``open`` (r,) marks the parameters with a part outside. Moments of
    features that are computed as differences are known to about 1e-16 of the largest feature squared, ``scale``; the
    policy's have a factor max λβ, ``weight``.
    """

    units: FloatArray
    basis: FloatArray
    determined: FloatArray
    open: BoolArray
    scale: float
    weight: float
    names: Sequence[str]

    @classmethod
    def of(cls, model: FieldModel, bound: BoundPolicy, likelihood: Problem | None) -> _Span:
        """The spans; ``likelihood`` is the full one of any sample, if there is one."""
        r = model.n_parameters
        units = np.ones(r) if model.feature_units is None else model.feature_units
        gauge = null_space(interactions(model))
        if likelihood is not None and np.isneginf(model.log_tables(np.zeros(r))).any():
            # Forbidden states: parameters that act only in them are free too. At θ = 0 no other moment is near 0.
            gauge = null_space(-likelihood.hessian_matrix(np.zeros(r)) / np.outer(units, units))
        basis = null_space(gauge.T)
        determined, unknown = basis, np.zeros(r, dtype=bool)
        directions = open_directions(model, bound, np.zeros(r, dtype=bool))
        if directions is not None:
            determined = null_space(np.concatenate([directions, gauge], axis=1).T)
            unknown = beyond(directions, gauge)
        scale = float(np.abs(model.features.data / units[model.features.indices]).max(initial=0.0)) ** 2
        weight = float(np.max(bound.beta() * bound.mean()))
        return cls(units, basis, determined, unknown, scale, weight, model.parameter_names)

    @property
    def functions(self) -> FloatArray:
        """The functions of θ (r, d), as columns, that the model determines."""
        return self.units[:, None] * self.basis

    @property
    def undetermined(self) -> tuple[str, ...]:
        """The names of the parameters that the policy does not determine."""
        return self.named(self.open)

    def named(self, chosen: BoolArray) -> tuple[str, ...]:
        """The names of these parameters."""
        return tuple(self.names[place] for place in np.flatnonzero(chosen).tolist())

    def covariance(self, bread: FloatArray, meat: FloatArray) -> tuple[FloatArray, int]:
        """Υ Σ Υ, infinite if not determined and NaN if lost to rounding, and the number of directions lost."""
        inverse, lost = self._inverse(bread, self.determined, _MOMENT_ROUNDING * self.scale * self.weight)
        covariance = between(inverse, meat)
        gone = self.open | (np.abs(lost).max(axis=1, initial=0.0) > _INVOLVED_ENTRY)
        covariance[gone], covariance[:, gone] = np.nan, np.nan
        covariance[self.open, self.open] = np.inf
        return covariance, lost.shape[1]

    def inverse_information(self, information: FloatArray) -> tuple[FloatArray, int]:
        """The inverse information, and the number of directions lost to rounding."""
        inverse, lost = self._inverse(information, self.basis, _MOMENT_ROUNDING * self.scale)
        return inverse, lost.shape[1]

    def hidden_by(self, information: FloatArray) -> tuple[str, ...]:
        """The names of the parameters along directions whose information is lost to rounding."""
        _, lost = self._inverse(information, self.basis, _MOMENT_ROUNDING * self.scale)
        return self.named(np.abs(lost).max(axis=1, initial=0.0) > _INVOLVED_ENTRY)

    def _inverse(self, matrix: FloatArray, basis: FloatArray, floor: float) -> tuple[FloatArray, FloatArray]:
        """`inverse_on` of a matrix over θ; what is lost is in units of the features."""
        outer = np.outer(self.units, self.units)
        inverse, lost = inverse_on(matrix / outer, basis, floor)
        return inverse / outer, lost


def _check_resolved(model: FieldModel, theta: FloatArray, estimator: Staged, random_state: int) -> None:
    """Refuse a second stage where rounding hides a direction of θ: its weights and all its variances would be wrong."""
    allowed = model.sample(theta, 1, random_state).codes
    full, _ = _full_likelihood(model, allowed)
    if full is None:
        return
    likelihood = full(allowed)
    span = _Span.of(model, estimator.first.bind(model.structure()), likelihood)
    hidden = span.hidden_by(-likelihood.hessian_matrix(theta))
    if hidden:
        raise ModelError(
            f"The variance of '{estimator}' cannot be computed at this θ: some states are certain or so rare that rounding "
            f"hides {counted(len(hidden), 'parameters')} ({listed(hidden)}). Use a θ closer to 0."
        )


def _jackknife_error(span: _Span, common: CommonDraws, reference: FloatArray, kind: str) -> float:
    """Standard error of the efficiency from leaving out one batch of draws at a time; NaN if a batch is too small."""
    values = []
    for batch in range(_DRAW_BATCHES):
        bread, meat, unseen = common.without(batch).moments(span.inverse_information, reference, span.basis.shape[1])
        covariance, hidden = span.covariance(bread, meat)
        if max(hidden, unseen):
            return math.nan
        values.append(efficiency(covariance, reference, kind, span.functions))
    return float(np.sqrt((len(values) - 1) * np.var(values)))


def _full_likelihood(model: FieldModel, allowed: Int32Array) -> tuple[Callable[[Int32Array], Problem] | None, str]:
    """The full likelihood as a problem for any samples, or None and why not (too wide); tried on ``allowed`` samples."""
    selected = FamilySelection(model.structure().bind_family(Full()), 1.0)

    def compiled(codes: Int32Array) -> Problem:
        return model.compile(Table(codes, model.names, model.states), Selection(len(codes), (selected,)))

    try:
        compiled(allowed)
    except WidthError as error:
        return None, str(error)
    return compiled, ""
