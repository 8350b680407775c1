"""The proximal point of norms of groups in a diagonal metric, and its derivative.

With curvatures d the proximal point x of z makes ½ Σ d (x − z)² + Σ a_g ‖x_g‖ lowest. It is 0 if ‖dz‖ ≤ a; else it is
x = dνz / (dν + a) with ν = ‖x‖, the root of

    Σ_i (d_i z_i)² / (d_i ν + a)² = 1

over the group. The inverse root of the sum is increasing and concave in ν, so that Newton steps from the left stay there.
Within a table of couplings the curvatures differ as the frequencies of the states do, by orders of magnitude: with their
mean in place of d, fits take several times as many evaluations.
"""

from __future__ import annotations

import numpy as np

from fieldfit.types import FloatArray, IntArray

#: Newton steps for the norm of a proximal point, and the relative size of the last one.
_ROOT_STEPS, _ROOT_TOLERANCE = 50, 1e-12


class ProximalPoints:
    """z ↦ argmin ½ Σ d (x − z)² + Σ a_g ‖x_g‖, for many z.

    ``group`` (k,) is the group of each coordinate, −1 for none, ``strength`` (groups,) is a and ``metric`` (k,) is d.
    """

    def __init__(self, group: IntArray, strength: FloatArray, metric: FloatArray) -> None:
        inside = np.flatnonzero(group >= 0)
        self._places = inside[np.argsort(group[inside], kind="stable")]  # group by group
        present, self._starts, self._counts = np.unique(group[self._places], return_index=True, return_counts=True)
        self._strength, self._metric = strength[present], metric[self._places]
        self._pull = np.repeat(self._strength, self._counts)
        # A slice where the groups come first and one after the other, which saves a copy.
        first = np.arange(len(self._places))
        self._inside = slice(0, len(first)) if np.array_equal(self._places, first) else self._places
        self._steepest = np.zeros(0) if not len(present) else np.maximum.reduceat(self._metric, self._starts)
        self._outside = np.flatnonzero(group < 0)
        self._flat = 1.0 / metric[self._outside]
        self._norm = np.zeros(len(present))  # ν of the last point, where the next search begins
        self._image = np.zeros(len(self._places))  # d z of the last point

    def __call__(self, z: FloatArray) -> FloatArray:
        """The proximal point of z (k,)."""
        point = z.copy()
        if not len(self._starts):
            return point
        image = self._image = self._metric * z[self._places]
        excess = np.sqrt(self._sums(image * image)) - self._strength
        # No curvature is above the steepest one: the root is not left of this.
        least = np.maximum(excess, 0.0) / self._steepest
        norm = np.maximum(self._norm, least)
        for _ in range(_ROOT_STEPS):
            inverse = 1.0 / (self._metric * np.repeat(norm, self._counts) + self._pull)
            share = (image * inverse) ** 2
            total, slope = self._sums(share), self._sums(share * self._metric * inverse)
            step = np.divide((np.sqrt(total) - 1.0) * total, slope, out=np.zeros_like(total), where=slope > 0)
            norm = np.maximum(norm + step, least)
            if (np.abs(step) <= _ROOT_TOLERANCE * norm)[excess > 0].all():
                break
        self._norm = np.where(excess > 0, norm, 0.0)
        length = np.repeat(self._norm, self._counts)
        point[self._places] = image * length / (self._metric * length + self._pull)
        return point

    def curvature(self, rows: FloatArray) -> FloatArray:
        """V J D⁻¹ Vᵀ for rows V (p, k), J the derivative of the last proximal point by z.

        With t = dν + a and u = dz/t² of a group that is not 0, J D⁻¹ is diag(ν/t) + a uuᵀ / Σ d (dz)²/t³.
        """
        weight = np.empty(rows.shape[1])
        weight[self._outside] = self._flat
        if not len(self._starts):
            return np.asarray((rows * weight) @ rows.T)
        length = np.repeat(self._norm, self._counts)
        inverse = 1.0 / (self._metric * length + self._pull)
        weight[self._places] = length * inverse
        along = self._image * inverse**2
        bend = self._sums(self._metric * self._image**2 * inverse**3)
        moving = (self._norm > 0) & (bend > 0)
        # V u of every group that moves, (p, groups), times the root of a / Σ d (dz)²/t³.
        share = np.sqrt(np.divide(self._strength, bend, out=np.zeros_like(bend), where=moving))
        turned = np.add.reduceat(rows[:, self._inside] * along, self._starts, axis=1) * share
        return np.asarray((rows * weight) @ rows.T + turned @ turned.T)

    def _sums(self, products: FloatArray) -> FloatArray:
        sums: FloatArray = np.add.reduceat(products, self._starts)
        return sums
