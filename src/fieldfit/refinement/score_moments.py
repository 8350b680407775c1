"""Second moments of moment conditions and of the score of the full likelihood, under the model.

The score of the full likelihood is f(x) − E f, with f the sufficient statistics, and needs no likelihood when x is drawn
from the model. For every condition E[g (f − E f)ᵀ] = −E ∂g/∂θ (differentiate E_θ g = 0), so

    V = E ggᵀ,    K = E g (f − E f)ᵀ = −D,    I = E (f − E f)(f − E f)ᵀ

are all that optimal weights, their information KᵀV⁻¹K and the information I of maximum likelihood need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.refinement.points import Points
from fieldfit.types import FloatArray, IntArray

if TYPE_CHECKING:
    from fieldfit.refinement.conditions import Conditions

#: Rows of a product in single precision, at most.
_MOST_PRODUCT_ROWS = 1_024


@dataclass(frozen=True)
class ScoreMoments:
    """V (p, p), K (p, r) and I (r, r) from ``draws`` draws, or exact where ``draws`` is None."""

    V: FloatArray
    K: FloatArray
    information: FloatArray
    draws: int | None

    def selected(self, mean: FloatArray, second: FloatArray, component: IntArray) -> ScoreMoments:
        """The moments of Z_c g_c: λ_c K and E[Z_c Z_c'] V, with λ (components,) and E[ZZᵀ] (components, components)."""
        return ScoreMoments(
            self.V * second[np.ix_(component, component)],
            self.K * mean[component][:, None],
            self.information,
            self.draws,
        )


def pooled(first: ScoreMoments, second: ScoreMoments) -> ScoreMoments:
    """Moments of all draws together."""
    if first.draws is None or second.draws is None:
        return first
    total = first.draws + second.draws
    a, b = first.draws / total, second.draws / total
    return ScoreMoments(
        a * first.V + b * second.V, a * first.K + b * second.K, a * first.information + b * second.information, total
    )


def information_of(halves: Sequence[ScoreMoments]) -> FloatArray:
    """I of exact moments, or of all draws."""
    if len(halves) == 1:
        return halves[0].information
    counts = [half.draws or 1 for half in halves]
    return np.asarray(sum(c * half.information for c, half in zip(counts, halves, strict=True)) / sum(counts))


def together(halves: Sequence[ScoreMoments]) -> ScoreMoments:
    """Exact moments, or those of all draws."""
    return halves[0] if len(halves) == 1 else pooled(halves[0], halves[1])


def score_moments(conditions: Conditions, points: Points, theta: FloatArray) -> ScoreMoments:
    """The moments over these points, in one pass.

    Products over draws are formed in single precision and added up in double precision, block by block: rounding is far
    below the noise of the draws and below the smallest ridge of the weights.
    """
    model, p, r = conditions.model, conditions.size, conditions.n_parameters
    V, K, information = np.zeros((p, p)), np.zeros((p, r)), np.zeros((r, r))
    mean_g, mean_f = np.zeros(p), np.zeros(r)
    centre = _centre(conditions, points)
    for samples, g in conditions.value_blocks(points.codes, theta, single=not points.exact):
        f = model.statistics(points.codes[samples])
        f -= centre if centre.ndim == 1 else centre[np.arange(samples.start, samples.stop) % len(centre)]
        if points.exact:
            weight = points.weight[samples]
            mean_g += weight @ g
            mean_f += weight @ f
            root = np.sqrt(weight)[:, None]
            g, f = g * root, f * root
        else:
            mean_g += g.sum(axis=0, dtype=np.float64) / len(points.codes)
            mean_f += f.sum(axis=0) / len(points.codes)
            g, f = g.astype(np.float32, copy=False), f.astype(np.float32)
        parts = -(-len(g) // _MOST_PRODUCT_ROWS)
        for some_g, some_f in zip(np.array_split(g, parts), np.array_split(f, parts), strict=True):
            V += some_g.T @ some_g
            K += some_g.T @ some_f
            information += some_f.T @ some_f
    if not points.exact:
        for sums in (V, K, information):
            sums /= len(points.codes)
    if centre.ndim == 1:  # near E f only
        K -= np.outer(mean_g, mean_f)
        information -= np.outer(mean_f, mean_f)
    return ScoreMoments(V, K, information, None if points.exact else len(points.codes))


def _centre(conditions: Conditions, points: Points) -> FloatArray:
    """Near E f (r,); or E f given the observed values of each sample (samples, r)."""
    model = conditions.model
    if not points.copies:
        some = points.codes[:_MOST_PRODUCT_ROWS]
        weight = points.weight[:_MOST_PRODUCT_ROWS]
        return np.asarray(weight @ model.statistics(some) / weight.sum())
    samples = len(points.codes) // points.copies
    sums = np.zeros((samples, conditions.n_parameters))
    for copy in range(points.copies):
        sums += model.statistics(points.codes[copy * samples : (copy + 1) * samples])
    return sums / points.copies
