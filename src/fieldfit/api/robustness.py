"""Influence of single observations on a fit (Equation 18).

    𝓘(x, z) = θ̂ with (x, z) − θ̂ without ≈ (H + P)⁻¹ ψ(x, z) = (1/n) Υ ψ(x, z)

For the fitted samples ψ has the drawn Z; for new ones it is expected over Z. The gross-error sensitivity is the most that
one observation can do, sup over x of |n 𝓘(x)|.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldfit.api.functionals import places_of, unit_rows
from fieldfit.asymptotics import DenseAccuracy
from fieldfit.asymptotics.expected_scores import ExpectedScores
from fieldfit.data.samples import Table
from fieldfit.models.base import Problem
from fieldfit.models.field import FieldModel
from fieldfit.types import FloatArray, ModelError

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.result import Fit

#: Numbers in an array of influences that is returned at once.
MOST_NUMBERS = 50_000_000
_MOST_STATES = 1 << 16
_BLOCK = 4_000_000


def influence(fit: Fit, data: Any = None, parameters: Any = None, rows: Any = None) -> FloatArray:
    """𝓘 of each sample for each parameter, or for those chosen, (n, q); or of chosen samples for all parameters."""
    if rows is not None:
        if data is not None or parameters is not None:
            raise ModelError(
                "Choose fitted samples (rows=…) or parameters (parameters=…), not both; rows are fitted ones."
            )
        return influence_of_rows(fit, rows)
    if parameters is None:
        n = fit.problem.n_samples if data is None else _expected(fit, data).n
        if n * len(fit.theta) > MOST_NUMBERS:
            raise ModelError(
                f"The influence of {n:,} samples on {len(fit.theta):,} parameters has {n * len(fit.theta):.2g} numbers. "
                f"Choose parameters=[…], or go through fit.influence_blocks()."
            )
        return np.concatenate([block for _, block in influence_blocks(fit, data)])
    places = places_of(parameters, fit.model.parameter_names)
    solved = fit.accuracy().solve(unit_rows(places, len(fit.theta)))
    weight = fit.needed_objective.row_weight if data is None else None
    source: Problem | ExpectedScores = fit.problem if data is None else _expected(fit, data)
    columns = []
    for direction in solved:
        lost = bool(np.isnan(direction).any())
        products = source.row_products(fit.theta, np.zeros_like(direction) if lost else direction)
        columns.append(products * np.nan if lost else products if weight is None else products * weight)
    return np.stack(columns, axis=1)


def influence_of_rows(fit: Fit, rows: Any) -> FloatArray:
    """𝓘 of some fitted samples for every parameter (rows, r): one score and one solve for each, for any r."""
    n = fit.problem.n_samples
    chosen = np.atleast_1d(np.asarray(rows))
    if (
        chosen.ndim != 1
        or chosen.dtype.kind not in "iu"
        or (chosen.size and not -n <= chosen.min() <= chosen.max() < n)
    ):
        raise ModelError(f"Fitted samples are numbers from 0 to {n - 1}; got {rows!r}.")
    weight = fit.needed_objective.row_weight
    scores = np.empty((len(chosen), len(fit.theta)))
    for line, row in enumerate(chosen % n):
        alone = np.zeros(n)
        alone[row] = 1.0 if weight is None else weight[row]
        scores[line] = np.where(fit.free, fit.problem.value_grad(fit.theta, alone)[1], 0.0)
    accuracy = fit.accuracy()
    if isinstance(accuracy, DenseAccuracy):
        moved: FloatArray = scores @ accuracy.inverse / accuracy.moments.total
        moved[:, np.isnan(accuracy.variances())] = np.nan
        return moved
    return accuracy.solve(scores)


def influence_blocks(fit: Fit, data: Any = None) -> Iterator[tuple[int, FloatArray]]:
    """𝓘 as a stream of (first sample, block of samples × parameters); NaN for parameters that are not identified."""
    accuracy = fit.dense_accuracy()
    r = len(fit.theta)
    rows = max(1, _BLOCK // max(1, r))
    lost = np.isnan(accuracy.variances())
    inverse = accuracy.inverse / accuracy.moments.total
    weight = fit.needed_objective.row_weight if data is None else None
    source: Problem | ExpectedScores = fit.problem if data is None else _expected(fit, data)
    for start, scores in source.score_blocks(fit.theta, rows):
        block = scores @ inverse
        if weight is not None:
            block *= weight[start : start + len(block), None]
        block[:, lost] = np.nan
        yield start, block


def _expected(fit: Fit, data: Any) -> ExpectedScores:
    dataset = fit.model.read(data)
    return _expected_of(fit, dataset)


def _expected_of(fit: Fit, dataset: Any) -> ExpectedScores:
    structure = fit.model.structure(dataset)
    n = dataset.n
    return ExpectedScores(fit.policy.bind(structure), n, lambda chosen: fit.model.compile(dataset, chosen))


def influential(fit: Fit, k: int = 10, parameters: Any = None) -> pd.DataFrame:
    """The samples that move the fit most.

    ``distance`` is Cook's: 𝓘ᵀ Cov(θ̂)⁻¹ 𝓘 over all parameters, or over those chosen; ``parameter`` is the one that moves
    most in standard errors, ``change`` by how much, ``in_errors`` the same in standard errors.
    """
    import pandas as pd

    if k < 1:
        raise ModelError(f"The number of samples to show must be at least 1; got {k}.")
    names = fit.model.parameter_names
    distances, strongest, changes, in_errors = [], [], [], []
    if parameters is None:
        accuracy = fit.dense_accuracy()
        places = np.flatnonzero(fit.free)
        covariance = accuracy.covariance[np.ix_(places, places)]
        blocks: Iterator[FloatArray] = (
            scores @ accuracy.inverse[:, places] / accuracy.moments.total for scores in _weighted_scores(fit)
        )
        errors = np.sqrt(accuracy.variances()[places])
    else:
        places = places_of(parameters, names)
        rows = unit_rows(places, len(fit.theta))
        covariance = fit.accuracy().covariance_of(rows)
        errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        blocks = iter([influence(fit, None, parameters)])
    good = np.isfinite(errors) & (errors > 0)
    if not good.any():
        raise ModelError("None of these parameters is identified; there is no influence to measure.")
    usable = np.ones(len(places), dtype=bool) if parameters is None else good
    metric = np.linalg.pinv(covariance[np.ix_(usable, usable)], hermitian=True)
    for block in blocks:
        scaled = np.where(good, np.abs(block) / np.where(good, errors, 1.0), 0.0)
        most = scaled.argmax(axis=1)
        lines = np.arange(len(block))
        part = block[:, usable]
        distances.append(np.einsum("ir,rs,is->i", part, metric, part, optimize=True))
        strongest.append(most)
        changes.append(block[lines, most])
        in_errors.append(scaled[lines, most])
    distance = np.concatenate(distances)
    order = np.argsort(-distance, kind="stable")[:k]
    most = np.concatenate(strongest)[order]
    return pd.DataFrame(
        {
            "distance": distance[order],
            "parameter": [names[int(places[place])] for place in most],
            "change": np.concatenate(changes)[order],
            "in_errors": np.concatenate(in_errors)[order],
        },
        index=pd.Index(order, name="row"),
    )


def _weighted_scores(fit: Fit) -> Iterator[FloatArray]:
    weight = fit.needed_objective.row_weight
    for start, scores in fit.problem.score_blocks(fit.theta):
        yield scores if weight is None else scores * weight[start : start + len(scores), None]


def cook_distances(fit: Fit) -> FloatArray:
    """Cook's distance of every fitted sample (n,)."""
    accuracy = fit.dense_accuracy()
    metric = np.linalg.pinv(accuracy.covariance, hermitian=True)
    inverse = accuracy.inverse / accuracy.moments.total
    form = inverse @ metric @ inverse
    return np.concatenate([np.einsum("ir,rs,is->i", s, form, s, optimize=True) for s in _weighted_scores(fit)])


