"""Parameters, contrasts such as ``"a - 2*b"`` and smooth functions of θ, with standard errors by the delta method.

Var g(θ̂) = ∇gᵀ Cov(θ̂) ∇g
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from fieldfit.api.estimate_table import two_sided
from fieldfit.arguments import has_entries, real_array
from fieldfit.docstrings import SHARED, filled
from fieldfit.named import nearest_names, places_of, turned
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
    degrees : float, default: inf
        Degrees of freedom of the standard error: intervals and p-values are by Student's t.

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
    degrees: float = math.inf

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
        return float(two_sided(np.array(self.z(null)), self.degrees))

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

    ``g``: a parameter's name or number, a contrast, a mapping {parameter: coefficient}, a vector of coefficients, or a
    function of θ; ``gradient`` belongs to a function: a function of θ or a vector, None for central differences.
    """
    r = len(theta)
    if isinstance(g, str):
        g = contrast(g, names)
    if isinstance(g, str | int | np.integer):
        place = places_of(g, names)
        if len(place) != 1:
            raise ModelError(
                f"functional estimates one number, and {g!r:.80} names {len(place)} parameters: use "
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
        return real_array(values)
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


#: A sign at the beginning or after a space. Signs in the names of parameters have no space before them.
_SIGN = re.compile(r"(?:^|(?<=\s))([+-])\s*(?=\S)")
_FACTOR = re.compile(r"(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)\s*[*·]\s*(.+)")


def terms_of(text: str) -> list[tuple[float, str, str]]:
    """(sign, term, term without its factor) of ``"a - 2*b"``; empty for a text without signs."""
    marks = list(_SIGN.finditer(text))
    if not marks:
        return []
    starts = [mark.start() for mark in marks]
    pieces = [] if starts[0] == 0 else [("+", text[: starts[0]])]
    for mark, end in zip(marks, [*starts[1:], len(text)], strict=True):
        pieces.append((mark[1], text[mark.end() : end]))
    terms = []
    for sign, piece in pieces:
        match = _FACTOR.fullmatch(piece.strip())
        bare = piece.strip() if match is None else match[2].strip()
        terms.append((1.0 if sign == "+" else -1.0, piece.strip(), bare))
    return terms


def contrast(text: str, names: Sequence[str]) -> str | dict[str, float]:
    """A parameter's name, or the coefficients of the parameters in ``"a - b"``, ``"2*a + b"`` or ``"+1·a -1·b"``.

    A text that is the name of a parameter means that parameter, and pairs have either order. Signs need spaces around them,
    because names may contain signs (``B-NP->I-NP``).
    """
    terms = terms_of(text)
    parts = [text, *(part for _, *both in terms for part in both)]
    wanted = {spelling for part in parts for spelling in (part, turned(part))}
    known = {name for name in names if name in wanted}  # one pass: names are created on access
    if not terms or known & {text, turned(text)}:
        return text
    coefficients: dict[str, float] = {}
    for sign, term, bare in terms:
        match = _FACTOR.fullmatch(term)
        alone = match is None or bool(known & {term, turned(term)})
        part, factor = (term, 1.0) if alone or match is None else (bare, float(match[1]))
        name = next((spelling for spelling in (part, turned(part)) if spelling in known), None)
        if name is None:
            raise ModelError(
                f"In {text!r:.80}, {part!r:.80} is not a parameter; {nearest_names(part, names)}. Write a "
                "name, or a contrast with "
                f"spaces around its signs such as 'a - b' or '2*a + b'."
            )
        coefficients[name] = coefficients.get(name, 0.0) + sign * factor
    return coefficients


class NamedFunctionals:
    """θ ↦ (names, gradients) of the functionals that a user gives.

    ``given``: a list of parameters' names, contrasts, mappings {parameter: coefficient}, vectors of coefficients or
    functions of θ; a mapping from names of the functionals to any of them; or a matrix of coefficients (q, r).
    """

    def __init__(self, given: object, names: Sequence[str]) -> None:
        self._names = names
        if isinstance(given, str) or callable(given):
            given = [given]
        if isinstance(given, Mapping) and given and all(isinstance(value, Real) for value in given.values()):
            given = [given]  # one contrast
        labels: Sequence[str | None]
        if isinstance(given, Mapping):
            labels, items = list(map(str, given)), list(given.values())
        elif has_entries(given):
            items = list(given)
            labels = [None] * len(items)
        else:
            raise ModelError(f"functionals is {given!r:.80}; it must be a list, such as ['x0:x1', 'x0:x1 - x1:x2'].")
        if not items:
            raise ModelError("functionals is empty; name at least one parameter, or leave it out.")
        # Checked now: an unknown name raises an error before the pilot runs.
        self._items = [contrast(item, names) if isinstance(item, str) else item for item in items]
        self._labels = [
            label or (item if isinstance(item, str) else None) for label, item in zip(labels, items, strict=True)
        ]
        r = len(names)
        for item in self._items:
            if not callable(item):
                value_and_gradient(item, None, np.zeros(r), names)

    def __len__(self) -> int:
        return len(self._items)

    def __call__(self, theta: FloatArray) -> tuple[list[str], FloatArray]:
        """Names and gradients (q, r) at θ."""
        evaluated = [value_and_gradient(item, None, theta, self._names) for item in self._items]
        shown = [label or name for label, (name, _, _) in zip(self._labels, evaluated, strict=True)]
        rows = np.stack([gradient for _, _, gradient in evaluated])
        empty = [name for name, row in zip(shown, rows, strict=True) if not row.any()]
        if empty:
            raise ModelError(f"The functional {empty[0]!r:.80} does not depend on any parameter: its variance is 0.")
        return shown, rows
