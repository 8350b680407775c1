"""One symmetric L1 path for all couplings by pseudo-likelihood, with EBIC; missing values are summed out.

    minimise  −(1/n) Σ_i Σ_j log p(x_ij | rest) + λ Σ_{j<k} (s_j + s_k) |w_jk|,     s_j the standard deviation of variable j

This is the sum of the regressions of all variables with the same λ, and with both coefficients of a pair equal. For a
row with missing values, each log p is the log probability of the known values, by exact sums over the missing ones.
The criterion is the sum of those of the regressions. Each coupling is in two of them:

    EBIC = −2 Σ_i Σ_j log p(x_ij | rest) + 2 J (log n + 2 γ log(m − 1)),     J couplings
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldfit.arguments import function_or_none, whole_number
from fieldfit.data.samples import Table
from fieldfit.models.boltzmann import BoltzmannMachine
from fieldfit.networks.network import Network
from fieldfit.networks.nodewise import checked_gamma
from fieldfit.networks.resampling import Progress
from fieldfit.networks.responses import read_responses
from fieldfit.optim.proximal import minimise_proximal
from fieldfit.policies import as_policy
from fieldfit.threads import one_blas_thread
from fieldfit.types import FloatArray, IntArray, WidthError

#: Number of λ, from the smallest without an edge down to this share of it; and number of consecutive λ without a
#: lower criterion after which the path stops.
_LENGTH, _RATIO, _PATIENCE = 60, 0.005, 12
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class JointPath:
    """The path of penalties of `joint_network`.

    Parameters
    ----------
    lambdas : ndarray of shape (L,)
        The λ, in decreasing order.
    thetas : ndarray of shape (L, r)
        Couplings, then thresholds.
    log_likelihood : ndarray of shape (L,)
        Log pseudo-likelihoods.
    ebic : ndarray of shape (L,)
        Values of the criterion.
    dropped_rows : ndarray of int
        Rows with more missing values than exact sums allow.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    >>> network, path = networks.joint_network(x)
    >>> path.thetas.shape == (len(path.lambdas), 3)
    True
    """

    lambdas: FloatArray
    thetas: FloatArray
    log_likelihood: FloatArray
    ebic: FloatArray
    dropped_rows: IntArray

    def __repr__(self) -> str:
        first, last = self.lambdas[[0, -1]]
        return f"<JointPath: {len(self.lambdas)} λ from {first:.3g} to {last:.3g}, {len(self.dropped_rows)} dropped rows>"


def joint_network(
    data: object, *, gamma: float = 0.25, largest_table: int = 1 << 16, progress: Progress | None = None
) -> tuple[Network, JointPath]:
    """Estimate a network by one symmetric L1 path on the pseudo-likelihood.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        Columns with two values each. Missing values are summed out exactly if that needs no larger table than
        ``largest_table``; ``path.dropped_rows`` lists the other rows.
    gamma : float, default: 0.25
        Weight γ of the prior in EBIC.
    largest_table : int, default: 65536
        Largest number of table entries in exact sums: 2 to the number of missing values of a row, plus one.
    progress : callable or None, default: None
        Called with the number of λ done and of all.

    Returns
    -------
    network : Network
        The network with the lowest EBIC.
    path : JointPath
        The whole path.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = np.repeat([[0.0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    >>> x[:5, 1] = np.nan
    >>> network, path = networks.joint_network(x)
    >>> network.edges().round(1)
      from  to  weight
    0   x0  x1     2.6
    """
    gamma = checked_gamma(gamma)
    function_or_none(progress, "progress")
    largest_table = whole_number(largest_table, "largest_table", 1, 2**40)
    answers = read_responses(data)
    model = BoltzmannMachine(answers.m, biases=True, names=answers.names)
    # Equal rows are merged into one sample with a count.
    rows, place, counts = np.unique(answers.codes, axis=0, return_inverse=True, return_counts=True)
    # The sum is over the states of the missing answers and of one known answer. Rows without known answers are skipped.
    absent = (rows < 0).sum(axis=1)
    wide = np.flatnonzero((absent + 1 > np.log2(largest_table)) & (absent < answers.m) & (absent > 0))
    if len(wide) == len(rows):
        raise WidthError(
            f"Every row has too many missing values: summing them out needs a table of more than {largest_table:,} "
            "entries. Leave out the columns with most missing values, or set a larger largest_table."
        )
    narrow = np.setdiff1d(np.arange(len(rows)), wide)
    dropped = np.flatnonzero(np.isin(place.reshape(-1), wide))
    with one_blas_thread():
        path = _follow(rows[narrow], counts[narrow].astype(np.float64), model, gamma, dropped, progress)
    best = int(path.ebic.argmin())
    couplings = np.zeros((answers.m, answers.m))
    first, second = model.edge_array.T
    couplings[first, second] = couplings[second, first] = path.thetas[best, : len(first)]
    method = f"joint pseudo-likelihood, EBIC with gamma = {gamma:g}"
    thresholds = path.thetas[best, len(first) :]
    lambdas = np.full(answers.m, path.lambdas[best])
    return Network(answers.names, couplings, thresholds, float(answers.n - len(dropped)), method, None, lambdas), path


def _log_likelihood(
    codes: NDArray[np.int8], counts: FloatArray, model: BoltzmannMachine
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """The log pseudo-likelihood of rows with ``counts`` as a function of θ, and its gradient."""
    table = Table(np.ascontiguousarray(codes, dtype=np.int32), model.names, ((0, 1),) * model.m)
    problem = model.compile(table, as_policy("PL1").bind(model.structure(table)).draw(0, 0, table.n))
    return lambda theta: problem.value_grad(theta, counts)


def _follow(
    codes: NDArray[np.int8],
    counts: FloatArray,
    model: BoltzmannMachine,
    gamma: float,
    dropped: IntArray,
    progress: Progress | None,
) -> JointPath:
    n, m = float(counts.sum()), codes.shape[1]
    known = codes >= 0
    mean = np.clip(counts @ np.where(known, codes, 0) / (counts @ known), 1e-6, 1 - 1e-6)
    scale = np.sqrt(mean * (1 - mean))
    first, second = model.edge_array.T
    edges = len(first)
    weights = np.concatenate([scale[first] + scale[second], np.zeros(m)])
    theta = np.concatenate([np.zeros(edges), np.log(mean / (1 - mean))])

    log_likelihood = _log_likelihood(codes, counts, model)

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = log_likelihood(x)
        return -value / n, -gradient / n

    largest = float((np.abs(loss(theta)[1][:edges]) / weights[:edges]).max())
    lambdas = largest * np.geomspace(1.0, _RATIO, _LENGTH)
    # Without couplings, the second derivative of a coupling is the sum of those of its two conditionals.
    variance = scale**2
    spread = mean[second] * variance[first] + mean[first] * variance[second]
    diagonal = np.concatenate([spread, variance])
    price = 2.0 * (np.log(n) + 2.0 * gamma * np.log(max(m - 1, 1)))
    thetas, likelihood, criteria = [], [], []
    for place, lam in enumerate(lambdas):
        theta = minimise_proximal(loss, theta, lam * weights, gtol=_TOLERANCE, diagonal=diagonal).x
        value = log_likelihood(theta)[0]
        thetas.append(theta)
        likelihood.append(value)
        criteria.append(-2.0 * value + price * np.count_nonzero(theta[:edges]))
        if progress:
            progress(place + 1, _LENGTH)
        if place - int(np.argmin(criteria)) >= _PATIENCE:
            break
    return JointPath(lambdas[: len(thetas)], np.stack(thetas), np.array(likelihood), np.array(criteria), dropped)
