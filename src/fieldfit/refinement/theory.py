"""Asymptotic variance of estimators that combine moment conditions with optimal weights, at a given θ."""

from __future__ import annotations

import numpy as np

from fieldfit.policies import Policy
from fieldfit.refinement.model_moments import drawn_points, is_exact, score_moments
from fieldfit.refinement.optimal import model_weights
from fieldfit.refinement.pseudo_inverse import bread_inverse
from fieldfit.refinement.regression import covariance_of
from fieldfit.refinement.second_stage import TheorySetting
from fieldfit.refinement.stacking import Stack
from fieldfit.types import FloatArray, IdentifiabilityError, ModelError
from fieldfit.variance import Asymptotics
from fieldfit.variance.moments import MOST_ENUMERATED_STATES

#: Eigenvalues below this part of the largest are rounding.
_ROUNDING = 1e-10


def optimal_asymptotics(
    first: Policy, setting: TheorySetting, distance: int | None, given: Stack | None = None
) -> Asymptotics:
    """The inverse information KᵀV⁻¹K of a policy's conditions up to a graph distance, or of those that are given."""
    model, theta, method = setting.model, setting.theta, setting.method
    n_simulated, random_state = setting.n_simulated, setting.random_state
    bound = first.bind(model.structure())
    exact = is_exact(model, MOST_ENUMERATED_STATES)
    if method == "enumeration" and not exact:
        raise ModelError(f"The model has too many joint states; enumeration stops at {MOST_ENUMERATED_STATES:,}.")
    simulate = method == "simulation" or not exact
    stack, weights, halves, source = model_weights(
        model,
        theta,
        bound,
        distance=distance,
        random_state=random_state,
        draws=n_simulated if simulate else None,
        most_states=MOST_ENUMERATED_STATES,
        given=given,
    )
    moments = halves[0]
    if simulate:
        # Fresh draws: those that made the weights would show them too good.
        points = drawn_points(model, theta, None, n_simulated, random_state, 1_000)
        moments = score_moments(stack.conditions, points, theta)
        if stack.mean is not None and stack.second is not None:
            moments = moments.selected(stack.mean, stack.second, stack.conditions.component)
    covariance = covariance_of(weights.matrix, moments)
    basis = _range(moments.information)
    # Along a gauge freedom of the model, where there is one, any inverse has a part that means nothing.
    project = basis @ basis.T
    covariance = project @ covariance @ project
    information = _inverse(covariance)
    open_directions = basis.shape[1] - _range(covariance).shape[1]
    if open_directions > 0:
        raise IdentifiabilityError(
            f"The components of '{first}' do not determine {open_directions} directions of θ that the model does. Add "
            f"components, or fix parameters."
        )
    reference = _inverse(moments.information)
    return Asymptotics(information, information, covariance, reference, "exact", source, basis=basis)


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a symmetric matrix on its range."""
    inverse = bread_inverse(matrix, tolerance=_ROUNDING)
    return (inverse + inverse.T) / 2


def _range(matrix: FloatArray) -> FloatArray:
    """An orthonormal basis (r, d) of the range of a symmetric matrix, in any units of its variables."""
    diagonal = np.diag(matrix)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2 * scale[:, None] * scale)
    null = scale[:, None] * vectors[:, values <= _ROUNDING * float(values[-1])]
    if not null.shape[1]:
        return np.eye(len(matrix))
    return np.asarray(np.linalg.qr(null, mode="complete")[0][:, null.shape[1] :])
