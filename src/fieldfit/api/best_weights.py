"""The weights β that minimise a policy's variance at a given θ, before any data are seen (`best_weights`) or
at a fitted θ.

`update_weights` is the β step of Algorithm 1, for users who write the alternation themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.api.result import Fit
from fieldfit.arguments import instance_of, number_from_zero, one_of, whole_number
from fieldfit.asymptotics.criterion import Criterion
from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.asymptotics.moments import MOST_ENUMERATED_STATES, Compile, theory_moments
from fieldfit.models.field import FieldModel
from fieldfit.models.identification import check_identified, with_open_weights
from fieldfit.models.sum_problem import SumProblem
from fieldfit.policies import Policy, as_policy
from fieldfit.policies.structure import Structure
from fieldfit.types import FloatArray, ModelError, PolicyError
from fieldfit.weights.choice import Exact, WeightsRidge, best_beta, judge
from fieldfit.weights.groups import DrawnPolicy, Groups, check_betas, groups_of
from fieldfit.weights.options import AutoWeights
from fieldfit.weights.result import WeightsResult
from fieldfit.weights.statistics import DataStatistics


def best_weights(
    model: FieldModel,
    theta: ArrayLike,
    policy: Policy | str,
    *,
    form: Literal["auto", "exact", "diagonal"] = "auto",
    formula: Literal["exact", "published"] = "exact",
    by: Literal["term", "component"] = "term",
    gamma: float = 0.0,
    beta0: Sequence[float] | None = None,
    fallback: bool = True,
) -> WeightsResult:
    """Compute the weights β with the smallest asymptotic variance at a given θ. Needs no data.

    Parameters
    ----------
    model : FieldModel
        A model of all its variables with at most 65,536 joint states.
    theta : array_like of shape (r,)
        The true parameters.
    policy : str or Policy
        Families and selection probabilities.
    form : {"auto", "exact", "diagonal"}, default: "auto"
        ``"exact"`` (and ``"auto"``) uses log-determinants, ``"diagonal"`` Hadamard's bound.
    formula : {"exact", "published"}, default: "exact"
        With or without the selection noise, as in `AutoWeights`.
    by : {"term", "component"}, default: "term"
        One weight for each term, or for each component.
    gamma : float, default: 0.0
        Factor γ of the ridge γ‖β − β₀‖².
    beta0 : sequence of float or None, default: None
        Weights β₀ of the ridge. None: the weights in the policy.
    fallback : bool, default: True
        Whether to use a pure policy or equal weights if they are better than the result of the diagonal form.

    Returns
    -------
    WeightsResult

    Examples
    --------
    >>> import fieldfit as ff
    >>> best = ff.best_weights(ff.BoltzmannMachine(5), [-1] * 5 + [1] * 5, "PL1 + 0.3*FL")
    >>> best.beta.round(3)
    array([0.897, 0.103])
    """
    instance_of(model, FieldModel, "best_weights needs a model, such as BoltzmannMachine(5)")
    if not model.joint:
        raise ModelError("best_weights needs a model of all its variables; a conditional model needs observed data.")
    states = math.prod(model.graph.cardinalities)
    if states > MOST_ENUMERATED_STATES:
        raise ModelError(
            f"The model has {states:.3g} joint states; enumeration stops at {MOST_ENUMERATED_STATES:,}. "
            "Fit data with weights='auto' instead."
        )
    vector = model.check_theta(theta)
    table, probability = model.weighted_samples(vector)
    structure = model.structure()
    chosen = AutoWeights(form=form, formula=formula, by=by, gamma=gamma, beta0=beta0, fallback=fallback)
    written = as_policy(policy)
    nothing = np.zeros(model.n_parameters, dtype=bool)
    check_identified(
        model,
        with_open_weights(written, chosen.by).bind(structure),
        nothing,
        "or use a model without those parameters",
    )
    groups = groups_of(written.bind(structure), chosen.by)
    exact = Exact.of(
        expected_group_moments(
            groups, structure, lambda z: model.compile(table, z), vector, probability, chosen.formula
        )
    )
    centre = groups.written() if chosen.beta0 is None else check_betas(groups, chosen.beta0)
    ridge = WeightsRidge(chosen.gamma, centre, groups.normaliser)
    used = "diagonal" if chosen.form == "diagonal" else "exact"
    criterion = exact.diagonal if used == "diagonal" else exact
    beta = best_beta(criterion, ridge)
    result = WeightsResult(
        beta=beta, names=groups.names, policy=groups.policy(beta), history=(), converged=True,
        message="expectations under the model at θ", form=used, formula=chosen.formula, gamma=chosen.gamma,
        J=criterion.value(beta), theta=vector,
    )  # fmt: skip
    return judge(result, exact, criterion, groups, ridge, fallback=chosen.fallback and chosen.gamma == 0)


def expected_group_moments(
    groups: Groups,
    structure: Structure,
    compile_problem: Compile,
    theta: FloatArray,
    weight: FloatArray,
    formula: str,
) -> MixtureMoments:
    """Bread and meat by groups, with E over X as Σ_x w_x."""

    def mixture(beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theory_moments(groups.policy(beta).bind(structure), compile_problem, theta, weight, formula)

    return MixtureMoments.from_mixtures(groups.names, mixture)


#: Diagonal entries of the bread below this, relative to the largest, count as 0.
_BREAD_ROUNDING = 1e-14


def update_weights(
    fit: Fit,
    *,
    form: Literal["exact", "diagonal"] = "diagonal",
    formula: Literal["exact", "published"] = "exact",
    probes: int = 16,
    gamma: float = 0.0,
) -> FloatArray:
    """Compute the weights β of the policy's terms with the smallest estimated variance at the fitted θ.

    This is one step of Algorithm 1. ``ff.fit(..., weights="auto")`` alternates it with fits of θ.

    Parameters
    ----------
    fit : Fit
        A fit with its samples.
    form : {"exact", "diagonal"}, default: "diagonal"
        ``"exact"`` uses log-determinants, ``"diagonal"`` Hadamard's bound, for many parameters.
    formula : {"exact", "published"}, default: "exact"
        ``"exact"`` uses the drawn Z, which includes the selection noise. ``"published"`` replaces Z by λ.
    probes : int, default: 16
        Number of random directions for estimated diagonals.
    gamma : float, default: 0
        Factor γ of the ridge γ‖β − β₀‖² that is added to the criterion, with equal weights β₀.

    Returns
    -------
    ndarray of shape (terms,)
        β, with sum 1.

    Notes
    -----
    The diagonal form of a penalised fit leaves out parameters that only the penalty determines.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3)
    >>> x = model.sample([1.0, -1.0, 0.5], 1000, random_state=0).values
    >>> fit = ff.fit(model, x, "PL1 + 0.3*FL", weights=[0.5, 0.5])
    >>> beta = ff.update_weights(fit, form="exact")
    >>> beta.shape, round(float(beta.sum()), 6)
    ((2,), 1.0)
    """
    instance_of(fit, Fit, "update_weights needs a Fit")
    probes = whole_number(probes, "probes", 1, 10**9)
    one_of(form, "form", ("exact", "diagonal"), PolicyError)
    one_of(formula, "formula", ("exact", "published"), PolicyError)
    gamma = number_from_zero(gamma, "gamma", PolicyError)
    prepared = fit.needed
    drawn = DrawnPolicy.of(prepared.bound, "term", prepared.selection, prepared.problem, prepared.compile)
    groups = drawn.groups
    problem = drawn.by_group(np.ones(groups.count), formula)
    dataset = prepared.dataset
    statistics = DataStatistics(
        problem, groups.names, prepared.free, dataset.sample_weight, dataset.has_counts, probes=probes
    )
    if form == "exact":
        criterion = Criterion.log_determinant(statistics.dense(fit.theta))
    else:
        moments, copies = statistics.diagonal(fit.theta), prepared.model.parameter_copies
        if copies is not None:
            copies = copies[prepared.free]
            moments = _by_copy(moments, problem, fit.theta, prepared.free, copies, dataset.sample_weight)
        if fit.penalised:
            moments, copies = _without_undetermined(moments, copies)
        criterion = Criterion.log_diagonal(moments, copies)
    equal = groups.normalised(np.ones(groups.count))
    return best_beta(criterion.over_weights(), WeightsRidge(gamma, equal, groups.normaliser))


def _without_undetermined(
    moments: MixtureMoments, copies: FloatArray | None
) -> tuple[MixtureMoments, FloatArray | None]:
    """Diagonal moments without the parameters that only the penalty determines.

    If the samples have probability 1 up to rounding, the bread is 0 up to rounding in every family, with either sign.
    """
    largest = moments.J.max(axis=0)
    kept = largest > _BREAD_ROUNDING * largest.max()
    some = MixtureMoments.with_drawn_selection(moments.names, moments.J[:, kept], moments.K[:, :, kept])
    return some, None if copies is None else copies[kept]


def _by_copy(
    moments: MixtureMoments,
    problem: SumProblem,
    theta: FloatArray,
    free: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    copies: FloatArray,
    row_weight: FloatArray | None,
) -> MixtureMoments:
    """Diagonal moments of one of the m weights that a shared parameter stands for.

    Each has the score s/m and the bread e/m, where s is the score of the shared weight and e its expected count (1 − p(v|y)
    is 1 up to 1/m and is left out).
    """
    shared = copies > 1
    total = float(problem.n_samples if row_weight is None else row_weight.sum())
    bread, meat = moments.J.copy(), moments.K.copy()
    for place, part in enumerate(problem.parts):
        expected = -part.value_grad(theta, row_weight)[1][free][shared] / total
        bread[place, shared] = expected / copies[shared]
    meat[:, :, shared] /= copies[shared] ** 2
    return MixtureMoments.with_drawn_selection(moments.names, bread, meat)
