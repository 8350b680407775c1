"""Potts fields by their own kernel: blocks of several sites given all the rest, with one byte per cell.

An evaluation costs as much as PL1 (potts_problem.py) plus q^k exponentials for each selected block of k sites and each
sample, or each configuration of the block's neighbours where those are few (potts_rests.py). Only the samples and the
listed entries take memory in proportion to the number of samples (kernels/potts_blocks.hpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from fieldfit import _kernels
from fieldfit.models.pairwise_layout import NO_FLOATS, NO_INTS, BlockFamily, EdgeNumbers, sums_by
from fieldfit.models.potts_blocks import BlockPieces
from fieldfit.models.potts_memory import bytes_of_blocks, refuse_too_large
from fieldfit.models.potts_preconditioner import CentredPreconditioner, state_frequencies
from fieldfit.models.potts_rests import SharedRests
from fieldfit.models.potts_sums import DIAGONAL, GRADIENT, PottsSums
from fieldfit.models.potts_tables import PottsTables
from fieldfit.policies.selection import FamilySelection
from fieldfit.threads import get_threads
from fieldfit.types import Array, FloatArray, IntArray


@dataclass(frozen=True)
class _Part:
    """One family: the kernel's handle, the weight of each piece, and the samples that the handle holds (None: all).

    ``use`` (m,) is the summed weight of the components of each site, over all samples of weight 1. ``rests`` sums over
    all samples faster, where the neighbours of the pieces have few configurations.
    """

    handle: Any  # _kernels.PottsBlocks, called with arrays of several layouts
    beta: FloatArray
    rows: IntArray | None
    use: FloatArray
    rests: SharedRests | None


class PottsBlocksProblem(PottsSums):
    """A Potts field compiled with samples and selected blocks.

    Parameters
    ----------
    codes : (n, m) states from 0 to q − 1; nothing is missing
    tables : how θ becomes couplings and fields
    parts : the selected components; `blocks_support` must hold for each
    """

    def __init__(self, codes: Array, tables: PottsTables, parts: Sequence[FamilySelection]) -> None:
        super().__init__(codes, tables, parts)
        listed = sum(len(part.indices) for part in parts if part.indices is not None)
        refuse_too_large(self.n_samples, tables, bytes_of_blocks(self.n_samples, tables, listed))
        self._columns = np.ascontiguousarray(codes.astype(np.uint8).T)
        edge_number = EdgeNumbers(tables.m, tables.edges)
        self._parts = tuple(self._compiled(part, edge_number) for part in parts)

    def _compiled(self, part: FamilySelection, edge_number: EdgeNumbers) -> _Part:
        family = cast(BlockFamily, part.family)
        component_beta = np.ones(family.size) if not np.ndim(part.beta) else np.asarray(part.beta, dtype=np.float64)
        pieces = BlockPieces.of(family, edge_number)
        columns, rows, start, samples, rests = self._columns, None, NO_INTS, NO_INTS, None
        if part.indices is None:
            pieces, beta = pieces.merged(component_beta)
            entries = np.full(len(beta), float(self.n_samples if part.rows is None else part.rows.sum()))
            if part.rows is not None:
                rows = np.flatnonzero(part.rows)
                columns = np.ascontiguousarray(columns[:, rows] if len(rows) else columns[:, :1])
            rests = SharedRests.of(columns, self.tables, pieces, beta)
        else:
            beta = component_beta[pieces.component]
            pointer, listed = part.component_rows(self.n_samples)
            counts = np.diff(pointer)[pieces.component]
            start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
            entry = np.arange(start[-1]) + np.repeat(pointer[pieces.component] - start[:-1], counts)
            samples, entries = np.ascontiguousarray(listed[entry]), counts.astype(np.float64)
        tables = self.tables
        handle = _kernels.PottsBlocks(columns, tables.edges, tables.q, pieces.pointer, pieces.members, start, samples)
        use = sums_by(pieces.members.astype(np.int64), np.repeat(beta * entries, np.diff(pieces.pointer)), tables.m)
        return _Part(handle, beta, rows, use / self.n_samples, rests)

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The diagonal of −Σ_i w_i ∇² m_θ(X_i, Z_i), not negative.

        Exact for parameters of one edge or one site. Shared parameters omit the covariances between the edges that
        share them.
        """
        return np.maximum(self._sums(DIAGONAL, theta, None, row_weight)[1], 0.0)

    @property
    def exact_diagonal(self) -> bool:
        """Whether no parameters are shared."""
        return not self.tables.tied and not self.tables.agree

    def preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> CentredPreconditioner | None:
        """v ↦ M⁻¹ v with M near −Σ_i w_i ∇² m_θ + 1/σ², where no edges share parameters; else None."""
        if not self.exact_diagonal:
            return None
        weight = float(self.n_samples) if row_weight is None else float(np.sum(row_weight))
        total = weight * sum(beta * part.use for part, beta in zip(self._parts, self._betas, strict=True))
        frequencies = state_frequencies(self._columns, self.tables.q, row_weight)
        return CentredPreconditioner.of(self.tables, frequencies, total, precision)

    def _sums(
        self, mode: int, theta: FloatArray, v: FloatArray | None, row_weight: FloatArray | None
    ) -> tuple[float, FloatArray]:
        """The value, and the sums of the mode for each parameter."""
        arrays, weight = self._tables_of(theta, v), self._checked_weight(row_weight)
        total, sums = 0.0, np.zeros(self.n_parameters)
        for part, beta in zip(self._parts, self._betas, strict=True):
            if beta:
                value, part_sums = self._part_sums(part, mode, arrays, beta, weight, 0, self.n_samples)
                total += value
                sums += part_sums
        return total, sums

    def _part_sums(
        self,
        part: _Part,
        mode: int,
        arrays: tuple[FloatArray, ...],
        beta: float,
        weight: FloatArray,
        start: int,
        stop: int,
    ) -> tuple[float, FloatArray]:
        """Sums of one family over the samples start..stop."""
        if part.rows is not None:
            weight = np.ascontiguousarray(weight[part.rows]) if len(weight) else weight
            start, stop = np.searchsorted(part.rows, (start, stop)).tolist()
            if start == stop:
                return 0.0, np.zeros(self.n_parameters)
        if part.rests is not None and stop - start == part.rests.columns.shape[1]:
            value, out, field_out = part.rests.sums(mode, arrays, beta, weight)
            return value, self.tables.to_parameters(out, field_out)
        result, out, field_out = self.tables.results()
        value = part.handle.sums(
            mode,
            start,
            stop - start,
            *arrays,
            beta=beta * part.beta,
            sample_weight=weight,
            rest_weight=NO_FLOATS,
            couplings_out=out,
            fields_out=field_out,
            n_threads=get_threads(),
        )
        return value, self.tables.to_parameters(out, field_out) if result is None else result

    def _by_sample(self, mode: int, theta: FloatArray, v: FloatArray | None) -> FloatArray:
        arrays = self._tables_of(theta, v)
        total = np.zeros(self.n_samples)
        for part, beta in zip(self._parts, self._betas, strict=True):
            count = self.n_samples if part.rows is None else len(part.rows)
            if not beta or not count:
                continue
            out = np.empty(count)
            part.handle.by_sample(mode, 0, count, *arrays, beta=beta * part.beta, out=out, n_threads=get_threads())
            total[slice(None) if part.rows is None else part.rows] += out
        return total

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the samples start..stop by family, without β: one sum for each sample."""
        arrays = self._tables_of(theta, None)
        scores = np.zeros((stop - start, self.n_families, self.n_parameters))
        for f, part in enumerate(self._parts):
            for i in range(start, stop):
                scores[i - start, f] = self._part_sums(part, GRADIENT, arrays, 1.0, NO_FLOATS, i, i + 1)[1]
        return scores
