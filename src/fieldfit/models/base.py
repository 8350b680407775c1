"""What every model and every compiled problem can do.

A `Problem` is model + data + selection compiled to read-only arrays. Write ψ_i(θ) = ∇ m_θ(X_i, Z_i) for the score of
sample i, the gradient of m_θ(X_i, Z_i) = Σ_j β_j Z_ij log p_θ(x_A|x_B). Everything above this layer (objective,
optimisers, standard errors, weights, shards) needs only the sums over samples that a Problem answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from fieldfit.types import FloatArray


class Problem(ABC):
    """Sums over samples of the stochastic composite log-likelihood. All are sums, never means.

    ``row_weight`` (n_samples,) multiplies each sample; None is all ones. It serves sample weights, score products and
    subsampling alike, so that no sum is written twice.
    """

    n_samples: int
    n_parameters: int
    n_families: int

    @abstractmethod
    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient (n_parameters,)."""

    @abstractmethod
    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) v (negative semi-definite where nothing is summed out)."""

    @abstractmethod
    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sample."""

    @abstractmethod
    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sample."""

    @abstractmethod
    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the samples start..stop by family, without β: (stop − start, n_families, n_parameters).

        A family whose components have weights of their own counts with those, and has 1 in `betas`.
        """

    @property
    @abstractmethod
    def betas(self) -> FloatArray:
        """The weight β of each family (n_families,)."""

    def score_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ψ_i ψ_iᵀ v, in two passes and without storing a score."""
        products = self.row_products(theta, v)
        if row_weight is not None:
            products = products * row_weight
        return self.value_grad(theta, products)[1]

    def scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """ψ_i of the samples start..stop, a dense block (stop − start, n_parameters)."""
        blocks: FloatArray = np.einsum("ifr,f->ir", self.family_scores(theta, start, stop), self.betas)
        return blocks

    def score_blocks(self, theta: FloatArray, rows: int | None = None) -> Iterator[tuple[int, FloatArray]]:
        """Stream the scores as (first sample, block); at most about 64 MB at a time."""
        if rows is None:
            rows = max(1, int(8_000_000 // max(1, self.n_parameters * self.n_families)))
        for start in range(0, self.n_samples, rows):
            stop = min(start + rows, self.n_samples)
            yield start, self.scores(theta, start, stop)
