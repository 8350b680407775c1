"""The penalty Σ_g a_g ‖x_g‖ over groups of coordinates: a group is 0 as a whole, or none of it is.

At an optimum of f(x) + Σ a_g ‖x_g‖ the gradient of f is −a_g x_g / ‖x_g‖ where x_g ≠ 0, and its norm over the group is at
most a_g where x_g = 0 (Yuan and Lin, "Model selection and estimation in regression with grouped variables", 2006). The
pseudo-gradient is what is left of these conditions; it is 0 exactly there.

The quasi-Newton model plus the penalty is minimised by accelerated proximal gradient steps with restarts (Beck and Teboulle
2009; O'Donoghue and Candès 2015). Their metric is the model's diagonal d. The proximal point of z is 0 if ‖dz‖ ≤ a; else it
is x = dνz / (dν + a) with ν = ‖x‖, the root of

    Σ_i (d_i z_i)² / (d_i ν + a)² = 1

over the group. The inverse root of the sum is increasing and concave in ν, so that Newton steps from the left stay there.
Within a table of couplings the curvatures differ as the frequencies of the states do, by orders of magnitude: with their
mean in place of d, fits take several times as many evaluations.
"""

from __future__ import annotations

import numpy as np

from fieldfit.optim.quadratic_model import QuadraticModel
from fieldfit.types import BoolArray, FieldfitError, FloatArray, IntArray

#: A model is minimised by at most this many proximal gradient steps. Few of them leave many more evaluations to do.
_STEPS = 800
#: Newton steps for the norm of a proximal point, and the relative size of the last one.
_ROOT_STEPS, _ROOT_TOLERANCE = 50, 1e-12
#: Coordinates without a penalty move alone until their gradient is below this share of that of the groups.
_FIRST = 0.1


