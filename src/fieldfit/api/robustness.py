"""Influence of single observations on a fit (Equation 18).

    𝓘(x, z) = θ̂ with (x, z) − θ̂ without ≈ (H + P)⁻¹ ψ(x, z) = (1/n) Υ ψ(x, z)

For the fitted samples ψ has the drawn Z. For new samples it is averaged over Z, and missing values are summed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.functionals import some_places, unit_rows
from fieldfit.arguments import array_of
from fieldfit.asymptotics import DenseAccuracy, range_inverse
from fieldfit.asymptotics.moments import expected_problem
from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table
from fieldfit.models.problem import Problem
from fieldfit.refinement.second_stage import EstimatingScores
from fieldfit.steps import steps
from fieldfit.types import DataError, FloatArray, IntArray, ModelError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from fieldfit.api.standard_errors import StandardErrors

Scores = Problem | EstimatingScores

#: Most numbers in an array of influences.
MOST_INFLUENCE_NUMBERS = 50_000_000
#: Numbers in a block of scores.
SCORE_NUMBERS = 4_000_000
#: Number of samples that are examined for each requested one. On 600 sentences of a tagger with 4,570 parameters the
#: ten most influential samples were among the first 20 of the screening.
_SCREENED_PER_SAMPLE = 3


def influence(
    fit: StandardErrors, data: object = None, *, parameters: object = None, rows: object = None
) -> FloatArray:
    """Compute how much each observation changes each parameter: 𝓘 = (H + P)⁻¹ ψ (Equation 18 of the paper).

    Parameters
    ----------
    data : array_like, DataFrame, Sequences or None, default: None
        New samples. The result is the change when one is added with the weight ``fit.unit_weight``, averaged
        over Z. None: the fitted samples with their drawn Z. The result is then θ̂ minus the estimate without
        the sample.
    %(parameters)s
    rows : sequence of int or None, default: None
        Fitted samples. None: all.

    Returns
    -------
    ndarray of shape (n, parameters)
        A row with a count stands for all its copies together.

    Notes
    -----
    With more than 3,000 parameters, select ``parameters`` or ``rows``.

    Examples
    --------
    %(fit)s
    >>> fit.influence().shape
    (500, 3)
    >>> fit.influence([[1, 1, 1]], parameters=["x0:x1"]).round(4)
    array([[0.003]])
    """
    if rows is not None:
        if data is not None or parameters is not None:
            raise ModelError("Give rows (fitted samples) or parameters, not both; rows cannot be combined with data.")
        return influence_of_rows(fit, rows)
    if parameters is None:
        n = fit.scores_source.n_samples if data is None else expected_scores(fit, fit.model.read_new(data)).n_samples
        if n * len(fit.theta) > MOST_INFLUENCE_NUMBERS:
            raise ModelError(
                f"The influence of {n:,} samples on {len(fit.theta):,} parameters has {n * len(fit.theta):.2g} numbers. "
                f"Select parameters=[…], or iterate over fit.influence_blocks()."
            )
        return np.concatenate([block for _, block in influence_blocks(fit, data)])
    places = some_places(parameters, fit.model.parameter_names)
    source: Scores = fit.scores_source if data is None else expected_scores(fit, fit.model.read_new(data))
    moved = influence_on(fit, source, places)
    weight = fit.row_weight if data is None else None
    return moved * (fit.unit_weight if data is not None else 1.0 if weight is None else weight[:, None])


def influence_on(fit: StandardErrors, source: Scores, places: IntArray) -> FloatArray:
    """(H + P)⁻¹ ψ of every sample of ``source`` for some parameters (n, q), for any r: a solve and a pass for each."""
    columns = []
    for direction in fit.accuracy().solve(unit_rows(places, len(fit.theta))):
        lost = bool(np.isnan(direction).any())
        products = source.row_products(fit.theta, np.zeros_like(direction) if lost else direction)
        columns.append(products * np.nan if lost else products)
    return np.stack(columns, axis=1)


def influence_of_rows(fit: StandardErrors, rows: object) -> FloatArray:
    """𝓘 of some fitted samples for every parameter (rows, r): one score and one solve for each, for any r."""
    n = fit.problem.n_samples
    chosen = np.atleast_1d(array_of(rows, name="rows"))
    if chosen.shape == (0,):
        return np.empty((0, len(fit.theta)))
    if (
        chosen.ndim != 1
        or chosen.dtype.kind not in "iu"
        or (chosen.size and not -n <= chosen.min() <= chosen.max() < n)
    ):
        raise ModelError(f"Fitted samples are numbers from 0 to {n - 1}; got {rows!r:.80}.")
    scores = _scores_of(fit, chosen % n)
    accuracy = fit.accuracy()
    if isinstance(accuracy, DenseAccuracy):
        moved: FloatArray = scores @ accuracy.inverse / accuracy.moments.total
        moved[:, np.isnan(accuracy.variances())] = np.nan
        return moved
    return accuracy.solve(scores)


def _scores_of(fit: StandardErrors, rows: IntArray) -> FloatArray:
    """w ψ of some fitted samples (rows, r), 0 for fixed parameters."""
    weight = fit.row_weight
    if fit.refined and fit.refinement is not None:
        refined = fit.refinement.needed.scores.scores_of(fit.theta, rows)
        return refined if weight is None else refined * weight[rows, None]
    scores = np.empty((len(rows), len(fit.theta)))
    for line, row in enumerate(rows):
        alone = np.zeros(fit.problem.n_samples)
        alone[row] = 1.0 if weight is None else weight[row]
        scores[line] = np.where(fit.free, fit.problem.value_grad(fit.theta, alone)[1], 0.0)
    return scores


def influence_blocks(fit: StandardErrors, data: object = None) -> Iterator[tuple[int, FloatArray]]:
    """Iterate over the influence in blocks of samples, for arrays that do not fit in memory.

    Parameters
    ----------
    data : array_like, DataFrame, Sequences or None, default: None
        New samples. None: the fitted samples.

    Yields
    ------
    first : int
        Number of the first sample of the block.
    block : ndarray of shape (k, r)

    Examples
    --------
    %(fit)s
    >>> sum(len(block) for first, block in fit.influence_blocks())
    500
    """
    accuracy = matrices(fit, "The influence of every sample on every parameter")
    if data is None:
        return _blocks(fit, accuracy, fit.scores_source, fit.row_weight)
    new = expected_scores(fit, fit.model.read_new(data))
    return _blocks(fit, accuracy, new, np.full(new.n_samples, fit.unit_weight))


def _blocks(
    fit: StandardErrors, accuracy: DenseAccuracy, source: Scores, weight: FloatArray | None
) -> Iterator[tuple[int, FloatArray]]:
    lost = np.isnan(accuracy.variances())
    inverse = accuracy.inverse / accuracy.moments.total
    for start, scores in source.score_blocks(fit.theta, max(1, SCORE_NUMBERS // max(1, len(fit.theta)))):
        block = scores @ inverse
        if weight is not None:
            block *= weight[start : start + len(block), None]
        block[:, lost] = np.nan
        yield start, block


def matrices(fit: StandardErrors, what: str) -> DenseAccuracy:
    """The fit's accuracy as matrices. With too many parameters, raises an error that names the alternatives."""
    accuracy = fit.accuracy()
    if not isinstance(accuracy, DenseAccuracy):
        raise ModelError(
            f"{what} needs matrices of {len(fit.theta):,} × {len(fit.theta):,} numbers, which are too large. Choose "
            f"parameters=[…] (influence, influential, plot_influence, gross_error_sensitivity: one solve for each), or "
            f"select samples with fit.influence(rows=[…])."
        )
    return accuracy


