"""Networks of binary variables: symptoms, items of a survey, votes, neurons.

from fieldfit import networks

network = networks.nodewise_network(frame)        # L1 paths with EBIC, as IsingFit
network.edges()                                   # signed weights, the strongest first
"""

from fieldfit.networks.network import Network
from fieldfit.networks.nodewise import nodewise_network
from fieldfit.networks.responses import Responses, read_responses

__all__ = ["Network", "Responses", "nodewise_network", "read_responses"]
