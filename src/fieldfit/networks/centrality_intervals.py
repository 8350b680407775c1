"""Intervals of strength and expected influence from debiased couplings, without the shrinkage of the penalty.

Let w̃_k ~ N(w_k, s_k²) be the debiased couplings of a variable and Σ their covariance. Expected influence Σ_k w_k is
linear: its estimate is Σ_k w̃_k, with variance 1ᵀ Σ 1. Strength Σ_k abs(w_k) has a kink at 0, and Σ_k abs(w̃_k) is too
large where couplings are 0. With t = w̃ / s, each coupling contributes

    s g(t),     g(t) = abs(t) − b exp(−t² / (2 τ²)),     τ = 3/4

For b = b₀ = √(2/π) √(1 + τ²) / τ the mean of g is 0 if w = 0, and it is near abs(w) / s if that is large. In between g
is too small, by 0.41 at most. The b that is used makes the mean error 0 over the distribution of w / s, which is a
mixture of 0 and N(0, v) that is fitted to the t of all pairs by maximum likelihood. The variance of Σ_k s_k g(t_k) is

    Σ_k s_k² Var g(t_k) + Σ_{k≠l} (a_k a_l Σ_kl + c_k c_l Σ_kl² / (2 s_k s_l)),     a = (E g)', c = (E g)''

which are the first terms of Mehler's series for covariances of functions of Gaussian variables, at the means of w / s
given t. Neither estimate depends on which edges the penalty selects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from fieldfit.api.estimate_table import checked_level
from fieldfit.networks.debiased import debiased_with_covariances
from fieldfit.networks.intervals import UNDETERMINED, missing_answers, regressions_of
from fieldfit.networks.network import Network
from fieldfit.networks.responses import answers_to
from fieldfit.types import BoolArray, FloatArray
from fieldfit.words import counted

if TYPE_CHECKING:
    import pandas

#: τ² and b₀ of the module's docstring. With this τ the variance of g is near 1 for all means.
_WIDTH = 0.75**2
_MEAN_ABS = float(np.sqrt(2 / np.pi))
_FULL = float(_MEAN_ABS * np.sqrt((1 + _WIDTH) / _WIDTH))


def centrality_intervals(data: object, network: Network, *, level: float = 0.95) -> pandas.DataFrame:
    """Return strength and expected influence from debiased couplings, with confidence intervals.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        The answers that the network was estimated from.
    network : Network
        From `nodewise_network`.
    level : float, default: 0.95
        Coverage of the intervals.

    Returns
    -------
    DataFrame
        A row for each variable. ``strength_debiased``: an estimate of Σ_k abs(w_jk) over all other variables, corrected for
        the penalty and for the noise of couplings near 0; ``strength_se``, ``strength_lower``, ``strength_upper``: its
        standard error and interval. ``expected_influence_…``: the same for Σ_k w_jk. NaN if a coupling of the variable has
        no standard error in `edge_intervals`; ``note`` says why.

    Notes
    -----
    Betweenness and closeness have no confidence intervals: they jump where a shortest path changes. `case_dropping` shows
    how stable they are.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> random = np.random.default_rng(0)
    >>> mood = random.random(400) < 0.5
    >>> x = np.column_stack([mood, np.where(random.random(400) < 0.6, mood, random.random(400) < 0.5)])
    >>> table = networks.centrality_intervals(x, networks.nodewise_network(x))
    >>> table[["strength_debiased", "strength_lower", "strength_upper"]].round(1)
        strength_debiased  strength_lower  strength_upper
    x0                2.7             2.3             3.2
    x1                2.7             2.3             3.2
    """
    import pandas

    checked_level(level)
    regressions = regressions_of(network)
    answers = answers_to(data, network.names)
    estimate, covariances = debiased_with_covariances(
        answers.distinct[0], answers.counts.astype(np.float64), regressions, network.thresholds
    )
    absent = {pair: why for pair, why in missing_answers(answers).items() if pair[0] != pair[1]}
    for pair in absent:
        estimate[pair] = np.nan
    strength, variance = _strengths(estimate, covariances)
    width = float(stats.norm.ppf(0.5 + level / 2))
    columns = {}
    for measure, value, error in (
        ("strength", strength, np.sqrt(variance)),
        ("expected_influence", estimate.sum(axis=1), np.sqrt(covariances.sum(axis=(1, 2)))),
    ):
        least = 0.0 if measure == "strength" else -np.inf
        columns[f"{measure}_debiased"] = np.maximum(value, least)
        columns[f"{measure}_se"] = np.where(np.isfinite(value), error, np.nan)
        columns[f"{measure}_lower"] = np.maximum(value - width * error, least)
        columns[f"{measure}_upper"] = np.maximum(value + width * error, least)
    without = ~np.isfinite(columns["strength_se"]) | ~np.isfinite(columns["expected_influence_se"])
    notes = _notes(absent, without)
    return pandas.DataFrame({**columns, "note": notes}, index=list(network.names))


def _notes(absent: dict[tuple[int, int], str], without: BoolArray) -> list[str]:
    """Why variables have no interval, "" for the others: their first pair with a joint answer that never occurs."""
    notes = [UNDETERMINED if lacks else "" for lacks in without]
    of_variable: dict[int, list[str]] = {}
    for (j, _), why in sorted(absent.items()):
        of_variable.setdefault(j, []).append(why)
    for j, reasons in of_variable.items():
        more = len(reasons) - 1
        notes[j] = reasons[0] + (f", and {counted(more, 'more pairs')} like this" if more else "")
    return notes


def _strengths(estimate: FloatArray, covariances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Strengths (m,) and their variances (m,) from couplings (m, m) and their covariances (m, m, m)."""
    m = len(estimate)
    error = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    scale = np.where(np.eye(m) == 1, 1.0, error)
    t = estimate / scale
    zero, spread = _fitted_mixture(t[np.triu_indices(m, 1)])
    amount = _amount(zero, spread)
    contribution = error * (np.abs(t) - amount * np.exp(-np.square(t) / (2 * _WIDTH)))
    whole, first, second = _moments(_posterior_means(t, zero, spread), amount)
    shared = covariances / (scale[:, :, None] * scale[:, None, :])
    linear = error * first
    bent = error * second
    variance = np.einsum("jk,jkl,jl->j", linear, shared, linear)
    variance += np.einsum("jk,jkl,jl->j", bent, np.square(shared), bent) / 2.0
    # The diagonal has the whole variance, not only its first terms.
    variance += np.sum(np.square(error) * (whole - np.square(first) - np.square(second) / 2.0), axis=1)
    strength: FloatArray = contribution.sum(axis=1)
    return strength, variance


