"""Gross-error sensitivity: the largest effect of one observation on a fit, sup over x of |n 𝓘(x)|, averaged over Z."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.functionals import some_places, unit_rows
from fieldfit.api.robustness import SCORE_NUMBERS, expected_scores, influence_on, matrices
from fieldfit.asymptotics import range_inverse
from fieldfit.asymptotics.moments import MOST_ENUMERATED_STATES
from fieldfit.data.samples import as_table
from fieldfit.docstrings import SHARED, filled
from fieldfit.report.shown import Shown, first_rows, frame_rows
from fieldfit.report.table import PlainTable
from fieldfit.types import FloatArray, ModelError

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.standard_errors import StandardErrors


@filled(SHARED)
@dataclass(frozen=True, repr=False)
class Sensitivity(Shown):
    """Gross-error sensitivity: the largest effect that one observation can have on a fit.

    Parameters
    ----------
    each : ndarray of shape (q,)
        sup_x |n 𝓘_k(x)| of each parameter.
    total : float
        sup_x ‖n 𝓘(x)‖.
    standardised : float
        sup_x (n 𝓘ᵀ V⁻¹ 𝓘)^(1/2) with V = Cov(√n θ̂): at least √q where the policy selects everything.
    state : tuple, or int
        Where ``total`` is reached: a joint state of the model, or the number of a sample.
    exact : bool
        Whether the supremum is over all states of the model; otherwise over the fitted samples, a lower bound.
    parameters : tuple of str
        The parameters.
    errors : ndarray of shape (q,)
        Their standard errors.
    n : float
        ``fit.total``: with importance weights x is one of this many samples of equal weight.

    Examples
    --------
    %(fit_of_pairs)s
    >>> fit.gross_error_sensitivity().state
    (0, 1)
    """

    each: FloatArray
    total: float
    standardised: float
    state: tuple[object, ...] | int
    exact: bool
    parameters: tuple[str, ...]
    errors: FloatArray
    n: float

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each parameter, the most sensitive first.

        Returns
        -------
        DataFrame
            ``sensitivity`` is sup_x |n 𝓘_k(x)|, ``change`` is the largest effect of one of n observations, and
            ``in_errors`` the same in standard errors.

        Examples
        --------
        %(fit_of_pairs)s
        >>> fit.gross_error_sensitivity().to_frame()["change"].round(3).to_dict()
        {'x1': 0.1, 'x0:x1': 0.1, 'x0': 0.05}
        """
        import pandas as pd

        change = self.each / self.n
        with np.errstate(divide="ignore", invalid="ignore"):
            in_errors = np.where(self.errors > 0, change / self.errors, np.nan)
        frame = pd.DataFrame(
            {"sensitivity": self.each, "change": change, "in_errors": in_errors},
            index=pd.Index(self.parameters, name="parameter"),
        )
        return frame.sort_values("sensitivity", ascending=False, kind="stable")

    def _lines(self) -> Sequence[str]:
        who = "One observation changes θ̂ by at most" if self.exact else "One of the fitted samples changes θ̂ by"
        where = f"reached at the state {self.state}" if self.exact else f"namely sample {self.state}"
        over = "over all states" if self.exact else "over the fitted samples, a lower bound"
        lines = [
            f"gross-error sensitivity of {len(self.each)} parameter{'s' * (len(self.each) > 1)}: {self.total:.4g}, {over}",
            f"{who} {self.total:.4g}/n = {self.total / self.n:.4g} (Euclidean length), {where}; standardised "
            f"{self.standardised:.4g}.",
        ]
        if np.isnan(self.each).all():
            lines.append("No single parameter is identified, so there is none to list.")
        return lines

    def _table(self) -> PlainTable | None:
        if np.isnan(self.each).all():
            return None
        rows = frame_rows(self.to_frame())
        columns = ("parameter", "sup |n 𝓘|", "most change", "in std. errors")
        return first_rows(PlainTable("", columns, rows, formats=("", ".4g", ".3g", ".3g")))


def gross_error_sensitivity(fit: StandardErrors, parameters: object = None) -> Sensitivity:
    """Compute the largest effect that one observation can have: sup over x of abs(n 𝓘(x)), averaged over Z.

    Parameters
    ----------
    %(parameters)s

    Returns
    -------
    Sensitivity

    Examples
    --------
    %(fit)s
    >>> worst = fit.gross_error_sensitivity()
    >>> worst.exact, worst.state
    (True, (1, 0, 1))
    """
    model = fit.model
    states = model.all_samples(MOST_ENUMERATED_STATES)
    dataset = fit.needed.dataset if states is None else states
    source = expected_scores(fit, dataset)
    if parameters is None:
        accuracy = matrices(fit, "The gross-error sensitivity of all parameters")
        places = np.arange(len(fit.theta))
        covariance, variances = accuracy.covariance, accuracy.variances()
        inverse = accuracy.inverse / accuracy.moments.total
        blocks: Iterator[tuple[int, FloatArray]] = (
            (start, scores @ inverse)
            for start, scores in source.score_blocks(fit.theta, max(1, SCORE_NUMBERS // len(fit.theta)))
        )
    else:
        places = some_places(parameters, model.parameter_names)
        covariance = fit.accuracy().covariance_of(unit_rows(places, len(fit.theta)))
        variances = np.diag(covariance)
        if np.isnan(variances).all():
            raise ModelError("None of these parameters is identified; there is no influence to measure.")
        blocks = iter([(0, np.nan_to_num(influence_on(fit, source, places)))])
    metric = range_inverse(np.nan_to_num(covariance) * fit.total).inverse
    each = np.zeros(len(places))
    total, standardised, where = 0.0, 0.0, 0
    for start, block in blocks:
        moved = block * (fit.total * fit.unit_weight)
        each = np.maximum(each, np.abs(moved).max(axis=0))
        norms = np.linalg.norm(moved, axis=1)
        if norms.max() > total:
            total, where = float(norms.max()), start + int(norms.argmax())
        standard = np.einsum("ir,rs,is->i", moved, metric, moved, optimize=True)
        standardised = max(standardised, float(np.sqrt(max(standard.max(), 0.0))))
    each[np.isnan(variances)] = np.nan
    state: tuple[object, ...] | int = where
    if states is not None:
        table = as_table(states)
        state = tuple(values[code] for values, code in zip(table.states, table.codes[where].tolist(), strict=True))
    names = tuple(model.parameter_names[int(place)] for place in places)
    errors = np.sqrt(np.maximum(variances, 0.0))
    return Sensitivity(each, total, standardised, state, states is not None, names, errors, fit.total)
