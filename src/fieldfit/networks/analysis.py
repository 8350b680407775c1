"""The network of one group in two tables: a row for each pair, and a row for each variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.finished_parts import Kept
from fieldfit.arguments import whole_number
from fieldfit.networks.bootstrap import bootstrap
from fieldfit.networks.centrality import centrality, predictability
from fieldfit.networks.centrality_intervals import centrality_intervals
from fieldfit.networks.intervals import edge_intervals
from fieldfit.networks.network import Network
from fieldfit.networks.nodewise import nodewise_network
from fieldfit.networks.resampling import Progress
from fieldfit.networks.responses import Responses, read_responses
from fieldfit.words import counted

if TYPE_CHECKING:
    import pandas


#: Ratio of bootstrap error and standard error of a pair above which its debiased interval is unreliable.
_LARGEST_RATIO = 2.0


@dataclass(frozen=True, eq=False, repr=False)
class Analysis:
    """A network with its tables.

    Parameters
    ----------
    answers : Responses
        The answers.
    network : Network
        The network.
    edges : DataFrame
        A row for each pair: `edge_intervals`, and with a bootstrap the columns of `NetworkBootstrap.edges`.
    nodes : DataFrame
        A row for each variable: mean, threshold, `centrality`, `centrality_intervals`, predictability, and after a
        bootstrap ``betweenness_bootstrap_lower``, …: percentiles of betweenness and closeness over its networks.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    >>> analysis = networks.analyse(x)
    >>> analysis.nodes["strength"].round(2).to_dict()
    {'x0': 2.73, 'x1': 2.73}
    """

    answers: Responses
    network: Network
    edges: pandas.DataFrame
    nodes: pandas.DataFrame

    def __repr__(self) -> str:
        return f"<Analysis: {self.answers!r}, {self.network!r}; summary() has more>"

    def summary(self) -> str:
        """Return a few sentences on the network.

        Returns
        -------
        str

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import networks
        >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
        >>> print(networks.analyse(x).summary().splitlines()[1])
        1 of 1 pairs have an edge (0 negative); global strength 2.73.
        """
        network, edges = self.network, self.network.edges()
        used = int(self.answers.whole.sum())
        left_out = f" ({self.answers.n - used} with missing values left out)" if used < self.answers.n else ""
        negative = int((edges["weight"] < 0).sum())
        lines = [
            f"{network.m} variables, {used} rows{left_out}. {network.method[0].upper()}{network.method[1:]}.",
            f"{len(edges)} of {network.m * (network.m - 1) // 2} pairs have an edge ({negative} negative); global strength "
            f"{network.global_strength:.2f}.",
        ]
        if len(edges):
            strongest = ", ".join(
                f"{a} - {b} ({w:.2f})" for a, b, w in edges.head(3).itertuples(index=False, name=None)
            )
            central = self.nodes["strength"].nlargest(3)
            lines.append(f"Strongest edges: {strongest}.")
            lines.append(
                "Largest strength: " + ", ".join(f"{name} ({value:.2f})" for name, value in central.items()) + "."
            )
        sure = int((self.edges["q"] < 0.05).sum())
        lines.append(
            f"Pairs whose coupling differs from 0 at a false discovery rate of 5%, with or without an edge: {sure} "
            "(debiased estimates)."
        )
        lines += _without_errors(self.edges)
        lines += _without_intervals(self.nodes)
        best = self.nodes["normalised"].nlargest(1)
        lines.append(
            f"Predictability (normalised accuracy): mean {self.nodes['normalised'].mean():z.2f}, largest "
            f"{best.index[0]} ({best.iloc[0]:z.2f})."
        )
        if "bootstrap_se" in self.edges:
            ratio = (self.edges["bootstrap_se"] / self.edges["se"]).replace([np.inf], np.nan).dropna()
            if len(ratio):
                lines.append(
                    f"Check of the standard errors of debiased estimates: the bootstrap's are {ratio.median():.2f} times "
                    f"as large (median of pairs; {ratio.quantile(0.05):.2f} to {ratio.quantile(0.95):.2f} in 90% of them)."
                )
                lines += _unstable(self.edges, ratio)
        return "\n".join(lines)


def _without_errors(edges: pandas.DataFrame) -> list[str]:
    """How many pairs have no standard error, and why the first one has none."""
    without = edges[edges["note"] != ""]
    if without.empty:
        return []
    first = without.iloc[0]
    return [
        f"{len(without)} of {len(edges)} pairs have no standard error or interval; the column note of the table of edges "
        f"says why. {first['from']} - {first['to']}: {first['note']}."
    ]


def _without_intervals(nodes: pandas.DataFrame) -> list[str]:
    """How many variables have no interval of strength and expected influence, and why the first one has none."""
    without = nodes[nodes["note"] != ""]
    if without.empty:
        return []
    return [
        f"{len(without)} of {counted(len(nodes), 'variables')} have no interval of strength and expected influence, which "
        f"need all couplings of a variable; the column note of the table of nodes says why. {without.index[0]}: "
        f"{without['note'].iloc[0]}."
    ]


def _unstable(edges: pandas.DataFrame, ratio: pandas.Series) -> list[str]:
    """A caution if the bootstrap contradicts standard errors: columns that others nearly determine, or rare values."""
    far = ratio[ratio > _LARGEST_RATIO].sort_values(ascending=False)
    if far.empty:
        return []
    worst = edges.loc[far.index[0]]
    ends = edges.loc[far.index, ["from", "to"]].to_numpy().ravel()
    names, counts = np.unique(ends, return_counts=True)
    often = ", ".join(names[np.argsort(-counts, kind="stable")][:3].tolist())
    return [
        f"Caution: for {len(far)} of {len(ratio)} pairs the bootstrap's error is more than {_LARGEST_RATIO:g} times the "
        f"standard error (up to {far.iloc[0]:.0f} times, {worst['from']} - {worst['to']}; most often with {often}). In "
        "some bootstrap samples the other columns nearly determine such a column. Do not rely on these debiased intervals; "
        "use weight_lower and weight_upper, or leave such columns out."
    ]


def analyse(
    data: object,
    *,
    gamma: float = 0.25,
    rule: str = "and",
    level: float = 0.95,
    resamples: int = 0,
    random_state: int = 0,
    progress: Progress | None = None,
    checkpoint: Kept = None,
) -> Analysis:
    """Estimate a network with intervals, centralities and predictabilities.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        The answers.
    gamma, rule
        As in `nodewise_network`.
    level : float, default: 0.95
        Coverage of the intervals.
    resamples : int, default: 0
        Number of bootstrap samples. 0: no bootstrap.
    random_state : int, default: 0
        Seed of the bootstrap.
    progress : callable or None, default: None
        Called with the steps done and all steps: regressions, or bootstrap samples.
    checkpoint : str, Path, Checkpoint or None, default: None
        As in `bootstrap`.

    Returns
    -------
    Analysis

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    >>> print(networks.analyse(x).summary())
    2 variables, 100 rows. Logistic regressions, EBIC with gamma = 0.25, AND rule.
    1 of 1 pairs have an edge (0 negative); global strength 2.73.
    Strongest edges: x0 - x1 (2.73).
    Largest strength: x0 (2.73), x1 (2.73).
    Pairs whose coupling differs from 0 at a false discovery rate of 5%, with or without an edge: 1 (debiased estimates).
    Predictability (normalised accuracy): mean 0.60, largest x0 (0.60).
    """
    resamples = whole_number(resamples, "resamples", 0)
    answers = read_responses(data)
    network = nodewise_network(answers, gamma=gamma, rule=rule, progress=progress if not resamples else None)
    edges = edge_intervals(answers, network, level=level)
    nodes = centrality(network).join(centrality_intervals(answers, network, level=level))
    if resamples:
        drawn = bootstrap(
            answers, resamples=resamples, gamma=gamma, rule=rule, random_state=random_state, progress=progress,
            checkpoint=checkpoint,
        )  # fmt: skip
        columns = {"lower": "weight_lower", "upper": "weight_upper"}
        more = drawn.edges(level).drop(columns=["weight", "se"]).rename(columns=columns)
        edges = edges.merge(more, on=["from", "to"])
        # Percentiles of the penalised network; strength and expected influence have confidence intervals already.
        percentiles = drawn.centrality(level).filter(regex="^(betweenness|closeness)_")
        nodes = nodes.join(percentiles.rename(columns=lambda name: name.replace("_", "_bootstrap_")))
    rows = answers.codes[answers.whole]
    nodes.insert(0, "mean", rows.mean(axis=0))
    nodes.insert(1, "threshold", network.thresholds)
    nodes = nodes.join(predictability(answers, network))
    nodes.index.name = "name"
    return Analysis(answers, network, edges, nodes)
