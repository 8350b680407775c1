"""The penalty Σ_g a_g ‖x_g‖ over groups of coordinates: a group is 0 as a whole, or none of it is.

At an optimum of f(x) + Σ a_g ‖x_g‖ the gradient of f is −a_g x_g / ‖x_g‖ where x_g ≠ 0, and its norm over the group is at
most a_g where x_g = 0 (Yuan and Lin, "Model selection and estimation in regression with grouped variables", 2006). The
pseudo-gradient is what is left of these conditions; it is 0 exactly there.

The quasi-Newton model B = D − VᵀM⁻¹V has few rows in V. With b = M⁻¹Vd the step that makes it and the penalty lowest is
the proximal point of x − D⁻¹(g − Vᵀb) in the metric D (proximal_points.py), minus x. So b is the root of b − M⁻¹Vd(b).
Newton steps on as many numbers as there are rows find it, mostly one or two (Becker, Fadili and Ochs, "On quasi-Newton
forward-backward splitting", 2019). Where they fail, accelerated proximal gradient steps with restarts take over (Beck and
Teboulle 2009; O'Donoghue and Candès 2015).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.optim.proximal_points import ProximalPoints
from fieldfit.optim.quadratic_model import QuadraticModel
from fieldfit.optim.remaining import RIDGE, newton_move
from fieldfit.types import BoolArray, FieldfitError, FloatArray, IntArray

#: A model is minimised by at most this many Newton steps, each halved this often, or proximal gradient steps. Few of them
#: leave many more evaluations to do.
_MOST_ROOT_STEPS, _MOST_STEP_HALVINGS, _MOST_GRADIENT_STEPS = 40, 8, 800
#: Newton steps go on to this share of the tolerance: the last one is cheap next to an evaluation.
_CLOSER = 0.01
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
        # The penalised coordinates group by group; a slice where they are neighbours, which saves copies.
        ordered = penalised[np.argsort(self._group[penalised], kind="stable")]
        self._counts = np.bincount(self._group[penalised], minlength=self._size)
        self._starts = np.cumsum(self._counts) - self._counts
        neighbours = len(ordered) > 0 and bool((np.diff(ordered) == 1).all())
        self._places = slice(int(ordered[0]), int(ordered[-1]) + 1) if neighbours else ordered
        self.pseudo = np.zeros(self.weights.size)

    def value(self, x: FloatArray) -> float:
        """Σ a_g ‖x_g‖."""
        return float(self._strength @ self._whole_norms(x))

    def look(self, x: FloatArray, gradient: FloatArray) -> tuple[float, float]:
        """Set `pseudo` for the point x; returns Σ a_g ‖x_g‖ and max |pseudo|."""
        norms, slopes = self._whole_norms(x), self._whole_norms(gradient)
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(norms > 0, self._strength / norms, 0.0)
            left = np.where(norms > 0, 1.0, np.maximum(1.0 - self._strength / slopes, 0.0))
        left[np.isnan(left)] = 0.0
        self.pseudo[:] = gradient
        self.pseudo[self._places] *= np.repeat(left, self._counts)
        self.pseudo[self._places] += np.repeat(pull, self._counts) * x[self._places]
        return float(self._strength @ norms), float(np.abs(self.pseudo).max(initial=0.0))

    def free(self, x: FloatArray) -> IntArray:
        """The coordinates of groups that are not 0 or that the pseudo-gradient moves, and those without a penalty.

        As long as all groups are 0, the coordinates without a penalty go first: before they are right, most groups
        would seem to be needed.
        """
        if not x[self._places].any():
            inside = self._group >= 0
            outside = np.abs(self.pseudo[~inside]).max(initial=0.0)
            if outside > _FIRST * np.abs(self.pseudo[inside]).max(initial=0.0):
                return np.flatnonzero(~inside)
        moving = np.ones(self._size + 1, dtype=bool)  # −1 is the last place
        if self._size:
            touched = (x[self._places] != 0) | (self.pseudo[self._places] != 0)
            moving[:-1] = np.logical_or.reduceat(touched, self._starts)
        return np.flatnonzero(moving[self._group])

    def slope_change(self, x: FloatArray, near: FloatArray) -> FloatArray:
        """How the penalty's gradient differs between two points, 0 for groups that are 0 at one of them."""
        change = np.zeros(len(x))
        before, after = self._whole_norms(x), self._whole_norms(near)
        away = (before > 0) & (after > 0)
        pull = [np.divide(self._strength, norms, out=np.zeros(self._size), where=away) for norms in (before, after)]
        first, last = (np.repeat(strength, self._counts) for strength in pull)
        change[self._places] = last * near[self._places] - first * x[self._places]
        return change

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
        step_model = _StepModel(*model.factors(free, first_scale), gradient, x)
        steepest = step_model.steepest()
        if steepest is None:
            return None
        group = self._group[free]
        step = step_model.by_root(ProximalPoints(group, self._strength, step_model.scale), _CLOSER * tol)
        if step is None:
            metric = steepest * step_model.scale
            step = step_model.by_gradients(ProximalPoints(group, self._strength, metric), metric, tol)
        return step if np.isfinite(step).all() else None

    def newton(
        self, hessian: FloatArray, free: IntArray, gradient: FloatArray, x: FloatArray, tol: float
    ) -> FloatArray | None:
        """The Newton step (k,) on ``free`` among groups that are not 0, where norms are smooth; None without a factor."""
        group, norms = self._group[free], self._norms(x, free)
        away = np.flatnonzero((group < 0) | (np.append(norms, 0.0)[group] > 0))  # −1 is the last place
        slope = gradient.copy()
        curved = hessian + RIDGE * np.diag(hessian).max(initial=0.0) * np.eye(len(free))
        for number in np.unique(group[away][group[away] >= 0]):
            places, norm, strength = np.flatnonzero(group == number), norms[number], self._strength[number]
            unit = x[places] / norm
            slope[places] += strength * unit
            curved[np.ix_(places, places)] += strength / norm * (np.eye(len(places)) - np.outer(unit, unit))
        move = newton_move(curved[np.ix_(away, away)], slope[away])
        if move is None:
            return None
        step = np.zeros(len(free))
        step[away] = move
        return step

    def _outside(self, free: IntArray) -> BoolArray:
        return np.asarray(self._group[free] < 0)

    def _sums(self, products: FloatArray, free: IntArray) -> FloatArray:
        """Σ over each group (groups,) of products at the coordinates ``free``."""
        group = self._group[free]
        inside = group >= 0
        sums: FloatArray = np.bincount(group[inside], products[inside], self._size).astype(np.float64, copy=False)
        return sums

    def _norms(self, x: FloatArray, free: IntArray) -> FloatArray:
        return np.sqrt(self._sums(x * x, free))

    def _whole_norms(self, x: FloatArray) -> FloatArray:
        """‖x_g‖ (groups,) of all coordinates."""
        if not self._size:
            return np.zeros(0)
        inside = x[self._places]
        norms: FloatArray = np.sqrt(np.add.reduceat(inside * inside, self._starts))
        return norms


