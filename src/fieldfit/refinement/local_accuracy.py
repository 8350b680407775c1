"""Accuracy of a refined estimate with local weights: one sparse solve and one pass over the samples for each function.

With B = −A ∂ḡ/∂θ + P/n and u = B⁻ᵀa, the function aᵀθ̂ has the variance Σ_i (w_i uᵀA g_i)² / (Σw)².
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fieldfit.refinement.conditions import NodeConditions
from fieldfit.refinement.local import LocalRefined
from fieldfit.types import FloatArray
from fieldfit.variance.meat import ScoreVariance


class LocalScores:
    """ψ of the fitted samples: T A g with a symmetric bread up to 3,000 parameters, A g above."""

    def __init__(self, refined: LocalRefined) -> None:
        self._refined = refined
        self._turn = None if refined.symmetric is None else refined.symmetric[1]

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return len(self._refined.samples.codes)

    @property
    def n_parameters(self) -> int:
        """The length r of θ."""
        return len(self._refined.theta)

    def score_blocks(self, theta: FloatArray, rows: int | None = None) -> Iterator[tuple[int, FloatArray]]:
        """Stream A g as (first sample, block); the conditions set the size of the blocks."""
        del rows
        for samples, block in self._refined.samples.scores(theta, self._refined.matrix):
            yield samples.start, block if self._turn is None else block @ self._turn.T

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """vᵀA g_i for each sample, from the conditions with a weight only."""
        weights = self._refined.matrix.T @ (v if self._turn is None else self._turn.T @ v)
        used = np.flatnonzero(weights)
        conditions = self._refined.samples.conditions
        assert isinstance(conditions, NodeConditions)
        parts = []
        for _, evaluated in conditions.blocks(self._refined.samples.codes, theta, 1_000):
            g = (
                evaluated.residuals[:, conditions.residual[used]]
                * evaluated.instruments[:, conditions.instrument[used]]
            )
            parts.append(g @ weights[used])
        return np.concatenate(parts)

    def mean(self) -> FloatArray:
        """ψ̄ (r,)."""
        refined = self._refined
        mean: FloatArray = refined.matrix @ refined.samples.mean(refined.theta)
        return mean if self._turn is None else self._turn @ mean

    def scores_of(self, theta: FloatArray, rows: np.ndarray) -> FloatArray:
        """A g of some samples (rows, r)."""
        blocks = self._refined.samples.subset(rows).scores(theta, self._refined.matrix)
        scores = np.concatenate([block for _, block in blocks])
        return scores if self._turn is None else scores @ self._turn.T


class LocalAccuracy:
    """The covariance of linear functions of a refined estimate with local weights."""

    def __init__(self, refined: LocalRefined, variance: ScoreVariance) -> None:
        self.refined, self.variance = refined, variance
        self.scores = LocalScores(refined)

    @property
    def method(self) -> str:
        """How bread and meat were found."""
        return "the data, by sparse solves"

    def solve(self, directions: FloatArray) -> FloatArray:
        """B⁻ᵀ a / n for each row a of ``directions`` (q, r); 0 at fixed parameters."""
        refined = self.refined
        keep = np.flatnonzero(refined.free)
        result = np.zeros(directions.shape)
        for place, direction in enumerate(directions):
            result[place, keep] = refined.factor.solve(np.ascontiguousarray(direction[keep]), trans="T")
        return result / refined.samples.total

    def covariance_of(self, directions: FloatArray) -> FloatArray:
        """Covariance (q, q) of the functions aᵀθ̂."""
        return self.variance.form(self.scores, self.refined.theta, self.solve(directions))
