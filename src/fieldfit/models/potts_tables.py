"""θ of a Potts model as a table of couplings for each edge and a line of fields for each site, and back.

The map is linear, and its transpose maps gradients and Hessian products back to the parameters. Without shared
parameters it returns views of θ and copies nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldfit.models.pairwise_layout import sums_by
from fieldfit.properties import cached_property
from fieldfit.types import FloatArray, Int32Array, IntArray, ModelError


@dataclass(frozen=True, eq=False)
class PottsTables:
    """The parameters of a Potts model.

    ``edges`` (E, 2); ``edge_group`` (E,) the set of couplings of each edge; ``agree``: one parameter for equal states
    instead of q²; ``fields``: whether θ ends with fields; ``tied``: whether edges and sites share parameters.
    """

    m: int
    q: int
    edges: Int32Array
    edge_group: IntArray
    n_groups: int
    agree: bool
    fields: bool
    tied: bool

    @property
    def n_couplings(self) -> int:
        """Parameters of couplings, the first of θ."""
        return self.n_groups * (1 if self.agree else self.q**2)

    @property
    def n_parameters(self) -> int:
        """The length r of θ."""
        return self.n_couplings + (self.q * (1 if self.tied else self.m) if self.fields else 0)

    @property
    def n_entries(self) -> int:
        """Entries of all tables of couplings."""
        return len(self.edges) * self.q**2

    def to_tables(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Couplings (E·q²,) and fields (m·q,), flat."""
        theta = np.ascontiguousarray(theta, dtype=np.float64)
        if theta.shape != (self.n_parameters,):
            raise ModelError(f"θ must have the shape ({self.n_parameters},); it has {theta.shape}.")
        q = self.q
        coupling_theta = theta[: self.n_couplings]
        if self.agree:
            couplings = np.zeros((len(self.edges), q * q))
            couplings[:, :: q + 1] = coupling_theta[self.edge_group][:, None]
        else:
            couplings = coupling_theta if not self.tied else coupling_theta.reshape(-1, q * q)[self.edge_group]
        fields = np.zeros(self.m * q)
        if self.fields:
            rest = theta[self.n_couplings :]
            fields = np.tile(rest, self.m) if self.tied else rest
        return couplings.reshape(-1), fields

    def results(self) -> tuple[FloatArray | None, FloatArray, FloatArray]:
        """Allocate sums by table entry, couplings and fields, and the vector (r,) that they are views of.

        If parameters are shared the vector is None, and `to_parameters` computes it from the two.
        """
        if self.tied or self.agree:
            return None, np.empty(self.n_entries), np.empty(self.m * self.q)
        result = np.empty(self.n_parameters)
        fields = result[self.n_couplings :] if self.fields else np.empty(self.m * self.q)
        return result, result[: self.n_couplings], fields

    def to_parameters(self, couplings: FloatArray, fields: FloatArray) -> FloatArray:
        """The transpose of `to_tables`."""
        q = self.q
        result = np.empty(self.n_parameters)
        if self.agree:
            by_edge = couplings.reshape(-1, q * q)[:, :: q + 1].sum(axis=1)
            result[: self.n_couplings] = sums_by(self.edge_group, by_edge, self.n_groups)
        elif self.tied:
            result[: self.n_couplings] = sums_by(self._entry, couplings, self.n_couplings)
        else:
            result[: self.n_couplings] = couplings
        if self.fields:
            result[self.n_couplings :] = fields.reshape(self.m, q).sum(axis=0) if self.tied else fields
        return result

    @cached_property
    def _entry(self) -> IntArray:
        """The parameter of each entry of each table, where edges share tables."""
        return (self.edge_group[:, None] * self.q**2 + np.arange(self.q**2)).ravel()

    def scores(self, residual: FloatArray, columns: NDArray[np.uint8]) -> FloatArray:
        """Scores (k, r) from the residuals [x_j = a] − p(a) of each site (m, k, q) and the states (m, k)."""
        q, k = self.q, residual.shape[1]
        a, b = self.edges.T
        by_edge = np.zeros((len(self.edges), k, q, q))
        edge, sample = np.ogrid[: len(self.edges), :k]
        by_edge[edge, sample, :, columns[b]] += residual[a]
        by_edge[edge, sample, columns[a], :] += residual[b]
        result = np.zeros((k, self.n_parameters))
        if self.agree:
            agreement = np.einsum("ekss->ek", by_edge)
            np.add.at(result.T, self.edge_group, agreement)
        elif self.tied:
            shared = np.zeros((self.n_groups, k, q, q))
            np.add.at(shared, self.edge_group, by_edge)
            result[:, : self.n_couplings] = shared.transpose(1, 0, 2, 3).reshape(k, -1)
        else:
            result[:, : self.n_couplings] = by_edge.transpose(1, 0, 2, 3).reshape(k, -1)
        if self.fields:
            by_site = residual.transpose(1, 0, 2)
            result[:, self.n_couplings :] = by_site.sum(axis=1) if self.tied else by_site.reshape(k, -1)
        return result
