"""The accuracy of a fit: bread and meat from the data (robust), or expected under θ̂ (model-based).

With few parameters these are dense matrices; else Hessian products, and one solve by conjugate gradients for each
function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from fieldfit.api.state import FitState
from fieldfit.asymptotics import (
    Accuracy,
    DenseAccuracy,
    ImplicitAccuracy,
    ImplicitBread,
    Limit,
    Moments,
    Preconditioner,
    ScoreVariance,
    Solved,
    robust_moments,
)
from fieldfit.asymptotics.accuracy import MOST_COVARIANCE_PARAMETERS, penalised_inverse
from fieldfit.asymptotics.debiased import Curvature, DebiasedBread, PenalisedStart, debiased_moments
from fieldfit.asymptotics.expectations import Estimated, information_identity, model_moments, simulated_problems
from fieldfit.asymptotics.meat import mean_score
from fieldfit.asymptotics.spatial import spatial_meat
from fieldfit.models.problem import Problem
from fieldfit.optim.cg import conjugate_gradients
from fieldfit.types import BoolArray, DataError, FieldfitError, FloatArray, PolicyError

Kind = Literal["robust", "model", "spatial"]


def checked_kind(kind: Kind) -> Kind:
    """A kind of standard errors."""
    if not isinstance(kind, str) or kind not in ("robust", "model", "spatial"):
        raise FieldfitError(
            f"Standard errors are of the kind 'robust', 'model' or 'spatial'; got {kind!r:.80}. To select parameters, use "
            "parameters=[…]."
        )
    return kind


_MOST_HESSIAN_PRODUCTS = 2_000
#: Number of simulated datasets for model-based standard errors without matrices.
_SIMULATED_DATASETS = 4
#: Relative error of aᵀ(H + P)⁻¹a at which a solve may stop. It is estimated, not bounded.
_FORM_ERROR = 1e-7
#: Relative residual at which a solve stops in any case, and largest residual that counts as solved. Directions that
#: are not identified stay far above it.
_ACCURACY_RESIDUAL, _LARGEST_SOLVED_RESIDUAL = 1e-7, 1e-4


def fits_matrices(fit: FitState) -> bool:
    """Whether there are few enough parameters for dense matrices."""
    return fit.model.n_parameters <= MOST_COVARIANCE_PARAMETERS


def robust_accuracy(fit: FitState) -> Accuracy:
    """Hessian and score products of the data with the drawn Z (Corollary 1); model-based for a sample without spread."""
    if fit.prepared is None and fit.saved.moments is not None:
        return DenseAccuracy(fit.saved.moments, fit.penalty.precision, fit.active, fit.model.feature_units)
    if fit.prepared is None and not fit.size.n:
        raise DataError(f"These weights have no standard errors ({fit.convergence.message}).")
    if fit.prepared is None:
        raise DataError(
            "This fit was loaded from a file without its covariance; standard errors need the data: load(path, data)."
        )
    if not fit.has_no_spread:
        return _accuracy_of_data(fit)
    try:
        return model_accuracy(fit, lambda: _accuracy_of_data(fit))
    except PolicyError as refusal:
        raise DataError(
            "One sample has no spread from which to compute standard errors, and this fit has no model-based ones. Give "
            "several samples."
        ) from refusal


def _accuracy_of_data(fit: FitState) -> Accuracy:
    assert fit.prepared is not None
    if fit.refined and fit.refinement is not None:
        dataset = fit.prepared.dataset
        variance = ScoreVariance(dataset.sample_weight, dataset.has_counts, dataset.groups)
        return fit.refinement.needed.accuracy(variance, fit.active, fit.model.feature_units)
    # The score of one sample of a graph is 0 at the estimate: its terms give the variance.
    alone = fit.size.n == 1 and not fit.size.weighted and fit.size.groups is None
    if alone and fit.model.has_graph and fits_matrices(fit):
        return spatial_accuracy(fit)
    return accuracy_with(fit, score_variance(fit))


def accuracy_with(fit: FitState, variance: ScoreVariance) -> Accuracy:
    """Hessian of the data, and the meat of their scores as defined by ``variance``."""
    problem, dataset = fit.needed.problem, fit.needed.dataset
    if not fits_matrices(fit):
        method = "the data, by conjugate gradients"
        if fit.step_from is not None:
            return _debiased_by_products(fit, fit.step_from, [problem], variance, method)
        return implicit_accuracy(fit, [problem], variance, method)
    bread, meat = robust_moments(problem, fit.theta, variance)
    return _dense_accuracy(fit, Moments(bread, meat, dataset.total_weight, "the data"))


def _dense_accuracy(fit: FitState, moments: Moments) -> DenseAccuracy:
    """The accuracy from bread and meat at the estimate, which may be one Newton step from a penalised one."""
    start, units = fit.step_from, fit.model.feature_units
    if start is None:
        return DenseAccuracy(moments, fit.penalty.precision, fit.active, units)
    curvature = start.curvature or curvature_at(fit, start.theta)
    moments = debiased_moments(curvature.matrix, moments, start, units)
    return DenseAccuracy(moments, fit.penalty.precision, fit.active, units, curvature.inverse)


def curvature_at(unpenalised: FitState, theta: FloatArray) -> Curvature:
    """H/N of the data at ``theta`` with its inverse, over the free parameters of a fit without a penalty."""
    prepared = unpenalised.needed
    dataset = prepared.dataset
    matrix = -prepared.problem.hessian_matrix(theta, dataset.sample_weight) / dataset.total_weight
    none = np.zeros(len(theta))
    return Curvature(matrix, penalised_inverse(matrix, none, unpenalised.free, unpenalised.model.feature_units))


def spatial_accuracy(fit: FitState, bandwidth: int | None = None) -> DenseAccuracy:
    """Hessian of the data, and the variance of the score from its terms over the graph (see `variance.spatial`)."""
    prepared = fit.needed
    dataset = prepared.dataset
    if fit.refined or dataset.sample_weight is not None or dataset.groups is not None:
        raise DataError("Spatial standard errors are for fits with one stage, without sample weights and groups.")
    if not fits_matrices(fit):
        raise DataError(
            f"Spatial standard errors need matrices of {fit.model.n_parameters:,} parameters; the limit is "
            f"{MOST_COVARIANCE_PARAMETERS:,}."
        )
    located = fit.model.located_scores(prepared.problem, dataset, prepared.selection, fit.theta)
    if located is None:
        raise DataError(
            f"A {fit.model.kind} model has no graph with the same variables in every sample, and standard errors from one "
            f"sample need one. Use kind='model', or give several samples."
        )
    meat = spatial_meat(*located, bandwidth)
    bread = -prepared.problem.hessian_matrix(fit.theta) / dataset.total_weight
    method = f"the score's terms within distance {meat.bandwidth} of each other in the graph (spatial HAC)"
    if meat.raised:
        method += ", with a variance near 0 raised"
    moments = Moments(bread, meat.matrix / dataset.total_weight, dataset.total_weight, method, degrees=meat.degrees)
    return DenseAccuracy(moments, fit.penalty.precision, fit.active, fit.model.feature_units)


def model_accuracy(fit: FitState, robust_of: Callable[[], Accuracy]) -> Accuracy:
    """Expected bread and meat under θ̂; for a conditional model over Y given the observed X.

    ``robust_of()`` is the robust accuracy of the same fit. Its solutions are reused if the bread is the same.
    """
    if fit.refined and fit.refinement is not None:
        return fit.refinement.needed.model_accuracy(fit.counts, fit.active, fit.model.feature_units)
    if fits_matrices(fit):
        return _dense_accuracy(fit, model_moments(estimated(fit)))
    identity = information_identity(estimated(fit))
    if identity is not None:
        # The same bread as that of robust errors, whose solutions are shared.
        robust = robust_of()
        assert isinstance(robust, ImplicitAccuracy)
        method = "the information identity, by conjugate gradients"
        return ImplicitAccuracy(robust.bread, robust.problems, independent(fit), method, identity)
    method = f"{_SIMULATED_DATASETS} simulated datasets, by conjugate gradients"
    problems = simulated_problems(estimated(fit), _SIMULATED_DATASETS)
    if fit.step_from is not None:
        return _debiased_by_products(fit, fit.step_from, problems, independent(fit), method)
    return implicit_accuracy(fit, problems, independent(fit), method)


def estimated(fit: FitState) -> Estimated:
    """The estimate with its samples, for expectations under it."""
    used = fit.needed
    return Estimated(fit.model, used.dataset, used.bound, used.problem, fit.theta, fit.random_state)


def score_variance(fit: FitState) -> ScoreVariance:
    """How the robust meat of a fit is computed: by groups, and centred at the mean score where that is not 0."""
    prepared = fit.needed
    dataset = prepared.dataset
    centred = fit.penalised or fit.step_from is not None
    mean = mean_score(prepared.problem, fit.theta, dataset.sample_weight) if centred else None
    return ScoreVariance(dataset.sample_weight, dataset.has_counts, dataset.groups, mean)


def independent(fit: FitState) -> ScoreVariance:
    """The same for datasets simulated at θ̂: independent samples, whose scores have mean 0."""
    dataset = fit.needed.dataset
    return ScoreVariance(dataset.sample_weight, dataset.has_counts)


def implicit_accuracy(
    fit: FitState, problems: Sequence[Problem], variance: ScoreVariance, method: str
) -> ImplicitAccuracy:
    """Accuracy by products of ``problems``, for any number of parameters."""
    # Two datasets are enough for the bread, an average over all tokens. The meat of a rare feature needs more.
    bread = _bread_by_products(fit, problems[:2], fit.theta, fit.penalty.precision, fit.active)
    return ImplicitAccuracy(bread, problems, variance, method)


def _debiased_by_products(
    fit: FitState, start: PenalisedStart, problems: Sequence[Problem], variance: ScoreVariance, method: str
) -> ImplicitAccuracy:
    """Accuracy of one Newton step from a penalised estimate, by products: H of the data, the rest of ``problems``."""
    at_start = _bread_by_products(fit, [fit.needed.problem], start.theta, fit.penalty.precision, fit.free)
    at_step = _bread_by_products(fit, problems[:2], fit.theta, start.precision, start.active)
    return ImplicitAccuracy(DebiasedBread(at_start, at_step), problems, variance, method)


def _bread_by_products(
    fit: FitState, problems: Sequence[Problem], theta: FloatArray, precision: FloatArray, active: BoolArray
) -> ImplicitBread:
    """H + P at ``theta`` over the active parameters, with its solver."""
    # With a penalty on every parameter, every function is identified (unless unknown values make H indefinite), and
    # the quadratic form determines when to stop. Otherwise only the residual shows whether b is in the range of H.
    held = bool(np.all(precision[active] > 0)) and not fit.needed.dataset.has_missing

    def solve(
        product: Callable[[FloatArray], FloatArray],
        b: FloatArray,
        preconditioner: Preconditioner | None,
        limit: Limit | None,
    ) -> Solved:
        solution, state = conjugate_gradients(
            product,
            b,
            tol=_ACCURACY_RESIDUAL,
            energy_tol=_FORM_ERROR if held else None,
            energy_limit=limit,
            max_iter=_MOST_HESSIAN_PRODUCTS,
            preconditioner=None if preconditioner is None else preconditioner.inverse,
            near=preconditioner is not None and preconditioner.near,
        )
        if not (state.converged or state.residual <= _LARGEST_SOLVED_RESIDUAL):
            return Solved(np.full(len(b), np.nan), 0.0)
        # Solves that stopped by their residual cannot be improved.
        return Solved(solution, state.missing if held and state.residual > _ACCURACY_RESIDUAL else 0.0)

    return ImplicitBread(problems, theta, precision, active, fit.row_weight, solve, fit.model.feature_units)
