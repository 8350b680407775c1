"""Blocks of a Potts field whose neighbours have few configurations: one sum over a block's states for each of them.

With N the sites outside a block C that have an edge into it, log Z_C depends on x_N only. The energy E_C is linear in θ:

    Σ_i w_i log p(x_iC | rest) = Σ_i w_i E_C(x_i) − Σ_c W_c log Z_C(c),     W_c = Σ of w_i over the samples with x_iN = c

The first sum comes from counts of states and pairs of states. The kernel computes the second from one sample for each c.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.models.pairwise_layout import NO_FLOATS
from fieldfit.models.potts_blocks import BlockPieces
from fieldfit.models.potts_tables import PottsTables
from fieldfit.threads import get_threads
from fieldfit.types import BoolArray, FloatArray, IntArray

#: Samples for each configuration from which on sharing is worth it, and the most configurations of all blocks.
_REPEATS, _MOST_CONFIGURATIONS = 4, 1 << 22
_GRADIENT = 0


@dataclass(frozen=True, eq=False)
class SharedRests:
    """The configurations of the neighbours of each piece, and the kernel with a sample for each of them.

    ``columns`` (m, n) are the states, ``member`` (pieces, m) says which sites a piece has, ``configurations`` are the
    numbers of the configurations that occur, piece by piece, and ``beta`` (pieces,) the weights of the pieces.
    """

    tables: PottsTables
    columns: NDArray[np.uint8]
    member: BoolArray
    neighbours: tuple[IntArray, ...]
    configurations: tuple[IntArray, ...]
    handle: Any  # _kernels.PottsBlocks, called with arrays of several layouts
    count: int  # samples of the handle
    beta: FloatArray
    unweighted: list[tuple[FloatArray, FloatArray, FloatArray]] = field(default_factory=list)

    @classmethod
    def of(
        cls, columns: NDArray[np.uint8], tables: PottsTables, pieces: BlockPieces, beta: FloatArray
    ) -> SharedRests | None:
        """None where the neighbours of a piece have too many configurations, or all pieces together."""
        n, q, size = columns.shape[1], tables.q, len(beta)
        if size * tables.m > _MOST_CONFIGURATIONS:
            return None
        member = np.zeros((size, tables.m), dtype=bool)
        member[np.repeat(np.arange(size), np.diff(pieces.pointer)), pieces.members] = True
        first, second = tables.edges.T
        beside = np.zeros_like(member)
        for a, b in ((first, second), (second, first)):
            for near, far in zip(a.tolist(), b.tolist(), strict=True):
                beside[:, far] |= member[:, near]
        beside &= ~member
        possible = float(q) ** beside.sum(axis=1)
        if possible.max() * _REPEATS > n or possible.sum() > _MOST_CONFIGURATIONS:
            return None
        neighbours = tuple(np.flatnonzero(row) for row in beside)
        examples, configurations = [], []
        for sites in neighbours:
            code = _numbers(columns, sites, q)
            example = np.full(q ** len(sites), -1, dtype=np.int64)
            example[code[::-1]] = np.arange(n)[::-1]  # the first sample of each configuration
            example = np.sort(example[example >= 0])
            examples.append(example)
            configurations.append(code[example])
        used, samples = np.unique(np.concatenate(examples), return_inverse=True)
        start = np.concatenate(([0], np.cumsum([len(example) for example in examples]))).astype(np.int64)
        handle = _kernels.PottsBlocks(
            np.ascontiguousarray(columns[:, used]),
            tables.edges,
            q,
            pieces.pointer,
            pieces.members,
            start,
            np.ascontiguousarray(samples.ravel().astype(np.int64)),
        )
        return cls(tables, columns, member, neighbours, tuple(configurations), handle, len(used), beta)

    def sums(
        self, mode: int, arrays: tuple[FloatArray, ...], beta: float, weight: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """The value and the sums by entry of the tables (E·q²,) and of the fields (m·q,).

        ``arrays`` are couplings and fields, and those of a direction; ``weight`` (n,) that of the samples, or empty.
        """
        totals, pairs, states = self._weighted(weight)
        out, field_out = np.empty(len(pairs)), np.empty(len(states))
        value: float = self.handle.sums(
            mode,
            0,
            self.count,
            *arrays,
            beta=beta * self.beta,
            sample_weight=NO_FLOATS,
            rest_weight=totals,
            couplings_out=out,
            fields_out=field_out,
            n_threads=get_threads(),
        )
        if mode == _GRADIENT:
            value += beta * float(arrays[0] @ pairs + arrays[1] @ states)
            out += beta * pairs
            field_out += beta * states
        return value, out, field_out

    def _weighted(self, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """W of all configurations, and the statistics of the first sum: of pairs of states (E·q²,), of states (m·q,)."""
        if len(weight):
            return self._computed(weight)
        if not self.unweighted:
            self.unweighted.append(self._computed(None))
        return self.unweighted[0]

    def _computed(self, weight: FloatArray | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        q, tables = self.tables.q, self.tables
        totals = [
            np.bincount(_numbers(self.columns, sites, q), weight, q ** len(sites))[numbers]
            for sites, numbers in zip(self.neighbours, self.configurations, strict=True)
        ]
        pairs, states = np.zeros((len(tables.edges), q * q)), np.zeros((tables.m, q))
        for edge, (a, b) in enumerate(tables.edges.tolist()):
            times = float(self.beta @ (self.member[:, a] | self.member[:, b]))
            if times:
                pairs[edge] = times * np.bincount(_numbers(self.columns, np.array([a, b]), q), weight, q * q)
        for site, times in enumerate((self.beta @ self.member).tolist()):
            states[site] = times * np.bincount(self.columns[site], weight, q)
        return np.concatenate(totals).astype(np.float64), pairs.ravel(), states.ravel()


def _numbers(columns: NDArray[np.uint8], sites: IntArray, q: int) -> IntArray:
    """The number (n,) of the configuration of some sites in each sample, the last site counting fastest."""
    code = np.zeros(columns.shape[1], dtype=np.int64)
    for site in sites.tolist():
        code *= q
        code += columns[site]
    return code
