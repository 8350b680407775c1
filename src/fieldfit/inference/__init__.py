"""Exact sums over discrete variables: factor graphs, elimination orders, programs and what they compute."""

from fieldfit.inference.exact import ExactInference
from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.inference.programs import Configurations, PreparedTables, ProgramSet, compile_program

__all__ = ["Configurations", "ExactInference", "FactorGraph", "PreparedTables", "ProgramSet", "compile_program"]
