"""`best_weights`: the weights β that minimise a policy's variance at a given θ, before any data are seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import instance_of
from fieldfit.data.samples import Table
from fieldfit.models.field import FieldModel
from fieldfit.models.identification import check_identified, with_open_weights
from fieldfit.policies import Policy, as_policy
from fieldfit.policies.structure import Structure
from fieldfit.types import FloatArray, ModelError
from fieldfit.variance.mixture_moments import MixtureMoments
from fieldfit.variance.moments import MOST_ENUMERATED_STATES, Compile, theory_moments
from fieldfit.weights.choice import Exact, WeightsRidge, best_beta, judge
from fieldfit.weights.groups import Groups, check_betas, groups_of
from fieldfit.weights.options import AutoWeights
from fieldfit.weights.result import WeightsResult


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
    codes, probability = model.joint_probabilities(vector)
    table = Table(codes, model.names, model.states)
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