class GroupPenalty:
    """Weights (size,) ≥ 0, equal within a group, and the number of the group (size,) of each coordinate.

    Coordinates of weight 0 have no penalty, in any group.
    """

    has_orthants = False

    def __init__(self, weights: FloatArray, groups: IntArray) -> None:
        self.weights = np.ascontiguousarray(weights, dtype=np.float64)
        good = np.isfinite(self.weights) & (self.weights >= 0)
        if groups.shape != self.weights.shape or not good.all():
            raise FieldfitError("Weights of groups must be finite, at least 0, and have a group each.")
        penalised = np.flatnonzero(self.weights > 0)
        self._group = np.full(self.weights.size, -1, dtype=np.int64)
        numbers, first, self._group[penalised] = np.unique(groups[penalised], return_index=True, return_inverse=True)
        self._size = len(numbers)
        self._strength = self.weights[penalised[first]]
        if (self.weights[penalised] != self._strength[self._group[penalised]]).any():
            raise FieldfitError("The weights within a group must be equal.")
        self.pseudo = np.zeros(self.weights.size)

    def value(self, x: FloatArray) -> float:
        """Σ a_g ‖x_g‖."""
        return float(self._strength @ self._norms(x, slice(None)))

    def look(self, x: FloatArray, gradient: FloatArray) -> tuple[float, float]:
        """Set `pseudo` for the point x; returns Σ a_g ‖x_g‖ and max |pseudo|."""
        norms, slopes = self._norms(x, slice(None)), self._norms(gradient, slice(None))
        inside = self._group >= 0
        group = self._group[inside]
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(norms > 0, self._strength / norms, 0.0)
            left = np.where(norms > 0, 1.0, np.maximum(1.0 - self._strength / slopes, 0.0))
        left[np.isnan(left)] = 0.0
        self.pseudo[:] = gradient
        self.pseudo[inside] = left[group] * gradient[inside] + pull[group] * x[inside]
        return float(self._strength @ norms), float(np.abs(self.pseudo).max(initial=0.0))

    def free(self, x: FloatArray) -> IntArray:
        """The coordinates of groups that are not 0 or that the pseudo-gradient moves, and those without a penalty.

        As long as all groups are 0, the coordinates without a penalty go first: before they are right, most groups
        would seem to be needed.
        """
        inside = self._group >= 0
        if not x[inside].any():
            outside = np.abs(self.pseudo[~inside]).max(initial=0.0)
            if outside > _FIRST * np.abs(self.pseudo[inside]).max(initial=0.0):
                return np.flatnonzero(~inside)
        moving = np.zeros(self._size + 1, dtype=bool)
        moving[self._group[(x != 0) | (self.pseudo != 0)]] = True  # −1 is the last place
        moving[-1] = True
        return np.flatnonzero(moving[self._group])

    def slopes(
        self, free: IntArray, x: FloatArray, moved: FloatArray, gradient: FloatArray, new_gradient: FloatArray
    ) -> tuple[float, float]:
        """gᵀd + Σ a (‖x + d‖ − ‖x‖), and the slope of the penalised function at x + d along d; all on ``free``.

        Near an optimum g and the penalty's slope cancel, so they are added group by group before the sum.
        """
        step = moved - x
        before, after = self._norms(x, free), self._norms(moved, free)
        both = before + after
        change = self._sums((x + moved) * step, free) / np.where(both > 0, both, 1.0)
        promise = self._sums(gradient * step, free) + self._strength * change
        # At 0 the slope is that of the side that the step came from.
        along = np.where(
            after > 0,
            self._sums(moved * step, free) / np.where(after > 0, after, 1.0),
            -self._norms(step, free),
        )
        arrival = self._sums(new_gradient * step, free) + self._strength * along
        outside = self._outside(free)
        return (
            float(promise.sum() + gradient[outside] @ step[outside]),
            float(arrival.sum() + new_gradient[outside] @ step[outside]),
        )

    def lowest(
        self,
        model: QuadraticModel,
        free: IntArray,
        gradient: FloatArray,
        x: FloatArray,
        first_scale: float,
        tol: float,
        passes: int,
    ) -> FloatArray | None:
        """The step d on ``free`` that makes gᵀd + ½dᵀBd + Σ a ‖x + d‖ lowest, roughly; None if B is inaccurate."""
        scale, left, right = model.matrix(free, first_scale)
        # B = scale^½ (I − UVᵀ) scale^½: its eigenvalues in that metric are 1 and 1 − those of VᵀU.
        small = (right / scale[:, None]).T @ left
        if not np.isfinite(small).all():
            return None
        eigenvalues = 1.0 - np.linalg.eigvals(small).real
        steepest = 1.01 * float(eigenvalues.max(initial=1.0))
        if not 0 < steepest < 1e12 or eigenvalues.min(initial=1.0) <= 0:
            return None
        metric = steepest * scale
        proximal = ProximalPoints(self._group[free], self._strength, metric)
        at, ahead, momentum = x.copy(), x.copy(), 1.0
        for _ in range(_STEPS):
            step = ahead - x
            slope = gradient + scale * step - left @ (right.T @ step)
            towards = proximal(ahead - slope / metric)
            move = towards - at
            size = float(np.abs(metric * (towards - ahead)).max(initial=0.0))
            if float((metric * (ahead - towards)) @ move) > 0:
                momentum, ahead = 1.0, towards
            else:
                following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
                ahead = towards + (momentum - 1.0) / following * move
                momentum = following
            at = towards
            if size <= tol:
                break
        step = at - x
        return step if np.isfinite(step).all() else None

    def _outside(self, free: IntArray) -> BoolArray:
        return np.asarray(self._group[free] < 0)

    def _sums(self, products: FloatArray, free: IntArray | slice) -> FloatArray:
        """Σ over each group (groups,) of products at the coordinates ``free``."""
        group = self._group[free]
        inside = group >= 0
        sums: FloatArray = np.bincount(group[inside], products[inside], self._size).astype(np.float64, copy=False)
        return sums

    def _norms(self, x: FloatArray, free: IntArray | slice) -> FloatArray:
        return np.sqrt(self._sums(x * x, free))


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
        self._steepest = np.zeros(0) if not len(present) else np.maximum.reduceat(self._metric, self._starts)
        self._norm = np.zeros(len(present))  # ν of the last point, where the next search begins

    def __call__(self, z: FloatArray) -> FloatArray:
        """The proximal point of z (k,)."""
        point = z.copy()
        if not len(self._starts):
            return point
        image = self._metric * z[self._places]
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

    def _sums(self, products: FloatArray) -> FloatArray:
        sums: FloatArray = np.add.reduceat(products, self._starts)
        return sums
