"""Compare means, correlations and triplets of a network and the data, and check that the network does not drift away.

A pairwise model fitted by conditional likelihoods may have a second mode far from the data. Gibbs chains that start
from the data then move to that mode, or chains that start from random states find it. Without a second mode, weights that
a penalty shrank or selected may have other means than the data: chains from both starts then agree with each other, but
not with the data. Simulate from neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.advice import current_advice
from fieldfit.api.moments import central_moments, triplets_of
from fieldfit.api.result import Fit
from fieldfit.api.runaway import DRIFT, allowed_difference, drift_of
from fieldfit.arguments import instance_of, seed, seed_after, whole_number
from fieldfit.callers import warn_caller
from fieldfit.data.samples import Table
from fieldfit.inference.gibbs import gibbs_sample
from fieldfit.models.boltzmann import BoltzmannMachine
from fieldfit.networks.network import Network
from fieldfit.networks.responses import answers_to
from fieldfit.report.moments import draw_moments
from fieldfit.types import DataError, FloatArray, IntArray, ModelError, RunawayWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fieldfit.models.field import FieldModel

_CHAINS = 64
#: Fewest and most draws if the number of rows determines them.
_DRAWS = (10_000, 100_000)
#: Most draws of chains that start from random states.
_ELSEWHERE = 2000
_REFIT = (
    'networks.refit(data, network, policy="FL") fits its edges by full likelihood, whose means are those of the data; '
    "where that is not possible, try refit(…, sigma2=1.0)."
)


@dataclass(frozen=True, eq=False)
class NetworkMoments:
    """Moments of the data and of draws from the network, in the same order.

    Parameters
    ----------
    means : ndarray of shape (2, m)
        Means of the variables: data, network.
    correlations : ndarray of shape (2, pairs)
        Correlations of pairs; NaN if a variable is constant in the draws.
    triplets : ndarray of shape (2, t)
        Central third moments E (x_j − μ_j)(x_k − μ_k)(x_l − μ_l) of all triplets, or of 3,000 drawn ones.
    places : ndarray of shape (t, 3)
        The triplets.
    draws : int
        Number of draws from the network.
    rows : int
        Number of complete rows of the data.
    elsewhere : ndarray of shape (m,)
        Means of the network in chains that start from random states, not from the data.
    escape : str
        How the check after a fit sees the network run away from the data; empty if it does not.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = (np.random.default_rng(0).random((300, 3)) < 0.5).astype(int)
    >>> moments = networks.compare_moments(x, networks.nodewise_network(x), draws=2000)
    >>> moments.means.shape, moments.drift < 0.1
    ((2, 3), True)
    >>> print(str(moments)[:78])
    <NetworkMoments: 300 complete rows, 2,000 draws; means differ by at most 0.005
    """

    means: FloatArray
    correlations: FloatArray
    triplets: FloatArray
    places: IntArray
    draws: int
    rows: int
    elsewhere: FloatArray
    escape: str

    def __repr__(self) -> str:
        away = ""
        if self.runs_away:
            away = (
                "; the network runs away from the data"
                if self.second_mode or self.escape
                else "; its means are not those of the data"
            )
        far = np.abs(np.stack([self.means[1], self.elsewhere]) - self.means[0]).max(axis=1)
        return (
            f"<NetworkMoments: {self.rows:,} complete rows, {self.draws:,} draws; means differ by at most {far[0]:.3f}, in "
            f"chains from random states by {far[1]:.3f} (at most {self.drift_in_errors:.1f} standard errors){away}>"
        )

    @property
    def drift(self) -> float:
        """The largest difference of a mean of the network, from either start, from that of the data."""
        return float(np.abs(np.stack([self.means[1], self.elsewhere]) - self.means[0]).max())

    @property
    def drift_in_errors(self) -> float:
        """The largest difference of a mean in standard errors: those of the data and of the draws, taken as independent."""
        p = self.means[0]
        varies = p * (1 - p) > 0
        drawn = np.array([[self.draws], [min(self.draws, _ELSEWHERE)]])
        errors = np.sqrt(p * (1 - p) * (1 / self.rows + 1 / drawn))[:, varies]
        far = np.abs(np.stack([self.means[1], self.elsewhere]) - p)[:, varies]
        return float((far / errors).max(initial=0.0))

    @property
    def runs_away(self) -> bool:
        """Whether a mean, from either start, is far from that of the data, or chains escape to a second mode.

        Far is more than 0.1, more than three standard errors of the data's mean, and by more than three of the draws. The
        check after a `fieldfit.fit` is made as well (`escape`): with it a small share of the chains that goes beyond all
        rows of the data is seen.
        """
        if self.escape:
            return True
        p = self.means[0]
        noise = np.sqrt(p * (1.0 - p)) / np.sqrt([[self.draws], [min(self.draws, _ELSEWHERE)]])
        return bool(
            (np.abs(np.stack([self.means[1], self.elsewhere]) - p) > allowed_difference(p, self.rows, noise)).any()
        )

    @property
    def second_mode(self) -> bool:
        """Whether chains from the data and from random states have means that differ by more than 0.1."""
        return bool((np.abs(self.means[1] - self.elsewhere) > DRIFT).any())

    def draw(self) -> Figure:
        """Return a picture with three panels: means, correlations and triplets of the network against those of the data.

        Returns
        -------
        Figure

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import networks
        >>> x = (np.random.default_rng(0).random((300, 3)) < 0.5).astype(int)
        >>> moments = networks.compare_moments(x, networks.nodewise_network(x), draws=2000)
        >>> len(moments.draw().axes)
        3
        """
        return draw_moments(self.means, self.correlations, self.triplets, self.rows, self.draws, self.runs_away)


def compare_moments(
    data: object, network: Network | Fit, *, draws: int | None = None, random_state: int = 0
) -> NetworkMoments:
    """Compare means, correlations and triplets of the data with those of draws from the network.

    Parameters
    ----------
    data : DataFrame, array_like, str, Path or Responses
        The answers; rows with missing values do not count.
    network : Network or Fit
        The network, or a fit of any field with two states for each variable. Draws are by Gibbs sampling, in chains that
        start from rows of the data.
    draws : int or None, default: None
        Number of draws. None: as many as there are complete rows, but at least 10,000 and at most 100,000, so that
        sampling noise does not look like misfit.
    random_state : int, default: 0
        Seed.

    Returns
    -------
    NetworkMoments

    Warns
    -----
    RunawayWarning
        If the network's means are far from those of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> x = (np.random.default_rng(0).random((300, 3)) < 0.5).astype(int)
    >>> x[:150, 1] = x[:150, 0]
    >>> moments = networks.compare_moments(x, networks.nodewise_network(x), draws=2000)
    >>> moments.runs_away, moments.triplets.shape
    (False, (2, 1))
    """
    random_state = seed(random_state)
    if draws is not None:
        draws = whole_number(draws, "draws", 1, 10**9)
    names, model, theta = _field_of(network)
    answers = answers_to(data, names)
    rows = answers.codes[answers.whole]
    if not len(rows):
        raise DataError("Every row has missing values; moments need complete rows.")
    if draws is None:
        draws = min(max(len(rows), _DRAWS[0]), _DRAWS[1])
    random = np.random.default_rng(random_state)
    chains = min(_CHAINS, draws)
    start = np.ascontiguousarray(rows[random.integers(len(rows), size=chains)], dtype=np.int32)
    tables = model.log_tables(theta)
    drawn = gibbs_sample(model.graph, tables, draws, random_state, start=start)
    # With a second mode, chains that start from the data may stay near them. Chains from random states find the other
    # mode.
    other = seed_after(random_state, 1)
    elsewhere = gibbs_sample(model.graph, tables, min(draws, _ELSEWHERE), other, chains=_CHAINS).mean(axis=0)
    places = triplets_of(len(names), random)
    pairs = np.stack(np.triu_indices(len(names), 1), axis=1)
    sides = [central_moments(sample.astype(np.float64), pairs, places) for sample in (rows, drawn)]
    means, correlations, triplets = (np.stack(both) for both in zip(*sides, strict=True))
    table = Table(np.ascontiguousarray(rows, dtype=np.int32), model.names, model.states)
    escape = drift_of(model, table, theta, float(len(rows)), random_state)
    moments = NetworkMoments(means, correlations, triplets, places, draws, len(rows), elsewhere, escape)
    if moments.runs_away:
        warn_caller(_far_words(moments, names, network), RunawayWarning)
    return moments


def _far_words(moments: NetworkMoments, names: tuple[str, ...], network: Network | Fit) -> str:
    """The mean that is furthest from that of the data, why, and a remedy."""
    data, far = moments.means[0], np.stack([moments.means[1], moments.elsewhere])
    side, worst = np.unravel_index(int(np.abs(far - data).argmax()), far.shape)
    mean = f"the mean of {names[int(worst)]!r} is {data[worst]:.3f} in the data and {far[side, worst]:.3f} in"
    remedy = _REFIT if isinstance(network, Network) else current_advice().runaway
    if moments.escape and not moments.second_mode and np.abs(far - data).max() <= DRIFT:
        return f"The network runs away from the data: {moments.escape}. Do not simulate from it. {remedy}"
    if moments.second_mode:
        where = ("the data", "random states")[int(side)]
        return (
            f"The network runs away from the data: {mean} chains that start from {where}. It depends on the start, so the "
            f"network has more than one mode. Do not simulate from it. {remedy}"
        )
    why = (
        "a penalty that shrinks or selects weights" if isinstance(network, Network) else "an estimator other than FL"
    )
    return (
        f"The network does not have the means of the data: {mean} the network. Chains from the data and from random states "
        f"agree, so this is not a second mode that some chains find. The weights have these means, as they may with {why}. "
        f"Do not simulate from it. {remedy}"
    )


def _field_of(network: Network | Fit) -> tuple[tuple[str, ...], FieldModel, FloatArray]:
    """The names of the variables, the field and its θ."""
    if isinstance(network, Network):
        pairs = np.array(network.pairs).reshape(-1, 2)
        theta = np.concatenate([[network.couplings[pair] for pair in network.pairs], network.thresholds])
        return network.names, BoltzmannMachine(network.m, pairs, biases=True, names=network.names), theta
    instance_of(network, Fit, "compare_moments needs a Network or a Fit")
    model = network.model.as_field("A comparison of moments with a table of binary columns")
    if model.observed or any(len(states) != 2 for states in model.states):
        raise ModelError("Each variable of the fit must have two states, and none may be a condition of the others.")
    return model.names, model, network.theta
