"""Stability selection: edges that are selected in most halves of the samples.

Meinshausen and Bühlmann, "Stability selection" (2010), with complementary pairs of halves (Shah and Samworth, 2013). If
at most q edges are selected on average from P pairs, an edge that is selected in a share of at least π > 1/2 of the
halves for one of the λ used is stable, and the expected number of false ones is at most q² / ((2π − 1) P).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.finished_parts import Kept, kept_parts
from fieldfit.arguments import finite_number, function_or_none, positive_number, seed
from fieldfit.networks.logistic_paths import logistic_paths
from fieldfit.networks.nodewise import checked_rule, split
from fieldfit.networks.resampling import Progress, batches, halves
from fieldfit.networks.responses import checked_for_regressions, read_responses
from fieldfit.types import FloatArray, ModelError
from fieldfit.words import counted

if TYPE_CHECKING:
    import pandas

#: Number of λ, from the smallest that selects nothing in all samples down to this share of it.
_LENGTH, _RATIO = 40, 0.02


@dataclass(frozen=True, eq=False, repr=False)
class StabilitySelection:
    """Shares of halves of the samples in which each edge is selected.

    Parameters
    ----------
    names : tuple of str
        The variables.
    lambdas : ndarray of shape (L,)
        The λ, in decreasing order.
    shares : ndarray of shape (L, m, m)
        How often an edge is selected at this λ or a larger one.
    used : int
        Number of λ used, as many as the bound on false edges allows.
    threshold : float
        π.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    >>> selection = networks.stability_selection(x, pairs=10)
    >>> selection.probabilities.shape
    (2, 2)
    """

    names: tuple[str, ...]
    lambdas: FloatArray
    shares: FloatArray
    used: int
    threshold: float

    def __repr__(self) -> str:
        stable = int((np.triu(self.probabilities, 1) >= self.threshold).sum())
        return f"<StabilitySelection: {len(self.names)} variables, {counted(stable, 'stable edges')}>"

    @property
    def probabilities(self) -> FloatArray:
        """The share of halves that select each edge (m, m)."""
        return self.shares[self.used - 1] if self.used else np.zeros_like(self.shares[0])

    def edges(self) -> pandas.DataFrame:
        """Return ``from``, ``to``, ``probability`` and ``stable`` of all pairs, the most probable first.

        Returns
        -------
        DataFrame

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import networks
        >>> x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
        >>> selection = networks.stability_selection(x, pairs=10)
        >>> selection.edges()
          from  to  probability  stable
        0   x0  x1         0.45   False
        """
        import pandas

        first, second = np.triu_indices(len(self.names), 1)
        probability = self.probabilities[first, second]
        order = np.argsort(-probability, kind="stable")
        names = np.array(self.names)
        return pandas.DataFrame(
            {
                "from": names[first[order]],
                "to": names[second[order]],
                "probability": probability[order],
                "stable": probability[order] >= self.threshold,
            }
        )


def stability_selection(
    data: object,
    *,
    false_edges: float = 1.0,
    threshold: float = 0.75,
    pairs: int = 50,
    rule: str = "and",
    random_state: int = 0,
    progress: Progress | None = None,
    checkpoint: Kept = None,
) -> StabilitySelection:
    """Find edges that are selected in most halves of the samples.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        The answers; rows with missing values are left out.
    false_edges : float, default: 1.0
        Bound on the expected number of false edges. It determines which λ are used.
    threshold : float, default: 0.75
        Least share of halves in which a stable edge is selected.
    pairs : int, default: 50
        Number of pairs of complementary halves.
    rule : {"and", "or"}, default: "and"
        As in `nodewise_network`.
    random_state : int, default: 0
        Seed. The same seed gives the same result.
    progress : callable or None, default: None
        Called with the number of pairs of halves done and of all.
    checkpoint : str, Path, Checkpoint or None, default: None
        A file that keeps the finished pairs. With `Checkpoint`'s ``resume`` only the others are computed.

    Returns
    -------
    StabilitySelection

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> random = np.random.default_rng(0)
    >>> mood = random.random(200) < 0.5
    >>> answers = np.where(random.random((200, 5)) < 0.5, mood[:, None], random.random((200, 5)) < 0.5)
    >>> x = np.column_stack([mood, answers[:, 0], random.random((200, 4)) < 0.5])
    >>> networks.stability_selection(x, pairs=20).edges().head(2)
      from  to  probability  stable
    0   x0  x1        1.000    True
    1   x2  x4        0.525   False
    """
    combine = checked_rule(rule)
    function_or_none(progress, "progress")
    threshold = finite_number(threshold, "The threshold", ModelError)
    if not 0.5 < threshold <= 1:
        raise ModelError(f"The threshold is {threshold}; it must be above 0.5 and at most 1.")
    false_edges = positive_number(false_edges, "false_edges")
    answers = checked_for_regressions(read_responses(data))
    rows, counts, m = answers.distinct[0], answers.counts, answers.m
    largest = float(logistic_paths(rows, counts[None].astype(np.float64), length=1).lambdas.max())
    lambdas = largest * np.geomspace(1.0, _RATIO, _LENGTH)
    selected = np.zeros((_LENGTH, m, m))
    draw = halves(counts, np.random.default_rng(seed(random_state)))

    def counted_edges(weights: FloatArray) -> dict[str, FloatArray]:
        coefficients = logistic_paths(rows, weights, lambdas=lambdas).coefficients.transpose(0, 2, 1, 3)
        edges = combine(split(coefficients)[0]) != 0
        return {"selected": np.maximum.accumulate(edges, axis=1).sum(axis=0)}

    what = {"kind": "stability selection", "rule": rule, "random_state": random_state, "number_of_pairs": pairs}
    with kept_parts(checkpoint, rows, counts, **what) as part:
        for weights in batches(draw, pairs, m, progress, of_two=True):
            selected += part({"selected": selected.shape}, partial(counted_edges, weights))["selected"]
    shares = selected / (2 * pairs)
    total = m * (m - 1) / 2
    most = math.sqrt(false_edges * (2 * threshold - 1) * total)
    used = int((np.triu(shares, 1).sum(axis=(1, 2)) <= most).sum())
    return StabilitySelection(answers.names, lambdas, shares, used, threshold)
