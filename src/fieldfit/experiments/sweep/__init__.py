"""Sweeps: an experiment over a grid, in a store that loses nothing. See docs/sweeps.md."""

from fieldfit.experiments.sweep.experiment import Experiment, experiment
from fieldfit.experiments.sweep.grid import Sweep, read_sweep, seed_of
from fieldfit.experiments.sweep.results import SweepResults, open_sweep
from fieldfit.experiments.sweep.runner import Summary, run_sweep

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
]
