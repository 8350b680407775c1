"""Stability of centralities when samples are left out: the case-dropping of bootnet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.estimate_table import checked_level
from fieldfit.arguments import datasets_drawn, function_or_none, number_from_zero, seed
from fieldfit.data.memory import refuse_beyond_memory
from fieldfit.networks.centrality import MEASURES, centralities
from fieldfit.networks.nodewise import checked_gamma, checked_rule, chosen_regressions
from fieldfit.networks.resampling import Progress, batches, subsets
from fieldfit.networks.responses import checked_for_regressions, read_responses
from fieldfit.types import FloatArray, ModelError

if TYPE_CHECKING:
    import pandas

#: The shares of samples that are left out.
_SHARES = np.linspace(0.05, 0.75, 8)


@dataclass(frozen=True, eq=False)
class CaseDropping:
    """Correlations of the centralities of subsets with those of all samples.

    Parameters
    ----------
    shares : ndarray of shape (shares,)
        The shares of samples that were left out, ascending.
    correlations : ndarray of shape (shares, resamples, 4)
        For each subset the Pearson correlation over the variables, for each measure of `centrality`. 0 if the
        centralities of a subset are all equal.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> found = networks.CaseDropping(np.array([0.25, 0.5]), np.full((2, 10, 4), [[[0.9]], [[0.6]]]))
    >>> float(found.coefficients()["strength"])
    0.25
    """

    shares: FloatArray
    correlations: FloatArray

    def __repr__(self) -> str:
        return f"<CaseDropping: {self.correlations.shape[1]} subsets for each of {len(self.shares)} shares>"

    def table(self) -> pandas.DataFrame:
        """Return the mean correlation for each share of samples left out.

        Returns
        -------
        DataFrame
            A row for each share, a column for each measure.

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import networks
        >>> found = networks.CaseDropping(np.array([0.25, 0.5]), np.full((2, 10, 4), [[[0.9]], [[0.6]]]))
        >>> found.table()["strength"].round(2).to_dict()
        {0.25: 0.9, 0.5: 0.6}
        """
        import pandas

        return pandas.DataFrame(
            self.correlations.mean(axis=1), index=self.shares.round(12).tolist(), columns=list(MEASURES)
        )

    def coefficients(self, correlation: float = 0.7, level: float = 0.95) -> pandas.Series:
        """Return the stability coefficient of each measure.

        Parameters
        ----------
        correlation : float, default: 0.7
            The least correlation of a stable order.
        level : float, default: 0.95
            The share of subsets that must reach it.

        Returns
        -------
        Series
            The largest share of samples that can be left out so that ``level`` of the subsets have at least this
            correlation with all samples; 0 if there is none. Epskamp, Borsboom and Fried ("Estimating
            psychological networks and their accuracy", 2018) call a measure stable above 0.5 and do not interpret it
            below 0.25.

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import networks
        >>> found = networks.CaseDropping(np.array([0.25, 0.5]), np.full((2, 10, 4), [[[0.9]], [[0.6]]]))
        >>> float(found.coefficients(correlation=0.5)["betweenness"])
        0.5
        """
        import pandas

        checked_level(level)
        if number_from_zero(correlation, "correlation", ModelError) > 1:
            raise ModelError(f"correlation is {correlation}; it must be at most 1, as 0.7.")
        stable = np.mean(self.correlations >= correlation, axis=1) >= level
        best = np.max(np.where(stable, self.shares[:, None], 0.0), axis=0)
        return pandas.Series(best, index=list(MEASURES))


def case_dropping(
    data: object,
    *,
    resamples: int = 100,
    gamma: float = 0.25,
    rule: str = "and",
    random_state: int = 0,
    progress: Progress | None = None,
) -> CaseDropping:
    """Estimate networks without some of the samples, and compare their centralities with those of all samples.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        The answers; rows with missing values are left out.
    resamples : int, default: 100
        Number of random subsets for each of 8 shares left out, from 5% to 75%.
    gamma, rule
        As in `nodewise_network`.
    random_state : int, default: 0
        Seed. The same seed gives the same result.
    progress : callable or None, default: None
        Called with the number of subsets done and of all.

    Returns
    -------
    CaseDropping

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> random = np.random.default_rng(0)
    >>> mood = random.random(400) < 0.5
    >>> copy = lambda share: np.where(random.random(400) < share, mood, random.random(400) < 0.5)
    >>> x = np.column_stack([mood, copy(0.7), copy(0.5), random.random(400) < 0.5]).astype(int)
    >>> bool(networks.case_dropping(x, resamples=20).coefficients()["strength"] > 0.5)
    True
    """
    combine = checked_rule(rule)
    gamma = checked_gamma(gamma)
    function_or_none(progress, "progress")
    resamples = datasets_drawn(resamples, "The number of resamples", error=ModelError)
    answers = checked_for_regressions(read_responses(data))
    needed = 8 * len(_SHARES) * resamples * len(MEASURES)
    refuse_beyond_memory(needed, f"The result of {resamples:,} resamples", "Use fewer.")
    rows, counts = answers.distinct[0], answers.counts
    n = int(counts.sum())
    whole = centralities(combine(chosen_regressions(rows, counts[None].astype(np.float64), gamma)[0][0]))
    random = np.random.default_rng(seed(random_state))
    correlations = np.zeros((len(_SHARES), resamples, len(MEASURES)))
    for place, share in enumerate(_SHARES):
        done = 0
        told = None if progress is None else _from(progress, place * resamples, len(_SHARES) * resamples)
        for weights in batches(subsets(counts, round(n * (1 - share)), random), resamples, answers.m, told):
            for couplings in combine(chosen_regressions(rows, weights, gamma)[0]):
                correlations[place, done] = _correlations(whole, centralities(couplings))
                done += 1
    return CaseDropping(_SHARES.copy(), correlations)


def _from(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _: progress(before + done, total)


def _correlations(first: FloatArray, second: FloatArray) -> FloatArray:
    """Correlations of the rows (measures, m) of both; 0 for rows of equal numbers."""
    a, b = (values - values.mean(axis=1, keepdims=True) for values in (first, second))
    size = np.sqrt(np.sum(a * a, axis=1) * np.sum(b * b, axis=1))
    correlation: FloatArray = np.divide(np.sum(a * b, axis=1), size, out=np.zeros(len(size)), where=size > 0)
    return correlation
