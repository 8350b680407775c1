"""Intervals of couplings: from a refit of the selected edges, and debiased ones that account for the selection."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from fieldfit.api.estimate_table import checked_level
from fieldfit.api.fitting import fit
from fieldfit.api.result import Fit
from fieldfit.arguments import instance_of, numbers_of
from fieldfit.asymptotics.separation import infinite_optimum
from fieldfit.callers import warn_caller, without_warnings
from fieldfit.models.boltzmann import BoltzmannMachine
from fieldfit.networks.debiased import debiased_with_errors
from fieldfit.networks.network import Network
from fieldfit.networks.responses import Responses, answers_to
from fieldfit.types import DataError, FloatArray, ModelError, SeparationWarning

if TYPE_CHECKING:
    import pandas

#: Why a pair has no error although all of its joint answers occur.
UNDETERMINED = "other columns determine one of the two, or each other, in these rows"


def refit(data: object, network: Network, **options: Any) -> Fit:
    """Fit the network's edges without the L1 penalty, by pseudo-likelihood.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        The answers. Missing values are summed out exactly if the row is narrow enough; ``fit.dropped_rows`` lists the
        others.
    network : Network
        Its edges are the couplings of the model.
    **options
        Options of `fieldfit.fit`, such as ``sigma2`` if some couplings are separated.

    Returns
    -------
    Fit
        A fit with standard errors, tests and simulation. θ has the couplings of ``network.pairs``, then the
        thresholds.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> random = np.random.default_rng(0)
    >>> mood = random.random(400) < 0.5
    >>> x = np.column_stack([mood, np.where(random.random(400) < 0.6, mood, random.random(400) < 0.5)])
    >>> fitted = networks.refit(x, networks.nodewise_network(x))
    >>> fitted.theta.shape, fitted.converged
    ((3,), True)
    """
    instance_of(network, Network, "refit needs a Network")
    answers = answers_to(data, network.names)
    model = BoltzmannMachine(network.m, np.array(network.pairs).reshape(-1, 2), biases=True, names=network.names)
    return fit(model, answers.table(), options.pop("policy", "PL1"), wide_rows="drop", **options)


def edge_intervals(
    data: object, network: Network, *, level: float = 0.95, fitted: Fit | None = None
) -> pandas.DataFrame:
    """Return intervals of all couplings: debiased ones, and for the network's edges also those of a refit.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        The answers that the network was estimated from.
    network : Network
        From `nodewise_network`.
    level : float, default: 0.95
        Coverage of the intervals.
    fitted : Fit or None, default: None
        The refit, if there is one already.

    Returns
    -------
    DataFrame
        A row for each pair, the largest abs(debiased / se) first. ``weight`` is the network's coupling. ``refit``,
        ``refit_lower``, ``refit_upper``: estimate and interval of the selected edges without the penalty, as if the
        edges had been known beforehand; after selection they are too optimistic. ``debiased``, ``se``, ``lower``,
        ``upper``: one Newton step from the penalised estimate, with an interval that is valid for any selection.
        ``p``: the p-value of debiased = 0. ``q``: adjusted by Benjamini and Hochberg. ``note``: why a pair has no
        standard error (NaN), for example a joint answer (of four) that never occurs: without the penalty the coupling
        is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> random = np.random.default_rng(0)
    >>> mood = random.random(400) < 0.5
    >>> x = np.column_stack([mood, np.where(random.random(400) < 0.6, mood, random.random(400) < 0.5)])
    >>> table = networks.edge_intervals(x, networks.nodewise_network(x))
    >>> table[["from", "to", "weight", "debiased", "lower", "upper"]].round(1)
      from  to  weight  debiased  lower  upper
    0   x0  x1     2.7       2.7    2.3    3.2
    """
    import pandas

    checked_level(level)
    regressions = regressions_of(network)
    answers = answers_to(data, network.names)
    estimate, error = debiased_with_errors(
        answers.distinct[0], answers.counts.astype(np.float64), regressions, network.thresholds
    )
    first, second = np.triu_indices(network.m, 1)
    weight, debiased, se = (matrix[first, second] for matrix in (network.couplings, estimate, error))
    missing = missing_answers(answers)
    notes = [missing.get(pair, "") for pair in zip(first.tolist(), second.tolist(), strict=True)]
    se = np.where([note == "" for note in notes], se, np.nan)
    width = float(stats.norm.ppf(0.5 + level / 2))
    p = 2.0 * stats.norm.sf(np.abs(debiased) / se)
    plain = np.full((3, len(weight)), np.nan)
    if network.pairs:
        fitted = _quiet_refit(answers, network) if fitted is None else fitted
        chosen = np.flatnonzero(weight != 0)
        theta = fitted.theta[: len(chosen)]
        errors = fitted.standard_errors()[: len(chosen)]
        plain[:, chosen] = theta, theta - width * errors, theta + width * errors
    lacking = ~np.isfinite(se) | ((weight != 0) & ~np.isfinite(plain[1]))
    notes = [note or (UNDETERMINED if lacks else "") for note, lacks in zip(notes, lacking, strict=True)]
    table = pandas.DataFrame(
        {
            "from": np.array(network.names)[first],
            "to": np.array(network.names)[second],
            "weight": weight,
            "refit": plain[0],
            "refit_lower": plain[1],
            "refit_upper": plain[2],
            "debiased": debiased,
            "se": se,
            "lower": debiased - width * se,
            "upper": debiased + width * se,
            "p": p,
            "q": false_discovery_rates(p),
            "note": notes,
        }
    )
    order = np.argsort(-np.nan_to_num(np.abs(debiased) / se), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def regressions_of(network: Network) -> FloatArray:
    """The regressions of the network (m, m)."""
    instance_of(network, Network, "Debiased intervals need a Network")
    if network.regressions is None:
        raise ModelError("Debiased intervals need a network from regressions. Use nodewise_network.")
    return network.regressions


def _quiet_refit(answers: Responses, network: Network) -> Fit:
    """The refit. If the data separate, the warning says that this concerns the refit only."""
    with without_warnings(SeparationWarning):
        fitted = refit(answers, network)
    if fitted.interrupted:
        raise KeyboardInterrupt
    if fitted.separated:
        warn_caller(
            f"Refit of the network's edges: {infinite_optimum(fitted.separated)} They have no interval of the refit. The "
            "network and the debiased intervals do not depend on the refit.",
            SeparationWarning,
        )
    return fitted


def missing_answers(answers: Responses) -> dict[tuple[int, int], str]:
    """The pairs (j, k) with a joint answer that never occurs, each with that answer in words."""
    ones = answers.distinct[0].astype(np.float32)
    rows = (1.0 - ones, ones)
    notes = {}
    for left, right in itertools.product((0, 1), repeat=2):
        for j, k in np.argwhere(rows[left].T @ rows[right] == 0).tolist():
            first, second = answers.values[j][left], answers.values[k][right]
            notes[j, k] = f"no row has {answers.names[j]} = {first} and {answers.names[k]} = {second}"
    return notes


def false_discovery_rates(p: FloatArray) -> FloatArray:
    """Return the adjusted p-values of Benjamini and Hochberg. NaN stay NaN and do not count.

    Parameters
    ----------
    p : ndarray
        p values.

    Returns
    -------
    ndarray
        For each p the smallest false discovery rate at which it is a discovery.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> networks.false_discovery_rates(np.array([0.01, 0.04, 0.03, 0.8]))
    array([0.04      , 0.05333333, 0.05333333, 0.8       ])
    """
    p = numbers_of(p, "p")
    known = ~np.isnan(p)
    if known.any() and not (p[known].min() >= 0 and p[known].max() <= 1):
        raise DataError("p must be p-values: numbers from 0 to 1, or NaN.")
    adjusted = np.full(p.shape, np.nan)
    if known.any():
        adjusted[known] = stats.false_discovery_control(p[known], method="bh")
    return adjusted
