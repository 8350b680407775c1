"""Networks of bootstrap samples: how certain edges and centralities are, and a check of the sandwich errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.finished_parts import Kept, kept_parts
from fieldfit.arguments import function_or_none, seed
from fieldfit.networks.centrality import MEASURES, centralities
from fieldfit.networks.debiased import debiased_couplings, debiased_with_errors
from fieldfit.networks.network import Network
from fieldfit.networks.nodewise import checked_gamma, checked_rule, chosen_regressions, nodewise_network
from fieldfit.networks.resampling import Progress, batches, bootstrap_weights
from fieldfit.networks.responses import read_responses
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class NetworkBootstrap:
    """Networks of bootstrap samples.

    Parameters
    ----------
    network : Network
        The network of the samples themselves.
    couplings : ndarray of shape (resamples, m, m)
        The networks of the bootstrap samples, with the λ chosen again in each.
    debiased : ndarray of shape (resamples, m, m)
        Their debiased couplings; NaN if a bootstrap sample does not determine them.
    standard_errors : ndarray of shape (m, m)
        Sandwich errors of the debiased couplings.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    >>> drawn = networks.bootstrap(x, resamples=20)
    >>> drawn.couplings.shape
    (20, 2, 2)
    >>> drawn
    <NetworkBootstrap: 20 resamples of a network of 2 variables>
    """

    network: Network
    couplings: FloatArray
    debiased: FloatArray
    standard_errors: FloatArray

    def __repr__(self) -> str:
        return f"<NetworkBootstrap: {len(self.couplings):,} resamples of a network of {self.network.m} variables>"

    def edges(self, level: float = 0.95) -> pandas.DataFrame:
        """Return the bootstrap results for each pair.

        Parameters
        ----------
        level : float, default: 0.95
            Coverage of the percentile intervals of the penalised couplings.

        Returns
        -------
        DataFrame
            ``weight``, the ``lower`` and ``upper`` percentiles, ``included``: the share of networks with this edge,
            ``se`` and ``bootstrap_se``: the sandwich error of the debiased coupling, and its standard deviation over
            bootstrap samples.

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import networks
        >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
        >>> drawn = networks.bootstrap(x, resamples=20)
        >>> drawn.edges()[["from", "to", "included"]]
          from  to  included
        0   x0  x1       1.0
        """
        import pandas

        first, second = np.triu_indices(self.network.m, 1)
        drawn = self.couplings[:, first, second]
        tail = (1 - level) / 2
        lower, upper = np.quantile(drawn, [tail, 1 - tail], axis=0)
        names = np.array(self.network.names)
        return pandas.DataFrame(
            {
                "from": names[first],
                "to": names[second],
                "weight": self.network.couplings[first, second],
                "lower": lower,
                "upper": upper,
                "included": (drawn != 0).mean(axis=0),
                "se": self.standard_errors[first, second],
                "bootstrap_se": _deviation(self.debiased[:, first, second]),
            }
        )

    def centrality(self, level: float = 0.95) -> pandas.DataFrame:
        """Return the centrality of each variable with percentiles over the bootstrap samples.

        The percentiles show how much the penalised network varies. They are not confidence intervals: the penalty shrinks
        strengths, and betweenness and closeness jump where a shortest path changes. `centrality_intervals` has confidence
        intervals of strength and expected influence, `case_dropping` the stability of all measures.

        Parameters
        ----------
        level : float, default: 0.95
            Share of the bootstrap samples between the percentiles.

        Returns
        -------
        DataFrame
            For each measure of `centrality` three columns: the estimate, ``…_lower`` and ``…_upper``.

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import networks
        >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
        >>> drawn = networks.bootstrap(x, resamples=20)
        >>> drawn.centrality()["strength"].round(2)
        x0    2.73
        x1    2.73
        Name: strength, dtype: float64
        """
        import pandas

        tail = (1 - level) / 2
        estimate = centralities(self.network.couplings)
        drawn = np.stack([centralities(couplings) for couplings in self.couplings])
        lower, upper = np.quantile(drawn, [tail, 1 - tail], axis=0)
        columns = {}
        for place, measure in enumerate(MEASURES):
            columns[measure] = estimate[place]
            columns[f"{measure}_lower"], columns[f"{measure}_upper"] = lower[place], upper[place]
        return pandas.DataFrame(columns, index=list(self.network.names))


def bootstrap(
    data: object,
    *,
    resamples: int = 1000,
    gamma: float = 0.25,
    rule: str = "and",
    random_state: int = 0,
    progress: Progress | None = None,
    checkpoint: Kept = None,
) -> NetworkBootstrap:
    """Estimate the networks of bootstrap samples.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        The answers; rows with missing values are left out.
    resamples : int, default: 1000
        Number of bootstrap samples.
    gamma, rule
        As in `nodewise_network`.
    random_state : int, default: 0
        Seed. The same seed gives the same result.
    progress : callable or None, default: None
        Called with the number of bootstrap samples done and of all.
    checkpoint : str, Path, Checkpoint or None, default: None
        A file that keeps the finished bootstrap samples. With `Checkpoint`'s ``resume`` only the others are computed.

    Returns
    -------
    NetworkBootstrap

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    >>> networks.bootstrap(x, resamples=50).edges().round(1)
      from  to  weight  lower  upper  included   se  bootstrap_se
    0   x0  x1     2.7    1.7    3.5       1.0  0.5           0.5
    """
    combine = checked_rule(rule)
    gamma = checked_gamma(gamma)
    function_or_none(progress, "progress")
    answers = read_responses(data)
    network = nodewise_network(answers, gamma=gamma, rule=rule)
    assert network.regressions is not None
    rows, counts = answers.distinct[0], answers.counts
    _, errors = debiased_with_errors(rows, counts.astype(np.float64), network.regressions, network.thresholds)
    draw = bootstrap_weights(counts, np.random.default_rng(seed(random_state)))

    def estimated(weights: FloatArray) -> dict[str, FloatArray]:
        regressions, thresholds = chosen_regressions(rows, weights, gamma)
        each = zip(weights, regressions, thresholds, strict=True)
        debiased = [debiased_couplings(rows, *resample) for resample in each]
        return {"couplings": combine(regressions), "debiased": np.stack(debiased)}

    couplings, debiased = [], []
    what = {"kind": "bootstrap of a network", "gamma": gamma, "rule": rule, "random_state": random_state}
    with kept_parts(checkpoint, rows, counts, **what, number_of_resamples=resamples) as part:
        for weights in batches(draw, resamples, answers.m, progress):
            shape = len(weights), answers.m, answers.m
            made = part({"couplings": shape, "debiased": shape}, partial(estimated, weights))
            couplings.append(made["couplings"])
            debiased.append(made["debiased"])
    return NetworkBootstrap(network, np.concatenate(couplings), np.concatenate(debiased), errors)


def _deviation(drawn: FloatArray) -> FloatArray:
    """Standard deviations of the columns over rows that are not NaN; NaN with fewer than two."""
    known = np.isfinite(drawn)
    count = known.sum(axis=0)
    kept = np.where(known, drawn, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = kept.sum(axis=0) / count
        squares = np.where(known, np.square(drawn - mean), 0.0).sum(axis=0)
        deviation: FloatArray = np.where(count > 1, np.sqrt(squares / (count - 1)), np.nan)
    return deviation
