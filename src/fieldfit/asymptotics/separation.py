"""Do the data separate? Then the optimum of an unpenalised objective lies at infinity along some direction of θ.

All of this is judged with θ in units of the features, so that it does not depend on how they are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

HessianProduct = Callable[[FloatArray, FloatArray], FloatArray]

#: Parameters this far out along whose directions the curvature is this small (a standard error above 10) are on
#: their way to infinity; where it is below the last number, relative to the largest, nearer to 0 too, it is a gauge
#: freedom of the model.
_FAR_VALUE, _FLAT_CURVATURE, _GAUGE_CURVATURE = 4.0, 0.01, 1e-9
#: With very many samples a gauge freedom has the curvature of rounding, a share of the largest one.
_ROUNDING = 1e-13
#: Contrasts of parameters that are all this close to 0 are skipped.
_MODERATE = 1.0
_MOST_SEPARATION_PARAMETERS = 200
_REMEDY = "Give sigma2, or fix or drop these parameters."


def separated_parameters(
    hessian_product: HessianProduct,
    free: BoolArray,
    x: FloatArray,
    penalised: BoolArray,
    names: Sequence[str],
    units: FloatArray | None = None,
    contrasts: Callable[[], FloatArray | None] | None = None,
) -> tuple[str, ...]:
    """Unpenalised parameters whose optimum is at infinity.

    Such an optimum is a direction along which the objective is flat far out. Several parameters may run away together
    (a bias to −∞ as a coupling goes to +∞), so the test uses the curvature over all parameters that are far out.
    ``hessian_product`` is that of the objective over the ``free`` parameters, whose values are ``x``; ``units`` (r,) are
    the sizes of the features (all 1 if None). ``contrasts()`` (k, r) are what an over-complete model determines of θ in
    those units, None for other models: its single parameters stay moderate while a contrast of them runs away.
    """
    places = np.flatnonzero(free)
    sizes = np.ones(len(x)) if units is None else units[free]
    relative = x * sizes
    distances = np.abs(relative)
    matrix = contrasts() if contrasts is not None and distances.max(initial=0.0) > _MODERATE else None
    if matrix is not None:
        estimated = matrix[:, free]
        distances = ((estimated != 0) * np.abs(estimated @ relative)[:, None]).max(axis=0, initial=0.0)
    far = [k for k in np.flatnonzero(distances > _FAR_VALUE).tolist() if not penalised[places[k]]]
    far = sorted(far, key=lambda k: -distances[k])[:_MOST_SEPARATION_PARAMETERS]
    if not far:
        return ()
    curvature = _curvature(hessian_product, x, far, np.eye(len(far)), sizes)
    if not np.isfinite(curvature).all():  # θ beyond the range of numbers: nothing can be said of its directions
        return ()
    values, vectors = np.linalg.eigh(curvature)
    flat = vectors[:, values < _FLAT_CURVATURE]
    if not flat.shape[1]:
        return ()
    # The model's own gauge freedom is flat too, but everywhere; what separates is curved where |θ| is moderate. The
    # curvature out here cannot tell the two apart: it falls to 0 as the optimiser runs on.
    moderate = x / max(1.0, float(np.abs(relative).max()))
    nearer, turns = np.linalg.eigh(_curvature(hessian_product, moderate, far, flat, sizes))
    least = max(_GAUGE_CURVATURE * max(float(np.abs(nearer).max()), 1.0), _ROUNDING * float(values[-1]))
    runaway = flat @ turns[:, np.abs(nearer) > least]
    parts = np.abs(runaway).max(axis=1, initial=0.0)
    concerned = parts > 0.1 * parts.max()
    return tuple(names[places[k]] for k, is_one in zip(far, concerned, strict=True) if is_one)


def concerned_by(directions: csr_array | None, inside: BoolArray, touching: BoolArray) -> BoolArray:
    """The parameters (r,) of those directions (k, r) that have parts only ``inside``, and one of them in ``touching``."""
    if directions is None:
        return np.zeros(len(inside), dtype=bool)
    parts = abs(directions).sign().astype(np.int64)
    chosen = (parts @ (~inside).astype(np.int64) == 0) & (parts @ touching.astype(np.int64) > 0)
    concerned: BoolArray = chosen.astype(np.int64) @ parts > 0
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


def _curvature(
    hessian_product: HessianProduct, x: FloatArray, places: list[int], basis: FloatArray, sizes: FloatArray
) -> FloatArray:
    """BᵀHB with the Hessian at x over the parameters ``places`` in units of ``sizes``, basis B (places, k)."""
    images = np.empty_like(basis)
    direction = np.zeros(len(x))
    for column, values in enumerate(basis.T):
        direction[places] = values / sizes[places]
        images[:, column] = hessian_product(x, direction)[places] / sizes[places]
    matrix = basis.T @ images
    symmetric: FloatArray = (matrix + matrix.T) / 2
    return symmetric
