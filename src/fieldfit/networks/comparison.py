"""Permutation tests of two groups' networks: of the whole networks and of single edges.

van Borkulo et al., "Comparing network structures on three aspects: a permutation test", Psychological Methods (2022). Under
the hypothesis that both groups are samples of one distribution their labels are exchangeable, so the networks of randomly
labelled groups of the same sizes show how much networks differ by chance. p values count the observed labels as
one of the permutations, (1 + #{permuted ≥ observed}) / (1 + permutations). This makes the tests exact, because the networks
of the observed groups are estimated by the same function as those of permuted groups, with the same tolerance and the
same stopping rule of paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.finished_parts import Kept, kept_parts
from fieldfit.arguments import function_or_none, seed, sequence_of
from fieldfit.networks.intervals import false_discovery_rates
from fieldfit.networks.network import Network
from fieldfit.networks.nodewise import checked_gamma, checked_rule, chosen_regressions, resampled_networks
from fieldfit.networks.resampling import Progress, batches, permuted_groups
from fieldfit.networks.responses import Responses, checked_for_regressions, read_responses
from fieldfit.types import DataError, FloatArray

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two networks and permutation tests of their differences.

    Parameters
    ----------
    groups : tuple of two str
        The groups.
    networks : tuple of two Network
        Their networks, estimated as those of permuted groups: weights agree with those of `nodewise_network` to about 1e-4,
        less closely where the other columns nearly determine a column.
    differences : ndarray of shape (permutations, m, m)
        Differences (first − second) of the couplings of permuted groups.
    strengths : ndarray of shape (permutations,)
        Differences of the global strengths of permuted groups.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from fieldfit import networks
    >>> x = pd.DataFrame(np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0), columns=["a", "b"])
    >>> y = pd.DataFrame(np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], 25, axis=0), columns=["a", "b"])
    >>> both = pd.concat([x.assign(school="north"), y.assign(school="south")])
    >>> comparison = networks.compare_groups(both, by="school", permutations=19)
    >>> comparison.groups, comparison.structure_p
    (('north', 'south'), 0.05)
    >>> comparison
    <Comparison: north and south, 2 variables, 19 permutations>
    """

    groups: tuple[str, str]
    networks: tuple[Network, Network]
    differences: FloatArray
    strengths: FloatArray

    def __repr__(self) -> str:
        first, second = self.groups
        return f"<Comparison: {first} and {second}, {self.networks[0].m} variables, {len(self.strengths):,} permutations>"

    @property
    def difference(self) -> FloatArray:
        """The observed difference of the couplings (m, m), first − second."""
        return self.networks[0].couplings - self.networks[1].couplings

    @property
    def structure_p(self) -> float:
        """p-value of equal networks, by the largest difference of a coupling."""
        return _p(np.abs(self.difference).max(), np.abs(self.differences).max(axis=(1, 2), initial=0.0))

    @property
    def strength_p(self) -> float:
        """p-value of equal global strengths."""
        observed = self.networks[0].global_strength - self.networks[1].global_strength
        return _p(abs(observed), np.abs(self.strengths))

    def tests(self) -> pandas.DataFrame:
        """Return the two tests of the whole network.

        Returns
        -------
        DataFrame
            Rows ``global strength`` (the statistic is the difference of Σ|w|, first − second) and ``structure`` (the
            largest abs(difference) of a coupling), columns ``statistic`` and ``p``.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from fieldfit import networks
        >>> x = pd.DataFrame(np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0), columns=["a", "b"])
        >>> y = pd.DataFrame(np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], 25, axis=0), columns=["a", "b"])
        >>> both = pd.concat([x.assign(school="north"), y.assign(school="south")])
        >>> comparison = networks.compare_groups(both, by="school", permutations=19)
        >>> comparison.tests()["p"]
        global strength    0.05
        structure          0.05
        Name: p, dtype: float64
        """
        import pandas

        strength = self.networks[0].global_strength - self.networks[1].global_strength
        return pandas.DataFrame(
            {
                "statistic": [strength, float(np.abs(self.difference).max())],
                "p": [self.strength_p, self.structure_p],
            },
            index=["global strength", "structure"],
        )

    def edges(self) -> pandas.DataFrame:
        """Return the test of each pair that has an edge in one of the groups, the smallest p first.

        Returns
        -------
        DataFrame
            Columns ``from``, ``to``, the weight in each group, ``difference``, ``p``, and ``q`` after Benjamini and
            Hochberg over all pairs: pairs without an edge count too, with p = 1.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from fieldfit import networks
        >>> x = pd.DataFrame(np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0), columns=["a", "b"])
        >>> y = pd.DataFrame(np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], 25, axis=0), columns=["a", "b"])
        >>> both = pd.concat([x.assign(school="north"), y.assign(school="south")])
        >>> comparison = networks.compare_groups(both, by="school", permutations=19)
        >>> comparison.edges()[["from", "to", "p"]]
          from to     p
        0    a  b  0.05
        """
        import pandas

        first, second = np.triu_indices(len(self.networks[0].names), 1)
        observed = self.difference[first, second]
        more = (np.abs(self.differences[:, first, second]) >= np.abs(observed) - 1e-9).sum(axis=0)
        p = (1.0 + more) / (1.0 + len(self.differences))
        q = false_discovery_rates(p)
        names = np.array(self.networks[0].names)
        table = pandas.DataFrame(
            {
                "from": names[first],
                "to": names[second],
                f"weight_{self.groups[0]}": self.networks[0].couplings[first, second],
                f"weight_{self.groups[1]}": self.networks[1].couplings[first, second],
                "difference": observed,
                "p": p,
                "q": q,
            }
        )
        joined = (self.networks[0].couplings != 0) | (self.networks[1].couplings != 0)
        edges: pandas.DataFrame = table.loc[joined[first, second]]
        return edges.sort_values(["p", "from", "to"], ignore_index=True)


