"""The pseudo-likelihood of rows with missing answers, by all joint states of what a row misses.

    p(x) ∝ exp(Σ_{j<k} w_jk x_j x_k + Σ_j τ_j x_j),     x_j ∈ {0, 1}

Let a row know x_K and miss M, and let s be one of the 2^|M| states of M. With E_s = log p(x_K, s) up to a constant,
h_j(s) = τ_j + Σ_k w_jk x_k at (x_K, s), and d_j = 1 − 2 x_j, which turns x_j into its other value,

    log p(x_j | the other known answers) = −log(1 + ρ_j),     ρ_j = Σ_s p(s | x_K) exp(d_j h_j(s)).

So one table of E_s and one of h_j(s) serve all components of a row; the sums of a general graph would be compiled for each
component of each row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldfit.types import FloatArray, IntArray

#: Rows × states × variables that are worked on at once, unless one row has more.
_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class _Rows:
    """Rows with the same number k of missing answers, in any places."""

    places: IntArray  # (b,) in the table
    x: FloatArray  # (b, m), 0 where missing
    known: FloatArray  # (b, m) of 0 and 1
    missing: IntArray  # (b, k) variables
    states: FloatArray  # (2^k, k)


class MissingAnswers:
    """Log pseudo-likelihoods of codes (n, m) with −1 for missing values; that of a row without any value is 0.

    θ has the couplings of all pairs (j, k), j < k, in the order of rows of the upper triangle, then the m thresholds.
    """

    def __init__(self, codes: NDArray[np.int8]) -> None:
        self.n, self.m = codes.shape
        self._first, self._second = np.triu_indices(self.m, 1)
        self._parts: list[_Rows] = []
        absent = codes < 0
        sizes = absent.sum(axis=1)
        for k in np.unique(sizes[sizes < self.m]).tolist():
            states = (np.arange(1 << k)[:, None] >> np.arange(k) & 1).astype(np.float64)
            places = np.flatnonzero(sizes == k)
            step = max(1, _AT_ONCE // (self.m << k))
            for start in range(0, len(places), step):
                part = places[start : start + step]
                self._parts.append(
                    _Rows(
                        part,
                        np.where(absent[part], 0, codes[part]).astype(np.float64),
                        (~absent[part]).astype(np.float64),
                        np.nonzero(absent[part])[1].reshape(len(part), k),
                        states,
                    )
                )

    def value_grad(self, theta: FloatArray, row_weight: FloatArray) -> tuple[float, FloatArray]:
        """The sum over rows, each with its weight (n,), and its gradient by θ."""
        pairs = len(self._first)
        w = np.zeros((self.m, self.m))
        w[self._first, self._second] = theta[:pairs]
        w += w.T
        value, slopes, thresholds = 0.0, np.zeros_like(w), np.zeros(self.m)
        for rows in self._parts:
            value += _add_rows(rows, w, theta[pairs:], row_weight[rows.places], slopes, thresholds)
        gradient = (slopes + slopes.T)[self._first, self._second]
        return value, np.concatenate([gradient, thresholds])


def _add_rows(
    rows: _Rows, w: FloatArray, tau: FloatArray, weight: FloatArray, slopes: FloatArray, thresholds: FloatArray
) -> float:
    """The value of some rows; slopes (m, m) by ordered pairs and those of thresholds (m,) are added to the given arrays."""
    x, missing, states = rows.x, rows.missing, rows.states
    field = x @ w + tau  # h without the missing answers
    within = w[missing[:, :, None], missing[:, None, :]]
    energy = np.take_along_axis(field, missing, axis=1) @ states.T + 0.5 * ((states @ within) * states).sum(axis=2)
    energy -= energy.max(axis=1, keepdims=True)
    energy -= np.log(np.exp(energy).sum(axis=1, keepdims=True))  # log p(s | x_K)
    turn = 1.0 - 2.0 * x
    share = states @ w[missing]
    share += field[:, None, :]
    share *= turn[:, None, :]
    share += energy[:, :, None]
    largest = share.max(axis=1)
    share -= largest[:, None, :]
    np.exp(share, out=share)
    total = share.sum(axis=1)
    log_ratio = largest + np.log(total)  # log ρ
    log_odds = np.logaddexp(0.0, log_ratio)
    value = -float(weight @ (log_odds * rows.known).sum(axis=1))
    # q_j(s) = share / total is p(s | x_K with x_j turned), and with π_j = ρ_j / (1 + ρ_j) the gradient of component j is
    # −π_j Σ_s ((q_j(s) − p(s | x_K)) ∇E_s + d_j q_j(s) ∇h_j(s)).
    share /= total[:, None, :]
    pull = -np.exp(log_ratio - log_odds) * rows.known * weight[:, None]
    by_state = (share @ pull[:, :, None])[:, :, 0] - np.exp(energy) * pull.sum(axis=1, keepdims=True)
    turned = pull * turn
    ones = by_state @ states
    slopes += turned.T @ x
    thresholds += turned.sum(axis=0)
    np.add.at(thresholds, missing, ones)
    np.add.at(slopes, missing, (states.T @ share) * turned[:, None, :] + ones[:, :, None] * x[:, None, :])
    both = (states.T * by_state[:, None, :]) @ states
    np.add.at(slopes, (missing[:, :, None], missing[:, None, :]), 0.5 * both)
    return value
