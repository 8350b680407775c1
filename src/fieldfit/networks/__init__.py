"""Networks of binary variables: symptoms, items of a survey, votes, neurons.

from fieldfit import networks

network = networks.nodewise_network(frame)        # L1 paths with EBIC, as IsingFit
network.edges()                                   # signed weights, the strongest first
networks.edge_intervals(frame, network)           # intervals of all couplings that allow for the selection
networks.compare_groups(frame, by="group")        # permutation tests
"""

from fieldfit.networks.analysis import Analysis, analyse
from fieldfit.networks.bootstrap import NetworkBootstrap, bootstrap
from fieldfit.networks.case_dropping import CaseDropping, case_dropping
from fieldfit.networks.centrality import centrality, predictability
from fieldfit.networks.centrality_intervals import centrality_intervals
from fieldfit.networks.comparison import Comparison, compare_groups
from fieldfit.networks.intervals import edge_intervals, false_discovery_rates, refit
from fieldfit.networks.joint import JointPath, joint_network
from fieldfit.networks.moments import NetworkMoments, compare_moments
from fieldfit.networks.network import Network
from fieldfit.networks.nodewise import nodewise_network
from fieldfit.networks.picture import draw
from fieldfit.networks.responses import Responses, read_responses
from fieldfit.networks.screening import log_rise_network, rise_network
from fieldfit.networks.stability import StabilitySelection, stability_selection

__all__ = [
    "Analysis",
    "CaseDropping",
    "Comparison",
    "JointPath",
    "Network",
    "NetworkBootstrap",
    "NetworkMoments",
    "Responses",
    "StabilitySelection",
    "analyse",
    "bootstrap",
    "case_dropping",
    "centrality",
    "centrality_intervals",
    "compare_groups",
    "compare_moments",
    "draw",
    "edge_intervals",
    "false_discovery_rates",
    "joint_network",
    "log_rise_network",
    "nodewise_network",
    "predictability",
    "read_responses",
    "refit",
    "rise_network",
    "stability_selection",
]
