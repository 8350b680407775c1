"""The one-step estimate, which removes the shrinkage of a penalty.

A penalised estimate is biased towards 0 by (H + P)⁻¹ P θ₀. One Newton step on the unpenalised likelihood from it,

    θ̃ = θ̂ + H⁻¹ Σ_i w_i ψ_i(θ̂),

has the limit distribution of the unpenalised estimator, √n(θ̃ − θ₀) → N(0, Υ Σ Υ), as long as the penalty does not
grow with n.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fieldfit.api.refinement import refuse_refined
from fieldfit.asymptotics import DenseAccuracy
from fieldfit.types import FloatArray, ModelError

if TYPE_CHECKING:
    from fieldfit.api.standard_errors import StandardErrors

Fitted = TypeVar("Fitted", bound="StandardErrors")


def without_penalty(fit: Fitted) -> Fitted:
    """The same θ̂, treated as an estimate without a penalty."""
    refuse_refined(fit, "A debiased estimate", "Refine a fit without a penalty.")
    prepared = fit.needed.without_penalty()
    return replace(fit, penalty=prepared.penalty, prepared=prepared)


def debiased(fit: Fitted) -> Fitted:
    """A fit at θ̃ without a penalty. Bread and meat are evaluated at θ̃."""
    accuracy = without_penalty(fit).accuracy()
    if isinstance(accuracy, DenseAccuracy) and accuracy.bread.nullity:
        places = np.flatnonzero(~accuracy.bread.reached)
        names = [fit.model.parameter_names[place] for place in places[:10]]
        more = f" and {len(places) - 10} more" if len(places) > 10 else ""
        raise ModelError(
            f"Without the penalty {len(places)} parameters are not determined: {', '.join(names)}{more}. There is no "
            f"debiased estimate of θ. Fix parameters until the others are identified (fixed={{name: 0.0}}), or use "
            f"functions of θ that are, fit.functional(…, debias=True)."
        )
    moved = one_step(fit)
    if moved.theta is fit.theta:
        raise ModelError(
            "Without the penalty some parameters are not determined, so there is no debiased estimate of θ. Use "
            "fit.functional(…, debias=True) for functions of θ that are determined."
        )
    away = [name for name, held in zip(fit.model.parameter_names, fit.held, strict=True) if held]
    return replace(moved, separated=(*fit.separated, *away))


def one_step(fit: Fitted) -> Fitted:
    """The unpenalised fit at θ̃, which equals θ̂ along directions that only the penalty determines.

    If conjugate gradients cannot find the step, it is the unpenalised fit at θ̂ itself (the same array).
    `debiased_value` computes the step of single functions.
    """
    objective, unpenalised = fit.needed.objective, without_penalty(fit)
    score = objective.problem.value_grad(fit.theta, objective.row_weight)[1]
    accuracy = unpenalised.accuracy()
    if isinstance(accuracy, DenseAccuracy):
        return _at(unpenalised, fit, accuracy.inverse @ score / accuracy.moments.total)
    step = accuracy.solve(score[None])[0]
    return unpenalised if np.isnan(step).any() else _at(unpenalised, fit, step)


def _at(unpenalised: Fitted, fit: Fitted, step: FloatArray) -> Fitted:
    """The unpenalised fit at θ̂ + step."""
    objective = fit.needed.objective
    theta = fit.theta.copy()
    theta[fit.free] += step[fit.free]
    value, gradient = objective.problem.value_grad(theta, objective.row_weight)
    convergence = replace(
        fit.convergence,
        objective=value,
        gradient_norm=float(np.abs(gradient[fit.free]).max()),
        message=f"one debiasing step, without the penalty ({fit.message})",
    )
    return replace(unpenalised, theta=theta, convergence=convergence)


def debiased_value(unpenalised: Fitted, slope: FloatArray) -> float:
    """What one Newton step adds to a function with gradient ``slope`` at θ̂: ∇gᵀ H⁻¹ Σψ with H unpenalised.

    H is that of the data, for every kind of standard error; NaN if the data alone do not determine the function.
    """
    objective = unpenalised.needed.objective
    solved = unpenalised.accuracy("robust").solve(slope[None])[0]
    score = objective.problem.value_grad(unpenalised.theta, objective.row_weight)[1]
    return float(solved @ np.where(unpenalised.free, score, 0.0))
