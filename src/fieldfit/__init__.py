"""fieldfit: Markov and conditional random fields by stochastic composite likelihood.

Names are loaded when they are first used, so that `import fieldfit` (and the command line's help) stays fast. Nothing is
imported here for the command line: until it handles Ctrl-C, it ends in a traceback.
"""

import sys

if (
    "threading" in sys.modules
):  # there may be other threads: no fork comes in the middle of their first use of fieldfit
    from fieldfit import forks as forks

TYPE_CHECKING = False  # as type checkers read it; importing typing takes longer than all of this file

__version__ = "0.1.0"

_HOMES = {
    "AutoWeights": "fieldfit.weights",
    "BoltzmannChain": "fieldfit.models.boltzmann_chain",
    "BoltzmannMachine": "fieldfit.models.boltzmann",
    "CRFTagger": "fieldfit.estimators.crf_tagger",
    "ChainCRF": "fieldfit.models.chain_crf",
    "Checkpoint": "fieldfit.api.checkpoint",
    "Cliques": "fieldfit.models.tied",
    "EarlyStopping": "fieldfit.optim.early_stopping",
    "Factor": "fieldfit.models.mrf",
    "FamilyMixtures": "fieldfit.api.mixtures",
    "Fit": "fieldfit.api.result",
    "GraphCRF": "fieldfit.estimators.graph_crf",
    "MarkovRandomField": "fieldfit.models.mrf",
    "PairwiseField": "fieldfit.estimators.pairwise_field",
    "Policy": "fieldfit.policies",
    "Potts": "fieldfit.models.potts",
    "TiedField": "fieldfit.models.tied",
    "best_weights": "fieldfit.api.best_weights",
    "compare": "fieldfit.api.comparison",
    "component_flops": "fieldfit.api.mixtures",
    "condition_count": "fieldfit.api.mixtures",
    "cross_validate": "fieldfit.api.validation",
    "family_mixtures": "fieldfit.api.mixtures",
    "find_data": "fieldfit.data.locate",
    "fit": "fieldfit.api.fitting",
    "likelihood_ratio": "fieldfit.api.comparison",
    "load": "fieldfit.api.files",
    "load_tagger": "fieldfit.estimators.fitted_tagger",
    "plan": "fieldfit.api.plan",
    "project": "fieldfit.api.projection",
    "refine": "fieldfit.api.refine",
    "set_threads": "fieldfit.threads",
    "show_progress": "fieldfit.steps",
    "theory": "fieldfit.api.theory",
    "update_weights": "fieldfit.api.best_weights",
    "use_threads": "fieldfit.threads",
}

#: Packages for one kind of user each: ff.networks, ff.proteins.
_PACKAGES = ("networks", "proteins")

__all__ = ["__version__", *_HOMES]


if TYPE_CHECKING:
    from typing import Any

    from fieldfit import networks as networks
    from fieldfit import proteins as proteins
    from fieldfit.api.best_weights import best_weights as best_weights
    from fieldfit.api.best_weights import update_weights as update_weights
    from fieldfit.api.checkpoint import Checkpoint as Checkpoint
    from fieldfit.api.comparison import compare as compare
    from fieldfit.api.comparison import likelihood_ratio as likelihood_ratio
    from fieldfit.api.files import load as load
    from fieldfit.api.fitting import fit as fit
    from fieldfit.api.mixtures import FamilyMixtures as FamilyMixtures
    from fieldfit.api.mixtures import component_flops as component_flops
    from fieldfit.api.mixtures import condition_count as condition_count
    from fieldfit.api.mixtures import family_mixtures as family_mixtures
    from fieldfit.api.plan import plan as plan
    from fieldfit.api.projection import project as project
    from fieldfit.api.refine import refine as refine
    from fieldfit.api.result import Fit as Fit
    from fieldfit.api.theory import theory as theory
    from fieldfit.api.validation import cross_validate as cross_validate
    from fieldfit.data.locate import find_data as find_data
    from fieldfit.estimators.crf_tagger import CRFTagger as CRFTagger
    from fieldfit.estimators.fitted_tagger import load_tagger as load_tagger
    from fieldfit.estimators.graph_crf import GraphCRF as GraphCRF
    from fieldfit.estimators.pairwise_field import PairwiseField as PairwiseField
    from fieldfit.models.boltzmann import BoltzmannMachine as BoltzmannMachine
    from fieldfit.models.boltzmann_chain import BoltzmannChain as BoltzmannChain
    from fieldfit.models.chain_crf import ChainCRF as ChainCRF
    from fieldfit.models.mrf import Factor as Factor
    from fieldfit.models.mrf import MarkovRandomField as MarkovRandomField
    from fieldfit.models.potts import Potts as Potts
    from fieldfit.models.tied import Cliques as Cliques
    from fieldfit.models.tied import TiedField as TiedField
    from fieldfit.optim.early_stopping import EarlyStopping as EarlyStopping
    from fieldfit.policies import Policy as Policy
    from fieldfit.steps import show_progress as show_progress
    from fieldfit.threads import set_threads as set_threads
    from fieldfit.threads import use_threads as use_threads
    from fieldfit.weights import AutoWeights as AutoWeights


def __getattr__(name: str) -> "Any":
    import importlib

    # NumPy as a whole: a thread that begins with one of its parts leaves others with half of it.
    import numpy  # noqa: F401

    import fieldfit.forks  # noqa: F401, before any import that a fork must wait for

    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        return importlib.import_module(f"fieldfit.{name}")
    raise AttributeError(f"module 'fieldfit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])
