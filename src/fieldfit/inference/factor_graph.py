"""Factor graphs: discrete variables and the scopes of the factors over them.

The tables of all factors are stored one after the other in one flat array; within a table the last variable of the
scope runs fastest. Everything that depends on θ or on data is such a flat array (log tables, marginals, counts), so
that models, kernels and gradients share one layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.inference.ragged import Ragged
from fieldfit.properties import cached_property
from fieldfit.types import Int32Array, IntArray, ModelError


@dataclass(frozen=True)
class FactorGraph:
    """Variables with ``cardinalities`` states and factors over ``scopes`` (tuples of distinct variables)."""

    cardinalities: tuple[int, ...]
    scopes: Sequence[tuple[int, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scopes", Ragged.of(self.scopes))
        few = np.flatnonzero(self._states < 1)
        if len(few):
            raise ModelError(
                f"Variable {few[0]} has {self._states[few[0]]} states; every variable needs at least one."
            )
        scopes = self._scopes
        empty = np.flatnonzero(scopes.lengths == 0)
        if len(empty):
            raise ModelError(f"Factor {empty[0]} has an empty scope; a factor needs at least one variable.")
        unknown = np.flatnonzero((scopes.members < 0) | (scopes.members >= self.n_variables))
        if len(unknown):
            factor = int(np.searchsorted(scopes.indptr, unknown[0], side="right")) - 1
            raise ModelError(
                f"Factor {factor} names variable {scopes.members[unknown[0]]}, but the variables are numbered "
                f"0 to {self.n_variables - 1}."
            )
        matrix, repeated = self.scope_matrix, np.zeros(len(self.scopes), dtype=bool)
        for second in range(1, matrix.shape[1]):
            for first in range(second):
                repeated |= (matrix[:, first] == matrix[:, second]) & (matrix[:, second] >= 0)
        twice = np.flatnonzero(repeated)
        if len(twice):
            raise ModelError(f"Factor {twice[0]} names a variable twice: {scopes[int(twice[0])]}.")

    @property
    def n_variables(self) -> int:
        """How many variables there are."""
        return len(self.cardinalities)

    @property
    def _scopes(self) -> Ragged:
        assert isinstance(self.scopes, Ragged)
        return self.scopes

    @cached_property
    def _states(self) -> IntArray:
        return np.array(self.cardinalities, dtype=np.int64)

    @cached_property
    def _states_in_scope(self) -> IntArray:
        """The cardinalities of each scope (factors, widest scope), 1 where it is padded."""
        scopes = self.scope_matrix
        if not self.n_variables:
            return np.ones_like(scopes)
        return np.where(scopes >= 0, self._states[scopes], 1)

    @cached_property
    def table_sizes(self) -> IntArray:
        """Number of entries of each factor's table."""
        # As floats first: a product beyond 2^63 must not wrap.
        if (np.prod(self._states_in_scope.astype(np.float64), axis=1) >= 2.0**63).any():
            raise ModelError("The table of a factor has 2^63 entries or more; use smaller scopes.")
        sizes: IntArray = np.prod(self._states_in_scope, axis=1)
        return sizes

    @cached_property
    def offsets(self) -> IntArray:
        """Where each factor's table starts in the flat array, and its length at the end: (factors + 1,)."""
        return np.concatenate(([0], np.cumsum(self.table_sizes))).astype(np.int64)

    @property
    def table_size(self) -> int:
        """Length of the flat array of all tables."""
        return int(self.offsets[-1])

    @cached_property
    def scope_matrix(self) -> IntArray:
        """Scopes as a matrix (factors, widest scope), padded with −1."""
        return self._scopes.padded(-1)

    @cached_property
    def stride_matrix(self) -> IntArray:
        """The step in its table that each variable of a scope takes (factors, widest scope), padded with 0."""
        later = np.cumprod(self._states_in_scope[:, ::-1], axis=1)[:, ::-1] // self._states_in_scope
        return np.where(self.scope_matrix >= 0, later, 0)

    @cached_property
    def factors_of(self) -> Ragged:
        """The factors that each variable is in."""
        return Ragged.grouped(self._scopes.members, self._scopes.owner, self.n_variables)

    @cached_property
    def factor_strides_of(self) -> IntArray:
        """The stride of each variable in each of its factors, in the order of ``factors_of.members``."""
        inside = self.scope_matrix >= 0
        return self.stride_matrix[inside][np.argsort(self._scopes.members, kind="stable")]

    @cached_property
    def neighbours(self) -> Ragged:
        """The variables that share a factor with each variable, in increasing order."""
        return Neighbours(self.scope_matrix, self.n_variables)

    def entries(self, codes: Int32Array, factors: IntArray | None = None) -> IntArray:
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


class Neighbours(Ragged):
    """The neighbours of each variable, found on first access: pseudo-likelihood needs none."""

    def __init__(self, scopes: IntArray, size: int) -> None:
        self._scopes = scopes
        self._size = size

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _found(self) -> tuple[IntArray, IntArray]:
        scopes, m = self._scopes, self._size
        keys = [np.empty(0, dtype=np.int64)]
        for second in range(1, scopes.shape[1]):
            for first in range(second):
                pair = scopes[scopes[:, second] >= 0]
                a, b = pair[:, first], pair[:, second]
                keys += [a * m + b, b * m + a]
        owner, other = np.divmod(np.unique(np.concatenate(keys)), max(m, 1))
        return np.searchsorted(owner, np.arange(m + 1)).astype(np.int64), other

    @property
    def indptr(self) -> IntArray:  # type: ignore[override]
        """Where the list of each variable begins, and the end of the last."""
        return self._found[0]

    @property
    def members(self) -> IntArray:  # type: ignore[override]
        """All lists, one after the other."""
        return self._found[1]
