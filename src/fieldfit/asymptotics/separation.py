"""Do the data separate? Then the optimum of an unpenalised objective lies at infinity along some direction of θ.

Along such a direction the objective falls like exp(−t): its gradient and its curvature, which are about equal, fall by the
same factor with each Newton step, however far one goes. Before a finite optimum, the steps become short. So Newton steps
along the flattest directions tell the two apart, whatever the weights of the samples and the tolerance of the fit. They end
where the curvature is less than a single sample would give; no sample can turn the direction from there on.

All of this is judged with θ in units of the features, so that it does not depend on how they are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

HessianProduct = Callable[[FloatArray, FloatArray], FloatArray]

#: Data may separate if a parameter is this far out. Directions are searched among all parameters beyond the second number,
#: at most _MOST, and the furthest others until there are _FEW, because some parts of a direction may not be far out.
_FAR_VALUE, _VERY_FAR_VALUE, _FEW, _MOST = 2.0, 4.0, 64, 200
#: A direction with less curvature than this share of the least weight of a sample (a standard error above 100 if all have
#: weight 1) is flat, and with less than this share of all weights, whose rest is rounding. Where a sample pulls back, its
#: slope is larger than that by more than this factor.
_FLAT_CURVATURE, _ROUNDING, _PULL = 1e-4, 1e-13, 10.0
#: Where Newton steps are expensive, a direction with this many times the curvature of a flat one, and a long step, is too.
_NEARLY_FLAT, _LONG = 100.0, 0.02
#: A flat direction whose curvature is this small nearer to 0 too is a gauge freedom of the model: relative to the largest
#: such curvature, and to all weights.
_GAUGE_CURVATURE, _GAUGE_ROUNDING = 1e-9, 1e-12
#: Newton steps at most, their longest and the shortest that goes on.
_MOST_STEPS, _LONGEST, _SHORT = 60, 2.0, 1e-3
#: Directions that Newton steps follow in any case, and at most where the Hessian is expensive. They take about this many
#: steps.
_MOST_DIRECTIONS, _USUAL_STEPS = 20, 8
#: A direction concerns a parameter if its part is at least this share of the largest one.
_AFFECTED_SHARE = 0.1
#: Contrasts of parameters that are all this close to 0 are skipped.
_MODERATE = 1.0
_REMEDY = "Give sigma2, or fix or drop these parameters."


@dataclass(frozen=True)
class Landscape:
    """An objective as a function of the free parameters x.

    Parameters
    ----------
    value_grad, hessian_product
        x ↦ (value, gradient), and (x, v) ↦ Hv.
    by_matrix
        Whether the first product at a point computes the Hessian, so that others cost nothing.
    total, least
        The sum of the weights of the samples, and the least one that is not 0, in units of the objective.
    work
        Evaluations and products of the fit, for searches that should not take much longer.
    """

    value_grad: Callable[[FloatArray], tuple[float, FloatArray]]
    hessian_product: HessianProduct
    by_matrix: bool
    total: float
    least: float
    work: int


def separated_parameters(
    landscape: Landscape,
    free: BoolArray,
    x: FloatArray,
    penalised: BoolArray,
    names: Sequence[str],
    units: FloatArray | None = None,
    contrasts: Callable[[], FloatArray | None] | None = None,
) -> tuple[str, ...]:
    """Unpenalised parameters whose optimum is at infinity.

    Several parameters may run away together (a bias to −∞ as a coupling goes to +∞), so the test looks at directions among
    all parameters that are far out. ``x`` are the values of the ``free`` parameters; ``units`` (r,) are the sizes of the
    features (all 1 if None). ``contrasts()`` (k, r) are what an over-complete model determines of θ in those units, None
    for other models: its single parameters stay moderate while a contrast of them runs away.
    """
    places = np.flatnonzero(free)
    sizes = np.ones(len(x)) if units is None else units[free]
    relative = x * sizes
    distances = np.abs(relative)
    matrix = contrasts() if contrasts is not None and distances.max(initial=0.0) > _MODERATE else None
    if matrix is not None:
        estimated = matrix[:, free]
        distances = ((estimated != 0) * np.abs(estimated @ relative)[:, None]).max(axis=0, initial=0.0)
    searched = np.flatnonzero(~penalised[places])
    searched = searched[np.argsort(-distances[searched], kind="stable")]
    if distances[searched[:1]].max(initial=0.0) <= _FAR_VALUE:
        return ()
    very_far = np.count_nonzero(distances[searched] > _VERY_FAR_VALUE)
    most, few = (_MOST, _FEW) if landscape.by_matrix else (max(2 * landscape.work, _FEW), min(landscape.work, _FEW))
    searched = searched[: min(max(very_far, few), most, _MOST)]
    # A penalty may turn a direction where no sample does.
    flat = 0.0 if penalised[free].any() else _FLAT_CURVATURE * landscape.least
    runaway = _Search(landscape, searched, sizes, max(flat, _ROUNDING * landscape.total)).runaway(x)
    parts = np.abs(runaway).max(axis=1, initial=0.0)
    concerned = parts > _AFFECTED_SHARE * parts.max()
    # Where some probabilities are certain, other parameters of theirs change nothing either, but are not far out.
    if (concerned & (distances[searched] > _FAR_VALUE)).any():
        concerned &= distances[searched] > _FAR_VALUE
    return tuple(names[places[k]] for k, is_one in zip(searched, concerned, strict=True) if is_one)


@dataclass(frozen=True)
class _Search:
    """The parameters ``places`` of a landscape, whose ``sizes`` of all free parameters are units; ``flat``: a curvature."""

    landscape: Landscape
    places: IntArray
    sizes: FloatArray
    flat: float

    def runaway(self, x: FloatArray) -> FloatArray:
        """Directions (places, k) to an optimum at infinity."""
        curvature = self._curvature(x, np.eye(len(self.places)))
        if not np.isfinite(curvature).all():  # θ beyond the range of numbers: nothing can be said of its directions
            return np.zeros((len(self.places), 0))
        values, vectors = np.linalg.eigh(curvature)
        slopes = vectors.T @ self._gradient(x)
        curved = values >= self.flat
        lengths = np.zeros(len(values))
        largest = np.abs(vectors).max(axis=0, initial=0.0)
        lengths[curved] = np.abs(slopes[curved] / values[curved]) * largest[curved]
        few = self.landscape.by_matrix or np.count_nonzero(curved) <= _MOST_DIRECTIONS
        if few:  # those whose steps are not long keep the path where the objective falls
            arrived = self._arrived(x, vectors[:, ~curved], self.flat)
            return np.hstack([arrived, self._followed(x, vectors[:, curved & (lengths.max() > _SHORT)])])
        flat = ~curved | ((values < _NEARLY_FLAT * self.flat) & (lengths > _LONG))
        arrived = self._arrived(x, vectors[:, flat], _NEARLY_FLAT * self.flat)
        if arrived.shape[1]:  # more would cost more than the fit
            return arrived
        long = np.flatnonzero(~flat & (lengths > _SHORT))
        most = min(max(self.landscape.work // _USUAL_STEPS, 1), _MOST_DIRECTIONS)
        return self._followed(x, vectors[:, long[:most]])

    def _arrived(self, x: FloatArray, flat: FloatArray, curvature: float) -> FloatArray:
        """Those of the ``flat`` directions, with at most this curvature, that separate."""
        return self._without_gauge(x, self._without_pull(x, flat, curvature))

    def _without_pull(self, x: FloatArray, flat: FloatArray, curvature: float) -> FloatArray:
        """Those of the ``flat`` directions in which no sample pulls back: far beyond the optimum slopes are constant."""
        slope = flat.T @ self._gradient(x)
        if not flat.shape[1] or not np.linalg.norm(slope) > _PULL * curvature:
            return flat
        # A basis of the directions across the slope.
        across = np.linalg.svd(slope[None])[2][1:]
        return np.asarray(flat @ across.T)

    def _without_gauge(self, x: FloatArray, flat: FloatArray) -> FloatArray:
        """Those of the ``flat`` directions that do not leave all probabilities as they are.

        A gauge freedom is flat everywhere; what separates is curved nearer to 0. The curvature far out cannot tell the two
        apart: it falls to 0 as the optimiser runs on.
        """
        if not flat.shape[1]:
            return flat
        moderate = x / max(1.0, float(np.abs(x * self.sizes).max()))
        nearer, turns = np.linalg.eigh(self._curvature(moderate, flat))
        least = max(_GAUGE_CURVATURE * float(np.abs(nearer).max()), _GAUGE_ROUNDING * self.landscape.total)
        return np.asarray(flat @ turns[:, np.abs(nearer) > least])

    def _followed(self, x: FloatArray, basis: FloatArray) -> FloatArray:
        """Those of the directions ``basis`` along which Newton steps arrive where the objective is flat."""
        point, arrived = x.copy(), [basis[:, :0]]
        for _ in range(_MOST_STEPS):
            if not basis.shape[1]:
                break
            curvature, slope = self._curvature(point, basis), basis.T @ self._gradient(point)
            if not (np.isfinite(curvature).all() and np.isfinite(slope).all()):
                break
            values, turns = np.linalg.eigh(curvature)
            curved = values >= self.flat
            arrived.append(self._without_pull(point, basis @ turns[:, ~curved], self.flat))
            basis = basis @ turns[:, curved]
            step = basis @ ((turns.T @ slope)[curved] / -values[curved])
            length = float(np.abs(step).max(initial=0.0))
            if length <= _SHORT:
                break
            point[self.places] += step * (min(1.0, _LONGEST / length) / self.sizes[self.places])
        return np.hstack(arrived)

    def _gradient(self, x: FloatArray) -> FloatArray:
        """The gradient over the places."""
        return np.asarray(self.landscape.value_grad(x)[1][self.places] / self.sizes[self.places])

    def _curvature(self, x: FloatArray, basis: FloatArray) -> FloatArray:
        """BᵀHB with the Hessian at x, basis B (places, k)."""
        images = np.empty_like(basis)
        direction = np.zeros(len(x))
        for column, values in enumerate(basis.T):
            direction[self.places] = values / self.sizes[self.places]
            images[:, column] = self.landscape.hessian_product(x, direction)[self.places] / self.sizes[self.places]
        matrix = basis.T @ images
        symmetric: FloatArray = (matrix + matrix.T) / 2
        return symmetric


def concerned_by(directions: csr_array | None, inside: BoolArray, touching: BoolArray) -> BoolArray:
    """The parameters (r,) of those directions (k, r) that have parts only ``inside``, and one of them in ``touching``.

    Small parts count for the first question only.
    """
    if directions is None:
        return np.zeros(len(inside), dtype=bool)
    sizes = abs(directions).tocoo()
    row, column = sizes.coords
    largest = np.zeros(directions.shape[0])
    np.maximum.at(largest, row, sizes.data)
    chosen = np.ones(directions.shape[0], dtype=bool)
    chosen[row[~inside[column] & (sizes.data > 0)]] = False
    large = sizes.data > _AFFECTED_SHARE * largest[row]
    touched = np.zeros(directions.shape[0], dtype=bool)
    touched[row[large & touching[column]]] = True
    concerned: BoolArray = np.zeros(len(inside), dtype=bool)
    concerned[column[large & (chosen & touched)[row]]] = True
    return concerned


def separation_message(names: Sequence[str]) -> str:
    """The warning for a fit whose optimum lies at infinity for the parameters ``names``."""
    return f"{infinite_optimum(names)} The values given for them are where the optimiser stopped. {_REMEDY}"


def infinite_optimum(names: Sequence[str]) -> str:
    """A sentence about data that separate."""
    return f"The data separate: without a penalty the optimum lies at infinity for {_first_ten(names)}."


def refused_second_stage(names: Sequence[str]) -> str:
    """Why no second stage follows a first one whose optimum lies at infinity for the parameters ``names``."""
    return (
        f"The first stage has its optimum at infinity for {_first_ten(names)}; a second stage needs a finite "
        f"estimate. {_REMEDY}"
    )


def _first_ten(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