def _log_odds(t: FloatArray, spread: FloatArray | float) -> FloatArray:
    """log of the density of t if w / s ~ N(0, spread), over that if w = 0."""
    odds: FloatArray = np.square(t) * 0.5 * spread / (1.0 + spread) - 0.5 * np.log1p(spread)
    return odds


def _fitted_mixture(t: FloatArray) -> tuple[float, float]:
    """The share of pairs with w = 0 and the variance v of w / s of the others, by maximum likelihood on a grid."""
    known = t[np.isfinite(t)]
    share, spread = np.linspace(0.0, 1.0, 41)[:, None, None], np.geomspace(0.1, 1000.0, 41)[None, :, None]
    with np.errstate(divide="ignore"):
        likelihood = np.logaddexp(np.log(share), np.log(1.0 - share) + _log_odds(known, spread)).sum(axis=-1)
    row, column = np.unravel_index(int(likelihood.argmax()), likelihood.shape)
    return float(share[row, 0, 0]), float(spread[0, column, 0])


def _amount(zero: float, spread: float) -> float:
    """The factor b with which the mean error of g is 0 over the mixture."""
    too_large = zero + (1.0 - zero) * (np.sqrt(1.0 + spread) - np.sqrt(spread))
    taken = zero + (1.0 - zero) * np.sqrt((1.0 + _WIDTH) / (1.0 + _WIDTH + spread))
    return float(_FULL * too_large / taken)


def _posterior_means(t: FloatArray, zero: float, spread: float) -> FloatArray:
    """The means of w / s given t, if w / s is from the mixture."""
    if zero == 1.0:
        return np.zeros_like(t)
    odds = np.minimum(_log_odds(t, spread) + np.log1p(-zero) - np.log(max(zero, 1e-300)), 700.0)
    means: FloatArray = t * spread / (1.0 + spread) / (1.0 + np.exp(-odds))
    return means


def _moments(mean: FloatArray, amount: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Var g(t) for t ~ N(mean, 1), and the first and second derivatives of E g(t) in the mean."""
    wide = 1.0 + _WIDTH
    bump = amount * np.sqrt(_WIDTH / wide) * np.exp(-np.square(mean) / (2 * wide))
    density, sign = stats.norm.pdf(mean), 2.0 * stats.norm.cdf(mean) - 1.0
    narrow, spread = mean * _WIDTH / wide, np.sqrt(_WIDTH / wide)
    squared = (
        np.square(mean)
        + 1.0
        - 2.0 * bump * _folded(narrow, spread)
        + amount**2 * np.sqrt(_WIDTH / (2.0 + _WIDTH)) * np.exp(-np.square(mean) / (2.0 + _WIDTH))
    )
    variance = squared - np.square(_folded(mean, 1.0) - bump)
    return variance, sign + bump * mean / wide, 2.0 * density + bump / wide * (1.0 - np.square(mean) / wide)


def _folded(mean: FloatArray, spread: float) -> FloatArray:
    """E abs(X) for X ~ N(mean, spread²)."""
    ratio = mean / spread
    folded: FloatArray = 2.0 * spread * stats.norm.pdf(ratio) + mean * (2.0 * stats.norm.cdf(ratio) - 1.0)
    return folded