def expected_scores(fit: StandardErrors, dataset: Dataset) -> Scores:
    """E_Z ψ of the samples of a dataset under the fit's policy."""
    if fit.refined and fit.refinement is not None:
        if dataset.has_missing or not isinstance(dataset, Table):
            raise DataError("The influence of new samples on a refined fit needs complete samples.")
        return fit.refinement.needed.scores_of_new(dataset.codes)
    structure = fit.model.structure(dataset)
    return expected_problem(fit.policy.bind(structure), dataset.n, lambda chosen: fit.model.compile(dataset, chosen))


def influential(fit: StandardErrors, k: int = 10, *, parameters: object = None) -> pd.DataFrame:
    """List the fitted samples that change the estimate most.

    Parameters
    ----------
    k : int, default: 10
        Number of samples.
    %(parameters)s

    Returns
    -------
    DataFrame
        Cook's distance (or the displacement, if there are no more samples than parameters), the parameter that
        the sample changes most, and the change.

    Notes
    -----
    Cook's distance is 𝓘ᵀ Cov(θ̂)⁻¹ 𝓘. With no more samples than parameters it would be 1 for all samples. The first column
    is then ``displacement``, 𝓘ᵀ (H + P) 𝓘: twice the loss of the objective without the sample. If no single parameter is
    identified (an over-complete model without a penalty), the other columns are NaN. With too many parameters for matrices,
    and none chosen, samples are ranked by ψᵀ diag(H + P)⁻¹ ψ first, and the displacements of the first ones are computed.

    Examples
    --------
    %(fit)s
    >>> list(fit.influential(3).columns)
    ['distance', 'parameter', 'change', 'in_errors']
    """
    k = checked_number(k)
    if parameters is None and not isinstance(fit.accuracy(), DenseAccuracy):
        return _influential_by_solves(fit, k)
    return distances(fit, parameters).head(k)


