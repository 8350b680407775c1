"""Coordinates of a Potts field in which couplings and fields hardly mix: couplings of centred indicators.

With f_k(s) the frequencies of the states and h'_j(a) = h_j(a) + Σ_k Σ_s J_jk(a, s) f_k(s), the Hessian in (J, h') is
nearly diagonal near independence; potts_preconditioner.py has the same as an operator. A penalty on couplings
alone is the same function of (J, h') as of (J, h), so that solvers which need a diagonal can work in these coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.models.potts_tables import PottsTables
from fieldfit.types import FloatArray


@dataclass(frozen=True, eq=False)
class CentredCoordinates:
    """The map between θ = (J, h) and y = (J, h'), for tables and fields without shared parameters.

    ``frequencies`` (m, q); ``total`` (m,) the summed weight of each site's components; ``precision`` (r,) of the Gaussian
    penalty.
    """

    tables: PottsTables
    frequencies: FloatArray
    total: FloatArray
    precision: FloatArray

    def to_theta(self, y: FloatArray) -> FloatArray:
        """θ of y."""
        return self._shifted(y, -1.0)

    def from_theta(self, theta: FloatArray) -> FloatArray:
        """y of θ."""
        return self._shifted(theta, 1.0)

    def gradient(self, by_theta: FloatArray) -> FloatArray:
        """The gradient with respect to y from that with respect to θ."""
        return self._mixed(by_theta, -1.0)

    def gradient_by_theta(self, by_y: FloatArray) -> FloatArray:
        """The gradient with respect to θ from that with respect to y."""
        return self._mixed(by_y, 1.0)

    def diagonal(self) -> FloatArray:
        """The diagonal (r,) of the Hessian with respect to y near independence."""
        first, second = self.tables.edges.T
        spread = self.frequencies * (1.0 - self.frequencies)
        weight = (self.total[first] + self.total[second])[:, None, None]
        couplings = weight * spread[first][:, :, None] * spread[second][:, None, :]
        fields = self.total[:, None] * spread
        whole: FloatArray = np.concatenate([couplings.ravel(), fields.ravel()]) + self.precision
        return whole

    def _shifted(self, x: FloatArray, sign: float) -> FloatArray:
        couplings, fields = self._parts(x)
        first, second = self.tables.edges.T
        shift = np.zeros((self.tables.m, self.tables.q))
        np.add.at(shift, first, np.einsum("est,et->es", couplings, self.frequencies[second]))
        np.add.at(shift, second, np.einsum("est,es->et", couplings, self.frequencies[first]))
        return np.concatenate([x[: self.tables.n_couplings], (fields + sign * shift).ravel()])

    def _mixed(self, g: FloatArray, sign: float) -> FloatArray:
        couplings, fields = self._parts(g)
        first, second = self.tables.edges.T
        mixed = fields[first][:, :, None] * self.frequencies[second][:, None, :]
        mixed += self.frequencies[first][:, :, None] * fields[second][:, None, :]
        mixed *= sign
        mixed += couplings
        return np.concatenate([mixed.ravel(), fields.ravel()])

    def _parts(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        q, count = self.tables.q, self.tables.n_couplings
        return x[:count].reshape(-1, q, q), x[count:].reshape(-1, q)
