"""Automatic weights β: Algorithm 1 of the paper, with the right second moments of the selection (Section 6)."""

from fieldfit.weights.algorithm import automatic_weights
from fieldfit.weights.groups import DrawnPolicy
from fieldfit.weights.options import AutoWeights, as_options
from fieldfit.weights.result import Round, WeightsResult, Work
from fieldfit.weights.statistics import Part

__all__ = ["AutoWeights", "DrawnPolicy", "Part", "Round", "WeightsResult", "Work", "as_options", "automatic_weights"]
