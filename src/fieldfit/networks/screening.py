"""Interaction screening: networks from objectives other than the likelihood.

With s = 2x − 1 ∈ {−1, 1}, for each variable j,

    RISE       minimise      (1/n) Σ_i exp(−s_ij (h_j + Σ_k J_jk s_ik)) + λ Σ_k |J_jk|
    logRISE    minimise  log((1/n) Σ_i exp(−s_ij (h_j + Σ_k J_jk s_ik))) + λ Σ_k |J_jk|

(Vuffray, Misra, Lokhov and Chertkov, "Interaction screening", 2016; Lokhov et al., "Optimal structure and parameter
learning of Ising models", 2018, which has λ = c √(log(m² / 0.05) / n) with c = 0.4 for RISE and 0.8 for logRISE.) At
the true parameters the local field cancels in every term, so the expected gradient of the objective is 0. For
variables with the values 0 and 1, w_jk = 4 J_jk and τ_j = 2 h_j − 2 Σ_k J_jk.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fieldfit.arguments import number_from_zero
from fieldfit.networks.network import Network
from fieldfit.networks.nodewise import checked_rule
from fieldfit.networks.responses import checked_for_regressions, read_responses
from fieldfit.optim.proximal import minimise_proximal
from fieldfit.types import FloatArray, ModelError

_TOLERANCE = 1e-6
#: From (value, gradient) of Σ w exp(−…) to those of the objective.
Transform = Callable[[float, FloatArray], tuple[float, FloatArray]]


def rise_network(data: object, *, strength: float = 0.4, threshold: float = 0.0, rule: str = "and") -> Network:
    """Estimate a network by interaction screening (RISE).

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        Columns with two values each. Rows with missing values are left out.
    strength : float, default: 0.4
        c of λ = c √(log(m² / 0.05) / n).
    threshold : float, default: 0.0
        Couplings with abs(J) below this are set to 0. J is a quarter of the coupling of variables with the values 0
        and 1.
    rule : {"and", "or"}, default: "and"
        As in `nodewise_network`.

    Returns
    -------
    Network

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    >>> networks.rise_network(x).edges().round(1)
      from  to  weight
    0   x0  x1     2.4
    """
    return _screen(data, lambda value, gradient: (value, gradient), strength, threshold, rule, "RISE")


def log_rise_network(data: object, *, strength: float = 0.8, threshold: float = 0.0, rule: str = "and") -> Network:
    """Estimate a network by interaction screening with the logarithm of the objective (logRISE).

    Parameters
    ----------
    data, threshold, rule
        As in `rise_network`.
    strength : float, default: 0.8
        c of λ = c √(log(m² / 0.05) / n).

    Returns
    -------
    Network

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    >>> networks.log_rise_network(x).edges().round(1)
      from  to  weight
    0   x0  x1     2.1
    """
    return _screen(
        data, lambda value, gradient: (np.log(value), gradient / value), strength, threshold, rule, "logRISE"
    )


def _screen(data: object, transform: Transform, strength: float, threshold: float, rule: str, name: str) -> Network:
    combine = checked_rule(rule)
    strength = number_from_zero(strength, "strength", ModelError)
    threshold = number_from_zero(threshold, "threshold", ModelError)
    answers = checked_for_regressions(read_responses(data))
    spins = 2.0 * answers.distinct[0] - 1.0
    total = float(answers.counts.sum())
    share = answers.counts / total
    m = answers.m
    lam = strength * float(np.sqrt(np.log(m**2 / 0.05) / total))
    couplings, fields = np.zeros((m, m)), np.zeros(m)
    for j in range(m):
        start = np.zeros(m)
        mean = float(share @ spins[:, j])
        start[j] = np.arctanh(np.clip(mean, -1 + 1e-9, 1 - 1e-9))
        l1 = np.full(m, lam)
        l1[j] = 0.0
        design = spins * spins[:, [j]]  # s_j s_k, with s_j at the place of j, for the local field
        design[:, j] = spins[:, j]
        solution = minimise_proximal(_objective(design, share, transform), start, l1, gtol=_TOLERANCE)
        couplings[j] = solution.x
        fields[j] = couplings[j, j]
        couplings[j, j] = 0.0
    couplings[np.abs(couplings) < threshold] = 0.0
    thresholds = 2.0 * fields - 2.0 * couplings.sum(axis=1)
    lambdas = np.full(m, lam)
    return Network(answers.names, combine(4.0 * couplings), thresholds, total, name, 4.0 * couplings, lambdas)


def _objective(
    design: FloatArray, share: FloatArray, transform: Transform
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    def evaluate(x: FloatArray) -> tuple[float, FloatArray]:
        terms = share * np.exp(np.minimum(-(design @ x), 500.0))
        return transform(float(terms.sum()), -(design.T @ terms))

    return evaluate