def compare_groups(
    data: object,
    *,
    by: str | None = None,
    groups: tuple[str, str] | None = None,
    permutations: int = 1000,
    gamma: float = 0.25,
    rule: str = "and",
    random_state: int = 0,
    progress: Progress | None = None,
    checkpoint: Kept = None,
) -> Comparison:
    """Compare the networks of two groups by permutation tests.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        The answers; rows with missing values are left out.
    by : str or None, default: None
        The column with the groups; None if ``data`` are `Responses` with groups.
    groups : tuple of two str or None, default: None
        Which groups to compare. None: the two groups in the data.
    permutations : int, default: 1000
        Number of permutations. The smallest p is 1 / (permutations + 1).
    gamma, rule
        As in `nodewise_network`.
    random_state : int, default: 0
        Seed. The same seed gives the same result.
    progress : callable or None, default: None
        Called with the number of permutations done and of all.
    checkpoint : str, Path, Checkpoint or None, default: None
        A file that keeps the finished permutations. With `Checkpoint`'s ``resume`` only the others are computed.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from fieldfit import networks
    >>> random = np.random.default_rng(0)
    >>> x = (random.random((300, 3)) < 0.5).astype(int)
    >>> x[:150, 1] = np.where(random.random(150) < 0.8, x[:150, 0], x[:150, 1])  # an edge in the first group only
    >>> frame = pd.DataFrame(x, columns=["sad", "tired", "calm"]).assign(group=["a"] * 150 + ["b"] * 150)
    >>> compared = networks.compare_groups(frame, by="group", permutations=99)
    >>> compared.tests().round(2)
                     statistic     p
    global strength       4.03  0.01
    structure             4.03  0.01
    """
    combine = checked_rule(rule)
    gamma = checked_gamma(gamma)
    function_or_none(progress, "progress")
    answers = read_responses(data, by=by)
    both = _two_groups(answers, groups)
    for part in both.values():
        checked_for_regressions(part)
    assert answers.groups is not None
    together = answers.subset(np.isin(answers.groups, list(both)) & answers.whole)
    observed = _weights(together, list(both))
    first, second = resampled_networks(together.names, together.distinct[0], observed, gamma=gamma, rule=rule)
    draw = permuted_groups(together.counts, int(first.n), np.random.default_rng(seed(random_state)))

    def compared(weights: FloatArray) -> dict[str, FloatArray]:
        couplings = combine(chosen_regressions(together.distinct[0], weights, gamma)[0])
        strength = np.abs(couplings).sum(axis=(1, 2)) / 2.0
        return {"differences": couplings[0::2] - couplings[1::2], "strengths": strength[0::2] - strength[1::2]}

    differences, strengths = [], []
    what = {"kind": "comparison of networks", "gamma": gamma, "rule": rule, "random_state": random_state}
    with kept_parts(
        checkpoint, together.distinct[0], observed, **what, number_of_permutations=permutations
    ) as finished:
        for weights in batches(draw, permutations, answers.m, progress, of_two=True):
            b, m = len(weights) // 2, answers.m
            made = finished({"differences": (b, m, m), "strengths": (b,)}, partial(compared, weights))
            differences.append(made["differences"])
            strengths.append(made["strengths"])
    names = list(both)
    return Comparison((names[0], names[1]), (first, second), np.concatenate(differences), np.concatenate(strengths))


def _two_groups(answers: Responses, groups: tuple[str, str] | None) -> dict[str, Responses]:
    parts = answers.by_group()
    shown = ", ".join(map(repr, parts))
    if groups is None and len(parts) != 2:
        raise DataError(f"There are {len(parts)} groups ({shown}); name the two to compare in groups=(…, …).")
    chosen = list(parts) if groups is None else list(map(str, sequence_of(groups, "groups", "two groups")))
    for label in chosen:
        if label not in parts:
            raise DataError(f"There is no group {label!r:.80}; the groups are {shown}.")
    if len(set(chosen)) != 2:
        raise DataError(f"The groups to compare are {chosen}; give two different ones.")
    return {label: parts[label] for label in chosen}


def _weights(together: Responses, labels: list[str]) -> FloatArray:
    """Count of each distinct row in each group (groups, rows)."""
    rows, which = together.distinct
    counts = [np.bincount(which[together.groups == label], minlength=len(rows)) for label in labels]
    return np.array(counts, dtype=np.float64)


def _p(observed: float, permuted: FloatArray) -> float:
    return float((1 + (permuted >= observed - 1e-9).sum()) / (1 + len(permuted)))
