"""The one-step estimate that undoes a penalty's pull.

A penalised estimate is biased towards 0 by (H + P)⁻¹ P θ₀. One Newton step on the unpenalised likelihood from it,

    θ̃ = θ̂ + H⁻¹ Σ_i w_i ψ_i(θ̂),

has the limit law of the unpenalised estimator, √n(θ̃ − θ₀) → N(0, Υ Σ Υ), as long as the penalty does not grow with n.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.types import ModelError

if TYPE_CHECKING:
    from fieldfit.api.result import Fit


def debiased(fit: Fit) -> Fit:
    """A fit at θ̃, without penalty; its bread and meat are taken at θ̃."""
    objective = fit.needed_objective
    unpenalised = replace(
        fit,
        sigma2=np.full_like(fit.sigma2, np.inf),
        l1=None,
        objective_function=replace(objective, precision=np.zeros_like(objective.precision)),
        saved_moments=None,
    )
    accuracy = unpenalised.dense_accuracy()
    null = np.linalg.norm(accuracy.null_space, axis=1)
    if accuracy.null_space.shape[1]:
        places = np.flatnonzero(null > 1e-5)
        names = [fit.model.parameter_names[place] for place in places[:10]]
        more = f" and {len(places) - 10} more" if len(places) > 10 else ""
        raise ModelError(
            f"Without the penalty {len(places)} parameters are not determined: {', '.join(names)}{more}. There is no "
            f"debiased estimate of θ; fix parameters until the others are identified (fixed={{name: 0.0}})."
        )
    score = objective.problem.value_grad(fit.theta, objective.row_weight)[1]
    theta = fit.theta.copy()
    theta[fit.free] += (accuracy.inverse @ score / accuracy.moments.total)[fit.free]
    value, gradient = objective.problem.value_grad(theta, objective.row_weight)
    return replace(
        unpenalised,
        theta=theta,
        objective=value,
        gradient_norm=float(np.abs(gradient[fit.free]).max()),
        message=f"one debiasing step from a penalised fit ({fit.message})",
    )