def checked_number(k: object) -> int:
    """Check the number of samples to show."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ModelError(f"The number of samples to show must be an integer of at least 1; got {k!r:.80}.")
    return int(k)


def _influential_by_solves(fit: StandardErrors, k: int) -> pd.DataFrame:
    """The ``k`` largest displacements among the `_SCREENED_PER_SAMPLE` k samples that a diagonal H + P ranks first."""
    import pandas as pd

    weight, n = fit.row_weight, fit.problem.n_samples
    diagonal = fit.problem.hessian_diagonal(fit.theta, weight)
    curvature = np.zeros(len(fit.theta)) if diagonal is None else np.maximum(diagonal, 0.0)
    curvature = np.where(fit.active, curvature + 1.0 / fit.sigma2, np.inf)
    scale = 1.0 / np.where(curvature > 0, curvature, 1.0)
    screened = np.empty(n)
    for start, scores in fit.problem.score_blocks(fit.theta, max(1, SCORE_NUMBERS // len(fit.theta))):
        screened[start : start + len(scores)] = np.square(scores) @ scale
    if weight is not None:
        screened *= weight**2
    first = np.argsort(-screened, kind="stable")[: _SCREENED_PER_SAMPLE * k]
    scores = _scores_of(fit, first)
    moved = fit.accuracy().solve(scores)
    displacement = np.einsum("ir,ir->i", scores, moved)
    order = np.argsort(-displacement, kind="stable")[:k]
    most = np.abs(moved[order]).argmax(axis=1)
    return pd.DataFrame(
        {
            "displacement": displacement[order],
            "parameter": [fit.model.parameter_names[int(place)] for place in most],
            "change": moved[order, most],
        },
        index=pd.Index(first[order], name="row"),
    )


def distances(fit: StandardErrors, parameters: object = None) -> pd.DataFrame:
    """The same for every fitted sample, the largest first."""
    import pandas as pd

    names = fit.model.parameter_names
    displaced = parameters is None and fit.problem.n_samples <= int(fit.active.sum())
    rows = max(1, SCORE_NUMBERS // len(fit.theta))
    if parameters is None:
        accuracy = matrices(fit, "Cook's distance over all parameters")
        places = np.flatnonzero(fit.active)
        if not len(places):
            raise ModelError("The L1 penalty has set every parameter to 0, so no sample has any influence.")
        covariance = accuracy.covariance[np.ix_(places, places)]
        inverse = accuracy.inverse[:, places] / accuracy.moments.total
        weight, source = fit.row_weight, fit.scores_source
        blocks: Iterator[FloatArray] = (
            scores @ inverse if weight is None else (scores * weight[start : start + len(scores), None]) @ inverse
            for start, scores in source.score_blocks(fit.theta, rows)
        )
        bread = (accuracy.moments.bread * accuracy.moments.total + np.diag(accuracy.precision))[
            np.ix_(places, places)
        ]
        errors = np.sqrt(accuracy.variances()[places])
        good = np.isfinite(errors) & (errors > 0)
        usable = np.ones(len(places), dtype=bool)
    else:
        places = some_places(parameters, names)
        covariance = fit.accuracy().covariance_of(unit_rows(places, len(fit.theta)))
        errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        good = usable = np.isfinite(errors) & (errors > 0)
        if not good.any():
            raise ModelError(
                "None of these parameters is identified, or they are fixed or set to 0 by l1; there is no influence to "
                "measure."
            )
        blocks = iter([influence(fit, parameters=parameters)])
    metric = bread if displaced else range_inverse(covariance[np.ix_(usable, usable)]).inverse
    parts = []
    with steps("influence of samples", -(-fit.problem.n_samples // rows)) as step:
        for block in blocks:
            scaled = np.where(good, np.abs(block) / np.where(good, errors, 1.0), 0.0)
            most = scaled.argmax(axis=1)
            lines = np.arange(len(block))
            part = block[:, usable]
            distance = np.einsum("ir,ir->i", part @ metric, part)
            parts.append((distance, most, block[lines, most], scaled[lines, most]))
            step()
    distance, most, change, in_errors = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(-distance, kind="stable")
    known = bool(good.any())
    return pd.DataFrame(
        {
            "displacement" if displaced else "distance": distance[order],
            "parameter": [names[int(places[place])] if known else None for place in most[order]],
            "change": change[order] if known else np.nan,
            "in_errors": in_errors[order] if known else np.nan,
        },
        index=pd.Index(order, name="row"),
    )


def plot_influence(fit: StandardErrors, k: int = 10, ax: Axes | None = None, *, parameters: object = None) -> Axes:
    """Draw Cook's distance of every fitted sample. ``influential(fit.n)`` has the same numbers.

    Parameters
    ----------
    k : int, default: 10
        Number of samples with a label.
    %(ax)s
    %(parameters)s

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    %(fit)s
    >>> fit.plot_influence(3).figure.savefig("influence.png")
    """
    from fieldfit.report.influence import draw_influence

    k = checked_number(k)
    table = distances(fit, parameters)
    axis = f"Cook's distance over {'all' if parameters is None else 'the selected'} parameters"
    if table.columns[0] == "displacement":
        axis = "displacement: 2 × loss of the objective\nwithout the sample"
    return draw_influence(table, k, axis=axis, ax=ax)
