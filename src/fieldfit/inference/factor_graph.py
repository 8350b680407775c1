"""Factor graphs: discrete variables and the scopes of the factors over them.

The tables of all factors are stored one after the other in one flat array; within a table the last variable of the
scope runs fastest. Everything that depends on θ or on data is such a flat array (log tables, marginals, counts), so
that models, kernels and gradients share one layout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldfit.types import Int32Array, IntArray, ModelError


@dataclass(frozen=True)
class FactorGraph:
    """Variables with ``cardinalities`` states and factors over ``scopes`` (tuples of distinct variables)."""

    cardinalities: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for variable, cardinality in enumerate(self.cardinalities):
            if cardinality < 1:
                raise ModelError(f"Variable {variable} has {cardinality} states; every variable needs at least one.")
        for index, scope in enumerate(self.scopes):
            if not scope:
                raise ModelError(f"Factor {index} has an empty scope; a factor needs at least one variable.")
            if len(set(scope)) != len(scope):
                raise ModelError(f"Factor {index} names a variable twice: {scope}.")
            for variable in scope:
                if not 0 <= variable < len(self.cardinalities):
                    raise ModelError(
                        f"Factor {index} names variable {variable}, but the variables are numbered "
                        f"0 to {len(self.cardinalities) - 1}."
                    )

    @property
    def n_variables(self) -> int:
        """How many variables there are."""
        return len(self.cardinalities)

    @cached_property
    def table_sizes(self) -> IntArray:
        """Number of entries of each factor's table."""
        return np.array([math.prod(self.cardinalities[v] for v in scope) for scope in self.scopes], dtype=np.int64)

    @cached_property
    def offsets(self) -> IntArray:
        """Where each factor's table starts in the flat array, and its length at the end: (factors + 1,)."""
        return np.concatenate(([0], np.cumsum(self.table_sizes))).astype(np.int64)

    @property
    def table_size(self) -> int:
        """Length of the flat array of all tables."""
        return int(self.offsets[-1])

    @cached_property
    def strides(self) -> tuple[tuple[int, ...], ...]:
        """For each factor the step in its table that each variable of its scope takes."""
        result = []
        for scope in self.scopes:
            steps, step = [], 1
            for variable in reversed(scope):
                steps.append(step)
                step *= self.cardinalities[variable]
            result.append(tuple(reversed(steps)))
        return tuple(result)

    @cached_property
    def scope_matrix(self) -> IntArray:
        """Scopes as a matrix (factors, widest scope), padded with −1."""
        return self._padded(self.scopes, -1)

    @cached_property
    def stride_matrix(self) -> IntArray:
        """Strides as a matrix (factors, widest scope), padded with 0."""
        return self._padded(self.strides, 0)

    def _padded(self, lines: tuple[tuple[int, ...], ...], fill: int) -> IntArray:
        result = np.full((len(lines), max(map(len, lines), default=1)), fill, dtype=np.int64)
        for place, line in enumerate(lines):
            result[place, : len(line)] = line
        return result

    @cached_property
    def factors_of(self) -> tuple[tuple[int, ...], ...]:
        """The factors that each variable is in."""
        result: list[list[int]] = [[] for _ in self.cardinalities]
        for factor, scope in enumerate(self.scopes):
            for variable in scope:
                result[variable].append(factor)
        return tuple(map(tuple, result))

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """The variables that share a factor with each variable."""
        result: list[set[int]] = [set() for _ in self.cardinalities]
        for scope in self.scopes:
            for variable in scope:
                result[variable].update(scope)
        return tuple(tuple(sorted(around - {variable})) for variable, around in enumerate(result))

    def entries(self, codes: NDArray[Any], factors: IntArray | None = None) -> IntArray:
        """Flat index of the entry that each sample has in each factor: (n, factors). ``codes`` (n, m) complete."""
        chosen = np.arange(len(self.scopes)) if factors is None else factors
        scopes, strides = self.scope_matrix[chosen], self.stride_matrix[chosen]
        result = np.repeat(self.offsets[:-1][chosen][None, :], len(codes), axis=0)
        for column in range(scopes.shape[1]):
            result += codes[:, scopes[:, column]] * strides[:, column]
        return result

    def all_states(self) -> Int32Array:
        """Every joint state, the last variable fastest: (states, variables)."""
        digits = np.indices(self.cardinalities, dtype=np.int32)
        return np.ascontiguousarray(digits.reshape(self.n_variables, -1).T)
