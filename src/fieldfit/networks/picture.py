"""The picture of one or several networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fieldfit.networks.centrality import predictability
from fieldfit.networks.network import Network
from fieldfit.report.network import draw_networks
from fieldfit.types import ModelError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(
    networks: Network | Mapping[str, Network],
    *,
    data: object = None,
    clusters: Mapping[str, str] | Sequence[str] | None = None,
    seed: int = 0,
) -> Figure:
    """Draw a network, or several ones of the same variables side by side at the same positions.

    Parameters
    ----------
    networks : Network or mapping from titles to Network
        What to draw.
    data : answers, or a mapping from titles to answers, or None, default: None
        If given, a ring around each circle shows how well the other variables predict this one.
    clusters : mapping from names to clusters, sequence or None, default: None
        Clusters of variables, shown in colours.
    seed : int, default: 0
        Seed of the layout. The same network and seed give the same picture.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import networks
    >>> w = np.array([[0, 1.5, 0], [1.5, 0, -0.5], [0, -0.5, 0]])
    >>> network = networks.Network(("sad", "tired", "calm"), w, np.zeros(3), 100, "by hand")
    >>> networks.draw(network, clusters={"sad": "mood", "calm": "mood", "tired": "body"}).get_size_inches()
    array([5.6 , 6.35])
    """
    shown = {"": networks} if isinstance(networks, Network) else networks
    if not isinstance(shown, Mapping) or not shown or not all(isinstance(each, Network) for each in shown.values()):
        raise ModelError(f"draw needs a Network, or a mapping from titles to Networks; got {networks!r:.80}.")
    names = next(iter(shown.values())).names
    if any(network.names != names for network in shown.values()):
        raise ModelError("The networks have different variables; draw them one by one.")
    rings = None
    if data is not None:
        given = dict(data) if isinstance(data, Mapping) else dict.fromkeys(shown, data)
        lacking = [title for title in shown if title not in given]
        if lacking:
            raise ModelError(
                f"data has no answers for the network {lacking[0]!r:.80}; give answers for each, or None."
            )
        rings = [predictability(given[title], network)["normalised"].to_numpy() for title, network in shown.items()]
    chosen: Sequence[str] | None
    if isinstance(clusters, Mapping):
        missing = [name for name in names if name not in clusters]
        if missing:
            raise ModelError(f"The variable {missing[0]!r:.80} has no cluster; give one for each variable.")
        chosen = [clusters[name] for name in names]
    else:
        chosen = clusters
    return draw_networks(
        names,
        [network.couplings for network in shown.values()],
        titles=list(shown),
        clusters=chosen,
        predictabilities=rings,
        seed=seed,
    )
