"""Sweeps: an experiment over a grid, in a store that survives interruption. See docs/sweeps.md."""

from fieldfit.sweep.experiment import Experiment, experiment
from fieldfit.sweep.grid import Sweep, read_sweep, seed_of
from fieldfit.sweep.results import SweepResults, open_sweep
from fieldfit.sweep.runner import Summary, run_sweep, versions

__all__ = [
    "Experiment",
    "Summary",
    "Sweep",
    "SweepResults",
    "experiment",
    "open_sweep",
    "read_sweep",
    "run_sweep",
    "seed_of",
    "versions",
]
