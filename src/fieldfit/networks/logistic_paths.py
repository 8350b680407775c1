"""L1 paths of the logistic regressions of every variable on all others, for one or many weightings of the samples.

    minimise  −(1/n) Σ_i w_i log p(x_ij | rest; β) + λ Σ_k s_k |β_k|,     s_k the standard deviation of variable k

The sequence of λ and the rule that ends it are those of glmnet (Friedman, Hastie and Tibshirani, "Regularization paths for
generalized linear models via coordinate descent", 2010): 100 values from the smallest λ at which all β are 0 down to 1e-4
of it (1e-2 with fewer samples than predictors), on a log scale; the path ends when 99.9% of the deviance is
explained, or if the next λ explains less than 1e-5 more. A resample, a subsample or a group is a weighting: excluded
samples have weight 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.threads import get_threads
from fieldfit.types import FloatArray, IntArray

#: As in glmnet.
LENGTH, LEAST, LEAST_GAIN, MOST_DEVIANCE = 100, 5, 1e-5, 0.999
#: Tolerance of the optimality conditions, in units of standardised variables.
TOLERANCE = 1e-7
#: A path that searches for the lowest EBIC stops when EBIC exceeds it by the cost of this many couplings.
WORSE = 6.0
#: Samples × variables × λ in one call with progress, about one second.
_WORK = 2e8


@dataclass(frozen=True, eq=False)
class LogisticPaths:
    """Paths of ``weightings`` × m regressions, each with at most L values of λ.

    ``coefficients`` (weightings, m, L, m): row j has the regression of variable j; entry j holds the intercept.
    ``lambdas``, ``log_likelihood`` (weightings, m, L), the latter summed over samples. ``fitted`` (weightings, m) is
    the number of λ fitted; later entries are 0. ``unfinished`` counts fits that did not reach the tolerance.
    """

    coefficients: FloatArray
    lambdas: FloatArray
    log_likelihood: FloatArray
    fitted: IntArray
    totals: FloatArray  # the sum of the weights (weightings,)
    unfinished: int

    @property
    def sizes(self) -> IntArray:
        """The number of couplings (weightings, m, L) that are not 0."""
        variable = np.arange(self.coefficients.shape[1])
        used = self.coefficients != 0
        used[:, variable, :, variable] = False
        sizes: IntArray = used.sum(axis=3)
        return sizes

    def ebic(self, gamma: float) -> FloatArray:
        """−2 log L + J log n + 2 γ J log(m − 1) (weightings, m, L) for J couplings; infinite for λ that were not fitted."""
        m, length = self.coefficients.shape[1:3]
        values: FloatArray = -2.0 * self.log_likelihood + self.sizes * _prices(self.totals, m, gamma)[:, None, None]
        values[np.arange(length) >= self.fitted[:, :, None]] = np.inf
        return values

    def chosen(self, gamma: float) -> tuple[FloatArray, IntArray]:
        """The coefficients (weightings, m, m) with the lowest EBIC, and the place of their λ (weightings, m)."""
        best = self.ebic(gamma).argmin(axis=2)
        return np.take_along_axis(self.coefficients, best[:, :, None, None], axis=2)[:, :, 0], best


def logistic_paths(
    codes: NDArray[np.uint8],
    weights: FloatArray | None = None,
    *,
    lambdas: FloatArray | None = None,
    length: int = LENGTH,
    tol: float = TOLERANCE,
    gamma: float | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> LogisticPaths:
    """The paths for codes (n, m) of 0 and 1 and weights (weightings, n); None: every sample counts once.

    ``lambdas``, in decreasing order, are all fitted if they are given. With ``gamma`` a path stops when its EBIC
    exceeds the lowest value by the cost of six couplings. EBIC could still fall below that value later: with gamma =
    0 another λ was chosen in 2 of 962 regressions of resampled surveys, with 0.25 in none of 965. ``progress`` is
    called with the number of variables done and of all.
    """
    n, m = codes.shape
    given = np.ones((1, n)) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    totals = given.sum(axis=1)
    grid = np.empty(0) if lambdas is None else np.ascontiguousarray(lambdas, dtype=np.float64)
    length = len(grid) or length
    step = max(1, int(_WORK / (len(given) * length * n * m))) if progress else m
    parts = []
    for start in range(0, m, step):
        targets = np.arange(start, min(start + step, m))
        shape = len(given), len(targets), length
        part = np.empty((*shape, m)), np.zeros(shape), np.zeros(shape)
        counts = np.empty(shape[:2], dtype=np.int64), np.empty(shape[:2], dtype=np.int64)
        _kernels.logistic_paths(
            codes=np.ascontiguousarray(codes, dtype=np.uint8),
            weights=given,
            targets=targets,
            lambdas=grid,
            ratio=1e-2 if totals.min() < m - 1 else 1e-4,
            tol=tol,
            most_steps=200,
            least=LEAST,
            least_gain=LEAST_GAIN,
            most_deviance=MOST_DEVIANCE,
            prices=_prices(totals, m, gamma or 0.0) / (2.0 * totals),
            worse=0.0 if gamma is None else WORSE,
            coefficients=part[0].reshape(-1),
            lambdas_out=part[1].reshape(-1),
            likelihood=part[2].reshape(-1),
            counts=counts[0].reshape(-1),
            failed=counts[1].reshape(-1),
            n_threads=get_threads(),
        )
        parts.append((*part, *counts))
        if progress:
            progress(min(start + step, m), m)
    coefficients, used, likelihood, fitted, failed = (
        arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)
    )
    return LogisticPaths(coefficients, used, likelihood * totals[:, None, None], fitted, totals, int(failed.sum()))


def _prices(totals: FloatArray, m: int, gamma: float) -> FloatArray:
    """The cost of one coupling in EBIC, log n + 2 γ log(m − 1), for each total weight n."""
    prices: FloatArray = np.log(totals) + 2.0 * gamma * np.log(max(m - 1, 1))
    return prices
