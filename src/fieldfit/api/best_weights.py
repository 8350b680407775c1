"""`best_weights`: the weights β that minimise a policy's variance at a given θ, before any data are seen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.data.samples import Table
from fieldfit.models.field import FieldModel
from fieldfit.models.identification import check_identified, with_open_weights
from fieldfit.policies import Policy, as_policy
from fieldfit.types import ModelError
from fieldfit.variance.moments import MOST_ENUMERATED_STATES
from fieldfit.weights.expected import expected_weights
from fieldfit.weights.groups import groups_of
from fieldfit.weights.options import AutoWeights
from fieldfit.weights.result import WeightsResult


def best_weights(model: FieldModel, theta: ArrayLike, policy: Policy | str, **options: Any) -> WeightsResult:
    """Compute the weights β with the smallest asymptotic variance at a given θ. Needs no data.

    Parameters
    ----------
    model : FieldModel
        A model of all its variables with at most 65,536 joint states.
    theta : array_like of shape (r,)
        The true parameters.
    policy : str or Policy
        Families and selection probabilities.
    **options
        Parameters of `AutoWeights`: form, formula, by, gamma, beta0, fallback.

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
    chosen = AutoWeights(**options)
    written = as_policy(policy)
    nothing = np.zeros(model.n_parameters, dtype=bool)
    check_identified(
        model,
        with_open_weights(written, chosen.by).bind(structure),
        nothing,
        "or take a model without those parameters",
    )
    groups = groups_of(written.bind(structure), chosen.by)
    return expected_weights(structure, groups, lambda z: model.compile(table, z), vector, probability, chosen)
