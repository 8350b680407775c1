"""Exact sums over discrete variables: factor graphs, elimination orders, programs and what they compute."""

from fieldfit.inference.exact import ExactInference
from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.inference.programs import Configurations, Program, ProgramCompiler, ProgramSet, check_tables

__all__ = [
    "Configurations",
    "ExactInference",
    "FactorGraph",
    "Program",
    "ProgramCompiler",
    "ProgramSet",
    "check_tables",
]