@dataclass(frozen=True)
class _StepModel:
    """gᵀd + ½dᵀBd of a step d from x, with B = D − VᵀM⁻¹V.

    ``scale`` (k,) is D, ``rows`` (p, k) are V and ``inverse`` (p, p) is M⁻¹.
    """

    scale: FloatArray
    rows: FloatArray
    inverse: FloatArray
    gradient: FloatArray
    x: FloatArray

    def steepest(self) -> float | None:
        """A bound on the eigenvalues of B in the metric D; None if they are not finite and positive."""
        # B = D^½ (I − UᵀM⁻¹U) D^½ with U = V D^−½: its eigenvalues in that metric are 1 and 1 − those of M⁻¹UUᵀ.
        small = self.inverse @ ((self.rows / self.scale) @ self.rows.T)
        if not np.isfinite(small).all():
            return None
        eigenvalues = 1.0 - np.linalg.eigvals(small).real
        steepest = 1.01 * float(eigenvalues.max(initial=1.0))
        return steepest if 0 < steepest < 1e12 and eigenvalues.min(initial=1.0) > 0 else None

    def by_root(self, proximal: ProximalPoints, tol: float) -> FloatArray | None:
        """The step d with d = d(b) and b = M⁻¹Vd, by Newton steps on b; None where they do not reach ``tol``."""
        b = np.zeros(len(self.rows))
        step, rest, size = self._at(b, proximal)
        for _ in range(_MOST_ROOT_STEPS):
            if size <= tol:
                return step
            try:
                move = np.linalg.solve(np.eye(len(b)) - self.inverse @ proximal.curvature(self.rows), rest)
            except np.linalg.LinAlgError:
                return None
            for halved in range(_MOST_STEP_HALVINGS):
                trial = b - 0.5**halved * move
                step, rest, moved = self._at(trial, proximal)
                if moved < size:
                    break
            else:
                return None
            b, size = trial, moved
        return None

    def _at(self, b: FloatArray, proximal: ProximalPoints) -> tuple[FloatArray, FloatArray, float]:
        """d(b), b − M⁻¹Vd(b), and the largest entry of the model's slope that is left at d(b)."""
        step = proximal(self.x - (self.gradient - b @ self.rows) / self.scale) - self.x
        rest = b - self.inverse @ (self.rows @ step)
        return step, rest, float(np.abs(rest @ self.rows).max(initial=0.0))

    def by_gradients(self, proximal: ProximalPoints, metric: FloatArray, tol: float) -> FloatArray:
        """The step by accelerated proximal gradients, whose ``metric`` is not below B."""
        at, ahead, momentum = self.x.copy(), self.x.copy(), 1.0
        for _ in range(_MOST_GRADIENT_STEPS):
            step = ahead - self.x
            slope = self.gradient + self.scale * step - (self.inverse @ (self.rows @ step)) @ self.rows
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
        return at - self.x
