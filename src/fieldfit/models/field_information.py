"""Covariance matrices of a field's features from sums over few states, for Hessians with few parameters.

Two kinds of sums are computed state by state.

Small ones, with any variables clamped: with X (states, r) the features of each state and p its probability,
Cov = Xᵀ diag(p) X − μμᵀ, and X is sparse.

Sums with nothing clamped, such as the full likelihood, up to about a million states: write every table in the indicators
[x_j = v], v ≥ 1, and their products ("monomials", a coordinate v_j for each variable, 0 where it is not in the product).
Then log p of all states and the probabilities of all monomials are two sums along each axis of one array,

    log p(x) = Σ_{v ≤ x} w_v,      P(v) = Σ_{x ≥ v} p(x)      (x_j ≥ v_j: equal, or v_j = 0),

and the covariance of two monomials is P(v ∨ w) − P(v) P(w), without the first term where they exclude each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.inference.programs import Program
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Most states of a sum with clamped variables that is computed state by state, and most numbers in memory.
SMALL, MOST_STATE_ENTRIES = 64, 4_000_000
#: Most states and monomials of a sum with nothing clamped.
MOST_LATTICE_STATES, MOST_MONOMIALS = 1 << 20, 1_000


@dataclass(frozen=True)
class Lattice:
    """A sum with nothing clamped in monomials. ``from_tables`` (K, table_size) and ``features`` (K, r) are those of the K
    monomials at the places ``index`` of the array of states; ``union`` (K, K) is the place of v ∨ w and ``exclusive`` says
    where there is none.
    """

    cardinalities: tuple[int, ...]
    index: IntArray
    from_tables: csr_array
    features: FloatArray
    union: IntArray
    exclusive: BoolArray

    def covariance(self, log_tables: FloatArray) -> FloatArray:
        """Cov(F) (r, r)."""
        array = np.zeros(math.prod(self.cardinalities))
        array[self.index] = self.from_tables @ log_tables
        # Three axes instead of one for each variable: loops over long axes are fast.
        views, right = [], array.size
        for states in self.cardinalities:
            right //= states
            views.append(array.reshape(-1, states, right))
        for along in views:
            along[:, 1:] += along[:, :1]
        array -= array.max()
        np.exp(array, out=array)
        array /= array.sum()
        for along in views:
            along[:, 0] += along[:, 1] if along.shape[1] == 2 else along[:, 1:].sum(axis=1)
        single = array[self.index]
        joint = np.where(self.exclusive, 0.0, array[self.union])
        with one_blas_thread():  # the same bits in processes with other numbers of threads
            result: FloatArray = self.features.T @ ((joint - np.outer(single, single)) @ self.features)
        return result


def lattice_of(graph: FactorGraph, program: Program, features: csr_array) -> Lattice | None:
    """The monomials of a program; None where variables are clamped or there are too many states."""
    from scipy.sparse import coo_array

    cards = tuple(graph.cardinalities[v] for v in program.free)
    if program.boundary or math.prod(cards) > MOST_LATTICE_STATES:
        return None
    strides = np.ones(len(cards), dtype=np.int64)
    strides[:-1] = np.cumprod(np.array(cards[:0:-1], dtype=np.int64))[::-1]
    stride_of = dict(zip(program.free, strides.tolist(), strict=True))
    rows, columns, values = [], [], []
    for factor in program.factors.tolist():
        scope = graph.scopes[factor]
        place: IntArray = np.zeros(1, dtype=np.int64)
        for variable in scope:
            place = np.add.outer(place, stride_of[variable] * np.arange(graph.cardinalities[variable])).ravel()
        monomial, entry, value = _differences(tuple(graph.cardinalities[variable] for variable in scope))
        rows.append(place[monomial])
        columns.append(graph.offsets[factor] + entry)
        values.append(value)
    if not rows:
        return None
    index, number = np.unique(np.concatenate(rows), return_inverse=True)
    if len(index) > MOST_MONOMIALS:
        return None
    shape = (len(index), graph.table_size)
    from_tables = coo_array((np.concatenate(values), (number.ravel(), np.concatenate(columns))), shape=shape).tocsr()
    union, exclusive = np.zeros((len(index), len(index)), dtype=np.int64), np.zeros((len(index),) * 2, dtype=bool)
    for stride, states in zip(strides.tolist(), cards, strict=True):
        digit = index // stride % states
        union += stride * np.maximum.outer(digit, digit)
        exclusive |= np.multiply.outer(digit, digit) * np.subtract.outer(digit, digit) != 0
    # The constant stays: it has no covariance with anything.
    return Lattice(cards, index, from_tables, (from_tables @ features).toarray(), union, exclusive)


@lru_cache(maxsize=64)
def _differences(cards: tuple[int, ...]) -> tuple[IntArray, IntArray, FloatArray]:
    """The coefficients of a table's monomials as (monomial, entry, value): differences along each variable."""
    table: FloatArray = np.ones((1, 1))
    for states in cards:
        along = np.eye(states)
        along[1:, 0] = -1.0
        table = np.asarray(np.kron(table, along), dtype=np.float64)
    monomial, entry = np.nonzero(table)
    return monomial, entry, table[monomial, entry]


@dataclass(frozen=True)
class SmallSums:
    """Configurations of one small sum: ``which`` from `state_entries`, the reduced ``entries`` (configurations, entries) of
    their tables, and how much each counts.
    """

    which: IntArray
    entries: IntArray
    usage: FloatArray


def state_entries(program: Program) -> IntArray | None:
    """Which reduced entry of each member factor each state has (states, factors); None where there are too many states."""
    cards = program.template.cardinalities
    states = math.prod(cards)
    if states > SMALL:
        return None
    digits = np.indices(cards).reshape(len(cards), -1)
    start = np.concatenate(([0], np.cumsum(program.member_size)))[:-1]
    result = np.empty((states, len(program.factors)), dtype=np.int64)
    for group, scope in enumerate(program.template.groups):
        inside = np.zeros(states, dtype=np.int64)
        for variable in scope:
            inside = inside * cards[variable] + digits[variable]
        for member in range(program.group_member[group], program.group_member[group + 1]):
            result[:, member] = start[member] + inside
    return result


def small_covariances(sums: Sequence[SmallSums], log_tables: FloatArray, features: csr_array) -> FloatArray:
    """Σ_c u_c Cov_c(F) (r, r) over all configurations."""
    from scipy.sparse import csr_array, diags_array

    entries, factors, probability, usage, weights, states = [], [], [], [], [], []
    for group in sums:
        chosen = group.entries[:, group.which]  # (configurations, states, factors)
        log_p = log_tables[chosen].sum(axis=2)
        p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        entries.append(chosen.ravel())
        factors.append(np.full(p.size, group.which.shape[1]))
        states.append(np.full(len(p), p.shape[1]))
        probability.append(p.ravel())
        usage.append(group.usage)
        weights.append((group.usage[:, None] * p).ravel())
    p, u = np.concatenate(probability), np.concatenate(usage)
    pointer = np.concatenate(([0], np.cumsum(np.concatenate(factors))))
    columns = np.concatenate(entries)
    ones = csr_array((np.ones(len(columns)), columns, pointer), shape=(len(p), len(log_tables)))
    X = csr_array(ones @ features)
    pointer = np.concatenate(([0], np.cumsum(np.concatenate(states))))
    mean = csr_array(csr_array((p, np.arange(len(p)), pointer), shape=(len(u), len(p))) @ X)
    result = X.T @ (diags_array(np.concatenate(weights)) @ X) - mean.T @ (diags_array(u) @ mean)
    return np.asarray(result.toarray())
