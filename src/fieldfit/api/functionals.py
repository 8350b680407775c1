"""Chosen parameters and smooth functions of θ, with standard errors by the delta method.

Var g(θ̂) = ∇gᵀ Cov(θ̂) ∇g
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.api.estimate_table import two_sided
from fieldfit.docstrings import SHARED, filled
from fieldfit.named import places_of
from fieldfit.types import FloatArray, IntArray, ModelError

#: Most parameters for which a missing gradient is computed by differences (two evaluations for each).
MOST_DIFFERENCES = 3_000


@filled(SHARED)
@dataclass(frozen=True)
class Estimate:
    """One number estimated by a fit. `Fit.functional` returns it.

    Parameters
    ----------
    name : str
        What was estimated.
    estimate : float
        The number.
    standard_error : float
        Its standard error; NaN if there is none.
    lower, upper : float
        Ends of the confidence interval.
    level : float
        Confidence level.
    kind : str
        Kind of the standard error.
    caution : str, default: ""
        Why there is no standard error, or why not to rely on it.

    Examples
    --------
    %(fit_of_pairs)s
    >>> estimate = fit.functional({"x0": 1, "x1": -1})
    >>> round(estimate.estimate, 3), round(estimate.standard_error, 3)
    (0.693, 0.387)
    """

    name: str
    estimate: float
    standard_error: float
    lower: float
    upper: float
    level: float
    kind: str
    caution: str = ""

    @property
    def identified(self) -> bool:
        """Whether the data determine the number. With a gauge freedom of the model they may not."""
        return not np.isnan(self.standard_error)

    def z(self, null: float = 0.0) -> float:
        """Compute (estimate − null) / standard error.

        Parameters
        ----------
        null : float, default: 0.0
            The hypothetical value.

        Returns
        -------
        float

        Examples
        --------
        %(fit_of_pairs)s
        >>> round(fit.functional("x0:x1").z(), 2)
        3.93
        """
        return (self.estimate - null) / self.standard_error if self.standard_error > 0 else float("nan")

    def p(self, null: float = 0.0) -> float:
        """Compute the two-sided p-value of a hypothetical value.

        Parameters
        ----------
        null : float, default: 0.0
            The hypothetical value.

        Returns
        -------
        float

        Examples
        --------
        %(fit_of_pairs)s
        >>> fit.functional("x0").p(null=0.5) < 0.05
        True
        """
        return float(two_sided(np.array(self.z(null))))

    def __str__(self) -> str:
        if not self.identified:
            return (
                f"{self.name}: {self.estimate:.6g} ({self.caution or 'not identified: the data do not determine it'})"
            )
        text = (
            f"{self.name}: {self.estimate:.6g}, standard error {self.standard_error:.3g} ({self.kind}), "
            f"{100 * self.level:g}% interval [{self.lower:.6g}, {self.upper:.6g}]"
        )
        return f"{text} ({self.caution})" if self.caution else text


def combination(coefficients: Mapping[str, float] | Mapping[object, object], names: Sequence[str]) -> FloatArray:
    """The vector (r,) of a mapping {parameter or pattern: coefficient}. A pattern sets the coefficient of all matches."""
    vector = np.zeros(len(names))
    for item, value in zip(coefficients, _coefficients(list(coefficients.values())), strict=True):
        np.add.at(vector, places_of(item, names), value)
    return vector


def some_places(parameters: object, names: Sequence[str]) -> IntArray:
    """The places of the parameters, at least one."""
    places = places_of(parameters, names)
    if not len(places):
        raise ModelError("parameters is empty; name at least one, or leave it out for all.")
    return places


def unit_rows(places: IntArray, r: int) -> FloatArray:
    """One row e_k for each place (q, r)."""
    rows = np.zeros((len(places), r))
    rows[np.arange(len(places)), places] = 1.0
    return rows


def value_and_gradient(
    g: object, gradient: object, theta: FloatArray, names: Sequence[str]
) -> tuple[str, float, FloatArray]:
    """Name, value and gradient of a functional.

    ``g``: a parameter's name or number, a mapping {parameter: coefficient}, a vector of coefficients, or a function of θ;
    ``gradient`` belongs to a function: a function of θ or a vector, None for central differences.
    """
    r = len(theta)
    if isinstance(g, str | int | np.integer):
        place = places_of(g, names)
        if len(place) != 1:
            raise ModelError(
                f"functional estimates one number, and {g!r} names {len(place)} parameters: use "
                f"fit.table(parameters={g!r}), or their sum {{{g!r}: 1}}."
            )
        return str(names[place[0]]), float(theta[place[0]]), unit_rows(place, r)[0]
    if isinstance(g, Mapping):
        if not g:
            raise ModelError("The mapping from parameters to coefficients is empty; give at least one parameter.")
        vector = combination(g, names)
        text = " ".join(f"{float(c):+g}·{item if isinstance(item, str) else names[item]}" for item, c in g.items())
        return text, float(vector @ theta), vector
    if not callable(g):
        if isinstance(g, list | tuple) and any(isinstance(item, str | Mapping) for item in g):
            raise ModelError(
                f"functional estimates one number, and {g!r:.80} are {len(g)}: call it for each, or give a combination of "
                f"parameters as {{name: coefficient}}. Several parameters are in fit.table(parameters=[…])."
            )
        vector = _coefficients(g)
        if vector.shape != (r,):
            raise ModelError(
                f"A vector of coefficients has one entry for each of {r} parameters; got {vector.shape}."
            )
        return "aᵀθ", float(vector @ theta), vector
    name = getattr(g, "__name__", "g")
    value = _number(g, theta.copy())
    if callable(gradient):
        slope = _numbers(gradient(theta.copy()))
    elif gradient is not None:
        slope = _numbers(gradient)
    else:
        if r > MOST_DIFFERENCES:
            raise ModelError(
                f"The gradient of a function of {r:,} parameters by differences would take {2 * r:,} evaluations; give "
                f"gradient= as a function or a vector."
            )
        slope = _differences(g, theta)
    if slope.shape != (r,) or not np.isfinite(slope).all():
        raise ModelError(f"The gradient must be {r} finite numbers; it has shape {slope.shape}.")
    return "g(θ)" if name == "<lambda>" else name, value, slope


def _coefficients(values: object) -> FloatArray:
    """Check that the coefficients are finite numbers."""
    numbers = _numbers(values)
    if not np.isfinite(numbers).all():
        raise ModelError(
            f"Coefficients are finite numbers; got {values!r:.80}. A functional is a parameter's name or number, a mapping "
            f"{{parameter: coefficient}}, a vector with a coefficient for each parameter, or a function of θ."
        )
    return numbers


def _numbers(values: object) -> FloatArray:
    """The values as an array; NaN where they are no real numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array(np.nan)


def _number(g: Callable[[FloatArray], object], theta: FloatArray) -> float:
    """g(θ), which must be one finite number."""
    given = g(theta)
    number = _numbers(given)
    if number.size != 1 or not np.isfinite(number).all():
        raise ModelError(f"A function of θ must give one finite number; here it gave {given!r:.80}.")
    return float(number.reshape(()))


def _differences(g: Callable[[FloatArray], float], theta: FloatArray) -> FloatArray:
    slope = np.empty(len(theta))
    for place in range(len(theta)):
        step = 1e-5 * max(1.0, abs(float(theta[place])))
        up, down = theta.copy(), theta.copy()
        up[place] += step
        down[place] -= step
        slope[place] = (_number(g, up) - _number(g, down)) / (up[place] - down[place])
    return slope
