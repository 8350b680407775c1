"""Estimates with standard errors, z, p-values and intervals: plain arrays, and a DataFrame on request.

Nothing here needs pandas or SciPy, whose imports take longer than a small fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.accuracies import fits_matrices
from fieldfit.named import places_of
from fieldfit.types import FieldfitError, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.accuracies import Kind
    from fieldfit.api.standard_errors import StandardErrors


#: The columns of a table of estimates.
COLUMNS = ("estimate", "std_error", "z", "p", "lower", "upper")


@dataclass(frozen=True)
class EstimateTable:
    """Names of parameters or effects (``what`` says which), and a column (rows,) for each of `COLUMNS`."""

    what: str
    names: Sequence[str]
    estimate: FloatArray
    std_error: FloatArray
    z: FloatArray
    p: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def tested(
        cls,
        what: str,
        names: Sequence[str],
        estimate: FloatArray,
        errors: FloatArray,
        half: float,
        degrees: float = math.inf,
    ) -> EstimateTable:
        """Estimates with z, p-values and intervals of ``half`` standard errors to each side; NaN without an error.

        ``degrees`` of freedom of the errors: p-values are those of Student's t.
        """
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            z = np.where(errors > 0, estimate / errors, np.nan)
        p = two_sided(z, degrees)
        return cls(what, names, estimate, errors, z, p, estimate - half * errors, estimate + half * errors)

    @classmethod
    def of(cls, frame: pd.DataFrame) -> EstimateTable:
        """Convert the result of `frame` back."""
        columns = (frame[name].to_numpy() for name in COLUMNS)
        return cls(str(frame.index.name), list(frame.index), *columns)

    def frame(self) -> pd.DataFrame:
        """The same as a DataFrame whose index has the names."""
        import pandas as pd

        columns = {name: getattr(self, name) for name in COLUMNS}
        return pd.DataFrame(columns, index=pd.Index(self.names, name=self.what))

    def chosen(self, places: IntArray) -> EstimateTable:
        """The rows ``places``."""
        columns = (getattr(self, name)[places] for name in COLUMNS)
        return EstimateTable(self.what, [self.names[int(place)] for place in places], *columns)

    def rows(self, places: Sequence[int]) -> list[tuple[str, float, float, float, float, float, float]]:
        """The name and the columns of some rows."""
        columns = [getattr(self, name)[list(places)].tolist() for name in COLUMNS]
        return list(zip((self.names[place] for place in places), *columns, strict=True))


def parameter_estimates(
    fit: StandardErrors, level: float = 0.95, kind: Kind = "robust", parameters: object = None
) -> EstimateTable:
    """`Fit.table` in plain arrays."""
    checked_level(level)
    names: Sequence[str] = fit.model.parameter_names
    chosen = None if parameters is None else places_of(parameters, names)  # an iterator can be read only once
    errors = fit.standard_errors(kind, chosen)
    places = np.arange(len(names)) if chosen is None else chosen
    labels = [names[int(place)] for place in places]
    degrees = fit.accuracy(kind).degrees
    return EstimateTable.tested("parameter", labels, fit.theta[places], errors, half_width(level, degrees), degrees)


def two_sided(z: FloatArray, degrees: float = math.inf) -> FloatArray:
    """P(|T| ≥ |z|) with T of Student's t distribution, the normal one for ∞ ``degrees``."""
    if math.isfinite(degrees):
        from scipy.special import stdtr

        return np.asarray(2.0 * stdtr(degrees, -np.abs(z)))
    scaled = np.abs(z) / math.sqrt(2)
    return np.array([math.erfc(value) for value in scaled.ravel().tolist()]).reshape(scaled.shape)


def checked_level(level: float) -> float:
    """A confidence level."""
    if not (isinstance(level, int | float | np.number) and 0 < level < 1):
        raise FieldfitError(f"The confidence level must be between 0 and 1; got {level!r:.80}.")
    return float(level)


def half_width(level: float, degrees: float = math.inf) -> float:
    """The half-width of an interval of this level in standard errors, by Student's t with these ``degrees``."""
    upper = 0.5 + checked_level(level) / 2
    if math.isfinite(degrees):
        from scipy.special import stdtrit

        return float(stdtrit(degrees, upper))
    from statistics import NormalDist

    return NormalDist().inv_cdf(upper)


#: Most parameters for which effects replace the parameters automatically.
_MOST_PARAMETERS = 1_000


def identified_estimates(fit: StandardErrors, level: float = 0.95, kind: Kind = "robust") -> EstimateTable:
    """`Fit.table`, or `Fit.effects` if the model has free tables and more effects have standard errors.

    The parameters of free tables (a Potts model, a Markov random field) are determined only up to constants that move
    between tables.
    """
    table = parameter_estimates(fit, level, kind)
    # Shared parameters would have many, repeated effects.
    few = fit.model.n_parameters <= _MOST_PARAMETERS and fits_matrices(fit)
    if not (few and np.isnan(fit.dense_accuracy(kind).variances()).any() and fit.model.has_free_tables):
        return table
    effects = EstimateTable.of(fit.effects("corner", level, kind))
    known, more = (int(np.isfinite(rows.std_error).sum()) for rows in (table, effects))
    return effects if more > known else table


def identified_table(fit: StandardErrors, level: float = 0.95, kind: Kind = "robust") -> pd.DataFrame:
    """The same as a DataFrame; the name of its index says which: parameter or effect."""
    return identified_estimates(fit, level, kind).frame()
