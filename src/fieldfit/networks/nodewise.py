"""Networks from a logistic regression of each variable on all others, with λ by EBIC: the method of IsingFit.

van Borkulo et al., "A new method for constructing networks from binary data", Scientific Reports 4:5918 (2014): an L1
path for each variable, the λ with the lowest EBIC = −2 log L + J log n + 2 γ J log(m − 1), J the number of couplings,
and for each pair the mean of its two coefficients, if both are nonzero (AND) or in any case (OR).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fieldfit.arguments import function_or_none, number_from_zero, one_of
from fieldfit.networks.logistic_paths import LogisticPaths, logistic_paths
from fieldfit.networks.network import Network
from fieldfit.networks.responses import checked_for_regressions, read_responses
from fieldfit.types import FloatArray, ModelError


def _both(regressions: FloatArray) -> FloatArray:
    other = np.swapaxes(regressions, -1, -2)
    return np.where((regressions != 0) & (other != 0), (regressions + other) / 2.0, 0.0)


def _mean(regressions: FloatArray) -> FloatArray:
    return (regressions + np.swapaxes(regressions, -1, -2)) / 2.0


#: From regressions (…, m, m) with zeros on the diagonal to symmetric couplings.
RULES: dict[str, Callable[[FloatArray], FloatArray]] = {"and": _both, "or": _mean}


def nodewise_network(
    data: object, *, gamma: float = 0.25, rule: str = "and", progress: Callable[[int, int], object] | None = None
) -> Network:
    """Estimate a network by logistic regressions with L1 paths and EBIC, as IsingFit does.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        Columns with two values each; see `read_responses`. Rows with missing values are left out.
    gamma : float, default: 0.25
        Weight γ of the prior in EBIC. Larger values give fewer edges; 0 is BIC.
    rule : {"and", "or"}, default: "and"
        Whether an edge needs both of its regression coefficients, or one of them.
    progress : callable or None, default: None
        Called with the number of regressions done and of all.

    Returns
    -------
    Network

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> random = np.random.default_rng(0)
    >>> mood = random.random(400) < 0.5
    >>> copy = lambda share: np.where(random.random(400) < share, mood, random.random(400) < 0.5)
    >>> x = np.column_stack([mood, copy(0.7), random.random(400) < 0.5]).astype(int)
    >>> networks.nodewise_network(x).edges().round(2)
      from  to  weight
    0   x0  x1    3.06
    """
    checked_rule(rule)
    gamma = checked_gamma(gamma)
    function_or_none(progress, "progress")
    answers = checked_for_regressions(read_responses(data))
    rows, _ = answers.distinct
    paths = logistic_paths(rows, answers.counts[None].astype(np.float64), progress=progress)
    return _networks(answers.names, paths, gamma, rule)[0]


def resampled_networks(
    names: tuple[str, ...], rows: NDArray[np.uint8], weights: FloatArray, *, gamma: float, rule: str
) -> list[Network]:
    """Networks for weights (weightings, rows) of the different rows (rows, m), estimated as `chosen_regressions` does."""
    return _networks(names, _resampled_paths(rows, weights, gamma), gamma, rule)


def chosen_regressions(rows: NDArray[np.uint8], weights: FloatArray, gamma: float) -> tuple[FloatArray, FloatArray]:
    """Regressions (weightings, m, m) and thresholds (weightings, m) by EBIC for weights (weightings, rows).

    For resamples: the tolerance of 1e-5 changes coefficients by about 1e-4, and paths stop when EBIC is clearly above
    its lowest value. If an exact test compares data with resamples, estimate both with `resampled_networks`.
    """
    return split(_resampled_paths(rows, weights, gamma).chosen(gamma)[0])


def _resampled_paths(rows: NDArray[np.uint8], weights: FloatArray, gamma: float) -> LogisticPaths:
    return logistic_paths(rows, weights, tol=1e-5, gamma=gamma)


def _networks(names: tuple[str, ...], paths: LogisticPaths, gamma: float, rule: str) -> list[Network]:
    """The network of each weighting."""
    coefficients, places = paths.chosen(gamma)
    regressions, thresholds = split(coefficients)
    couplings = RULES[rule](regressions)
    lambdas = np.take_along_axis(paths.lambdas, places[:, :, None], axis=2)[:, :, 0]
    method = f"logistic regressions, EBIC with gamma = {gamma:g}, {rule.upper()} rule"
    return [
        Network(names, couplings[k], thresholds[k], float(total), method, regressions[k], lambdas[k])
        for k, total in enumerate(paths.totals)
    ]


def split(coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients (…, m, m) with intercepts on the diagonal as regressions with zeros there, and the intercepts."""
    diagonal = np.arange(coefficients.shape[-1])
    regressions = coefficients.copy()
    thresholds = coefficients[..., diagonal, diagonal].copy()
    regressions[..., diagonal, diagonal] = 0.0
    return regressions, thresholds


def checked_rule(rule: str) -> Callable[[FloatArray], FloatArray]:
    """The function of a rule."""
    return RULES[one_of(rule, "rule", tuple(RULES), ModelError)]


def checked_gamma(gamma: object) -> float:
    """γ of EBIC."""
    return number_from_zero(gamma, "gamma", ModelError, " Usual values are from 0 to 0.5.")
