"""The one-step estimate, which removes the shrinkage of a penalty.

A penalised estimate is biased towards 0 by (H + P)⁻¹ P θ₀. One Newton step on the unpenalised likelihood from it,

    θ̃ = θ̂ + H⁻¹ Σ_i w_i ψ_i(θ̂),

has the limit distribution of the unpenalised estimator, √n(θ̃ − θ₀) → N(0, Υ Σ Υ), as long as the penalty does not
grow with n. `asymptotics.debiased` has its covariance, also for a penalty that is strong compared with the data. If the
penalty is so strong that one step does not come close to the unpenalised estimate, a warning says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fieldfit.api.accuracies import curvature_at, fits_matrices
from fieldfit.api.cautions import far_step
from fieldfit.api.refinement import refuse_refined
from fieldfit.asymptotics.debiased import Curvature, PenalisedStart
from fieldfit.callers import warn_caller
from fieldfit.types import FloatArray, ModelError, StrongPenaltyWarning
from fieldfit.words import sentence

if TYPE_CHECKING:
    from fieldfit.api.standard_errors import StandardErrors

Fitted = TypeVar("Fitted", bound="StandardErrors")


def without_penalty(fit: Fitted) -> Fitted:
    """The same θ̂, treated as an estimate without a penalty."""
    refuse_refined(fit, "A debiased estimate", "Refine a fit without a penalty.")
    prepared = fit.needed.without_penalty()
    return replace(fit, penalty=prepared.penalty, prepared=prepared, step_from=None)


def debiased(fit: Fitted) -> Fitted:
    """A fit at θ̃ without a penalty."""
    curvature = _curvature(without_penalty(fit))
    if curvature is not None and curvature.inverse.nullity:
        places = np.flatnonzero(~curvature.inverse.reached)
        names = [fit.model.parameter_names[place] for place in places[:10]]
        more = f" and {len(places) - 10} more" if len(places) > 10 else ""
        raise ModelError(
            f"Without the penalty {len(places)} parameters are not determined: {', '.join(names)}{more}. There is no "
            f"debiased estimate of θ. Fix parameters until the others are identified (fixed={{name: 0.0}}), or use "
            f"functions of θ that are, fit.functional(…, debias=True)."
        )
    moved = _moved(fit, curvature)
    if moved.theta is fit.theta:
        raise ModelError(
            "Without the penalty some parameters are not determined, so there is no debiased estimate of θ. Use "
            "fit.functional(…, debias=True) for functions of θ that are determined."
        )
    away = [name for name, held in zip(fit.model.parameter_names, fit.held, strict=True) if held]
    moved = replace(moved, separated=(*fit.separated, *away))
    if curvature is not None and not fit.has_no_spread:
        clause = far_step(moved, moved.standard_errors())  # kept by the fit that is returned
        if clause:
            warn_caller(f"{sentence(clause)}.", StrongPenaltyWarning)
    return moved


def one_step(fit: Fitted) -> Fitted:
    """The unpenalised fit at θ̃, which equals θ̂ along directions that only the penalty determines.

    If conjugate gradients cannot find the step, it is the unpenalised fit at θ̂ itself (the same array).
    `debiased_value` computes the step of single functions.
    """
    return _moved(fit, _curvature(without_penalty(fit)))


def _curvature(unpenalised: StandardErrors) -> Curvature | None:
    """H/N at θ̂ with its inverse and null space; None with too many parameters for matrices."""
    if not fits_matrices(unpenalised):
        return None
    return curvature_at(unpenalised, unpenalised.theta)


def _moved(fit: Fitted, curvature: Curvature | None) -> Fitted:
    """The unpenalised fit at θ̂ + H⁻¹ Σψ, by the inverse of H or by conjugate gradients."""
    prepared, unpenalised = fit.needed, without_penalty(fit)
    objective = prepared.objective

    def step_for(score: FloatArray) -> FloatArray:
        step: FloatArray
        if curvature is None:
            step = unpenalised.accuracy().solve(score[None])[0]
        else:
            step = curvature.inverse.inverse @ score / prepared.dataset.total_weight
        return step

    step = step_for(objective.problem.value_grad(fit.theta, objective.row_weight)[1])
    if np.isnan(step).any():
        return unpenalised
    theta = fit.theta.copy()
    theta[fit.free] += step[fit.free]
    value, gradient = objective.problem.value_grad(theta, objective.row_weight)
    convergence = replace(
        fit.convergence,
        objective=value,
        gradient_norm=float(np.abs(gradient[fit.free]).max()),
        message=f"one debiasing step, without the penalty ({fit.message})",
    )
    remainder = np.where(fit.free, step_for(gradient), 0.0)
    start = PenalisedStart(fit.theta, fit.penalty.precision, fit.active, remainder, curvature)
    return replace(unpenalised, theta=theta, convergence=convergence, step_from=start)


def debiased_value(unpenalised: Fitted, slope: FloatArray) -> float:
    """What one Newton step adds to a function with gradient ``slope`` at θ̂: ∇gᵀ H⁻¹ Σψ with H unpenalised.

    H is that of the data, for every kind of standard error; NaN if the data alone do not determine the function.
    """
    objective = unpenalised.needed.objective
    solved = unpenalised.accuracy("robust").solve(slope[None])[0]
    score = objective.problem.value_grad(unpenalised.theta, objective.row_weight)[1]
    return float(solved @ np.where(unpenalised.free, score, 0.0))
