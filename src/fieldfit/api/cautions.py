"""Cautions about standard errors: few samples, no spread, a strong penalty, a long debiasing step, simulated matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.asymptotics import Accuracy, ImplicitAccuracy
from fieldfit.asymptotics.meat import ENOUGH_FOR_PARAMETER
from fieldfit.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from fieldfit.api.accuracies import Kind
    from fieldfit.api.state import FitState

#: Number of groups below which the meat has too few terms.
FEWEST_GROUPS = 30
#: Shift of the estimate by the penalty, in standard errors, above which model-based errors do not describe the data.
LARGEST_PULL = 1.0
#: Largest second debiasing step, in standard errors.
LARGEST_REMAINDER = 0.5


def near_optimum(fit: FitState) -> str:
    """A clause if averaged stochastic gradients ended near the optimum, where standard errors do not hold; else empty."""
    if fit.convergence.method != "sgd" or fit.convergence.converged:
        return ""
    return (
        "stochastic gradients (sgd) stop near the optimum, not at it: standard errors, z and p are not exact. For exact "
        "ones, fit again by another method that starts from these weights (start=…)"
    )


def few_samples(fit: FitState, kind: Kind) -> str:
    """A clause if there are too few samples or groups for robust errors, else an empty string."""
    return "".join(_few(fit, kind))


def few_samples_for_tests(fit: FitState) -> str:
    """The same beside a table with z or p-values."""
    clause, remedy = _few(fit, "robust")
    return f"{clause}, abs(z) too large and p too small{remedy}" if clause else ""


def _few(fit: FitState, kind: Kind) -> tuple[str, str]:
    """What is wrong with few samples or groups, and a remedy; empty if there are enough.

    Corollary 1 lets n grow for fixed r. With few samples for each parameter a fit follows its samples, penalised or not,
    and the scores ψ_i(θ̂), whose squares are summed in the robust meat, are smaller than those of new samples. With
    groups the meat has one square for each group.
    """
    # Errors of one sample are spatial or model-based, and given weights have none.
    if kind != "robust" or fit.size.n == 1 or fit.only_weights:
        return "", ""
    estimated, groups, size = int(fit.free.sum()), fit.size.groups, _independent(fit)
    what = "samples" if groups is None else "groups"
    remedy = "" if groups is not None else ": compare kind='model'"
    if size < ENOUGH_FOR_PARAMETER * estimated:
        share, far = size / estimated, "far " if size < estimated else ""
        return f"{share:.2g} {what} for each parameter, robust errors may be {far}too small", remedy
    if groups is not None and groups < FEWEST_GROUPS:
        return f"only {groups} groups, robust errors may be too small", ""
    return "", ""


def fewer_than_parameters(fit: FitState, kind: Kind) -> str:
    """The clause of `few_samples` if there are fewer samples or groups than estimated parameters, else empty."""
    return few_samples(fit, kind) if _independent(fit) < int(fit.free.sum()) else ""


def _independent(fit: FitState) -> float:
    """The number of groups if there are groups, else of samples."""
    return fit.total if fit.size.groups is None else min(fit.total, fit.size.groups)


def no_spread(fit: FitState, kind: Kind) -> str:
    """A clause if model-based errors replace robust ones, else an empty string."""
    if kind != "robust" or not fit.has_no_spread:
        return ""
    return "one sample has no spread: its errors are those expected under the fitted model"


def without_spread(fit: FitState, kind: Kind) -> BoolArray:
    """Which parameters (r,) have no errors of this kind, because only their penalty keeps them finite."""
    return np.zeros(len(fit.theta), dtype=bool) if kind == "model" or fit.has_no_spread else fit.held


def held_by_penalty(fit: FitState, kind: Kind) -> str:
    """A clause if parameters have no errors because some joint state never occurs in the samples, else empty."""
    count = int(without_spread(fit, kind).sum())
    if not count:
        return ""
    what = "1 parameter has" if count == 1 else f"{count:,} parameters have"
    return (
        f"{what} no finite estimate without the penalty, because some joint state never occurs in the samples, and no "
        f"{kind} error (compare kind='model')"
    )


def under_model(fit: FitState, kind: Kind, pull: float) -> str:
    """A clause if model-based errors do not describe the fit, else an empty string.

    They are expected for independent samples from p_θ̂. Samples in groups are not independent, and if a penalty
    shifts θ̂ far from θ₀ (``pull``, in standard errors), p_θ̂ is not the distribution of the data.
    """
    if kind != "model":
        return ""
    if fit.size.groups is not None:
        return "model-based errors assume independent samples and ignore the groups: use kind='robust'"
    if pull > LARGEST_PULL:
        return (
            f"the penalty pulls the estimate by about {pull:.2g} standard errors, and model-based errors are those of data "
            "from the pulled estimate: use kind='robust'"
        )
    return ""


def far_step(fit: FitState, errors: FloatArray) -> str:
    """A clause if the debiasing step of a fit ended too far from the unpenalised estimate, else an empty string.

    ``errors`` (r,) are standard errors. A second step would move θ̃ by its remainder. An interval whose centre is off by
    half a standard error covers 92% instead of 95%.
    """
    if fit.step_from is None:
        return ""
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = np.where(errors > 0, np.abs(fit.step_from.remainder) / errors, 0.0)
    far = int((sizes > LARGEST_REMAINDER).sum())
    if not far:
        return ""
    what = "1 debiased estimate" if far == 1 else f"{far:,} debiased estimates"
    return (
        f"the penalty was too strong for one debiasing step: a second one would move {what} by more than "
        f"{LARGEST_REMAINDER:g} standard errors (at most {np.nanmax(sizes):.2g}), and intervals may miss θ₀. Use a weaker "
        "penalty"
    )


def far_step_of(fit: FitState, slope: FloatArray, error: float) -> str:
    """The same for one function of θ with gradient ``slope``."""
    if fit.step_from is None or not error > 0:
        return ""
    size = abs(float(slope @ fit.step_from.remainder)) / error
    if not size > LARGEST_REMAINDER:
        return ""
    return (
        f"the penalty was too strong for one debiasing step: a second one would add {size:.2g} standard errors, and the "
        "interval may miss θ₀"
    )


def pull_of(fit: FitState, accuracy: Accuracy, directions: FloatArray) -> FloatArray:
    """The shift of aᵀθ̂ by the penalty, in standard errors (q,), to first order: aᵀ(H + P)⁻¹Pθ̂; 0 without a penalty."""
    precision = np.where(fit.active, fit.penalty.precision, 0.0)
    if not precision.any():
        return np.zeros(len(directions))
    moved = accuracy.solve(directions) @ (precision * fit.theta)
    errors = np.sqrt(np.maximum(np.diag(accuracy.covariance_of(directions)), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors > 0, np.abs(moved) / errors, 0.0)


def simulated(accuracy: Accuracy, direction: FloatArray) -> str:
    """A clause on the Monte Carlo error of the standard error of a function aᵀθ̂, else an empty string."""
    if not isinstance(accuracy, ImplicitAccuracy):
        return ""
    error = accuracy.simulation_error_of(direction)
    return "" if error is None else f"simulated, to about {100 * error:.1g}%"
