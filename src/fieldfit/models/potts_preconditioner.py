"""The curvature of a Potts field near independence, in coordinates in which fields and couplings do not mix.

With f_k(s) the frequencies of the states, write the couplings of a site for the centred indicators [x_k = s] − f_k(s):
the field becomes h'_j(a) = h_j(a) + Σ_k Σ_s J_jk(a, s) f_k(s), and near independence the negative Hessian is nearly
diagonal in J and in blocks of a site's states in h', with v = f (1 − f):

    J_jk(a, s): 2 n v_j(a) v_k(s) + 1/σ²,      h'_j: n (diag f_j − f_j f_jᵀ) + 1/σ²

The blocks matter for linear systems: a constant added to h_j changes no probability, so only the penalty determines
it, and a diagonal would leave one small eigenvalue for each site. They are inverted by the formula of Sherman and
Morrison.

A use costs a few passes over the parameters. On alignments of proteins it takes a third to a quarter of the evaluations
that the diagonal alone takes: every indicator of a site is 1 somewhere, so fields and couplings are strongly correlated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.models.potts_tables import PottsTables
from fieldfit.threads import get_threads
from fieldfit.types import FloatArray


def state_frequencies(columns: NDArray[np.uint8], q: int, weight: FloatArray | None) -> FloatArray:
    """The frequencies (m, q) of the states of each site (columns (m, n)), with one pseudo-count spread over the states."""
    counts = np.stack([np.bincount(column, weight, q) for column in columns]) + 1.0 / q
    frequencies: FloatArray = counts / counts.sum(axis=1, keepdims=True)
    return frequencies


@dataclass(frozen=True, eq=False)
class CentredPreconditioner:
    """v ↦ M⁻¹ v, for a table of couplings for each edge and fields that no sites share.

    The curvatures of the couplings are recomputed at each use: with millions of couplings, reading them from an array
    costs more than the products. ``total`` (m,) is the summed weight of each site's components, ``precision`` (r,)
    the penalty.
    """

    #: See `fieldfit.optim.preconditioner.is_cheap`.
    cheap: ClassVar[bool] = True

    tables: PottsTables
    frequencies: FloatArray  # (m, q)
    total: FloatArray
    precision: FloatArray
    fields: FloatArray  # (m, q) n f + 1/σ²
    constant: FloatArray  # (m, 1) curvature of a constant added to the fields of a site
    floor: float

    @classmethod
    def of(
        cls, tables: PottsTables, frequencies: FloatArray, total: FloatArray, precision: FloatArray
    ) -> CentredPreconditioner:
        """From the frequencies (m, q), the summed weight of each site's components (m,) and the penalty (r,)."""
        curvature = total[:, None] * frequencies
        floor = 1e-8 * max(float((curvature * (1.0 - frequencies)).max(initial=0.0)), 1e-300)
        held = np.zeros_like(frequencies)
        if tables.fields:
            held = precision[tables.n_couplings :].reshape(frequencies.shape)
        # Without a penalty the constants are free, and any small positive curvature works.
        held = np.where(held.max(axis=1, keepdims=True) > floor, held, np.maximum(0.01 * curvature, floor))
        fields = np.maximum(curvature + held, floor)
        constant = np.sum(frequencies * held / fields, axis=1, keepdims=True)
        precision = np.ascontiguousarray(precision)
        return cls(tables, frequencies, total, precision, fields, constant, floor)

    def __call__(self, v: FloatArray) -> FloatArray:
        """M⁻¹ v (r,)."""
        tables = self.tables
        v = np.ascontiguousarray(v)
        out, shift = np.empty_like(v), np.empty(tables.m * tables.q)
        by_field = v[tables.n_couplings :] if tables.fields else np.zeros_like(shift)
        _kernels.centred_couplings(
            edges=tables.edges,
            frequencies=self.frequencies,
            weight=self.total,
            precision=self.precision[: tables.n_couplings],
            vector=v[: tables.n_couplings],
            fields=by_field,
            floor=self.floor,
            out=out[: tables.n_couplings],
            shift=shift,
            n_threads=get_threads(),
        )
        if tables.fields:
            scaled = by_field.reshape(self.fields.shape) / self.fields
            mean = np.sum(self.frequencies * scaled, axis=1, keepdims=True)
            whole = scaled + self.total[:, None] * self.frequencies / self.fields * (mean / self.constant)
            out[tables.n_couplings :] = whole.ravel() - shift
        return out