@dataclass(frozen=True)
class Sensitivity:
    """Gross-error sensitivity: ``each`` (r,) is sup_x |n 𝓘_k(x)|, ``total`` sup_x ‖n 𝓘(x)‖, reached at ``state``.

    ``exact`` if the supremum is over all states of the model; otherwise over the fitted samples, a lower bound.
    ``standardised`` is sup_x (n 𝓘ᵀ V⁻¹ 𝓘)^(1/2) with V = Cov(√n θ̂): at least √r, and 1 standard error × √n for each unit.
    """

    each: FloatArray
    total: float
    standardised: float
    state: tuple[Any, ...] | int
    exact: bool


def gross_error_sensitivity(fit: Fit) -> Sensitivity:
    """See `Sensitivity`."""
    accuracy: DenseAccuracy = fit.dense_accuracy()
    model = fit.model
    small = isinstance(model, FieldModel) and math.prod(model.graph.cardinalities) <= _MOST_STATES
    if small and isinstance(model, FieldModel):
        source = _expected_of(fit, Table(model.graph.all_states(), model.names, model.states))
    else:
        source = _expected_of(fit, fit.needed_dataset)
    lost = np.isnan(accuracy.variances())
    metric = np.linalg.pinv(accuracy.covariance * fit.n, hermitian=True)
    each = np.zeros(len(fit.theta))
    total, standardised, where = 0.0, 0.0, 0
    for start, scores in source.score_blocks(fit.theta, max(1, _BLOCK // len(fit.theta))):
        block = scores @ accuracy.inverse * (fit.n / accuracy.moments.total)
        each = np.maximum(each, np.abs(block).max(axis=0))
        norms = np.linalg.norm(block, axis=1)
        if norms.max() > total:
            total, where = float(norms.max()), start + int(norms.argmax())
        standard = np.einsum("ir,rs,is->i", block, metric, block, optimize=True)
        standardised = max(standardised, float(np.sqrt(max(standard.max(), 0.0))))
    each[lost] = np.nan
    state: tuple[Any, ...] | int = where
    if small and isinstance(model, FieldModel):
        state = tuple(np.asarray(model.decode(model.graph.all_states()[[where]])[0]).tolist())
    return Sensitivity(each, total, standardised, state, small)
