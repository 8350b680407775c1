"""Second moments of moment conditions and of the score of the full likelihood, under the model.

The score of the full likelihood is f(x) − E f, with f the sufficient statistics, and needs no likelihood when x is drawn
from the model. For every condition E[g (f − E f)ᵀ] = −E ∂g/∂θ (differentiate E_θ g = 0), so

    V = E ggᵀ,    K = E g (f − E f)ᵀ = −D,    I = E (f − E f)(f − E f)ᵀ

are all that optimal weights, their information KᵀV⁻¹K and the information I of maximum likelihood need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.refinement.points import Points
from fieldfit.types import FloatArray, IntArray

if TYPE_CHECKING:
    from fieldfit.refinement.conditions import Conditions


@dataclass(frozen=True)
class ScoreMoments:
    """V (p, p), K (p, r) and I (r, r) from ``draws`` draws, or exact where ``draws`` is None."""

    V: FloatArray
    K: FloatArray
    information: FloatArray
    draws: int | None

    def restricted(self, conditions: IntArray) -> ScoreMoments:
        """Some of the conditions."""
        return ScoreMoments(self.V[np.ix_(conditions, conditions)], self.K[conditions], self.information, self.draws)

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


def score_moments(conditions: Conditions, points: Points, theta: FloatArray) -> ScoreMoments:
    """The moments over these points, in one pass."""
    model = conditions.model
    centre = _centre(conditions, points)
    p, r = conditions.size, conditions.n_parameters
    V, K, information = np.zeros((p, p)), np.zeros((p, r)), np.zeros((r, r))
    for samples, g in conditions.value_blocks(points.codes, theta):
        f = model.statistics(points.codes[samples])
        f -= centre if centre.ndim == 1 else centre[np.arange(samples.start, samples.stop) % len(centre)]
        root = np.sqrt(points.weight[samples])[:, None]
        g = g * root
        f *= root
        V += g.T @ g
        K += g.T @ f
        information += f.T @ f
    return ScoreMoments(V, K, information, None if points.exact else len(points.codes))


def _centre(conditions: Conditions, points: Points) -> FloatArray:
    """E f (r,), or given the observed values of each sample (samples, r)."""
    model, rows = conditions.model, conditions.rows_per_block()
    if points.copies:
        samples = len(points.codes) // points.copies
        sums = np.zeros((samples, conditions.n_parameters))
        for copy in range(points.copies):
            sums += model.statistics(points.codes[copy * samples : (copy + 1) * samples])
        return sums / points.copies
    total = np.zeros(conditions.n_parameters)
    for start in range(0, len(points.codes), rows):
        block = slice(start, min(start + rows, len(points.codes)))
        total += points.weight[block] @ model.statistics(points.codes[block])
    return total
