"""Exact inference in a factor graph: log Z, marginals, the best state and independent draws, also with given states.

    log Z(given) = log Σ_{free x} Π_C φ_C(x_C)

Evidence is a vector (m,) of states with −1 for the variables that are free.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldfit.data.memory import refuse_large_draws
from fieldfit.inference.elimination import LARGEST_TABLE
from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.inference.programs import ProgramCompiler, ProgramSet, check_tables
from fieldfit.types import FloatArray, Int32Array, ModelError


class ExactInference:
    """Exact sums over one factor graph. Programs are compiled once for each set of free variables."""

    def __init__(self, graph: FactorGraph, *, name: str = "The sum", largest_table: int = LARGEST_TABLE) -> None:
        self.graph = graph
        self.name = name
        self._compiler = ProgramCompiler(graph, largest_table=largest_table)
        self._compiled: dict[frozenset[int], ProgramSet] = {}
        self._narrow: set[int] = set()

    def programs(self, free: frozenset[int]) -> ProgramSet:
        """The compiled elimination of the ``free`` variables; raises WidthError where it is too wide."""
        if free not in self._compiled:
            self._compiled[free] = ProgramSet(self.graph, [self._compiler.compile(free, name=self.name)])
        return self._compiled[free]

    def check(self, largest_table: int) -> None:
        """Raise WidthError where the sum over all variables needs a table with more entries; nothing is compiled."""
        if largest_table not in self._narrow:
            free = frozenset(range(self.graph.n_variables))
            ProgramCompiler(self.graph, largest_table=largest_table).check(free, name=self.name)
            self._narrow.add(largest_table)

    def is_compiled(self, free: frozenset[int]) -> bool:
        """Whether the elimination of these variables has been compiled."""
        return free in self._compiled

    def _clamp(self, given: Int32Array | None) -> tuple[Int32Array, frozenset[int]]:
        if given is None:
            codes = np.full(self.graph.n_variables, -1, dtype=np.int32)
        else:
            codes = np.ascontiguousarray(given, dtype=np.int32)
            if codes.shape != (self.graph.n_variables,):
                raise ModelError(
                    f"given has shape {codes.shape}; it needs one state for each of the "
                    f"{self.graph.n_variables} variables (−1 where it is free)."
                )
            if np.any(codes >= np.array(self.graph.cardinalities)) or np.any(codes < -1):
                raise ModelError("given has a state that its variable does not have.")
        return codes, frozenset(np.flatnonzero(codes < 0).tolist())

    def _fixed_factors(self, free: frozenset[int]) -> NDArray[np.int64]:
        """The factors without a free variable."""
        touched = np.zeros(self.graph.n_variables + 1, dtype=bool)  # the last place is that of the padding, −1
        touched[list(free)] = True
        return np.flatnonzero(~touched[self.graph.scope_matrix].any(axis=1))

    def _clamped_entries(self, codes: Int32Array, free: frozenset[int]) -> NDArray[np.int64]:
        """Entries of the factors all of whose variables are given."""
        entries = self.graph.entries(codes[None, :], self._fixed_factors(free))
        return entries.reshape(-1)

    def log_partition(self, log_tables: FloatArray, given: Int32Array | None = None) -> float:
        """log Z; ``given`` (m,) are states of variables that are known, −1 for the others."""
        codes, free = self._clamp(given)
        fixed = float(log_tables[self._clamped_entries(codes, free)].sum())
        if not free:
            return fixed
        programs = self.programs(free)
        log_z = np.empty(1)
        programs.run(check_tables(self.graph, log_tables), programs.configure([codes[None, :]]), log_z=log_z)
        return fixed + float(log_z[0])

    def marginals(self, log_tables: FloatArray, given: Int32Array | None = None) -> FloatArray:
        """Clique marginals p(x_C | given) of all factors, flat."""
        codes, free = self._clamp(given)
        result = np.zeros(self.graph.table_size)
        result[self._clamped_entries(codes, free)] = 1.0
        if free:
            programs = self.programs(free)
            tables = check_tables(self.graph, log_tables)
            programs.run(tables, programs.configure([codes[None, :]]), marginals=result)
        return result

    def batch(self, log_tables: FloatArray, given: Int32Array) -> tuple[FloatArray, FloatArray]:
        """log Z (n,) and clique marginals (n, table_size) for many rows ``given`` (n, m) with the same free variables."""
        lines = np.ascontiguousarray(given, dtype=np.int32)
        _, free = self._clamp(lines[0])
        if np.any((lines < 0) != (lines[0] < 0)):
            raise ModelError("The rows of given must leave the same variables free; group them first.")
        programs = self.programs(free)
        configurations = programs.configure([lines])
        entries = int(programs.entry_counts[0])
        log_z, each = np.empty(len(lines)), np.empty(len(lines) * entries)
        start = np.arange(len(lines), dtype=np.int64) * entries
        tables = check_tables(self.graph, log_tables)
        programs.run(tables, configurations, log_z=log_z, each=each, each_start=start)
        result = np.zeros((len(lines), self.graph.table_size))
        columns = programs.entries(0, configurations.bases.reshape(len(lines), -1))
        np.put_along_axis(result, columns, each.reshape(len(lines), entries), axis=1)
        observed = self.graph.entries(lines, self._fixed_factors(free))
        np.put_along_axis(result, observed, 1.0, axis=1)
        return log_z + log_tables[observed].sum(axis=1), result

    def best_state(self, log_tables: FloatArray, given: Int32Array | None = None) -> tuple[Int32Array, float]:
        """The most probable state where some are given, and its unnormalised log-probability."""
        codes, free = self._clamp(given)
        states = codes[None, :].copy()
        fixed = float(log_tables[self._clamped_entries(codes, free)].sum())
        if not free:
            return states[0], fixed
        programs = self.programs(free)
        tables = check_tables(self.graph, log_tables)
        best = programs.decode(tables, programs.configure([codes[None, :]]), states, maximise=True)
        return states[0], fixed + best

    def sample(
        self,
        log_tables: FloatArray,
        n: int,
        seed: int,
        *,
        stream: int = 0,
        first_row: int = 0,
        given: Int32Array | None = None,
    ) -> Int32Array:
        """``n`` independent exact draws (n, m), keyed by (seed, stream, first_row + i)."""
        codes, free = self._clamp(given)
        refuse_large_draws(n, len(codes))
        states = np.tile(codes, (n, 1))
        if free:
            programs = self.programs(free)
            tables = check_tables(self.graph, log_tables)
            configurations = programs.configure([codes[None, :]])
            programs.decode(
                tables, configurations, states, maximise=False, seed=seed, stream=stream, first_row=first_row
            )
        return states
