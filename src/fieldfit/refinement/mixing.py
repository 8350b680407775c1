"""Whether Markov chains mix: split R̂ and effective sample sizes of many statistics at once.

Each chain is split into halves. With W the mean variance within the half chains and B/N that between their means,

    R̂ = √((N − 1)/N + B/(N·W)),    effective size = S·N / (1 + 2 Σ_t ρ_t)

for S half chains of N draws, with autocorrelations ρ_t from variances within and between chains, summed over the initial
monotone sequence of pairs (Geyer 1992; Gelman et al., "Bayesian Data Analysis", 3rd edition, section 11.5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.types import FloatArray

#: Numbers in a block of statistics whose autocovariances are computed together.
_STATISTIC_NUMBERS = 4_000_000


@dataclass(frozen=True)
class Mixing:
    """Split R̂ and the effective number of draws of each statistic."""

    r_hat: FloatArray
    effective: FloatArray


def mixing(draws: FloatArray) -> Mixing:
    """Of statistics (draws, chains, k) of several chains; a constant statistic has R̂ = 1 and all draws count."""
    length, chains, k = draws.shape
    half = length // 2
    if half < 2:
        raise ValueError("Split chains need at least four draws each.")
    r_hat, effective = np.empty(k), np.empty(k)
    step = max(1, _STATISTIC_NUMBERS // (length * chains))
    for first in range(0, k, step):
        some = slice(first, first + step)
        halves = np.concatenate([draws[:half, :, some], draws[length - half :, :, some]], axis=1)
        r_hat[some], effective[some] = _of_half_chains(halves)
    return Mixing(r_hat, effective * length / (2 * half))


def _of_half_chains(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    n, s, k = draws.shape
    means = draws.mean(axis=0)
    within = draws.var(axis=0, ddof=1).mean(axis=0)
    between = means.var(axis=0, ddof=1) if s > 1 else np.zeros(k)
    total = within * (n - 1) / n + between
    varies = total > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.where(varies, np.sqrt(total / within), 1.0)
    correlation = 1.0 - (within - _autocovariances(draws - means)) / np.where(varies, total, 1.0)
    correlation[0] = 1.0
    pairs = correlation[: n - n % 2].reshape(n // 2, 2, k).sum(axis=1)
    positive = np.minimum.accumulate(np.where(pairs > 0, pairs, 0.0), axis=0)  # 0 from the first negative pair on
    factor = np.maximum(2 * positive.sum(axis=0) - 1.0, 1.0 / np.log10(max(s * n, 11)))
    return r_hat, np.where(varies, s * n / factor, float(s * n))


def _autocovariances(centred: FloatArray) -> FloatArray:
    """Σ over lags (n, k) of centred chains (n, s, k), averaged over chains, with the divisor n − 1 of the variance."""
    n = len(centred)
    spectrum = np.fft.rfft(centred, 2 * n, axis=0)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    products: FloatArray = np.fft.irfft(power, 2 * n, axis=0)[:n]
    return products / (n - 1)
