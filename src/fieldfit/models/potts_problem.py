"""Potts fields by their own kernel: each site given all the rest, with one byte per cell.

    log p(x_j | rest) = h_j(x_j) + Σ_k J_jk(x_j, x_k) − log Σ_a exp( h_j(a) + Σ_k J_jk(a, x_k) )

An evaluation costs 2·n·Σ_j degree(j) additions of rows of q numbers, for any samples, and holds the samples as
bytes (n·m), the couplings once for each thread and site, and a few hundred rows of fields (kernels/potts.hpp). The
general engine is faster if few configurations of the neighbours occur; `worth_a_kernel` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from fieldfit import _kernels
from fieldfit.models.pairwise import MOST_EXACT_TIED
from fieldfit.models.pairwise_layout import NO_FLOATS, NO_INTS, BlockFamily, sums_by
from fieldfit.models.potts_coordinates import CentredCoordinates
from fieldfit.models.potts_memory import bytes_of_sites, refuse_too_large
from fieldfit.models.potts_preconditioner import CentredPreconditioner, state_frequencies
from fieldfit.models.potts_sums import DIAGONAL, RESIDUALS, PottsSums
from fieldfit.models.potts_tables import PottsTables
from fieldfit.policies.field_families import FieldFamily
from fieldfit.policies.selection import FamilySelection
from fieldfit.threads import get_threads
from fieldfit.types import Array, FloatArray, IntArray

#: Configurations of neighbours × states, per sample and site, up to which the general engine is at least as fast; and
#: the most places (samples × edges) that it lists.
_FEW_CONFIGURATIONS, _FEW_SHARE, _MOST_PLACES = 20_000, 0.02, 50_000_000
#: Number of parameters above which a fit in single precision keeps fewer pairs.
_MANY_PARAMETERS = 1_000_000
#: Relative error of values in single precision, with a margin: rounded couplings make them step functions of θ.
_SINGLE_NOISE = 1e-7
#: Numbers in a block of components, for sums by sample.
_COMPONENT_NUMBERS = 1 << 22


def potts_supports(part: FamilySelection) -> bool:
    """Whether all components of this part are single sites given all the rest."""
    family = cast(FieldFamily, part.family)
    return bool(
        family.size is not None
        and getattr(family, "conditions_on_rest", False)
        and hasattr(family, "blocks")
        and getattr(family, "block_size", None) == 1
    )


def worth_a_kernel(n: int, m: int, q: int, edges: IntArray) -> bool:
    """Whether the neighbours have too many configurations for the general engine, which sums over each once."""
    degree = np.bincount(edges.ravel(), minlength=m)
    configurations = np.minimum(float(n), float(q) ** np.minimum(degree, 60)).sum()
    many = configurations * q > _FEW_CONFIGURATIONS and configurations > _FEW_SHARE * n * m
    return bool(many or float(n) * len(edges) > _MOST_PLACES)


@dataclass(frozen=True)
class _Part:
    """One family as the kernel has it: a handle, the weight of each site, and the weights of listed entries.

    ``rows`` (k,) are the samples that the handle holds, None for all; ``entry_sample`` the sample of each listed entry.
    """

    selected: FamilySelection
    handle: _kernels.PottsField
    beta: FloatArray
    rows: IntArray | None
    entry_beta: FloatArray


class PottsProblem(PottsSums):
    """A Potts field compiled with samples and selected sites.

    Parameters
    ----------
    codes : (n, m) states from 0 to q − 1; nothing is missing
    tables : how θ becomes couplings and fields
    parts : the selected components; `potts_supports` must hold for each
    single : whether couplings, fields and residuals are rounded to single precision; values are sums of doubles
    """

    def __init__(
        self, codes: Array, tables: PottsTables, parts: Sequence[FamilySelection], *, single: bool = False
    ) -> None:
        self._single = single
        self.value_noise = _SINGLE_NOISE if single else 0.0
        # The pairs of L-BFGS take most of a fit's memory. With the preconditioner, four pairs need as many
        # evaluations as ten, and three need a tenth more. Large fits in single precision should need little memory.
        self.pairs = 3 if single and tables.n_parameters >= _MANY_PARAMETERS else 4
        super().__init__(codes, tables, parts)
        refuse_too_large(self.n_samples, tables, bytes_of_sites(self.n_samples, tables))
        self._columns = np.ascontiguousarray(codes.astype(np.uint8).T)
        self._parts = tuple(self._compiled(part) for part in parts)
        self._whole = next((part.handle for part in self._parts if part.selected.everything), None)
        self._written = self._betas

    def _compiled(self, part: FamilySelection) -> _Part:
        m = self.n_variables
        family = cast(BlockFamily, part.family)
        sites = family.blocks(np.arange(family.size))[1]
        component_beta = np.ones(family.size) if not np.ndim(part.beta) else np.asarray(part.beta, dtype=np.float64)
        edges = self.tables.edges
        if part.indices is None:
            rows = None if part.rows is None else np.flatnonzero(part.rows)
            columns = self._columns if rows is None else np.ascontiguousarray(self._columns[:, rows])
            if columns.shape[1] == 0:
                columns, rows = self._columns[:, :1].copy(), None
                component_beta = np.zeros_like(component_beta)
            handle = _kernels.PottsField(columns, edges, self.tables.q, NO_INTS, NO_INTS, self._single)
            return _Part(part, handle, sums_by(sites, component_beta, m), rows, NO_FLOATS)
        pointer, samples = part.component_rows(self.n_samples)
        # Sort the components by site. Usually they are sorted already.
        component = np.repeat(np.arange(family.size), np.diff(pointer))
        order = np.argsort(sites[component], kind="stable")
        samples, component = np.ascontiguousarray(samples[order]), component[order]
        start = np.concatenate(([0], np.cumsum(np.bincount(sites[component], minlength=m)))).astype(np.int64)
        handle = _kernels.PottsField(self._columns, edges, self.tables.q, start, samples, self._single)
        entry_beta = NO_FLOATS if (component_beta == 1.0).all() else np.ascontiguousarray(component_beta[component])
        return _Part(part, handle, np.ones(m), None, entry_beta)

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The diagonal of −Σ_i w_i ∇² m_θ(X_i, Z_i), not negative.

        Exact for parameters of one edge or one site. The first 32 shared parameters are exact too (one Hessian
        product each); the others omit the covariances between the edges that share them.
        """
        diagonal = self._sums(DIAGONAL, theta, None, row_weight)[1]
        if self.tables.tied:
            unit = np.zeros(self.n_parameters)
            for shared in range(min(self.n_parameters, MOST_EXACT_TIED)):
                unit[shared] = 1.0
                diagonal[shared] = -self.hessian_product(theta, unit, row_weight)[shared]
                unit[shared] = 0.0
        return np.maximum(diagonal, 0.0)

    @property
    def exact_diagonal(self) -> bool:
        """Whether the diagonal is exact: few enough parameters are shared."""
        return not self.tables.tied or self.n_parameters <= MOST_EXACT_TIED

    def preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> CentredPreconditioner | None:
        """v ↦ M⁻¹ v with M near −Σ_i w_i ∇² m_θ + 1/σ², where no edges share parameters; else None."""
        tables = self.tables
        if tables.tied or tables.agree:
            return None
        return CentredPreconditioner.of(tables, *self._first_moments(row_weight), precision)

    def centred_coordinates(
        self, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> CentredCoordinates | None:
        """Coordinates in which couplings and fields hardly mix; None if parameters are shared."""
        tables = self.tables
        if tables.tied or tables.agree or not tables.fields:
            return None
        return CentredCoordinates(tables, *self._first_moments(row_weight), precision)

    def _first_moments(self, row_weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """The frequencies (m, q) of the states, and the summed weight (m,) of each site's components."""
        frequencies = state_frequencies(self._columns, self.tables.q, row_weight)
        total = np.zeros(self.n_variables)
        weight = np.ones(self.n_samples) if row_weight is None else np.asarray(row_weight)
        for part, beta in zip(self._parts, self._betas, strict=True):
            rows = max(1, (1 << 22) // self.n_variables)
            for start in range(0, self.n_samples, rows):
                stop = min(start + rows, self.n_samples)
                total += beta * (weight[start:stop] @ self._use(part, start, stop))
        return frequencies, total

    def _sums(
        self, mode: int, theta: FloatArray, v: FloatArray | None, row_weight: FloatArray | None
    ) -> tuple[float, FloatArray]:
        """The value, and the sums of the mode for each parameter."""
        arrays, weight = self._tables_of(theta, v), self._checked_weight(row_weight)
        used = [place for place, beta in enumerate(self._betas) if beta != 0] or [len(self._parts) - 1]
        total, sums = 0.0, np.empty(0)
        for place in used:
            part, beta = self._parts[place], self._betas[place]
            part_weight = weight if part.rows is None or not len(weight) else np.ascontiguousarray(weight[part.rows])
            result, out, field_out = self.tables.results()
            total += part.handle.sums(
                mode,
                *arrays,
                beta=beta * part.beta,
                sample_weight=part_weight,
                entry_weight=part.entry_beta,
                couplings_out=out,
                fields_out=field_out,
                n_threads=get_threads(),
            )
            if result is None:
                result = self.tables.to_parameters(out, field_out)
            sums = result if place == used[0] else np.add(sums, result, out=sums)
        return total, sums

    def _by_sample(self, mode: int, theta: FloatArray, v: FloatArray | None) -> FloatArray:
        result = np.zeros(self.n_samples)
        size = max(1, _COMPONENT_NUMBERS // self.n_variables)
        for start in range(0, self.n_samples, size):
            stop = min(start + size, self.n_samples)
            numbers = self._components(mode, theta, v, start, stop)  # (m, k)
            for part, beta in zip(self._parts, self._betas, strict=True):
                if beta:
                    result[start:stop] += beta * np.einsum("ij,ji->i", self._use(part, start, stop), numbers)
        return result

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the samples start..stop by family, without β."""
        residual = self._components(RESIDUALS, theta, None, start, stop)  # (m, k, q)
        scores = np.zeros((stop - start, self.n_families, self.n_parameters))
        for f, part in enumerate(self._parts):
            used = residual * self._use(part, start, stop).T[:, :, None]
            scores[:, f] = self.tables.scores(used, self._columns[:, start:stop])
        return scores

    def _components(self, mode: int, theta: FloatArray, v: FloatArray | None, start: int, stop: int) -> FloatArray:
        """One number, or q numbers, for each site and sample (m, k), for selected and other components."""
        m, q = self.n_variables, self.tables.q
        out = np.empty(m * (stop - start) * (q if mode == RESIDUALS else 1))
        if self._whole is None:
            self._whole = _kernels.PottsField(self._columns, self.tables.edges, q, NO_INTS, NO_INTS, self._single)
        arrays = self._tables_of(theta, v)
        self._whole.components(mode, start, stop - start, *arrays, beta=np.ones(m), out=out, n_threads=get_threads())
        return out.reshape((m, stop - start, q) if mode == RESIDUALS else (m, stop - start))

    def _use(self, part: _Part, start: int, stop: int) -> FloatArray:
        """The weight of each site in each of these samples (k, m), without the family's β."""
        selected = part.selected.between(start, stop)
        if selected.indices is None or selected.indptr is None:
            used = np.broadcast_to(part.beta, (stop - start, self.n_variables))
            return used if selected.rows is None else used * selected.rows[:, None]
        family = cast(BlockFamily, selected.family)
        chosen = selected.indices
        chosen_beta = np.ones(len(chosen)) if not np.ndim(selected.beta) else np.asarray(selected.beta)[chosen]
        row = np.repeat(np.arange(stop - start), np.diff(selected.indptr))
        places = row * self.n_variables + family.blocks(chosen)[1]
        return sums_by(places, chosen_beta, (stop - start) * self.n_variables).reshape(stop - start, self.n_variables)
