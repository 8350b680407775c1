"""`update_weights`: the β step of Algorithm 1 at a fitted θ, for users who write the alternation themselves."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fieldfit.api.result import Fit
from fieldfit.arguments import number_from_zero, one_of
from fieldfit.models.sum_problem import SumProblem
from fieldfit.types import FloatArray, PolicyError
from fieldfit.variance.criterion import Criterion
from fieldfit.variance.mixture_moments import MixtureMoments
from fieldfit.weights.choice import WeightsRidge, best_beta
from fieldfit.weights.groups import DrawnPolicy
from fieldfit.weights.statistics import DataStatistics

#: Diagonal entries of the bread below this, relative to the largest, count as 0.
_ROUNDING = 1e-14


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
    one_of(form, "form", ("exact", "diagonal"), PolicyError)
    one_of(formula, "formula", ("exact", "published"), PolicyError)
    number_from_zero(gamma, "gamma", PolicyError)
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
    kept = largest > _ROUNDING * largest.max()
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
